"""The contract page names what the files hold, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from openmem.base.paths import Paths
from openmem.context.rows import KINDS, ROLES
from openmem.context.session import sanitize_sid
from openmem.context.store.reader import open_session
from openmem.context.store.recorder import Recorder
from openmem.context.store.schema import THREAD_KINDS, VERSION
from tests.fakes.conversation import KEY, incoming, user

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "context-store.md"


def section(title: str) -> str:
    return re.split(r"\n##+ ", PAGE.read_text().split(f"### {title}:")[1])[0]


def first_cells(text: str) -> list[str]:
    cells = re.findall(r"(?m)^\| (`[^|]+) \|", text)
    return [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]


@pytest.mark.parametrize("relation", ["messages", "lines", "threads", "events"])
def test_the_columns_are_those_of_the_page(home: Path, relation: str) -> None:
    """Issue 2, part 1: reference pages held by tests."""
    paths = Paths({"HOME": str(home)})
    recorder = Recorder(paths, KEY)
    recorder.record_request("s", incoming([user("a")]))
    recorder.close()
    with open_session(paths, "s") as reader:
        cursor = reader.connection.execute(f"SELECT * FROM {relation} LIMIT 0")
        columns = [column[0] for column in cursor.description]
    text = section(relation)
    named = first_cells(text) or re.findall(r"`(\w+)`", text.split("\n\n")[1])
    assert [name for name in named if name in columns] == columns
    assert set(named) <= {*columns, *THREAD_KINDS, *ROLES}


def test_values_and_version_are_those_of_the_page() -> None:
    """Issue 2, part 1: reference pages held by tests."""
    page = PAGE.read_text()
    assert f"schema version {VERSION}" in page
    messages = section("messages")
    for value in (*ROLES, *KINDS):
        assert f"`{value}`" in messages
    for kind in THREAD_KINDS:
        assert f"`{kind}`" in section("threads")


def test_a_long_id_is_cut_as_the_page_says() -> None:
    """The page, Files: 163 characters, a dash, 16 hex."""
    sid = sanitize_sid("x" * 181)
    assert re.fullmatch(r"x{163}-[0-9a-f]{16}", sid)
    assert sanitize_sid("x" * 180) == "x" * 180
