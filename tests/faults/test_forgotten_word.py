"""A word is forgotten while a proxy runs and holds the session open: it is in no file any more."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from openmem.base.installation import ensure_key
from openmem.base.paths import Paths
from openmem.context.store.recorder import Recorder
from openmem.context.store.tombstones import Tombstones, add_word
from openmem.context.store.verify import verify
from tests.fakes.conversation import KEY, incoming, stored
from tests.fakes.conversation import user as said_by
from tests.fakes.proxied import assistant, body_of, environment, send, streams, texts, write_policy
from tests.fakes.proxied import user as request_user
from tests.fakes.running_proxy import wait_until
from tests.fakes.session_v3 import OldRow, write_old_session
from tests.fakes.wire import HttpServer

ROOT = Path(__file__).parents[2]
WORD = "zebracopper"
PICTURE = b"\x89PNG\r\n\x1a\n" + b"\x00" * 40 + WORD.encode() + b"\x01" * 40


def files_with(paths: Paths, word: str) -> list[str]:
    """Return the files of the state and settings folders that hold a word, in any case."""
    found = []
    for root in (paths.state_dir, paths.config_dir):
        for folder, _, names in os.walk(root):
            for name in names:
                path = Path(folder, name)
                if path.is_file() and word.lower().encode() in path.read_bytes().lower():
                    found.append(name)
    return sorted(found)


@pytest.fixture
def port(paths: Paths, tmp_path: Path) -> Iterator[int]:
    """A proxy with its recorder, processes of their own, before a server that answers."""
    folder = tmp_path / "project"
    folder.mkdir()
    write_policy(paths, allowed=str(folder))
    with HttpServer(streams(f"I will keep {WORD} in mind.")) as upstream:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.fakes.proxy_process", upstream.url, "--record"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None and process.stdin is not None
            yield int(process.stdout.readline().split()[0])
        finally:
            process.communicate(timeout=60)


@pytest.fixture
def history(tmp_path: Path) -> list[dict[str, Any]]:
    """A conversation that says the word in every place that a message has."""
    picture = {
        "type": "image",
        "source": {
            "type": "base64",
            "media_type": "image/png",
            "data": base64.b64encode(PICTURE).decode(),
        },
    }
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": f"grep {WORD}"}}
    result = {
        "type": "tool_result",
        "tool_use_id": "t1",
        "content": [{"type": "text", "text": f"a.py:3: {WORD} = 7\nb.py:9: other"}, picture],
    }
    return [
        request_user(environment(str(tmp_path / "project")), f"what is {WORD}?"),
        {"role": "assistant", "content": [{"type": "text", "text": f"{WORD}? I look."}, call]},
        {"role": "user", "content": [result, {"type": "text", "text": "nothing to see here"}]},
    ]


def test_no_byte_of_it_is_left_while_the_proxy_runs_and_after_it_comes_again(
    paths: Paths, port: int, history: list[dict[str, Any]], run: Callable[..., Any]
) -> None:
    """Issue 3, "Show it": 0 bytes in any file under the state folder, none after the same request
    comes again; with a recorder that holds the file open, payloads, exports and damaged copies."""
    assert send(port, body_of(*history)).is_whole
    wait_until(lambda: f"I will keep {WORD} in mind." in texts(paths))
    for form in ("jsonl", "markdown"):
        target = f"{paths.context_dir}/exports/s1.{form}"
        os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
        assert run("context", "export", "s1", "--format", form, "--out", target)[0] == 0
    Path(paths.sessions_dir, "s1.v4.db.damaged-2026").write_bytes(b"\x00\x01" + WORD.encode())
    Path(paths.sessions_dir, "gone.v4.db.damaged-2026").write_bytes(WORD.encode() + b"\x00")
    Path(paths.sessions_dir, "gone.v4.db.damaged-2025").write_bytes(b"\x00other\x00")
    assert "s1.v4.db-wal" in os.listdir(paths.sessions_dir), "the recorder holds it open"
    assert len(files_with(paths, WORD)) >= 5

    code, answer = run("context", "forget", "--pattern", f"(?i){WORD}|image/png", "--yes")
    assert code == 0 and not answer["data"]["pending"] and not answer["data"]["left"]
    assert files_with(paths, WORD) == []
    assert "gone.v4.db.damaged-2025" in os.listdir(paths.sessions_dir)
    assert "nothing to see here" in texts(paths)

    assert send(port, body_of(*history)).is_whole
    longer = [*history, assistant(f"I will keep {WORD} in mind."), request_user("go on then")]
    assert send(port, body_of(*longer)).is_whole
    assert send(port, body_of(*longer), sid="a-fork-of-it").is_whole
    wait_until(
        lambda: "go on then" in texts(paths) and "go on then" in texts(paths, "a-fork-of-it")
    )
    assert files_with(paths, WORD) == []
    assert verify(paths, "s1") == [] and verify(paths, "a-fork-of-it") == []


def test_a_secret_is_masked_wherever_it_is_said_again(
    paths: Paths, port: int, history: list[dict[str, Any]], run: Callable[..., Any]
) -> None:
    """Issue 3, part 4: `forget --secret -`; another sentence with it brings it back no more."""
    history[2]["content"][0]["content"] = "nothing"
    history.append(assistant("hm"))
    assert send(port, body_of(*history, request_user("one"))).is_whole
    wait_until(lambda: "one" in texts(paths))
    code, answer = run("context", "forget", "--secret", "-", "--yes", said=f"{WORD}\n")
    assert code == 0 and answer["data"]["masked"] >= 2 and answer["data"]["tombstones"] == 1
    assert WORD not in str(answer) and files_with(paths, WORD) == []
    new = request_user(f"set pw={WORD}; then run x--{WORD}--y twice")
    assert send(port, body_of(*history, request_user("one"), assistant("ok"), new)).is_whole
    wait_until(lambda: any("then run" in text for text in texts(paths)))
    assert files_with(paths, WORD) == []
    (text,) = [text for text in texts(paths) if "then run" in text]
    assert text.count("[REDACTED:forgotten:") == 2 and text.endswith("--y twice")
    assert verify(paths, "s1") == []


def test_a_copy_that_is_no_file_of_the_stores_is_named_not_touched(
    paths: Paths, run: Callable[..., Any]
) -> None:
    """Issue 3, part 4: the receipt never says more than is true."""
    recorder = Recorder(paths, KEY)
    recorder.record_request("s", incoming([said_by(f"it is {WORD}")]))
    recorder.close()
    other = Path(paths.state_dir, "logs", "somebody.log")
    other.parent.mkdir(parents=True, exist_ok=True)
    other.write_text(f"a line with {WORD}\n")
    code, answer = run("context", "forget", "--secret", "-", "--yes", said=WORD)
    assert code == 0 and [str(other) in left for left in answer["data"]["left"]] == [True]
    assert WORD in other.read_text()


def test_an_older_file_behind_a_session_is_told(paths: Paths, run: Callable[..., Any]) -> None:
    """Ours: no search reads it, so a person would take it for gone."""
    recorder = Recorder(paths, KEY)
    recorder.record_request("s", incoming([said_by(f"it is {WORD}")]))
    recorder.close()
    old = OldRow(role="user", text=f"long ago it was {WORD}")
    write_old_session(Path(paths.sessions_dir, "s.db"), [old])
    code, answer = run("context", "forget", "--pattern", WORD, "--yes")
    assert code == 0 and ["earlier system" in left for left in answer["data"]["left"]] == [True]
    assert run("context", "forget", "--session", "s", "--yes")[0] == 0
    assert files_with(paths, WORD) == []


def test_a_row_prepared_while_it_was_forgotten_is_not_stored(paths: Paths) -> None:
    """Ours: between masking and the lock a person may forget; the row is then made anew."""
    recorder = Recorder(paths, KEY, busy_seconds=5)
    recorder.record_request("s", incoming([said_by("first")]))
    real, calls = Tombstones.masked, []

    def masked(self: Tombstones, text: str) -> tuple[str, int]:
        found = real(self, text)
        if not calls:
            calls.append(text)
            add_word(paths, WORD, KEY)  # as another process does, right now
        return found

    try:
        Tombstones.masked = masked  # type: ignore[method-assign]
        recorder.record_request("s", incoming([said_by("first"), said_by(f"it is {WORD} now")]))
    finally:
        Tombstones.masked = real  # type: ignore[method-assign]
    recorder.close()
    assert stored(paths)[1].text.startswith("it is [REDACTED:forgotten:")
    assert files_with(paths, WORD) == []


@pytest.mark.parametrize(
    ("word", "text", "count"),
    [
        ("hunter22", "pw hunter22.", 1),
        ("hunter22", "hunter22hunter22", 0),
        ("sk-ab/cdEF12=", 'key="sk-ab/cdEF12="', 1),
        ("sk-ab/cdEF12=", "sk-ab/cdEF12", 0),
        ("päss wörter", "mein päss wörter, ja", 1),
        ("päss wörter", "päss  wörter", 0),
        ("----", "----", 0),
        ("\u6f22\u5b57\u5bc6\u78bc", "\uff1a\u6f22\u5b57\u5bc6\u78bc\u3002", 1),
    ],
)
def test_a_forgotten_word_is_known_by_its_digest_alone(
    paths: Paths, word: str, text: str, count: int
) -> None:
    """Ours: the file holds lengths and keyed digests; parts of a longer run are another word."""
    add_word(paths, word, ensure_key(paths))
    tombstones = Tombstones(paths, ensure_key(paths))
    tombstones.refresh()
    masked, found = tombstones.masked(text)
    assert found == count and (word in masked) == (word in text and not count)
    assert word not in str(files_with(paths, word))
