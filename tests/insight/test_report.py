"""The report as a page: whole by itself, escaped, and readable without colour."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from openmem.context.prices import load_prices
from openmem.context.report.course import Call, Course, Mark
from openmem.context.report.page import page
from openmem.context.report.timeline import SIGNS, Strand, sign_of, strand_of, totals
from tests.fakes.courses import ABOUT, BEGAN, Step, course, eventful

WINDOWS = {"claude": 200_000}
HOSTILE = "\"><script>alert(1)</script>&amp;\x1b[2J\u202e'"


def strand(of: Course | None = None) -> Strand:
    return strand_of(of or eventful(), load_prices(), WINDOWS)


def made(*strands: Strand, **about: str) -> str:
    return page({**ABOUT, **about}, strands, made_at="2026-11-30T02:00:00Z", has_prices=False)


class _Reader(HTMLParser):
    """Checks that tags close in order, and keeps what is there."""

    VOID = frozenset({"meta", "rect", "line", "circle", "polygon", "polyline"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, Any]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(html: str) -> _Reader:
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    return reader


def test_the_page_is_whole_by_itself() -> None:
    """Issue 4: one self-contained page; nothing is loaded and nothing runs."""
    html = made(strand())
    reader = read(html)
    assert "script" not in {tag for tag, _ in reader.tags}
    for _, attributes in reader.tags:
        assert not {"src", "href", "xlink:href", "onload", "onclick"} & set(attributes)
    assert not re.search(r"https?://|@import|url\((?!#read\))", html)
    policy = next(a["content"] for _, a in reader.tags if "http-equiv" in a)
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


def test_every_sign_of_the_picture_is_a_line_of_the_table_and_in_the_legend() -> None:
    """Issue 4: reads without colour: shapes, letters and a table."""
    html = made(strand())
    legend = html[html.index('class="legend"') : html.index("</ul>")]
    table = html[html.index("<tbody>") :]
    letters, shapes = set(), set()
    for cause in SIGNS:
        sign = sign_of(cause)
        assert f"{sign.letter} {sign.word}" in legend.replace("&#x27;", "'")
        assert f"<td>{sign.letter}</td>" in table
        letters.add(sign.letter)
        shapes.add(sign.shape)
    assert len(letters) == len(shapes) == len(SIGNS)
    assert html.count('class="drop"') == table.count("<tr>") == len(SIGNS)
    assert "hatched" in legend and "solid" in legend and "dashed" in legend


def test_what_others_wrote_cannot_write_into_the_page() -> None:
    """Issue 4: escaped; design: nothing stored drives what a person sees."""
    found = eventful()
    found.kind, found.agent_id = "sub-agent", HOSTILE
    found.calls[-1] = Call(at=BEGAN, model=HOSTILE, written=5, bust=HOSTILE)
    found.marks.append(Mark(call=2, at=BEGAN, kind="fail_open", words=HOSTILE))
    found.marks.append(Mark(call=2, at=BEGAN, kind=HOSTILE))
    html = made(strand(found), session_id=HOSTILE, agent=HOSTILE, cwd=HOSTILE)
    reader = read(html)
    assert "script" not in {tag for tag, _ in reader.tags}
    assert "\x1b" not in html and "\u202e" not in html
    assert "<script>alert(1)</script>" in "".join(reader.text)  # as text, and only as text


def test_the_numbers_of_the_page_are_those_of_the_calls() -> None:
    """Issue 4: prompt size, cache read and written, trims, what it would have been."""
    one = strand()
    sums = totals([one])
    prompts = sum(call.prompt for call in one.calls)
    assert sums["prompt_tokens"] == prompts
    assert sums["untrimmed_tokens"] == prompts + 2 * 61_000
    assert (sums["trims"], sums["removed_tokens"], sums["dollars"]) == (1, 61_000, None)
    html = made(one)
    assert f"<dd>{prompts:,}</dd>" in html and "<dd>61,000</dd>" in html
    assert 'class="untrimmed"' in html[html.index("<figure>") :]
    assert (
        'class="untrimmed"' not in made(strand(course([Step(prompt=5_000)]))).split("<figure>")[1]
    )


@pytest.mark.parametrize("count", [0, 1, 2, 700, 5_000])
def test_a_thread_of_any_length_is_drawn(count: int) -> None:
    """Ours: the bars stay visible; a long thread scrolls."""
    html = made(strand(course([Step(prompt=1_000 + n) for n in range(count)])))
    read(html)
    width = float(re.findall(r'viewBox="0 0 (\d+)', html.split("<figure>")[1])[0])
    assert width >= 880 and width >= 2 * count
    assert html.count('class="written"') == count + 1  # and one in the legend
    assert len(html) < 12_000 + 400 * count


def test_a_session_without_requests_says_so() -> None:
    """Ours: an empty page is an answer too."""
    html = made()
    read(html)
    assert "No request of this session is recorded." in html
