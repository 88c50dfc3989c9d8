"""What the keeper leaves on disk is the person's alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from openmem.base.io import ensure_private_dir
from openmem.base.paths import Paths
from openmem.hook.keep import _age_out_daily, cursors_of


def test_the_mark_of_the_daily_look_is_private(home: Path) -> None:
    """Design, section 6: files 600. A doctor run found it readable by others."""
    paths = Paths(os.environ)
    folder = ensure_private_dir(cursors_of(paths))
    before = os.umask(0o022)
    try:
        _age_out_daily(paths, lambda: 0)
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(os.stat(f"{folder}/{name}").st_mode) for name in os.listdir(folder)}
    assert modes == {0o600}
