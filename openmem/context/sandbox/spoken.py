"""The child's answer: one JSON line at a time, on standard output."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping


def say(message: Mapping[str, object]) -> None:
    """Write one line of the answer."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()
