"""What the proxy has to know to show a thread's next request in its trimmed form by itself.

Idea: between two cuts a view changes only at its end: what stands before is shown as last time, and
what is new goes up as it came. So the recorder tells, behind each request, how many bytes of the
list are settled, their digest, and which bytes of the view stand for them; the next request that
begins with the same bytes needs neither to be sent to the recorder nor to be taken apart.
Invariant: the body made of a splice is the one that the full way makes, or there is none: no new
cut can be due, nothing else of the request changed, what is new is understood. Tested by property
against the full way, and compared with it behind each request.
Trap: all that the full way looks at is an input here: who asks, policy and registration, the other
parts of the request, the reports that the estimate leans on. What is added there is added to
`frame_of`, `stamps_of` or `Splice`.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from openmem.base.paths import Paths
from openmem.context.formats.view import NotUnderstood, RawMessage, RequestView
from openmem.context.session import read_registration
from openmem.context.trim.ask import View
from openmem.context.trim.estimate import Weight, estimate
from openmem.context.trim.items import (
    Envelope,
    Item,
    NotTrimmable,
    WireFormat,
    opens_real_turn,
)
from openmem.context.trim.limits import STOP_SHARE
from openmem.context.trim.state import Sample

LIST_KEY = b'"messages":['
_MARK = b'"cache_control"'
_SUB_AGENT = b"cc_is_subagent=true"
_LOOKED_BACK = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Splice:
    """How a thread's next request is shown. `is_whole`: as it comes, for there is no cut yet.

    `list_bytes`, `list_digest`: of the settled elements, from the list's beginning.
    `shown_from`, `shown_to`: the bytes of the last view that stand for them. `frame`: digest of
    what the request holds beside its messages. `weight`, `image_tokens`: of what stands for them.
    `samples`: the reports (weight, tokens) that the estimate leans on. `most_at_turn`,
    `most_between`: tokens from which on a cut may be due, or a refusal, where a real turn begins
    and elsewhere. `stamps`: of what decides whether the session is stored.
    """

    is_whole: bool
    list_bytes: int
    list_digest: str
    shown_from: int
    shown_to: int
    frame: str
    weight: int
    image_tokens: int
    samples: tuple[tuple[int, int], ...]
    most_at_turn: int
    most_between: int
    stamps: tuple[int, ...]

    def rules_out_a_cut(self, weight: Weight, items: Sequence[Item]) -> bool:
        """Return whether no cut can be due. `items`: behind the settled part; `weight`: theirs."""
        if all(item.kind in ("system", "pinned") for item in items):
            return False  # what the request ends with is not among them
        most = self.most_at_turn if opens_real_turn(items) else self.most_between
        whole = Weight(
            characters=self.weight + weight.characters,
            image_tokens=self.image_tokens + weight.image_tokens,
        )
        samples = [Sample(weight=weight, tokens=tokens) for weight, tokens in self.samples]
        return estimate(whole, samples) < most


def splice_of(
    form: WireFormat, request: RequestView, view: View, stamps: tuple[int, ...]
) -> Splice | None:
    """Return how the next request is shown, None when that has to be found out the full way.

    `request` had `view`. The samples are the caller's to add, once the provider reported.
    """
    body, cut, limits = request.body, view.cut, view.thresholds
    sent = body if view.body is None else view.body
    if limits is None or request.wire != "messages" or (cut is None) is not (view.body is None):
        return None
    # A note beside the pointer may change between requests, and so may what is asked for besides.
    if cut is not None and cut.note:
        return None
    if view.problem or view.refusal or view.asks_for_binding or view.has_clearing:
        return None
    settled = _settled(request.messages, cut.anchor if cut is not None else 0)
    try:
        ranges = request.ranges() if settled else []
        if not ranges:
            return None
        start, end = ranges[0][0], ranges[settled][0]
        head, rest = body[:start], body[end:]
        # Both begin and end alike, so the client writes as the trim does, without spaces.
        if body.find(LIST_KEY) + len(LIST_KEY) != start or not sent.startswith(head):
            return None
        if not sent.endswith(rest) or len(sent) < len(head) + len(rest):
            return None
        envelope, raws = form.split(head + rest)
        items = [form.item(raw, is_last=False) for raw in raws]
    except (NotUnderstood, NotTrimmable):
        return None
    stop = int(limits.window * STOP_SHARE) if limits.proven else limits.hard
    return Splice(
        is_whole=cut is None,
        list_bytes=end - start,
        list_digest=hashlib.sha256(memoryview(body)[start:end]).hexdigest(),
        shown_from=start,
        shown_to=len(sent) - len(rest),
        frame=frame_of(envelope),
        weight=view.weight.characters - envelope.weight - sum(item.weight for item in items),
        image_tokens=view.weight.image_tokens - sum(item.image_tokens for item in items),
        samples=(),
        most_at_turn=min(limits.soft, stop),
        most_between=min(limits.hard, stop),
        stamps=stamps,
    )


def _settled(messages: Sequence[RawMessage], anchor: int) -> int:
    """Return how many messages will stand in the next request byte for byte as in this one, 0 when
    that is not more than the cut was made for.

    The last one changes its form; cache markers move; one message behind what the cut was made for
    stays the same, so that what meets there met before.
    """
    count = len(messages) - 1
    for number in range(count - 1, max(anchor, count - _LOOKED_BACK), -1):
        if _MARK in bytes(messages[number]):
            count = number
    return count if count > anchor else 0


def frame_of(envelope: Envelope) -> str:
    """Return a digest of all that a request holds beside its messages.

    The client's attribution block differs in each request and counts only for what it says of a
    sub-agent.
    """
    digest = hashlib.blake2b(digest_size=16)
    is_sub_agent = False
    for key, value in envelope.parts:
        if key == b'"system"':
            is_sub_agent = _SUB_AGENT in value
        elif key != envelope.list_key:
            digest.update(b"%d:%d:" % (len(key), len(value)) + key + value)
    digest.update(b"%s:%d" % (envelope.system_digest.encode(), is_sub_agent))
    return digest.hexdigest()


def stamps_of(paths: Paths, sid: str) -> tuple[int, ...]:
    """Return what changes when the policy does, or where a session is registered.

    Not when only its process is another one: each resume writes that down.
    """
    registration = read_registration(paths, sid)
    place = f"{registration.agent}\0{registration.cwd}" if registration else ""
    try:
        status = os.stat(paths.policy_file)
        policy = (status.st_mtime_ns, status.st_size, status.st_ino)
    except OSError:
        policy = (0, 0, 0)  # there is none, which is an answer, too
    return (*policy, zlib.crc32(place.encode("utf-8", "surrogatepass")))
