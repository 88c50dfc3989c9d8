"""mem0's adapter against its stand-in."""

from __future__ import annotations

import dataclasses

import pytest

from openmem.base.errors import Unsupported
from openmem.base.paths import Paths
from openmem.memory.providers.base import Ask, Item
from openmem.memory.providers.mem0.provider import Mem0Provider
from openmem.memory.providers.plain_http import PlainTransport
from openmem.memory.providers.wire import Address, KeyRefused, ServerFailed, server_name
from tests.fakes.memory_servers.mem0 import Mem0
from tests.fakes.memory_servers.started import KEY, provider_to

BANK = "github.com/acme/site"
TEXT = "The build uses uv. The build runs on Fridays."
BUILD = Item(id="m-1", text=TEXT, kind="statement", recorded_at="2026-11-30T00:00:00Z")


def provider_of(mem0: Mem0, *, infer: bool) -> Mem0Provider:
    address = Address(provider="mem0", url=mem0.url, key=KEY, seconds=10.0)
    return Mem0Provider(address, PlainTransport(), lambda: "here", infer=infer)


@pytest.mark.parametrize(("infer", "rows"), [(False, 1), (True, 2)])
def test_drawing_facts_out_is_a_setting_and_all_of_them_are_forgotten(
    mem0: Mem0, infer: bool, rows: int
) -> None:
    """Issue 6, part 3: `infer` a setting; no delete by document."""
    provider = provider_of(mem0, infer=infer)
    provider.remember(BANK, [BUILD])
    assert len(mem0.rows) == rows and provider.status(BANK).memories == 1
    assert [hit.id for hit in provider.recall(BANK, Ask(text="build"))] == ["m-1"]
    provider.forget(BANK, ["m-1"])
    assert mem0.rows == {}
    assert not any(path == "DELETE /memories" for path in mem0.paths())


def test_a_text_without_facts_is_kept_as_it_is(mem0: Mem0) -> None:
    """Seen with the real server: a model that sees no fact stores nothing, and says so by []."""
    mem0.sees_no_facts = True
    provider = provider_of(mem0, infer=True)
    provider.remember(BANK, [BUILD])
    assert [row["memory"] for row in mem0.rows.values()] == [TEXT]


def test_told_twice_it_is_there_once(mem0: Mem0) -> None:
    """Facts of providers, section 2.1: without a model it does not see what is the same."""
    provider = provider_of(mem0, infer=False)
    provider.remember(BANK, [BUILD])
    provider.remember(BANK, [BUILD])
    assert len(mem0.rows) == 1


def test_the_old_text_goes_only_when_the_new_one_is_there(mem0: Mem0) -> None:
    """Ours: a model that is down must not cost what was kept."""
    provider = provider_of(mem0, infer=False)
    provider.remember(BANK, [BUILD])
    mem0.is_model_down = True
    with pytest.raises(ServerFailed, match="model does not answer"):
        provider.remember(BANK, [dataclasses.replace(BUILD, text="Use tabs.")])
    assert [row["memory"] for row in mem0.rows.values()] == [TEXT]


def test_a_filter_that_is_ignored_removes_nothing_of_others(mem0: Mem0) -> None:
    """Ours: another version may not know `run_id` and list the whole bank."""
    provider = provider_of(mem0, infer=False)
    provider.remember(BANK, [BUILD, dataclasses.replace(BUILD, id="m-2", text="Use tabs.")])
    mem0.instead = lambda asked: (
        (200, {"results": list(mem0.rows.values())})
        if asked.method == "GET" and asked.path == "/memories"
        else None
    )
    provider.forget(BANK, ["m-1"])
    assert [row["run_id"] for row in mem0.rows.values()] == ["m-2"]


def test_each_call_names_the_scope_at_the_top(mem0: Mem0) -> None:
    """Facts of providers: a scope inside AND is refused."""
    provider = provider_of(mem0, infer=False)
    provider.recall(BANK, Ask(text="build", kinds=("statement",)))
    assert mem0.asked[-1].json["filters"] == {
        "user_id": server_name(BANK),
        "by": "here",
        "kind": "statement",
    }


def test_a_bank_beyond_what_is_listed_has_no_count(mem0: Mem0) -> None:
    """Ours: a thousand rows are one listing, and there is no second."""
    provider = provider_of(mem0, infer=False)
    row = {"id": "x", "memory": "x", "run_id": "m-9", "metadata": {"by": "here"}}
    mem0.instead = lambda asked: (
        (200, {"results": [row] * 1000}) if asked.path == "/memories" else None
    )
    assert provider.status(BANK).memories == -1


@pytest.mark.parametrize("capability", ["listing", "erase"])
def test_what_it_cannot_do_it_says_by_name(mem0: Mem0, capability: str) -> None:
    """Design, section 4: unsupported raises."""
    provider = provider_of(mem0, infer=False)
    assert capability not in provider.capabilities
    with pytest.raises(Unsupported, match=capability):
        getattr(provider, capability)(BANK)


def test_a_wrong_key_is_one_clear_error(mem0: Mem0, paths: Paths) -> None:
    """Issue 6, bad input."""
    with pytest.raises(KeyRefused):
        provider_to(mem0, "mem0", paths, key="wrong").status(BANK)
