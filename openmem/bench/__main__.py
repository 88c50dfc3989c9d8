"""`python -m openmem.bench NAME`: the same functions that `openmem bench NAME` calls."""

from __future__ import annotations

import argparse
import json
import sys

from openmem.base.errors import CHANGES_PENDING, DONE, OpenmemError
from openmem.bench.catalogue import BENCHES, run
from openmem.bench.context.bench import wanted_of


def main(argv: list[str]) -> int:
    """Run one bench, print its table or JSON; 3 when a limit is not held."""
    parser = argparse.ArgumentParser(prog="openmem bench", description="Measure beside the floor.")
    parser.add_argument("name", choices=sorted(BENCHES))
    parser.add_argument("--repeats", type=int, default=0, help="samples, 0 for the bench's own")
    parser.add_argument("--claude", default="", help="path of Claude Code, for first-run")
    for word in ("--size", "--arms", "--variants"):
        parser.add_argument(word, default="", help="for context: separated by commas")
    parser.add_argument("--window", type=int, default=0, help="for context: in tokens")
    parser.add_argument("--seed", type=int, default=42, help="for context: of the task")
    for word in ("--data", "--transcripts"):
        parser.add_argument(word, default="", help="for recall: file of conversations; a folder")
    parser.add_argument("--megabytes", type=int, default=0, help="for import: size of the file")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    chosen = parser.parse_args(argv)
    try:
        wanted = wanted_of(
            size=chosen.size,
            arms=chosen.arms,
            variants=chosen.variants,
            window=chosen.window,
            seed=chosen.seed,
        )
        report = run(
            chosen.name,
            repeats=chosen.repeats,
            claude=chosen.claude,
            wanted=wanted,
            data=chosen.data,
            transcripts=chosen.transcripts,
            size_mb=chosen.megabytes,
        )
    except OpenmemError as fault:
        print(f"openmem: {fault.message} {fault.hint}".rstrip(), file=sys.stderr)
        return fault.exit_status
    print(json.dumps(report.as_json(), indent=1) if chosen.json else "\n".join(report.lines()))
    return DONE if report.holds else CHANGES_PENDING


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
