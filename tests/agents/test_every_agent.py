"""What holds for every agent's wiring: once, exactly back, beside others, and in a race."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from openmem.agents.base import AGENTS
from openmem.agents.launchers import HOOK, MCP, launcher_path
from openmem.plan.action import WriteFile
from tests.fakes.any_person import OWN, a_person, tree_of

ROOT = Path(__file__).resolve().parents[2]
NAMES = tuple(AGENTS)
FILES = [(name, path) for name, files in OWN.items() for path in files]


def openmem(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "openmem", *words],
        env={"HOME": str(home), "PATH": "/usr/bin:/bin", "NO_COLOR": "1", "PYTHONPATH": str(ROOT)},
        cwd=home,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=120,
        check=False,
    )


def test_every_agent_of_the_registry_has_settings_here() -> None:
    """Ours: an agent that is added is held by these tests too."""
    assert set(OWN) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_wiring_puts_everything_in_and_twice_is_once(name: str, home: Path) -> None:
    """Design 4: wire twice = once."""
    person = a_person(name, home)
    person.wire()
    wired = person.wired()
    assert wired.hooks == AGENTS[name].events and wired.mcp and wired.skill
    assert bool(wired.port) == person.detect().is_routable
    assert wired.older == () and wired.problem == "" and wired.unrouted == ()
    assert person.plan().is_empty
    for path in OWN[name]:
        assert "theirs" in (home / path).read_text() or "gate" in (home / path).read_text()


@pytest.mark.parametrize("how", ["unwire", "undo", "uninstall"])
@pytest.mark.parametrize("has_own", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_the_way_back_gives_the_bytes_of_before(
    name: str, has_own: bool, how: str, home: Path
) -> None:
    """Design 4: unwire restores, also where there was nothing."""
    person = a_person(name, home, has_own=has_own)
    if not has_own:
        first, *_ = OWN[name]
        person.write(first, "" if first.endswith(".toml") else "{}\n")
    before = person.tree()
    person.wire()
    assert person.tree() != before
    getattr(person, how)()
    assert person.tree() == before


# Without receipts nobody can tell whose Claude Code's setting for tool loading is; it stays.
@pytest.mark.parametrize("name", [name for name in NAMES if name != "claude-code"])
def test_taking_parts_out_again_leaves_nothing_of_them(name: str, home: Path) -> None:
    """Issue 7: `uninstall-coding-agent` takes out only ours, whoever wrote it."""
    person = a_person(name, home)
    before = person.tree()
    person.wire()
    plan = person.agent.wiring(
        person.system,
        person.paths,
        person.detect(),
        person.wanted(hooks=False, mcp=False, proxy=False, skill=False),
    )
    touched = {a.path for a in plan.actions if isinstance(a, WriteFile)}
    assert touched <= {str(home / path) for path in OWN[name]}
    person.wire(hooks=False, mcp=False, proxy=False, skill=False)
    assert person.wired().is_empty
    kept = {name: data for name, data in person.tree().items() if data != b"<folder>"}
    assert kept == {name: data for name, data in before.items() if data != b"<folder>"}


@pytest.mark.parametrize("name", NAMES)
def test_what_the_agent_added_meanwhile_stays(name: str, home: Path) -> None:
    """Users' report 13: a file that somebody rewrote loses our entries and nothing else."""
    person = a_person(name, home)
    person.wire()
    for path in OWN[name]:
        text = (home / path).read_text()
        (home / path).write_text(re.sub(r"(\"?counter\"?\s*[:=]\s*)0", r"\g<1>7", text))
    person.unwire()
    for path, own in OWN[name].items():
        expected = re.sub(r"(\"?counter\"?\s*[:=]\s*)0", r"\g<1>7", own)
        assert (home / path).read_text() == expected


@pytest.mark.parametrize(("name", "path"), FILES)
def test_a_file_that_does_not_parse_is_named_and_nothing_is_written(
    name: str, path: str, home: Path
) -> None:
    """Issue 7, Bad input: exit 4 from installers with the place named."""
    person = a_person(name, home)
    broken = "counter = = 0\n" if path.endswith(".toml") else '{\n  "counter": ,\n}\n'
    person.write(path, broken)
    before = tree_of(home)
    done = openmem(home, "install-coding-agent", "--agent", name, "--no-proxy", "--yes")
    assert done.returncode == 4, done
    assert Path(path).name in done.stderr and re.search(r"line [12]", done.stderr), done.stderr
    assert tree_of(home) == before
    status = json.loads(openmem(home, "status", "--json").stdout)["data"]["agents"]
    (entry,) = [one for one in status if one["name"] == name]
    assert Path(path).name in entry["problem"]


def test_all_that_are_found_are_wired_by_one_command_and_the_second_has_nothing_to_do(
    home: Path,
) -> None:
    """Issue 7: What a user can do."""
    for name in NAMES:
        a_person(name, home)
    before = tree_of(home)
    assert openmem(home, "install-coding-agent", "--no-proxy", "--yes").returncode == 0
    for name in NAMES:
        wired = a_person(name, home, has_own=False).wired()
        assert wired.hooks == AGENTS[name].events and wired.mcp and wired.skill, name
    again = openmem(home, "install-coding-agent", "--no-proxy", "--yes")
    assert again.returncode == 0 and "othing to do" in again.stdout + again.stderr
    shown = openmem(home, "status").stdout
    for name in NAMES:
        (line,) = [one for one in shown.splitlines() if one.startswith(name)]
        assert line.split()[1:] != [] and "nothing yet" in line
    assert "HOOKS" in shown and "SKILL" in shown
    # one of them, and the launchers stay for the others
    assert openmem(home, "uninstall-coding-agent", "--agent", "cursor", "--yes").returncode == 0
    person = a_person("codex", home, has_own=False)
    assert Path(launcher_path(person.paths, HOOK)).exists()
    assert not a_person("cursor", home, has_own=False).wired().hooks
    done = openmem(home, "uninstall-coding-agent", "--yes")
    assert done.returncode == 0 and tree_of(home) == before
    assert "Restart Claude Code, Codex, OpenCode and Cursor;" in " ".join(done.stderr.split())
    assert "proxy still runs" not in done.stdout + done.stderr  # none does
    assert not Path(launcher_path(person.paths, MCP)).exists()


def test_two_installers_at_once_both_end_well_and_everything_is_wired_once(home: Path) -> None:
    """Issue 7, Show it: two installers at once."""
    for name in NAMES:
        a_person(name, home)
    before = tree_of(home)
    outcomes: list[subprocess.CompletedProcess[str]] = []
    words = ("install-coding-agent", "--no-proxy", "--yes")
    runs = [
        threading.Thread(target=lambda: outcomes.append(openmem(home, *words))) for _ in range(3)
    ]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert [done.returncode for done in outcomes] == [0, 0, 0], outcomes
    for name in NAMES:
        wired = a_person(name, home, has_own=False).wired()
        assert wired.hooks == AGENTS[name].events and wired.older == ()
    assert openmem(home, "uninstall-coding-agent", "--yes").returncode == 0
    assert tree_of(home) == before


_REWRITER = """
import re, signal, sys, time
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))  # ends between two writes
path = sys.argv[1]
count = 0
print("ready", flush=True)
while not stop:
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if "counter" in text:
        count += 1
        text = re.sub(r'("?counter"?\\s*[:=]\\s*)\\d+', lambda m: m.group(1) + str(count), text)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        print(count, flush=True)
    time.sleep(0.02)
"""


@pytest.mark.parametrize(("name", "path"), FILES)
def test_an_agent_that_rewrites_its_file_every_20_ms_loses_nothing(
    name: str, path: str, home: Path
) -> None:
    """Issue 7, Show it: in and out again with the other's latest; never half, never lost."""
    a_person(name, home)
    file = home / path
    agent = subprocess.Popen(
        [sys.executable, "-c", _REWRITER, str(file)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert agent.stdout is not None and agent.stdout.readline() == "ready\n"
        words = ("install-coding-agent", "--agent", name, "--no-proxy", "--yes")
        codes = [openmem(home, *words).returncode for _ in range(2)]
        codes.append(openmem(home, "uninstall-coding-agent", "--yes").returncode)
        seen = int(agent.stdout.readline())
    finally:
        agent.terminate()
        agent.wait()
        if agent.stdout is not None:
            agent.stdout.close()
    assert codes == [0, 0, 0] and seen > 0
    text = file.read_text()
    match = re.search(r"counter\"?\s*[:=]\s*(\d+)", text)
    assert match is not None and int(match.group(1)) >= seen
    assert "theirs" in text or "gate" in text
    done = openmem(home, *words)
    assert done.returncode == 0, done
    wired = a_person(name, home, has_own=False).wired()
    assert wired.problem == "" and wired.mcp and wired.hooks == AGENTS[name].events


def test_a_folder_that_is_made_for_nothing_goes_again(home: Path) -> None:
    """Ours: skills and plug-ins bring folders; an uninstall leaves none of them empty."""
    person = a_person("opencode", home)
    person.wire()
    assert (home / ".config/opencode/skills/openmem").is_dir()
    person.unwire()
    assert not (home / ".config/opencode/skills").exists()
    assert not (home / ".config/opencode/plugins").exists()
