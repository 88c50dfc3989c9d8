"""The hook as the agent runs it: a process with JSON on stdin, valid output, status 0, in time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from openmem.base.paths import Paths
from openmem.context.session import read_registration
from openmem.hook import client
from openmem.host.record import mark_stopped
from openmem.memory.model import Actor
from openmem.memory.opening import open_memories
from openmem.memory.scope import scope_of
from tests.hook.conftest import ROOT, SID, Machine, hook_command
from tests.hook.worker import listening, says

EVENTS = ("session-start", "prompt", "stop")

JUNK = [
    b"",
    b"\0\xff\xfe",
    b"null",
    b"[1, 2]",
    b'"text"',
    b'{"session_id": ',
    b'{"session_id": "a"} {"session_id": "b"}',
    b"[" * 100_000,
    b'{"n": ' + b"9" * 5000 + b"}",
]


def test_the_proxys_answer_is_what_is_printed(machine: Machine) -> None:
    """Design 3: a hook first asks the running proxy over its Unix socket."""
    text = '{"hookSpecificOutput": {"additionalContext": "ä \\" \\n"}}'
    with listening(machine.paths, says({"ok": True, "stdout": text})) as worker:
        done = machine.run("prompt")
    assert (done.returncode, done.stdout.decode(), done.stderr) == (0, text, b"")
    assert len(worker.lines) == 1
    assert read_registration(machine.paths, SID) is None  # the proxy does the work, not the hook


def test_the_request_is_one_line_and_holds_the_payload_as_it_came(machine: Machine) -> None:
    """Brief: the control protocol; the agent may send JSON over several lines."""
    odd = {
        "session_id": 'a\\b"c',
        "prompt": "line one\nline two\u2028\ud83d",
        "n": [1, {"x": None}],
    }
    stdin = json.dumps(odd, indent=2).replace("\n", "\r\n").encode()
    with listening(machine.paths, says({"ok": True, "stdout": ""})) as worker:
        done = machine.run("stop", stdin)
    assert (done.returncode, done.stdout) == (0, b"")
    assert worker.lines[0].count(b"\n") == 1
    request = worker.requests[0]
    assert request["payload"] == odd
    assert (request["op"], request["event"], request["agent"]) == ("hook", "stop", "claude-code")


def test_no_secret_of_the_environment_is_sent(machine: Machine) -> None:
    """Facts 1.1: keys and a messaging token are in a hook's environment."""
    machine.route()
    machine.environ.update(
        ANTHROPIC_API_KEY="sk-ant-secret",
        CLAUDE_CODE_MESSAGING_TOKEN="secret-token",
        CLAUDE_PROJECT_DIR='/odd "quoted"\\place',
    )
    with listening(machine.paths, says({"ok": True, "stdout": ""})) as worker:
        machine.run("prompt")
    environ = worker.requests[0]["environ"]
    assert environ == {
        "CLAUDE_PID": "4242",
        "CLAUDE_PROJECT_DIR": '/odd "quoted"\\place',
        "HOME": str(machine.home),
        "OPENMEM_HOOK_PORT": "8913",
        "OPENMEM_HOOK_PARENT": str(os.getpid()),
    }


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"garbage\n",
        b'{"ok": true, "stdo',
        b'{"ok": true, "stdout": "cut',
        b'{"ok": true}\n',
        b'{"ok": true, "stdout": 7}\n',
        b'{"ok": false, "stdout": "refused"}\n',
        b'{"ok": false, "error": "unknown op"}\n',
        b"[]\n",
    ],
)
def test_an_answer_that_is_none_leaves_the_work_to_the_hook(
    machine: Machine, answer: bytes
) -> None:
    """Design 3: only without it does the hook do the work itself; an older proxy may not know."""
    machine.route()
    mark_stopped(machine.paths)  # or the hook would bring back a proxy that outlives the test
    with listening(machine.paths, says(answer)):
        done = machine.run("session-start")
    assert done.returncode == 0
    assert SID in json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]
    assert read_registration(machine.paths, SID) is not None


def test_an_answer_with_its_parts_in_another_order_is_read(machine: Machine) -> None:
    """Ours: the short cut past `json` must not be the only way to read an answer."""
    answer = b'{"took_ms":3,"stdout":"said \\u00e9","ok":true}\n'
    with listening(machine.paths, says(answer)):
        done = machine.run("prompt")
    assert done.stdout.decode() == "said é"


@pytest.mark.parametrize("event", EVENTS)
def test_a_proxy_that_hangs_costs_no_more_than_the_budget(machine: Machine, event: str) -> None:
    """Users' report 15: each hook ends with exit 0 and valid output although nobody answers.

    The bound is the test's timeout; a hook without a deadline of its own would run into it.
    """
    with listening(machine.paths, None):
        done = machine.run(event)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert read_registration(machine.paths, SID) is not None


def test_the_budgets_are_those_that_were_promised() -> None:
    """Users' report 15: start 2 s, prompt 1 s, stop 2 s, the interpreter included."""
    assert client.BUDGET_SECONDS == {"session-start": 1.8, "prompt": 0.85, "stop": 1.8}


@pytest.mark.parametrize("event", EVENTS)
def test_an_agent_that_never_closes_stdin_is_not_waited_for(machine: Machine, event: str) -> None:
    """Ours: the timer holds whatever hangs; the bound is the wait's."""
    process = subprocess.Popen(
        hook_command(event), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=machine.environ
    )
    try:
        assert process.wait(30) == 0
        assert process.stdout is not None and process.stdout.read() == b""
    finally:
        process.kill()
        process.communicate()
    assert _log_words(machine) == [["claude-code", event, "out", "of", "time"]]


@pytest.mark.parametrize("stdin", JUNK, ids=range(len(JUNK)))
@pytest.mark.parametrize("event", EVENTS)
def test_junk_on_stdin_gives_no_output_and_one_line_in_the_log(
    machine: Machine, event: str, stdin: bytes
) -> None:
    """Brief of step 1: junk stdin: valid empty output, one line, no content."""
    done = machine.run(event, stdin)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert machine.files() == ["logs/hook.log"]
    assert _log_words(machine) == [
        ["claude-code", event, "stdin", "is", "not", "a", "JSON", "object"]
    ]


def test_junk_is_judged_alike_with_a_proxy(machine: Machine) -> None:
    """Ours: what breaks the request line must not break the proxy or the hook."""

    def strict(connection, line):  # type: ignore[no-untyped-def]
        try:
            json.loads(line)
        except ValueError:
            connection.sendall(b'{"ok": false, "error": "not JSON"}\n')

    with listening(machine.paths, strict):
        done = machine.run("prompt", b'{"session_id": "a", ')
    assert (done.returncode, done.stdout) == (0, b"")
    assert len(_log_words(machine)) == 1


@pytest.mark.parametrize("arguments", [[], ["--agent"], ["nonsense"], ["stop", "--agent", "none"]])
def test_wrong_words_end_well_too(machine: Machine, arguments: list[str]) -> None:
    """Design 7: always exit 0; another version of us may have written the entry."""
    command = [*hook_command("x")[:6], *arguments]
    done = subprocess.run(
        command, input=b"{}", capture_output=True, env=machine.environ, timeout=30, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_fault_of_ours_ends_well(machine: Machine) -> None:
    """Design 7: the agent goes on; the fault is noted by kind, without content."""
    Path(machine.paths.context_dir).parent.mkdir(parents=True)
    Path(machine.paths.context_dir).write_text("in the way")
    done = machine.run("session-start")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    (words,) = _log_words(machine)
    assert words[:3] == ["claude-code", "session-start", "cannot"]


def test_the_log_keeps_no_content_and_does_not_grow_for_ever(machine: Machine) -> None:
    """Facts 1.1: do not log hook environments; ours: a broken agent fires for days."""
    machine.environ["ANTHROPIC_API_KEY"] = "sk-ant-secret"
    machine.run("prompt", b'{"session_id": "", "prompt": "private words"}')
    log = Path(machine.paths.logs_dir, "hook.log")
    text = log.read_text()
    assert "private" not in text and "secret" not in text and str(machine.home) not in text
    log.write_bytes(b"x" * 300_000)
    machine.run("prompt", b"junk")
    machine.run("prompt", b"junk")
    assert log.stat().st_size < 1000
    assert log.with_name("hook.log.1").stat().st_size > 300_000


def test_a_stranger_on_the_socket_is_not_asked(machine: Machine) -> None:
    """Ours: in `/tmp` another user may have made the folder first."""
    with listening(machine.paths, says({"ok": True, "stdout": "from a stranger"})) as worker:
        folder = os.path.dirname(machine.paths.control_socket)
        os.chmod(folder, 0o777)
        done = machine.run("prompt")
        os.chmod(folder, 0o700)
    assert worker.lines == []
    assert done.stdout == b""


def test_the_hook_finds_the_socket_of_a_deep_home(machine: Machine) -> None:
    """Base: a Unix socket's path is short, so a deep home has it elsewhere."""
    deep = machine.home / ("d" * 90)
    with tempfile.TemporaryDirectory(dir="/tmp") as runtime:
        environ = {"HOME": str(deep), "XDG_RUNTIME_DIR": runtime}
        machine.environ.update(environ)
        paths = Paths(environ)
        assert paths.control_socket.startswith(runtime)
        with listening(paths, says({"ok": True, "stdout": "found"})):
            assert machine.run("prompt").stdout == b"found"


SOCKET_MODULES = {
    # what the interpreter itself brings is taken off; this is all that a hook adds
    *("_json", "_signal", "_socket", "time", "os", "posixpath", "stat", "_stat", "genericpath"),
    *("collections", "collections.abc", "_collections_abc", "_collections", "_functools"),
    *("heapq", "_heapq", "itertools", "keyword", "_operator", "operator", "reprlib"),
    *("__future__", "errno", "math", "os.path"),
    *("openmem", "openmem.base", "openmem.base.paths", "openmem.base.route"),
    *("openmem.hook", "openmem.hook.client"),
}
ALONE_MODULES = SOCKET_MODULES | {
    *("_datetime", "_sre", "_thread", "_typing", "calendar", "contextlib", "copyreg", "datetime"),
    *("enum", "fcntl", "fnmatch", "functools", "re", "string", "_string"),
    *("json", "json.decoder", "json.encoder", "json.scanner"),
    *("re._casefix", "re._compiler", "re._constants", "re._parser"),
    *("tomllib", "tomllib._parser", "tomllib._re", "tomllib._types"),
    *("types", "typing", "typing.io", "typing.re", "warnings"),
    *("openmem.base.clock", "openmem.base.config", "openmem.base.errors", "openmem.base.io"),
    *(
        "openmem.base.settings",
        "openmem.base.light",
        "openmem.base.policy",
        "openmem.base.workspace",
    ),
    *("openmem.context", "openmem.context.session"),
    *("openmem.hook.delivery", "openmem.hook.handle", "openmem.hook.notes"),
    *("openmem.hook.payload", "openmem.hook.remembering", "openmem.hook.session"),
    "openmem.hook.texts",
}
# What is loaded besides where something is remembered; no OpenSSL, no redaction, no writing half.
RECALL_MODULES = ALONE_MODULES | {
    *("sqlite3", "sqlite3.dbapi2", "_sqlite3", "threading", "_weakrefset", "_weakref", "weakref"),
    *("unicodedata", "_struct", "operator", "itertools", "encodings.ascii", "_blake2"),
    *("openmem.base.frame", "openmem.base.installation", "openmem.base.tokens"),
    *("openmem.memory", "openmem.memory.chain", "openmem.memory.ledger_file"),
    *("openmem.memory.ledger_reading", "openmem.memory.looking", "openmem.memory.model"),
    *("openmem.memory.opening", "openmem.memory.recall", "openmem.memory.schema"),
    *("openmem.memory.scope", "openmem.memory.shown", "openmem.memory.providers"),
    *("openmem.memory.providers.base", "openmem.memory.providers.registry"),
    *(f"openmem.memory.providers.local{name}" for name in ("", ".bank_file", ".floor")),
    *(f"openmem.memory.providers.local.{name}" for name in ("provider", "rank", "words")),
    "openmem.memory.providers.local.question",
    "openmem.memory.providers.local.word_lists",
}


def remember(paths: Paths, machine: Machine, text: str) -> None:
    """Remember a statement about the machine's repository."""
    memories = open_memories(paths)
    memories.add(scope_of(str(machine.repo), paths, Actor(kind="person")), text)
    memories.close()


def _loaded(machine: Machine, event: str) -> set[str]:
    """Modules that a hook loads beyond a bare interpreter."""
    code = (
        "import sys\nbare = set(sys.modules)\nsys.path.append(sys.argv.pop(1))\n"
        "from openmem.hook.client import main\nmain()\n"
        "import os\nos.write(2, ' '.join(set(sys.modules) - bare).encode())"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(ROOT), event],
        input=json.dumps(machine.payload(event)).encode(),
        capture_output=True,
        env=machine.environ,
        timeout=30,
        check=True,
    )
    return set(done.stderr.decode().split())


@pytest.mark.parametrize("event", EVENTS)
def test_a_hook_loads_nothing_beyond_its_list(machine: Machine, event: str) -> None:
    """Facts of libraries 3.7: what a hook costs is what it imports; a list holds it."""
    with tempfile.TemporaryDirectory(dir="/tmp") as shallow:  # a deep home costs a digest
        machine.environ["OPENMEM_STATE_DIR"] = f"{shallow}/state"
        paths = Paths(machine.environ)
        machine.route(1)  # nobody listens there, and a person stopped the proxy
        with listening(paths, says({"ok": True, "stdout": ""})):
            by_socket = _loaded(machine, event)
        Path(paths.run_dir, "stopped").write_text("")
        alone = _loaded(machine, event)
        remember(paths, machine, "We decided to use tabs.")
        recalling = _loaded(machine, event)
    assert by_socket <= SOCKET_MODULES, sorted(by_socket - SOCKET_MODULES)
    revival = {"openmem.hook.revive"}
    assert alone <= ALONE_MODULES | revival, sorted(alone - ALONE_MODULES - revival)
    assert "openmem.hook.handle" in alone
    assert recalling <= RECALL_MODULES | revival, sorted(recalling - RECALL_MODULES - revival)
    assert ("openmem.memory.recall" in recalling) == (event != "stop")


def _log_words(machine: Machine) -> list[list[str]]:
    """The log's lines as words, without the time."""
    text = Path(machine.paths.logs_dir, "hook.log").read_text()
    return [line.split()[1:] for line in text.splitlines()]
