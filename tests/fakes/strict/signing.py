"""Signatures of thinking blocks, and what became of each block of a request.

A block is signed over the model, the units before it (`canonical.walk`) and the id of the thinking
block before it. So taking thinking from the front or the end leaves the others valid, taking it
from the middle does not, nor does putting it back. Not verified against the live API.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.fakes.strict.canonical import Thought, Unit, walk

State = Literal["valid", "broken", "prefix", "model"]


@dataclass(frozen=True, slots=True)
class Seal:
    """What a signature says: its own id, the author model, the prefix, the block before it."""

    id: str
    model: str
    prefix: str
    before: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One thinking block of a request. `first`: first changed place, empty if not known."""

    place: str
    state: State
    seal: Seal | None = None
    first: str = ""


@dataclass(slots=True)
class Signer:
    """Signs and reads signatures. Remembers units so that a refusal can name the changed place."""

    key: bytes = b"a key of the fake service"
    nudge_exempt: bool = False
    _units: dict[str, list[Unit]] = field(default_factory=dict)
    _made: int = 0

    def _mac(self, text: bytes) -> str:
        return hmac.new(self.key, text, hashlib.sha256).hexdigest()

    def seal(self, model: str, units: list[Unit], before: str) -> str:
        """Return the signature of a new block that follows `units`."""
        self._made += 1
        mark = f"t{self._made}"
        self._units[mark] = list(units)
        text = json.dumps([mark, model, _prefix(units), before]).encode()
        return base64.b64encode(text + b"|" + self._mac(text).encode()).decode()

    def read(self, signature: Any) -> Seal | None:
        """Return what a signature says, None when it is not ours or was touched."""
        try:
            text, _, mac = base64.b64decode(str(signature), validate=True).rpartition(b"|")
            if not hmac.compare_digest(mac, self._mac(text).encode()):
                return None
            return Seal(*json.loads(text))
        except ValueError:
            return None

    def units(self, body: dict[str, Any]) -> list[Unit]:
        """Return all units of a request."""
        return [u for u in walk(body, nudge_exempt=self.nudge_exempt) if isinstance(u, Unit)]

    def examine(self, body: dict[str, Any], *, readable: Any) -> list[Finding]:
        """Return one finding for each thinking block, in order.

        `readable(author)`: whether the requested model can use an author's thinking. Blocks that it
        cannot are out of the chain, as if the client had not sent them.
        """
        units: list[Unit] = []
        found: list[Finding] = []
        before: str | None = None
        gap = ""  # where a block of the chain is missing; every later one is invalid
        for one in walk(body, nudge_exempt=self.nudge_exempt):
            if isinstance(one, Unit):
                units.append(one)
                continue
            finding = self._examine_one(one, units, before, readable)
            if finding.state == "valid" and gap:
                finding = Finding(finding.place, "prefix", finding.seal, gap)
            elif finding.state == "prefix" and finding.first == finding.place:
                gap = gap or finding.place
            found.append(finding)
            if finding.seal is not None and finding.state != "model":
                before = finding.seal.id
        return found

    def _examine_one(
        self, thought: Thought, units: list[Unit], before: str | None, readable: Any
    ) -> Finding:
        kind = "signature" if thought.block["type"] == "thinking" else "data"
        seal = self.read(thought.block.get(kind, ""))
        if seal is None:
            return Finding(thought.place, "broken")
        if not readable(seal.model):
            return Finding(thought.place, "model", seal)
        if _prefix(units) != seal.prefix:
            return Finding(thought.place, "prefix", seal, self._first_change(seal.id, units))
        # None: the first thinking of the request, so what stood before it was taken off the front.
        if before is not None and before != seal.before:
            return Finding(thought.place, "prefix", seal, thought.place)
        return Finding(thought.place, "valid", seal)

    def _first_change(self, mark: str, units: list[Unit]) -> str:
        signed = self._units.get(mark, [])
        for old, new in zip(signed, units, strict=False):
            if old.digest != new.digest:
                return new.place
        longer = units if len(units) > len(signed) else signed
        shorter = min(len(units), len(signed))
        return longer[shorter].place if shorter < len(longer) else ""


def _prefix(units: list[Unit]) -> str:
    chain = hashlib.sha256()
    for unit in units:
        chain.update(unit.digest.encode())
    return chain.hexdigest()[:32]
