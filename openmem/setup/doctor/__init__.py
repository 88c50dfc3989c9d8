"""Named checks of an installation: each a small value, each looked at by itself.

Idea: a check reads and answers `ok`, `info`, `warning`, `error` or `skipped`, with what was seen
and what to do. Invariant: nothing is changed; what can be mended safely is handed back as a plan
and only `doctor --fix` applies it. Trap: a check that cannot run is a finding of its own, never a
reason to leave the others out.
"""
