"""`python -m openmem.stack up|down|probe PROVIDER`: what a plan runs.

`probe` changes nothing and exits 0 when the stack runs as its files say.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from openmem.base.errors import FAILED, OpenmemError
from openmem.base.paths import Paths
from openmem.stack.compose import Stack
from openmem.stack.engine import connect


def main(argv: Sequence[str]) -> int:
    """Do one of the three; the last line on stderr says what was wrong."""
    verb, provider = argv
    paths = Paths(os.environ)
    try:
        if verb == "down" and not Stack(paths, provider).exists():
            return 0
        engine = connect(os.environ)
        engine.close()
        stack = Stack(paths, provider, engine.address)
        if verb == "probe":
            return 0 if stack.is_up() else FAILED
        if verb == "up":
            stack.up()
        else:
            stack.down()
    except OpenmemError as error:
        sys.stderr.write(f"{error.message}\n")
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
