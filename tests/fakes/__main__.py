"""The fake Anthropic server as a process: `python -m tests.fakes --port 0 --log DIR`."""

from __future__ import annotations

import argparse
import signal
import sys
import threading

from tests.fakes.anthropic_server import FakeAnthropic, Rules
from tests.fakes.strict.rules import Account, StrictRules


def main(argv: list[str]) -> int:
    """Run the server as a process until it is told to end; prints its port as a first line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log", default="")
    parser.add_argument("--strict", choices=("no", "new", "old"), default="no")
    chosen = parser.parse_args(argv)
    rules: Rules | None = None
    if chosen.strict != "no":
        rules = StrictRules(Account(age=chosen.strict))
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    with FakeAnthropic(port=chosen.port, rules=rules, log=chosen.log) as server:
        print(server.port, flush=True)
        ended.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
