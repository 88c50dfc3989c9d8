"""`openmem-mcp`: serves one agent on standard input and output until it closes them."""

from __future__ import annotations

import os
import sys

_DEFAULT_TOOLS = "core"
_HELP = """Usage: openmem-mcp [--version]

The MCP server of openmem, started by an agent: JSON-RPC, one message a line, on standard
input and output. It takes its workspace from CLAUDE_PROJECT_DIR, else from the folder it
is started in. Wire it with: openmem install-mcp
"""


def main() -> int:
    """Serve; returns the exit status."""
    words = sys.argv[1:]
    if words == ["--version"]:
        from openmem import __version__

        print(f"openmem-mcp {__version__}")
        return 0
    if words:
        wants_help = words in (["--help"], ["-h"])
        print(_HELP, end="", file=sys.stdout if wants_help else sys.stderr)
        return 0 if wants_help else 2
    return run()


def run() -> int:
    """Serve without looking at the command line; for `openmem mcp`."""
    from openmem.mcp.context_tools import context_tools
    from openmem.mcp.memory_tools import memory_tools
    from openmem.mcp.server import serve
    from openmem.mcp.tools import Toolbox

    if sys.stdin is not None and sys.stdin.isatty():
        print("openmem-mcp: waiting for an agent on standard input; Ctrl-C ends.", file=sys.stderr)
    specs = (*context_tools(os.environ), *memory_tools(os.environ, _which_tools()))
    return serve(Toolbox(specs))


def _which_tools() -> str:
    """Return which memory tools are listed; the short list when the settings cannot be read."""
    from openmem.base.paths import Paths

    paths = Paths(os.environ)
    if not _may_be_set(paths.config_file):
        return _DEFAULT_TOOLS
    from openmem.base.config import load_config
    from openmem.base.errors import InvalidConfig

    try:
        return load_config(paths.config_file, os.environ).text("mcp.tools")
    except InvalidConfig as error:
        # A server that does not start takes the search tools with it.
        print(f"openmem-mcp: {error.message}", file=sys.stderr)
        return _DEFAULT_TOOLS


def _may_be_set(path: str) -> bool:
    """Return whether anything may say which tools: an agent waits for its servers, and reading
    TOML is a third of this one's start. A key may also be spelt with escapes."""
    if os.environ.get("OPENMEM_MCP_TOOLS"):
        return True
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return False  # not there; one that cannot be read is told by what needs more of it
    return b"mcp" in data or b"\\" in data


if __name__ == "__main__":
    sys.exit(main())
