"""A session's report as one HTML page: nothing is loaded, nothing runs, everything is escaped.

It reads without colour (hatching, shapes, letters, a table), in the dark, on paper and by a screen
reader: each sign of the picture is a line of the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from openmem.context.report.drawing import DEFINITIONS, drawing, html_text, sign_svg
from openmem.context.report.timeline import SIGNS, Happening, Strand, sign_of, totals

_TABLE_ROWS = 400

_STYLE = """
:root{color-scheme:light dark;--ink:#1a1a1a;--paper:#fff;--faint:#d8d8d8;--soft:#f4f4f2;
--read:#7fb3d5;--line:#3b6f94;--written:#0b3c5d}
@media (prefers-color-scheme:dark){:root{--ink:#eee;--paper:#161616;--faint:#3a3a3a;--soft:#222;
--read:#35586f;--line:#8cc3e8;--written:#d9ecf9}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:68rem;padding:1.5rem;font:15px/1.5 system-ui,sans-serif;
color:var(--ink);background:var(--paper)}
h1{font-size:1.4rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .25rem}
p{margin:.25rem 0}.quiet{opacity:.75}
dl{display:flex;flex-wrap:wrap;gap:.5rem 2rem;margin:1rem 0}
dt{opacity:.75;font-size:.85rem}dd{margin:0;font-size:1.15rem;font-variant-numeric:tabular-nums}
figure{margin:.5rem 0;overflow-x:auto;border:1px solid var(--faint);border-radius:4px}
svg{display:block;font:11px system-ui,sans-serif}
.grid{stroke:var(--faint)}.axis{fill:var(--ink);opacity:.75}
.end{text-anchor:end}.mid{text-anchor:middle}
.window{stroke:var(--ink);stroke-dasharray:2 5}.drop{stroke:var(--ink);opacity:.35}
.read-ground{fill:var(--read)}.read-line{fill:var(--line)}
.read{fill:url(#read)}.written{fill:var(--written)}
.bare{fill:var(--paper);stroke:var(--ink);stroke-width:.7}
.untrimmed{fill:none;stroke:var(--ink);stroke-dasharray:6 4;stroke-width:1.5}
.letter{font-weight:700;font-size:10px;text-anchor:middle}
ul.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;padding:0;margin:.5rem 0}
ul.legend li{display:flex;align-items:center;gap:.4rem}
table{border-collapse:collapse;width:100%;font-size:.9rem;font-variant-numeric:tabular-nums}
th,td{padding:.2rem .6rem .2rem 0;text-align:left;border-bottom:1px solid var(--faint);
vertical-align:top}
td.n,th.n{text-align:right}
@media print{body{max-width:none;padding:0}figure{overflow:visible}svg{max-width:100%;height:auto}}
""".strip()


def page(
    session: Mapping[str, str], strands: Sequence[Strand], *, made_at: str, has_prices: bool
) -> str:
    """Return the page.

    `session`: session_id, agent, cwd, first_at, last_at; `made_at`: UTC text.
    """
    title = f"openmem: session {session['session_id']}"
    facts = " · ".join(
        part
        for part in (
            session["agent"],
            session["cwd"],
            f"{session['first_at']} to {session['last_at']}",
        )
        if part
    )
    body = [
        f"<h1>Session {html_text(session['session_id'])}</h1>",
        f'<p class="quiet">{html_text(facts)}</p>',
        _totals(strands, has_prices),
        _legend(strands),
    ]
    if not strands:
        body.append("<p>No request of this session is recorded.</p>")
    for number, strand in enumerate(strands, 1):
        body.append(_strand(strand, number))
    body.append(
        '<p class="quiet">Numbers of requests as the provider reported them. Untrimmed sizes and '
        "what trims removed are estimates; untrimmed cost replays the same requests with everything"
        f" kept. Made {html_text(made_at)}; holds no content of the session.</p>"
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html_text(title)}</title><style>{_STYLE}</style></head>"
        f"<body>{DEFINITIONS}{''.join(body)}</body></html>\n"
    )


def _totals(strands: Sequence[Strand], has_prices: bool) -> str:
    sums = totals(strands)
    rate = sums["hit_rate"]
    entries = [
        ("requests", f"{sums['requests']:,}"),
        ("input tokens", f"{sums['prompt_tokens']:,}"),
        ("untrimmed", f"{sums['untrimmed_tokens']:,}"),
        ("from the cache", f"{100 * rate:.1f} %" if isinstance(rate, float) else "–"),
        ("trims", f"{sums['trims']}"),
        ("removed by them", f"{sums['removed_tokens']:,}"),
    ]
    if sums["cleared_tokens"]:
        entries.append(("cleared by the provider", f"{sums['cleared_tokens']:,}"))
    units, whole = sums["cost_units"], sums["untrimmed_cost_units"]
    if isinstance(units, float) and isinstance(whole, float) and whole:
        entries.append(("cost against untrimmed", f"{units / whole:.2f}"))
    paid, untrimmed = sums["dollars"], sums["untrimmed_dollars"]
    if has_prices and isinstance(paid, float) and isinstance(untrimmed, float):
        entries.append(("dollars, and untrimmed", f"{paid:.2f} of {untrimmed:.2f}"))
    cells = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in entries)
    return f"<dl>{cells}</dl>"


def _legend(strands: Sequence[Strand]) -> str:
    used = {happening.cause for strand in strands for happening in strand.happenings}
    bars = (
        ('<rect width="16" height="12" y="2" class="read"/>', "read from the cache (hatched)"),
        ('<rect width="16" height="12" y="2" class="written"/>', "written to it (solid)"),
        ('<rect x="1" width="14" height="12" y="2" class="bare"/>', "neither (empty)"),
        (
            '<polyline points="0,8 16,8" class="untrimmed"/>',
            "size without trims (dashed line, estimated)",
        ),
    )
    items = [
        f'<li><svg width="16" height="16" aria-hidden="true">{shape}</svg>{words}</li>'
        for shape, words in bars
    ]
    for cause in [name for name in SIGNS if name in used] + sorted(used - set(SIGNS)):
        sign = sign_of(cause)
        whose = "ours" if sign.is_ours else "not ours"
        items.append(
            f'<li><svg width="22" height="22" aria-hidden="true">{sign_svg(sign, 11, 11)}</svg>'
            f"{sign.letter} {html_text(sign.word)} ({whose})</li>"
        )
    return f'<ul class="legend">{"".join(items)}</ul>'


def _strand(strand: Strand, number: int) -> str:
    rate = f"{100 * strand.hit_rate:.1f} % from the cache" if strand.hit_rate is not None else ""
    facts = [
        strand.model,
        f"{len(strand.calls):,} requests",
        f"window {strand.window:,}",
        f"{strand.trims} trims" if strand.trims != 1 else "1 trim",
        rate,
    ]
    words = " · ".join(fact for fact in facts if fact)
    return (
        f"<h2>{html_text(strand.name)}</h2><p>{html_text(words)}</p>"
        f"<figure>{drawing(strand, number)}</figure>{_table(strand.happenings)}"
    )


def _table(happenings: Sequence[Happening]) -> str:
    if not happenings:
        return '<p class="quiet">No trim, no bust, no fault.</p>'
    shown = happenings[-_TABLE_ROWS:]
    rows = [
        f'<tr><td class="n">{one.call}</td><td>{html_text(one.at)}</td>'
        f"<td>{sign_of(one.cause).letter}</td><td>{html_text(one.words)}</td>"
        f'<td class="n">{one.prompt:,}</td><td class="n">{one.read:,}</td>'
        f'<td class="n">{one.written:,}</td><td class="n">{_share(one.kept)}</td>'
        f'<td class="n">{f"{one.removed:,}" if one.removed else ""}</td></tr>'
        for one in shown
    ]
    left = len(happenings) - len(shown)
    note = f'<p class="quiet">{left:,} earlier ones are not shown.</p>' if left else ""
    return (
        '<table><thead><tr><th class="n" scope="col">request</th><th scope="col">time</th>'
        '<th scope="col">sign</th><th scope="col">what</th><th class="n" scope="col">prompt</th>'
        '<th class="n" scope="col">read</th><th class="n" scope="col">written</th>'
        '<th class="n" scope="col">prefix kept</th><th class="n" scope="col">removed</th></tr>'
        f"</thead><tbody>{''.join(rows)}</tbody></table>{note}"
    )


def _share(kept: float | None) -> str:
    return f"{100 * kept:.0f} %" if kept is not None else ""
