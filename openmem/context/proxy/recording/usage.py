"""Token counts as the provider reports them.

A count that was not reported stays None, never 0. `input_tokens` is without cache reads and
writes, so a prompt is the sum of the three; Anthropic reports it that way.
OpenAI's counts include what was read from the cache; it is taken out here.
Source: context-store contract, Events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

_FIELDS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_tokens": "cache_read_input_tokens",
    "cache_creation_tokens": "cache_creation_input_tokens",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The counts of one model call."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_creation_tokens: int | None = None

    @property
    def is_reported(self) -> bool:
        return any(getattr(self, name) is not None for name in _FIELDS)

    @property
    def prompt_tokens(self) -> int:
        """All tokens of the prompt, as far as they were reported."""
        return sum(
            count or 0
            for count in (self.input_tokens, self.cache_read_tokens, self.cache_creation_tokens)
        )

    def updated(self, report: object) -> Usage:
        """Return these counts with those of a later report put over them.

        A stream reports twice: the prompt at its start, the rest at its end, where counts that
        were given before may come again, larger.
        """
        if not isinstance(report, Mapping):
            return self
        found: dict[str, int] = {}
        for name, key in _FIELDS.items():
            value = _count(report, key)
            if value is not None:
                found[name] = value
        return replace(self, **found) if found else self

    def updated_by_openai(self, report: object) -> Usage:
        """Return these counts with those of a Responses or Chat report put over them."""
        if not isinstance(report, Mapping):
            return self
        prompt = _count(report, "input_tokens", "prompt_tokens")
        output = _count(report, "output_tokens", "completion_tokens")
        details = report.get("input_tokens_details") or report.get("prompt_tokens_details")
        details = details if isinstance(details, Mapping) else {}
        read = _count(report, "cache_read_input_tokens")
        read = _count(details, "cached_tokens") if read is None else read
        written = _count(report, "cache_creation_input_tokens")
        if written is None:
            written = _count(details, "cache_creation_tokens", "cache_write_tokens")
        found = {"cache_read_tokens": read, "cache_creation_tokens": written}
        found |= {"output_tokens": output}
        if prompt is not None:
            found["input_tokens"] = max(0, prompt - (read or 0) - (written or 0))
        known = {name: value for name, value in found.items() if value is not None}
        return replace(self, **known) if known else self


def _count(report: Mapping[str, object], *keys: str) -> int | None:
    """Return the first of several counts that is one."""
    for key in keys:
        value = report.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return None
