"""The command `openmem`: answers `--version` without loading anything else."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line; returns the exit status."""
    if sys.argv[1:] == ["--version"]:
        from openmem import __version__

        print(f"openmem {__version__}")
        return 0
    from openmem.cli.app import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
