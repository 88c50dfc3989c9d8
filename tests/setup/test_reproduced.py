"""One machine's answers make another one like it, to the byte; and what stops them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from openmem.setup.answers import Answered, answers_text, read_answers
from openmem.setup.facts import Facts
from tests.fakes.engine_socket import FakeEngine, fake_engine
from tests.fakes.installation import free_port
from tests.fakes.memory_servers.started import STANDS
from tests.setup.conftest import Done, Machine

SECRET = "model-key-0123456789abcdef-XYZ"
# What is made by chance, once on each machine: keys of a stack, the installation's own.
_MADE = re.compile(
    r"(?m)^(HINDSIGHT_API_TENANT_API_KEY|ADMIN_API_KEY|JWT_SECRET|POSTGRES_PASSWORD"
    r"|DEFAULT_USER_PASSWORD|FASTAPI_USERS_JWT_SECRET)=.*$"
)
_OF_A_RUN = ("receipts", "backups", "run", "logs", "up.json", "key")


@pytest.fixture
def engine(machine: Machine, tmp_path: Path) -> Iterator[FakeEngine]:
    with fake_engine(tmp_path / "engine") as fake:
        yield fake


def run(machine: Machine, engine: FakeEngine, *words: str) -> Done:
    return machine(
        *words,
        PATH=f"{engine.bin}:/usr/bin:/bin",
        DOCKER_HOST=f"unix://{engine.socket}",
        MODEL_KEY=SECRET,
    )


def contents(machine: Machine) -> dict[str, str]:
    """Return every file of HOME that is not of one run alone, without what is made by chance."""
    found = {}
    for path in sorted(machine.home.rglob("*")):
        place = path.relative_to(machine.home)
        if path.is_file() and not set(place.parts) & set(_OF_A_RUN):
            data = _MADE.sub(r"\1=", path.read_text(errors="surrogateescape"))
            digest = hashlib.sha256(data.encode("utf-8", "surrogateescape")).hexdigest()
            found[str(place)] = f"{path.lstat().st_mode:o} {digest}"
    return found


@pytest.mark.parametrize("provider", ["local", *sorted(STANDS)])
def test_saved_answers_make_the_same_machine(
    machine: Machine, engine: FakeEngine, tmp_path: Path, provider: str
) -> None:
    """Issue 6: `setup --answers` reproduces a machine byte for byte."""
    bare, file = contents(machine), tmp_path / "answers.toml"
    words = ["--provider", provider, "--no-proxy", "--no-smoke-test", "--store-other", "--yes"]
    if provider != "local":
        words += ["--provider-port", str(free_port()), "--model-url", "http://models.example/v1"]
        words += ["--model", "m", "--model-key-env", "MODEL_KEY"]
    first = run(machine, engine, "setup", *words, "--save-answers", str(file))
    assert first.status in (0, 1), first.err  # nothing answers behind a stack that is only played
    assert SECRET not in file.read_text()
    made = contents(machine)
    assert made != bare
    assert run(machine, engine, "uninstall", "--purge", "--yes").status == 0
    assert contents(machine) == bare
    again = run(
        machine, engine, "setup", "--answers", str(file), "--no-smoke-test", "--yes", "--json"
    )
    assert again.status in (0, 1), again.err
    assert contents(machine) == made


def test_a_file_of_answers_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Ours: quotes, blanks, other scripts."""
    facts = Facts(providers=("local", "hindsight"))
    values = {
        "provider": "hindsight",
        "provider_url": "",
        "provider_port": 18888,
        "model": 'a "b" \\ 日本語 \x7f',
        "agents": (),
        "proxy": False,
    }
    file = tmp_path / "answers.toml"
    file.write_text(answers_text(Answered(values=values, stated=frozenset())))
    assert read_answers(str(file), facts) == values


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        ('provider = "hindsight"\nmodle = "m"\n', 2, "Did you mean model?"),
        ('provider = "hindsight"\n', 2, "--provider-url"),
        ('provider = "mem0"\nprovider_port = "http"\n', 2, "a whole number"),
        ('provider = "mem0"\nprovider_url = "memory:8888"\n', 2, "http://HOST"),
        ('provider = "letta"\n', 1, "planned"),
        ('provider = "hindsight\n', 2, "does not parse"),
        ("provider = 3\n", 2, "one of the choices"),
    ],
)
def test_a_file_that_is_wrong_or_not_enough_changes_nothing(
    machine: Machine, engine: FakeEngine, tmp_path: Path, text: str, status: int, said: str
) -> None:
    """Issue 6, bad input: an unknown question, a missing answer, without a terminal."""
    file = tmp_path / "answers.toml"
    file.write_text(text)
    before = machine.snapshot()
    done = run(machine, engine, "setup", "--answers", str(file))
    assert (done.status, machine.snapshot() == before) == (status, True), done.err
    assert said in " ".join(done.err.split()) and engine.commands() == []
