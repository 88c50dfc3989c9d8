"""The page in a real browser: it renders, keeps its width, and is silent."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from openmem.context.prices import load_prices
from openmem.context.report.page import page
from openmem.context.report.timeline import strand_of
from tests.fakes.courses import ABOUT, eventful
from tests.fakes.png import pixels

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), ""
)
needs_chromium = pytest.mark.skipif(
    not CHROMIUM, reason="chromium is not installed here (Debian package chromium); 2026-11-30"
)
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def _run(folder: Path, html: Path, *flags: str) -> str:
    done = subprocess.run(
        [CHROMIUM, *_FLAGS, f"--user-data-dir={folder / 'profile'}", *flags, html.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout + done.stderr


@needs_chromium
@pytest.mark.heavy
def test_the_page_renders_in_chromium(tmp_path: Path) -> None:
    """Issue 4: checked in headless Chromium: drawn, with nothing refused or failing."""
    html = tmp_path / "report.html"
    strand = strand_of(eventful(), load_prices(), {"claude": 200_000})
    text = page(ABOUT, [strand], made_at="2026-11-30T02:00:00Z", has_prices=False)
    html.write_text(text, encoding="utf-8")
    picture = tmp_path / "report.png"
    said = _run(
        tmp_path,
        html,
        "--window-size=1100,1200",
        f"--screenshot={picture}",
        "--enable-logging=stderr",
    )
    assert "CONSOLE" not in said  # no error of the page, nothing refused by its own policy
    data = picture.read_bytes()
    assert struct.unpack(">II", data[16:24]) == (1100, 1200)
    assert len(data) > 30_000  # a blank page of this size is a fifth of that
    tree = _run(tmp_path, html, "--dump-dom")
    assert tree.count("<rect") > 15 and "<tbody><tr>" in tree


@needs_chromium
@pytest.mark.heavy
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_without_any_colour_the_parts_of_a_bar_are_told_apart(tmp_path: Path, theme: str) -> None:
    """Issue 4: also reads without colour, checked in headless Chromium: all of it in greys."""
    html = tmp_path / "report.html"
    strand = strand_of(eventful(), load_prices(), {"claude": 200_000})
    text = page(ABOUT, [strand], made_at="2026-11-30T02:00:00Z", has_prices=False)
    grey = text.replace("<style>", "<style>html{filter:grayscale(1)}", 1)
    if theme == "dark":
        grey = grey.replace("(prefers-color-scheme:dark)", "all", 1)
    html.write_text(grey, encoding="utf-8")
    picture = tmp_path / "report.png"
    _run(tmp_path, html, "--window-size=900,800", f"--screenshot={picture}")
    _, _, rows = pixels(picture.read_bytes())
    tones: Counter[int] = Counter()
    for row in rows:
        assert row[0::3] == row[1::3] == row[2::3]  # nothing is left of any colour
        tones.update(row[0::3])
    # Paper, what was read (two tones, hatched), what was written: areas, each far from the next.
    areas = sorted(tone for tone, count in tones.most_common(12) if count > 400)
    steps = [areas[0]]
    for tone in areas:
        if tone - steps[-1] > 24:
            steps.append(tone)
    assert len(steps) >= 4, (areas, tones.most_common(12))
