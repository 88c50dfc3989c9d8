"""What setup says of the proxy after it wrote."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from openmem.base.paths import Paths
from openmem.host.lifecycle import ProxyStatus
from openmem.setup import proof

UP = ProxyStatus(running=True, address="http://127.0.0.1:8913", port=8913)
ROUTES = {"claude-code": "https://one.example", "codex": "https://key@two.example/v1"}


@pytest.mark.parametrize(
    ("silent", "outcome", "detail"),
    [
        ((), "ok", "127.0.0.1:8913 → one.example, 0 ms round trip; → two.example, 0 ms round trip"),
        (("codex",), "warning",
         "127.0.0.1:8913 → one.example, 0 ms round trip; two.example did not answer: no way"),
        (("codex", "claude-code"), "warning",
         "127.0.0.1:8913 runs; one.example did not answer: no way; "
         "two.example did not answer: no way"),
    ],
)  # fmt: skip
def test_the_proxy_is_named_once_however_many_addresses_it_has(
    silent: tuple[str, ...],
    outcome: str,
    detail: str,
    home: object,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ours: with three agents the same port was said to run three times. No key is shown."""
    monkeypatch.setattr(proof.lifecycle, "status", lambda paths: UP)
    monkeypatch.setattr(
        proof,
        "reach_upstream",
        lambda port, route: proof.Reach(
            is_reached=route not in silent, why="no way" if route in silent else ""
        ),
    )
    choice = SimpleNamespace(upstreams=ROUTES)
    found = proof.prove_proxy(Paths(os.environ), choice)  # type: ignore[arg-type]
    assert (found.outcome, found.detail, bool(found.advice)) == (outcome, detail, bool(silent))
