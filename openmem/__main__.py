"""The command `openmem`: what must start fast, or start at all, is told apart here.

`--version` loads nothing else; `hook` and `mcp` are started by agents for every session and skip
the command line; on Windows most of openmem cannot even be imported.
"""

from __future__ import annotations

import sys


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit status. `argv`: without the program's name."""
    words = sys.argv[1:] if argv is None else argv
    if sys.platform == "win32":
        print(
            "openmem: runs on Linux and macOS. On Windows use it inside WSL: `wsl --install`, "
            "then install openmem-cli there, beside the agent.",
            file=sys.stderr,
        )
        return 6
    if words == ["--version"]:
        from openmem import __version__

        print(f"openmem {__version__}")
        return 0
    if words[:1] == ["hook"] and words[1:2] and not words[1].startswith("-"):
        from openmem.hook.client import main as hook

        return hook(words[1:])
    if words == ["mcp"]:
        from openmem.mcp.__main__ import run as mcp

        return mcp()
    try:
        from openmem.cli.app import run

        return run(words)
    except KeyboardInterrupt:  # while it was still being loaded; later ones are told by `run`
        print("openmem: interrupted.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
