"""Memory that was broken off, held by two, or met a disk that is full: whole, or finished later."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from openmem.base.installation import ensure_key
from openmem.cli.app import run
from openmem.memory import facade
from openmem.memory.facade import Memories
from openmem.memory.importing import import_records
from openmem.memory.ledger import Ledger
from openmem.memory.opening import open_memories
from openmem.memory.providers.local.provider import LocalProvider
from openmem.memory.status import status_of
from tests.memory.conftest import Place

CHECKOUT = Path(__file__).parents[2]
WORD = "quokkamarble"


class Killed(BaseException):
    """Stands for the end of the process: nothing of ours catches it."""


def _killed(*_: object, **__: object) -> None:
    raise Killed


def _commands(place: Place, *words: str, before: str = "") -> subprocess.Popen[str]:
    """Start a command in a process of its own. `before`: Python that is run first."""
    program = f"import sys\n{before}\nfrom openmem.cli.app import run\nsys.exit(run(sys.argv[1:]))"
    environ = {k: v for k, v in os.environ.items() if k not in ("AI_AGENT", "CLAUDECODE")}
    return subprocess.Popen(
        [sys.executable, "-c", program, *words],
        cwd=place.site,
        env={**environ, "PYTHONPATH": str(CHECKOUT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_an_import_that_was_broken_off_is_told_to_the_provider_by_the_next(
    place: Place,
    memories: Memories,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Ours: what waits is nothing that is missing, however much it is."""
    data = "\n".join(json.dumps({"content": f"Fact {n} of depot d{n}."}) for n in range(2_300))
    key = ensure_key(place.paths)
    with monkeypatch.context() as patch:
        patch.setattr(facade, "deliver", _killed)
        with pytest.raises(Killed):
            import_records(memories, place.person(), data.encode(), key=key)
    monkeypatch.chdir(place.site)
    assert status_of(memories, place.person().bank).waiting == 2_300
    assert run(["memory", "verify"]) == 0, capsys.readouterr().out
    outcome = import_records(memories, place.person(), data.encode(), key=key)
    assert (outcome.added, outcome.known) == (0, 2_300)
    status = status_of(memories, place.person().bank)
    assert (status.waiting, status.provider_memories, status.problem) == (0, 2_300, "")


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (facade, "deliver"),
        (facade, "take_out"),
        (LocalProvider, "forget"),
        (LocalProvider, "erase"),
        (Ledger, "clear_freed_bytes"),
        (Ledger, "delivered"),
    ],
    ids=lambda one: getattr(one, "__name__", one),
)
def test_a_forgetting_that_was_broken_off_is_finished_by_the_next_change(
    place: Place, monkeypatch: pytest.MonkeyPatch, owner: object, name: str
) -> None:
    """Issue 5: nothing half done; the page: finished by the next change of memory."""
    first = open_memories(place.paths)
    one = first.add(place.person(), f"The code name is {WORD}.").memory.id
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, _killed)
        with pytest.raises(Killed):
            first.forget(place.person(), one)
    first.close()
    again = open_memories(place.paths)
    assert [m.id for m in again.listing(place.person())] == []
    again.add(place.person(), "Something else entirely.")
    again.close()
    assert place.bytes_with(WORD.encode()) == []


def test_three_imports_at_once_take_each_text_once(place: Place, tmp_path: Path) -> None:
    """Issue 5, part 1: locking as for the session store."""
    file = tmp_path / "m.jsonl"
    file.write_text("\n".join(json.dumps({"content": f"Fact {n} of depot."}) for n in range(400)))
    running = [_commands(place, "memory", "import", str(file)) for _ in range(3)]
    for one in running:
        out, err = one.communicate(timeout=120)
        assert one.returncode == 0, (out, err)
    memories = open_memories(place.paths)
    assert len(memories.listing(place.person(), limit=1_000)) == 400
    assert memories.ledger.verify() == []
    assert status_of(memories, place.person().bank).problem == ""
    memories.close()


def test_a_disk_that_is_full_refuses_whole_statements(place: Place) -> None:
    """Issue 5, bad input: one clear error with a stable code, nothing half done."""
    limited = (
        "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))"
    )
    memories = open_memories(place.paths)
    memories.add(place.person(), "The first one.")
    memories.close()
    lines = "\n".join(
        json.dumps({"content": f"Fact {n}: " + f"word{n} " * 300}) for n in range(400)
    )
    file = place.site / "m.jsonl"
    file.write_text(lines)
    child = _commands(place, "memory", "import", str(file), "--json", before=limited)
    out, err = child.communicate(timeout=120)
    assert child.returncode == 1 and "Traceback" not in err, (out, err)
    assert json.loads(out)["errors"][0]["code"] == "store-unavailable"
    # with room again everything is as if it had been asked for once
    done = _commands(place, "memory", "import", str(file), "--json")
    out, err = done.communicate(timeout=120)
    assert done.returncode == 0, (out, err)
    memories = open_memories(place.paths)
    assert len(memories.listing(place.person(), limit=1_000)) == 401
    assert memories.ledger.verify() == []
    assert status_of(memories, place.person().bank).problem == ""
    memories.close()


def test_what_held_then_is_recalled_without_a_prompt_too(
    place: Place, memories: Memories, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Design, section 8: two times; `memory recall --as-of`."""
    scope = place.person()
    old = memories.add(
        scope, "Ada is on call.", valid_from="2020-01-01", valid_to="2021-01-01"
    ).memory
    now = memories.add(scope, "Grace is on call.", valid_from="2021-01-01").memory
    assert [m.id for m in memories.known(scope)] == [now.id]
    assert [m.id for m in memories.known(scope, as_of="2020-06-01")] == [old.id]
    assert memories.known(scope, as_of="2019-06-01") == []
    monkeypatch.chdir(place.site)
    assert run(["memory", "recall", "--as-of", "2020-06-01"]) == 0
