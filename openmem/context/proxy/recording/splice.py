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
from collections.abc import Sequence
from dataclasses import dataclass

from openmem.base.paths import Paths
from openmem.context.formats.view import NotUnderstood, RawMessage, RequestView
from openmem.context.session import registration_file
from openmem.context.trim.ask import View
from openmem.context.trim.estimate import Weight, estimate
from openmem.context.trim.items import Envelope, NotTrimmable, WireFormat
from openmem.context.trim.limits import STOP_SHARE
from openmem.context.trim.state import Sample

LIST_KEY = b'"messages":['
_MARK = b'"cache_control"'
_SUB_AGENT = b"cc_is_subagent=true"
_LOOKED_BACK = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Splice:
    """How a thread's next request is shown.

    `list_bytes`, `list_digest`: of the settled elements, from the list's beginning.
    `shown_from`, `shown_to`: the bytes of the last view that stand for them. `frame`: digest of
    what the request holds beside its messages. `weight`, `image_tokens`: of what stands for them.
    `samples`: the reports (weight, tokens) that the estimate leans on. `most_tokens`: from there
    on a cut may be due, or a refusal. `stamps`: of what decides whether the session is stored.
    """

    list_bytes: int
    list_digest: str
    shown_from: int
    shown_to: int
    frame: str
    weight: int
    image_tokens: int
    samples: tuple[tuple[int, int], ...]
    most_tokens: int
    stamps: tuple[int, ...]

    def is_under(self, weight: Weight) -> bool:
        """Return whether no cut can be due. `weight`: of what is shown behind the settled part."""
        whole = Weight(
            characters=self.weight + weight.characters,
            image_tokens=self.image_tokens + weight.image_tokens,
        )
        samples = [Sample(weight=weight, tokens=tokens) for weight, tokens in self.samples]
        return estimate(whole, samples) < self.most_tokens


def splice_of(
    form: WireFormat, request: RequestView, view: View, stamps: tuple[int, ...]
) -> Splice | None:
    """Return how the next request is shown, None when that has to be found out the full way.

    `request` had `view`. The samples are the caller's to add, once the provider reported.
    """
    sent, cut, limits = view.body, view.cut, view.thresholds
    if sent is None or cut is None or limits is None or request.wire != "messages":
        return None
    # A note beside the pointer may change between requests, and so may what is asked for besides.
    if cut.note or view.problem or view.refusal or view.asks_for_binding or view.has_clearing:
        return None
    body, settled = request.body, _settled(request.messages, cut.anchor)
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
    stop = int(limits.window * STOP_SHARE) if limits.proven else limits.soft
    return Splice(
        list_bytes=end - start,
        list_digest=hashlib.sha256(memoryview(body)[start:end]).hexdigest(),
        shown_from=start,
        shown_to=len(sent) - len(rest),
        frame=frame_of(envelope),
        weight=view.weight.characters - envelope.weight - sum(item.weight for item in items),
        image_tokens=view.weight.image_tokens - sum(item.image_tokens for item in items),
        samples=(),
        most_tokens=min(limits.soft, stop),
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
    """Return what changes when the policy or a session's registration does."""
    found: list[int] = []
    for path in (paths.policy_file, registration_file(paths, sid)):
        try:
            status = os.stat(path)
            found += (status.st_mtime_ns, status.st_size, status.st_ino)
        except OSError:
            found += (0, 0, 0)  # there is none, which is an answer, too
    return tuple(found)
