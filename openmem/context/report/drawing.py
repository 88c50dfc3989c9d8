"""The picture of one thread as SVG: a bar for each call, a line for the untrimmed size, signs.

What was read from the cache is hatched, what was written is solid, what was neither is empty with
an outline, so the parts are told apart without colour. A sign is a shape with its letter in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from openmem.base.clock import utc_text
from openmem.context.report.course import Call
from openmem.context.report.timeline import Happening, Sign, Strand, sign_of

_HEIGHT, _TOP, _LEFT, _BOTTOM = 240, 46, 58, 30
_WIDEST_BAR, _NARROWEST_BAR, _ROOM = 16.0, 2.0, 880.0
_SIGN = 8.0
_Scale = Callable[[float], float]


def html_text(value: str) -> str:
    """Return a text for HTML: escaped, with control and reordering characters written out."""
    shown = "".join(
        character if character.isprintable() else ascii(character)[1:-1] for character in value
    )
    return escape(shown, quote=True)


def drawing(strand: Strand, number: int) -> str:
    """Return the SVG of a thread. `number`: of the thread on its page, for ids."""
    count = max(1, len(strand.calls))
    bar = max(_NARROWEST_BAR, min(_WIDEST_BAR, _ROOM / count))
    width = _LEFT + max(_ROOM, bar * count) + 12
    top = max([1, *(call.whole for call in strand.calls)])
    ceiling = _ceiling(strand.window if top < strand.window <= 1.6 * top else top)

    def y(tokens: float) -> float:
        return _TOP + _HEIGHT * (1 - tokens / ceiling)

    parts = [_axis(ceiling, width, y), _window_line(strand, ceiling, width, y)]
    for place, call in enumerate(strand.calls):
        x = _LEFT + place * bar
        parts.append(_bar(place + 1, call, x, max(1.0, bar - 1), y))
    parts.append(_untrimmed_line(strand, bar, y))
    parts += _signs(strand.happenings, bar, count)
    parts.append(_foot(strand, bar, count))
    label = (
        f"Prompt size of {strand.name}: {len(strand.calls)} requests, largest {top:,} tokens; "
        "every sign is also a line of the table below."
    )
    height = _TOP + _HEIGHT + _BOTTOM
    return (
        f'<svg id="thread-{number}" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" '
        f'height="{height}" role="img" aria-label="{html_text(label)}">' + "".join(parts) + "</svg>"
    )


DEFINITIONS = (
    '<svg width="0" height="0" aria-hidden="true" focusable="false"><defs>'
    '<pattern id="read" width="4" height="4" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><rect width="4" height="4" class="read-ground"/>'
    '<rect width="1.6" height="4" class="read-line"/></pattern></defs></svg>'
)


def sign_svg(sign: Sign, x: float, y: float) -> str:
    """Return a sign centred at a place."""
    size = _SIGN
    colour = html_text(sign.colour)
    shapes = {
        "circle": f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size}" fill="{colour}"/>',
        "ring": f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size}" fill="{colour}" stroke="#000"/>',
        "square": _polygon(x, y, ((-1, -1), (1, -1), (1, 1), (-1, 1)), size * 0.9, colour),
        "diamond": _polygon(x, y, ((0, -1.2), (1.2, 0), (0, 1.2), (-1.2, 0)), size, colour),
        "up": _polygon(x, y, ((0, -1.3), (1.3, 0.9), (-1.3, 0.9)), size, colour),
        "down": _polygon(x, y, ((-1.3, -0.9), (1.3, -0.9), (0, 1.3)), size, colour),
        "bar": _polygon(x, y, ((-0.6, -1.2), (0.6, -1.2), (0.6, 1.2), (-0.6, 1.2)), size, colour),
        "cross": _polygon(x, y, _CROSS, size, colour),
        "pentagon": _polygon(x, y, _PENTAGON, size, colour),
    }
    dark = sign.colour in ("#0072b2", "#000", "#666", "#009e73", "#d55e00")
    ink = "#fff" if dark else "#000"
    shift = {"up": 4.6, "down": 1.6}.get(sign.shape, 3.4)
    return (
        f"{shapes[sign.shape]}"
        f'<text x="{x:.1f}" y="{y + shift:.1f}" class="letter" fill="{ink}">{sign.letter}</text>'
    )


_PENTAGON = ((0, -1.2), (1.2, -0.3), (0.75, 1.1), (-0.75, 1.1), (-1.2, -0.3))
_CROSS = (
    *((-0.5, -1.2), (0.5, -1.2), (0.5, -0.5), (1.2, -0.5), (1.2, 0.5), (0.5, 0.5)),
    *((0.5, 1.2), (-0.5, 1.2), (-0.5, 0.5), (-1.2, 0.5), (-1.2, -0.5), (-0.5, -0.5)),
)


def _polygon(
    x: float, y: float, corners: Sequence[tuple[float, float]], size: float, colour: str
) -> str:
    points = " ".join(f"{x + dx * size:.1f},{y + dy * size:.1f}" for dx, dy in corners)
    return f'<polygon points="{points}" fill="{colour}"/>'


def _axis(ceiling: int, width: float, y: _Scale) -> str:
    lines = []
    for step in range(5):
        tokens = ceiling * step / 4
        at = y(tokens)
        lines.append(
            f'<line x1="{_LEFT}" x2="{width - 12:.0f}" y1="{at:.1f}" y2="{at:.1f}" class="grid"/>'
            f'<text x="{_LEFT - 6}" y="{at + 4:.1f}" class="axis end">{_short(tokens)}</text>'
        )
    return "".join(lines)


def _window_line(strand: Strand, ceiling: int, width: float, y: _Scale) -> str:
    if strand.window > ceiling:
        return ""
    at = y(strand.window)
    return (
        f'<line x1="{_LEFT}" x2="{width - 12:.0f}" y1="{at:.1f}" y2="{at:.1f}" class="window"/>'
        f'<text x="{_LEFT + 4}" y="{at - 4:.1f}" class="axis">'
        f"window {_short(strand.window)}</text>"
    )


def _bar(number: int, call: Call, x: float, width: float, y: _Scale) -> str:
    kept = f", {100 * call.kept:.0f} % of the prefix kept" if call.kept is not None else ""
    gone = f", {call.whole:,} untrimmed" if call.removed else ""
    title = (
        f"request {number}, {utc_text(call.at)}: {call.prompt:,} tokens{gone}; read {call.read:,}, "
        f"written {call.written:,}, neither {call.uncached:,}{kept}"
    )
    parts = []
    level = 0
    for tokens, name in ((call.read, "read"), (call.written, "written"), (call.uncached, "bare")):
        if tokens:
            top, bottom = y(level + tokens), y(level)
            parts.append(
                f'<rect x="{x:.1f}" y="{top:.1f}" width="{width:.1f}" '
                f'height="{max(0.5, bottom - top):.1f}" class="{name}"/>'
            )
        level += tokens
    return f"<g><title>{html_text(title)}</title>{''.join(parts)}</g>"


def _untrimmed_line(strand: Strand, bar: float, y: _Scale) -> str:
    if not any(call.removed for call in strand.calls):
        return ""
    points = " ".join(
        f"{_LEFT + (place + 0.5) * bar:.1f},{y(call.whole):.1f}"
        for place, call in enumerate(strand.calls)
    )
    return f'<polyline points="{points}" class="untrimmed"/>'


def _signs(happenings: Sequence[Happening], bar: float, count: int) -> list[str]:
    """Return the signs in two rows above the bars; those that would cover each other move up."""
    parts: list[str] = []
    last = [-99.0, -99.0]
    for happening in happenings:
        place = min(count, max(1, happening.call)) - 0.5
        x = _LEFT + place * bar
        row = 0 if x - last[0] >= 2 * _SIGN + 3 else 1
        last[row] = x
        sign = sign_of(happening.cause)
        title = html_text(f"request {happening.call}: {happening.words}")
        y = _TOP - 12 - row * 20
        parts.append(
            f'<g><title>{title}</title><line x1="{x:.1f}" x2="{x:.1f}" y1="{y + 8:.1f}" '
            f'y2="{_TOP + _HEIGHT}" class="drop"/>{sign_svg(sign, x, y)}</g>'
        )
    return parts


def _foot(strand: Strand, bar: float, count: int) -> str:
    every = max(1, -(-count // 12))
    at = _TOP + _HEIGHT + 16
    ticks = [
        f'<text x="{_LEFT + (place + 0.5) * bar:.1f}" y="{at}" class="axis mid">{place + 1}</text>'
        for place in range(0, len(strand.calls), every)
    ]
    return "".join(ticks)


def _ceiling(tokens: int) -> int:
    """Return a top of the axis that four even steps divide into round numbers."""
    step = 1
    while True:
        for factor in (1, 2, 3, 5):
            if factor * step * 4 >= tokens * 1.02:
                return factor * step * 4
        step *= 10


def _short(tokens: float) -> str:
    if tokens >= 1_000_000:
        return f"{tokens / 1_000_000:g}M"
    return f"{tokens / 1000:g}k" if tokens >= 1000 else f"{tokens:.0f}"
