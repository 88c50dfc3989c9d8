"""The ledger: append-only, chained, erasable; what was forgotten stays forgotten."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from openmem.base.errors import Failed, NotFound, StoreUnavailable
from openmem.base.installation import ensure_key
from openmem.base.paths import Paths
from openmem.memory.ledger import Duplicate, Ledger, Tombstoned
from openmem.memory.model import Actor, Source, normalised

PERSON, AGENT = Actor(kind="person", name="ada"), Actor(kind="agent", name="codex")
BANK = "github.com/acme/site"


@pytest.fixture
def ledger(home: Path) -> Ledger:
    paths = Paths(os.environ)
    return Ledger(paths, ensure_key(paths))


def add(ledger: Ledger, text: str, **other: object) -> str:
    values = {"bank": BANK, "kind": "statement", "actor": AGENT, "trust": "pending", **other}
    return ledger.add(text=text, **values).id  # type: ignore[arg-type]


def test_asking_an_empty_ledger_creates_nothing(ledger: Ledger, home: Path) -> None:
    """Design, section 6."""
    assert ledger.listing(BANK) == [] and ledger.banks() == [] and ledger.verify() == []
    assert not os.path.exists(Paths(os.environ).ledger_file)


def test_an_entry_says_who_what_when_and_verifies(ledger: Ledger) -> None:
    """Design, section 8: audit."""
    one = add(ledger, "Deploys need the VPN.", source=Source(session_id="s1", row=88))
    ledger.set_trust(one, "accepted", PERSON)
    two = ledger.correct(one, "Deploys run from CI only.", PERSON, "accepted")
    entries = ledger.history(one)
    assert [entry.verb for entry in entries] == ["add", "accept", "supersede"]
    assert entries[0].actor == "agent:codex" and entries[1].actor == "person:ada"
    assert all("VPN" not in entry.detail for entry in entries)
    old = ledger.memory(one)
    assert (old.state, old.superseded_by, two.supersedes) == ("superseded", two.id, one)
    assert ledger.listing(BANK) == [two] and ledger.verify() == []
    assert old.source == Source(session_id="s1", row=88)


def test_what_was_forgotten_is_erased_and_never_taken_in_again(ledger: Ledger) -> None:
    """Users' report 34; design, section 8."""
    one = add(ledger, "The staging database is heron-42.")
    ledger.forget(one, PERSON)
    assert ledger.memory(one).text == "" and ledger.listing(BANK) == []
    for again in ("The staging database is heron-42.", "the  STAGING database is heron-42"):
        with pytest.raises(Tombstoned):
            add(ledger, again)
    with pytest.raises(NotFound):
        ledger.forget(one, PERSON)
    assert add(ledger, "The staging database is heron-42.", bank="another")
    assert ledger.verify() == [] and ledger.clear_freed_bytes()
    ledger.close()


def test_no_byte_of_a_forgotten_text_is_left(ledger: Ledger) -> None:
    """Issue: forgetting leaves no byte, the WAL included."""
    one = add(ledger, "quokkamarble is the code name")
    add(ledger, "something else")
    ledger.forget(one, PERSON)
    assert ledger.clear_freed_bytes()
    folder = os.path.dirname(Paths(os.environ).ledger_file)
    for name in os.listdir(folder):
        if name.startswith("ledger.db"):
            assert b"quokkamarble" not in Path(folder, name).read_bytes()


def test_a_changed_ledger_does_not_verify(ledger: Ledger) -> None:
    """Design, section 4: append-only, hash-chained."""
    one = add(ledger, "first")
    add(ledger, "second")
    ledger.close()
    connection = sqlite3.connect(Paths(os.environ).ledger_file)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute("UPDATE entry SET actor = 'person' WHERE number = 1")
    connection.execute("UPDATE words SET text = 'other' WHERE memory_id = ?", (one,))
    connection.execute("UPDATE memory SET trust = 'accepted'")
    connection.execute("DROP TRIGGER entry_stays")
    connection.execute("UPDATE entry SET actor = 'person' WHERE number = 2")
    connection.commit()
    connection.close()
    problems = "\n".join(ledger.verify())
    assert "its text was changed" in problems and "entry 2: was changed" in problems
    assert "is not what the entries give" in problems


def test_the_same_statement_twice_is_one(ledger: Ledger) -> None:
    """Design, section 8: deduplicated."""
    one = add(ledger, "Use tabs.")
    with pytest.raises(Duplicate) as raised:
        add(ledger, "use  TABS")
    assert raised.value.memory_id == one
    with pytest.raises(ValueError, match="needs text"):
        add(ledger, " \u200b . ")


def test_an_inactive_statement_cannot_be_judged_or_corrected(ledger: Ledger) -> None:
    """Issue, bad input: one clear error with a stable code."""
    one = add(ledger, "old")
    ledger.correct(one, "new", PERSON, "accepted")
    with pytest.raises(Failed) as raised:
        ledger.set_trust(one, "accepted", PERSON)
    assert raised.value.code == "not-active"
    with pytest.raises(NotFound):
        ledger.memory("m-nothing")


def test_times_say_when_it_holds(ledger: Ledger) -> None:
    """Design, section 8: two times."""
    one = add(ledger, "Ada is on call", valid_from="2026-01-01T00:00:00Z")
    ledger.set_validity(one, "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z", PERSON)
    memory = ledger.memory(one)
    assert memory.holds_at("2026-01-15T00:00:00Z") and not memory.holds_at("2026-02-01T00:00:00Z")
    assert not memory.holds_at("2025-12-31T00:00:00Z")


def test_dropping_a_bank_leaves_the_others(ledger: Ledger) -> None:
    """Design, section 8: dropping a bank is another verb."""
    add(ledger, "one")
    add(ledger, "one", bank="other")
    assert ledger.drop_bank(BANK, PERSON) == 1
    assert [bank for bank, *_ in ledger.banks()] == ["other"] and ledger.verify() == []


def test_a_newer_file_is_not_written(ledger: Ledger) -> None:
    """Issue: old-version behaviour as for the session store."""
    add(ledger, "one")
    ledger.close()
    path = Paths(os.environ).ledger_file
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = Path(path).read_bytes()
    with pytest.raises(StoreUnavailable):
        add(ledger, "two")
    assert Path(path).read_bytes() == before


def test_processes_at_once_lose_nothing(ledger: Ledger, home: Path) -> None:
    """Users' report 20."""
    add(ledger, "zero")
    program = (
        "import os, sys\n"
        "from openmem.base.installation import ensure_key\n"
        "from openmem.base.paths import Paths\n"
        "from openmem.memory.ledger import Ledger\n"
        "from openmem.memory.model import Actor\n"
        "paths = Paths(os.environ)\n"
        "ledger = Ledger(paths, ensure_key(paths))\n"
        "for n in range(20):\n"
        "    ledger.add(bank='b', text=f'{sys.argv[1]} {n}', kind='statement',\n"
        "               actor=Actor(kind='agent'), trust='pending')\n"
    )
    root = str(Path(__file__).resolve().parents[2])
    environ = {**os.environ, "PYTHONPATH": root}
    running = [
        subprocess.Popen([sys.executable, "-c", program, str(n)], env=environ) for n in range(4)
    ]
    assert [process.wait(60) for process in running] == [0] * 4
    assert len(ledger.listing("b")) == 80 and ledger.verify() == []


@pytest.mark.parametrize(
    ("one", "two"), [("A b.", "a  B"), ("caf\u0065\u0301", "caf\u00e9!"), ("x\u200by", "xy")]
)
def test_texts_that_say_the_same_are_the_same(one: str, two: str) -> None:
    """Ours: duplicates and tombstones go by this."""
    assert normalised(one) == normalised(two)
