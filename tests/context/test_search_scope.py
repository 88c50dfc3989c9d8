"""Which sessions a search may read: this workspace's, all, or one that was named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from openmem.base.paths import Paths
from openmem.base.workspace import workspace_of
from openmem.context.search.engine import search
from openmem.context.search.query import Query, Scope
from openmem.context.session import Registration, write_registration
from openmem.context.store.catalog import catalog_file, entries
from openmem.context.store.model import Incoming
from openmem.context.store.recorder import Recorder
from tests.fakes.conversation import user, view


def record(recorder: Recorder, sid: str, folder: Path | None, bank: str = "") -> None:
    registration = (
        Registration(
            session_id=sid, agent="claude-code", cwd=str(folder), bank=bank, registered_at=""
        )
        if folder
        else None
    )
    recorder.record_request(
        sid,
        Incoming(agent="claude-code", view=view([user("needle")]), registration=registration),
    )


def sessions(paths: Paths, scope: Scope) -> set[str]:
    page = search(paths, Query(text="needle", limit=50), scope)
    assert page.total_matches == len(page.hits) == page.sessions_searched
    return {hit.session_id for hit in page.hits}


def repository(folder: Path, remote: str = "") -> Path:
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    text = f'[remote "origin"]\n\turl = {remote}\n' if remote else ""
    (folder / ".git" / "config").write_text(text)
    return folder


def test_only_this_workspace_is_searched_unless_all_is_asked_for(
    recorder: Recorder, paths: Paths, tmp_path: Path
) -> None:
    """Issue 2, part 7: the default search covers this workspace's sessions only."""
    site = repository(tmp_path / "a" / "site", "git@github.com:acme/site.git")
    other = repository(tmp_path / "b" / "site", "git@github.com:acme/other.git")
    (site / "src").mkdir()
    record(recorder, "root", site)
    record(recorder, "sub", site / "src")
    record(recorder, "other", other)
    record(recorder, "unknown", None)
    key = workspace_of(str(site / "src")).key
    assert sessions(paths, Scope(workspace_key=key)) == {"root", "sub"}
    assert sessions(paths, Scope(workspace_key="github.com/acme/nothing")) == set()
    assert sessions(paths, Scope()) == {"unknown"}
    everything = {"root", "sub", "other", "unknown"}
    assert sessions(paths, Scope(all_workspaces=True)) == everything


def test_a_workspace_that_changed_its_key_keeps_its_sessions(
    recorder: Recorder, paths: Paths, tmp_path: Path
) -> None:
    """Users' report 31: a remote that comes later does not orphan what was recorded."""
    site = repository(tmp_path / "site")
    record(recorder, "s", site)
    before = workspace_of(str(site)).key
    (site / ".git" / "config").write_text('[remote "origin"]\n\turl = https://h.org/a/site.git\n')
    assert sessions(paths, Scope(workspace_key="h.org/a/site")) == {"s"}
    assert sessions(paths, Scope(workspace_key=before)) == {"s"}


def test_the_bank_that_a_hook_registered_counts_too(
    recorder: Recorder, paths: Paths, tmp_path: Path
) -> None:
    """Design, section 8: mappings in the settings override the bank."""
    record(recorder, "s", tmp_path / "gone", bank="team")
    assert sessions(paths, Scope(workspace_key="team")) == {"s"}


def test_without_a_catalogue_registrations_or_the_files_say_the_same(
    recorder: Recorder, paths: Paths, tmp_path: Path
) -> None:
    """Ours: the catalogue is a cache; a folder that only the agent stated is in the file."""
    site = repository(tmp_path / "site", "git@github.com:acme/site.git")
    record(recorder, "registered", None)
    record(recorder, "stated", site)
    record(recorder, "unknown", None)
    recorder.close()
    os.unlink(catalog_file(paths))
    write_registration(
        paths,
        Registration(session_id="registered", agent="a", cwd=str(site), bank="", registered_at=""),
    )
    assert sessions(paths, Scope(workspace_key="github.com/acme/site")) == {"registered", "stated"}
    assert sessions(paths, Scope()) == {"unknown"}


@pytest.mark.parametrize("data", [b"", b"garbage " * 1000])
def test_a_broken_catalogue_breaks_nothing(
    recorder: Recorder, paths: Paths, tmp_path: Path, data: bytes
) -> None:
    """Ours: it is never the reason that a request or a search fails."""
    Path(paths.context_dir).mkdir(parents=True)
    Path(catalog_file(paths)).write_bytes(data)
    site = repository(tmp_path / "site", "git@github.com:acme/site.git")
    record(recorder, "s", site)
    assert sessions(paths, Scope(all_workspaces=True)) == {"s"}


def test_entries_are_the_sessions_that_have_a_store(recorder: Recorder, paths: Paths) -> None:
    """Ours: what the folder holds is the truth; other files are no sessions."""
    assert entries(paths) == []
    record(recorder, "s", None)
    write_registration(
        paths, Registration(session_id="empty", agent="a", cwd="", bank="", registered_at="")
    )
    folder = Path(paths.sessions_dir)
    (folder / "s.v4.db.damaged-2026").write_bytes(b"x")
    (folder / "t.log.jsonl").write_bytes(b"x")
    assert [entry.session_id for entry in entries(paths)] == ["s"]
