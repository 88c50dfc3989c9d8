"""The official SDK's client as the oracle: both generations, over a real pipe to a real process."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import anyio
import jsonschema
import pytest
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters

from openmem.mcp.memory_tools import CORE
from tests.fakes.mcp_process import CHECKOUT
from tests.fakes.stored import Machine, answered, called, said

MODES = ["auto", "legacy", "2026-07-28"]
WAIT_SECONDS = 30
Scene = Callable[[Client], Awaitable[None]]


@pytest.fixture
def machine(home: Path) -> Iterator[Machine]:
    made = Machine(home)
    site = made.repository("site")
    made.record(
        "s1",
        site,
        [
            said("we rotate the signing key every 90 days\nthe next is on 14 January"),
            answered("Noted."),
            *called("Bash", {"command": "grep x log"}, "svc=api ERROR 1\n  svc=web ERROR 2"),
            said("thanks"),
        ],
    )
    made.close()
    yield made


def with_client(machine: Machine, mode: str, scene: Scene) -> None:
    """Run a scene with the SDK's client before `python -m openmem.mcp`."""
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "openmem.mcp"],
        env={"HOME": str(machine.home), "PYTHONPATH": str(CHECKOUT)},
        cwd=str(machine.home / "site"),
    )

    async def run() -> None:
        with anyio.fail_after(WAIT_SECONDS):
            async with Client(server, mode=mode) as client:  # type: ignore[arg-type]
                await scene(client)

    anyio.run(run)


def text_of(result: object) -> str:
    (block,) = result.content  # type: ignore[attr-defined]
    assert result.structured_content is None  # type: ignore[attr-defined]
    return str(block.text)


@pytest.mark.parametrize("mode", MODES)
def test_the_official_client_lists_and_calls_in_each_generation(
    machine: Machine, mode: str
) -> None:
    """Issue 2, part 7."""

    async def scene(client: Client) -> None:
        assert client.protocol_version == ("2025-11-25" if mode == "legacy" else "2026-07-28")
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {
            "smart_compact_search",
            "smart_compact_get",
            "smart_compact_sql",
            "context_status",
            *CORE,
        }
        writing = {"memory_add", "memory_correct", "memory_forget"}
        for tool in tools.values():
            jsonschema.Draft202012Validator.check_schema(tool.input_schema)
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint == (tool.name not in writing)
            assert tool.output_schema is None
        found = await client.call_tool("smart_compact_search", {"query": "signing key"})
        assert not found.is_error
        assert "we rotate the signing key every 90 days" in text_of(found).split("\n")
        counted = await client.call_tool(
            "smart_compact_sql",
            {
                "session_id": "s1",
                "sql": "SELECT count(*) AS n FROM lines WHERE role = 'tool' AND NOT echo",
            },
        )
        assert text_of(counted) == "n\n2"
        wrong = await client.call_tool("smart_compact_search", {})
        assert wrong.is_error and "query or pattern" in text_of(wrong)
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.call_tool("no_such_tool", {})
        with pytest.raises(MCPError, match="Method not found"):
            await client.list_resources()

    with_client(machine, mode, scene)


def test_the_instructions_tell_of_the_search_in_both_generations(machine: Machine) -> None:
    """Design, section 7: the agent learns of the tools by the server's instructions."""

    async def scene(client: Client) -> None:
        assert "smart_compact_search" in (client.instructions or "")
        assert len(client.instructions or "") < 600

    with_client(machine, "auto", scene)
    with_client(machine, "legacy", scene)


def test_a_call_that_the_client_gives_up_leaves_the_connection_whole(machine: Machine) -> None:
    """MCP, cancellation: the SDK sends it when a call's time is over."""

    async def scene(client: Client) -> None:
        slow = (
            "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM t) SELECT count(*) FROM t"
        )
        with pytest.raises((MCPError, TimeoutError)):
            await client.call_tool(
                "smart_compact_sql", {"session_id": "s1", "sql": slow}, read_timeout_seconds=0.2
            )
        status = await client.call_tool("context_status", {})
        assert "s1" in text_of(status)

    with_client(machine, "auto", scene)
    with_client(machine, "legacy", scene)


def test_a_subscription_of_the_official_client_opens_and_closes(machine: Machine) -> None:
    """MCP 2026-07-28, subscriptions/listen: Claude Code opens one with each server."""

    async def scene(client: Client) -> None:
        async with client.listen(tools_list_changed=True):
            status = await client.call_tool("context_status", {})
            assert "s1" in text_of(status)
        assert (await client.list_tools()).tools

    with_client(machine, "auto", scene)


def test_the_list_of_tools_is_small(machine: Machine) -> None:
    """Facts, peers section f: bytes, not tools, are the measure; issue 5: 5 kB in all."""

    async def scene(client: Client) -> None:
        tools = (await client.list_tools()).tools
        wire = [tool.model_dump(by_alias=True, exclude_none=True, mode="json") for tool in tools]
        assert len(json.dumps(wire, separators=(",", ":"), ensure_ascii=False)) <= 5_000

    with_client(machine, "auto", scene)
