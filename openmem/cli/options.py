"""Options that mean the same wherever they occur."""

from __future__ import annotations

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON envelope on stdout.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", "-n", help="Show what would change; write nothing.")
]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Take the defaults shown and do not ask to go on.")
]
Diff = Annotated[bool, typer.Option("--diff", help="Show every byte that changes.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]
