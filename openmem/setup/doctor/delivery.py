"""Whether an agent's hooks arrive, and whether what they recalled reached the model.

Idea: a hook only knows that it spoke. The proxy knows what the agent then sent, so a session's own
store proves it: our frame stands in a row, or it does not. Trap: between a hook and the request
lies time; only a session that went on afterwards can prove that something was left out.
Source: users' reports of hooks that ran and whose output the agent dropped.
"""

from __future__ import annotations

import sqlite3
import time

from openmem.base.clock import seconds_of
from openmem.base.errors import NotFound, StoreUnavailable
from openmem.base.paths import Paths
from openmem.context.store.reader import open_session
from openmem.hook.delivery import RECALLED, Delivery, last_delivery
from openmem.setup.doctor.finding import Finding


def check_delivery(paths: Paths, name: str) -> Finding:
    """The last event of an agent, and the last recall, followed into its session's requests."""
    last = last_delivery(paths, name)
    if last is None:
        return Finding(
            name="delivery",
            outcome="info",
            subject=name,
            detail="no hook has been delivered yet",
            advice="restart the agent and send a prompt in a folder that policy allows",
        )
    detail = f"hooks delivered {_age(last.at)} ago ({last.event}, session {last.session_id[:8]})"
    if not last.recalled_at:
        return Finding(name="delivery", outcome="ok", subject=name, detail=detail)
    has_arrived = arrived(paths, last)
    where = f"session {last.recalled_in[:8]}"
    if has_arrived is False:
        return Finding(
            name="delivery",
            outcome="warning",
            subject=name,
            detail=f"{detail}; what was recalled {_age(last.recalled_at)} ago is in no request of "
            f"{where}: the agent left it out",
            advice="look for another hook on the same event, and at the agent's own log of hooks",
        )
    proven = f"; what was recalled {_age(last.recalled_at)} ago "
    proven += f"reached the model in {where}" if has_arrived else "cannot be followed"
    return Finding(name="delivery", outcome="ok", subject=name, detail=detail + proven)


def arrived(paths: Paths, last: Delivery) -> bool | None:
    """Return whether the recalled text stands in its session's requests; None: it cannot be told,
    for the session is not stored, or did not go on since."""
    try:
        with open_session(paths, last.recalled_in) as reader:
            run = reader.connection.execute
            mark = f"%{RECALLED}%"
            if run("SELECT 1 FROM lines WHERE text LIKE ? LIMIT 1", (mark,)).fetchone():
                return True
            newest = run("SELECT max(created_at) FROM messages").fetchone()[0]
    except (NotFound, StoreUnavailable, sqlite3.Error):
        return None  # no proxy there, or a sick store, which is a finding of its own
    return False if newest and str(newest) > last.recalled_at else None


def _age(at: str) -> str:
    minutes = max(0, time.time() - seconds_of(at)) / 60
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.0f} h"
