"""A trim that a person asks for, through the real proxy, on a session far below any threshold."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from openmem.bench.context.bench import _SESSION, _trim_lines, _with_openmem
from openmem.bench.context.model import Script
from openmem.bench.context.provider import Provider, Served
from openmem.bench.context.server import Upstream
from openmem.bench.context.session import Sent, Session
from openmem.bench.context.tasks import task_of
from openmem.bench.stage import Stage
from openmem.context.trim.limits import TrimSettings, thresholds_of


@pytest.mark.heavy
@pytest.mark.timeout(180)
def test_the_turns_that_a_person_wants_kept_stay_and_older_ones_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 4: `openmem context trim SESSION [--keep N]` trims on the next request."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    task = task_of("L160", 42)
    provider = Provider(Script().reply, window=0)
    limits = thresholds_of(200_000, 0, TrimSettings(), proven=False)
    with ExitStack() as stack:
        upstream = stack.enter_context(Upstream(provider))
        stage = stack.enter_context(Stage())
        settings = _trim_lines("openmem", limits)
        session = _with_openmem(stack, stage, upstream.port, settings, task)
        session.begin()
        for operation in task.operations[:8]:
            session.operate(operation.text)
        assert all(one.messages == sent.messages for one, sent in _pairs(provider, session))
        before = len(provider.log)
        stage.openmem("context", "trim", _SESSION, "--keep", "3")
        session.operate(task.operations[8].text)
        session.operate(task.operations[9].text)
        session.line.close()
    sent_whole = session.sent[before].messages
    first, *_, last = provider.log[before:]
    # the first turn, the reply before the cut, two whole turns of four messages and the new prompt
    assert (first.messages, sent_whole) == (2 + 1 + 2 * 4 + 1, 38)
    assert first.used.prompt < provider.log[before - 1].used.prompt - 3_000
    missing = {sent.messages - one.messages for one, sent in _pairs(provider, session)[before:]}
    assert len(missing) == 1  # the wish was taken once; the cut is sticky
    assert last.used.read >= provider.log[-2].used.prompt - 1


def _pairs(provider: Provider, session: Session) -> list[tuple[Served, Sent]]:
    return list(zip(provider.log, session.sent, strict=True))
