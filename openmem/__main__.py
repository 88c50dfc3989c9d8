"""The command `openmem`: what must start fast, or start at all, is told apart here.

`--version` loads nothing else; `hook` and `mcp` are started by agents for every session and skip
the command line; on Windows most of openmem cannot even be imported.
"""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line; returns the exit status."""
    if sys.platform == "win32":
        print(
            "openmem: runs on Linux and macOS. On Windows use it inside WSL: `wsl --install`, "
            "then install openmem-cli there, beside the agent.",
            file=sys.stderr,
        )
        return 6
    if sys.argv[1:] == ["--version"]:
        from openmem import __version__

        print(f"openmem {__version__}")
        return 0
    from openmem.cli.app import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
