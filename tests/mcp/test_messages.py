"""JSON-RPC by hand: every odd message gets its answer, and none ends the server."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmem.mcp.protocol import CAPABILITIES_KEY, ENVELOPE_VERSIONS, VERSION_KEY, Json
from openmem.mcp.server import Server
from openmem.mcp.tools import Argument, Arguments, Meta, Toolbox, ToolSpec
from openmem.mcp.wire import TooLong

ENVELOPE: Json = {VERSION_KEY: ENVELOPE_VERSIONS[0], CAPABILITIES_KEY: {}}
WAIT_SECONDS = 10


class Client:
    """Holds a server by the hand; answers come in `got`, as decoded lines."""

    def __init__(self) -> None:
        self.got: list[object] = []
        self._arrived = threading.Condition()
        self.is_open = threading.Event()
        self.is_open.set()
        self.began = threading.Event()
        self.server = Server(Toolbox((self._spec("echo"), self._spec("fail"))), self._take)

    def _spec(self, name: str) -> ToolSpec:
        def run(arguments: Arguments, _meta: Meta) -> str:
            self.began.set()
            assert self.is_open.wait(WAIT_SECONDS)
            if name == "fail":
                raise KeyError(arguments["text"])
            return str(arguments["text"])

        return ToolSpec(name, name, (Argument("text", type="string"),), run, required=("text",))

    def _take(self, message: Json) -> None:
        with self._arrived:
            self.got.append(json.loads(json.dumps(message)))
            self._arrived.notify_all()

    def send(self, value: object) -> None:
        self.server.handle_line(json.dumps(value).encode())

    def ask(self, method: str, params: Json | None = None, id: object = 1) -> Json:
        """Send a request and return the next answer."""
        already = len(self.got)
        self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}})
        answer = self.wait_for(lambda: len(self.got) > already and self.got[already])
        assert isinstance(answer, dict)
        return answer

    def wait_for(self, seen: Callable[[], object]) -> object:
        with self._arrived:
            assert self._arrived.wait_for(seen, WAIT_SECONDS)
            return seen()

    def only(self) -> Json:
        assert len(self.got) == 1
        answer = self.got[0]
        assert isinstance(answer, dict)
        return answer


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.mark.parametrize(
    ("asked", "used"),
    [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2024-11-05", "2024-11-05"),
        ("2099-01-01", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
    ],
)
def test_the_handshake_takes_the_clients_version_or_offers_the_newest(
    client: Client, asked: str, used: str
) -> None:
    """MCP 2025-11-25, lifecycle, version negotiation."""
    answer = client.ask("initialize", {"protocolVersion": asked, "capabilities": {}})
    result = answer["result"]
    assert isinstance(result, dict) and result["protocolVersion"] == used
    assert result["capabilities"] == {"tools": {}} and result["instructions"]
    assert "resultType" not in result and "_meta" not in result


def test_the_probe_is_answered_in_the_envelope_generation(client: Client) -> None:
    """Claude Code 2.1.332 begins with it; answered, no handshake follows."""
    answer = client.ask("server/discover", {"_meta": ENVELOPE}, id="server-discover-probe-1")
    result = answer["result"]
    assert answer["id"] == "server-discover-probe-1" and isinstance(result, dict)
    assert result["resultType"] == "complete" and result["supportedVersions"] == ["2026-07-28"]
    assert result["cacheScope"] == "private" and result["ttlMs"] >= 0
    meta = result["_meta"]
    assert isinstance(meta, dict)
    assert meta["io.modelcontextprotocol/serverInfo"]["name"] == "openmem"


def test_a_client_that_probes_and_then_shakes_hands_is_served_in_both(client: Client) -> None:
    """Captured: Claude Code sends `initialize` when its probe is answered late."""
    client.ask("server/discover", {"_meta": ENVELOPE})
    client.ask("initialize", {"protocolVersion": "2025-11-25"})
    client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    old = client.ask("tools/list")["result"]
    new = client.ask("tools/list", {"_meta": ENVELOPE})["result"]
    assert isinstance(old, dict) and isinstance(new, dict)
    assert old["tools"] == new["tools"]
    assert set(old) == {"tools"}
    assert set(new) == {"tools", "resultType", "ttlMs", "cacheScope", "_meta"}


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        ({VERSION_KEY: "2027-01-01", CAPABILITIES_KEY: {}}, -32022),
        ({VERSION_KEY: "2025-11-25", CAPABILITIES_KEY: {}}, -32022),
        ({VERSION_KEY: 7, CAPABILITIES_KEY: {}}, -32602),
        ({VERSION_KEY: "2026-07-28"}, -32602),
        ({}, -32602),
    ],
)
def test_an_envelope_that_is_not_whole_is_refused_with_its_reason(
    client: Client, meta: Json, code: int
) -> None:
    """MCP 2026-07-28, UnsupportedProtocolVersionError and required `_meta` keys."""
    error = client.ask("server/discover", {"_meta": meta})["error"]
    assert isinstance(error, dict) and error["code"] == code
    if code == -32022:
        assert error["data"]["supported"] == ["2026-07-28"]


def test_a_tools_text_comes_as_text_and_nothing_else(client: Client) -> None:
    """Facts, agents section 2: structured content would hide the text."""
    answer = client.ask("tools/call", {"name": "echo", "arguments": {"text": "a\n b"}})
    assert answer["result"] == {"content": [{"type": "text", "text": "a\n b"}]}


def test_a_fault_of_ours_is_a_result_that_holds_no_content(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    """House style, errors: no stack trace, no content; the session goes on."""
    answer = client.ask("tools/call", {"name": "fail", "arguments": {"text": "secret"}})
    result = answer["result"]
    assert isinstance(result, dict) and result["isError"] is True
    text = result["content"][0]["text"]
    assert "KeyError" in text and "secret" not in text
    assert "secret" not in capsys.readouterr().err
    assert client.ask("ping")["result"] == {}


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"name": "echo", "arguments": {}}, "text is missing"),
        ({"name": "echo", "arguments": {"text": ["a"]}}, "text is list, expected text"),
        ({"name": "echo", "arguments": {"txt": "a"}}, "no argument 'txt'; there are text"),
    ],
)
def test_a_wrong_argument_is_an_answer_the_model_can_read(
    client: Client, params: Json, said: str
) -> None:
    """MCP, tools: errors of a tool belong into the result, so that the model corrects itself."""
    result = client.ask("tools/call", params)["result"]
    assert isinstance(result, dict) and result["isError"] is True
    assert said in result["content"][0]["text"]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{", -32700),
        (b"\xff\xfe", -32700),
        (b"[" * 100_000, -32700),
        (b"9" * 5_000, -32700),
        (b'"text"', -32600),
        (b"[]", -32600),
        (b'{"id": 1, "method": "ping"}', -32600),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1}', -32600),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "resources/list"}', -32601),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "no"}}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call"}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"cursor": "x"}}', -32602),
    ],
)
def test_a_broken_message_gets_its_error_and_the_next_is_answered(
    client: Client, line: bytes, code: int
) -> None:
    """JSON-RPC 2.0, error codes."""
    client.server.handle_line(line)
    error = client.only()["error"]
    assert isinstance(error, dict) and error["code"] == code
    assert client.ask("ping", id="next")["id"] == "next"


def test_a_line_that_is_too_long_is_said_and_survived(client: Client) -> None:
    """Ours."""
    client.server.handle_line(TooLong())
    assert client.only()["id"] is None
    assert client.ask("ping")["result"] == {}


@pytest.mark.parametrize(
    "value",
    [
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "notifications/unheard/of", "params": {"a": 1}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": []}},
        {"jsonrpc": "2.0", "id": 5, "result": {}},
        {"jsonrpc": "2.0", "id": 5, "error": {"code": 1, "message": ""}},
    ],
)
def test_what_asks_for_nothing_gets_nothing(client: Client, value: Json) -> None:
    """JSON-RPC 2.0: notifications and responses are not answered."""
    client.send(value)
    client.server.handle_line(b"  ")
    assert client.ask("ping", id=2)["id"] == 2
    assert len(client.got) == 1


def test_a_call_that_runs_keeps_nobody_waiting_and_can_be_cancelled(client: Client) -> None:
    """MCP, cancellation: OpenCode sends it when the person stops the run."""
    client.is_open.clear()
    call: Json = {"name": "echo", "arguments": {"text": "late"}}
    client.send({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": call})
    assert client.began.wait(WAIT_SECONDS)
    assert client.ask("ping", id=8)["id"] == 8
    again = client.ask("tools/call", call, id=7)
    assert again["error"] == {"code": -32600, "message": "a request with this id is running"}
    cancelled: Json = {"requestId": 7, "reason": "AbortError"}
    client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled})
    client.is_open.set()
    client.server.finish(WAIT_SECONDS)
    assert client.ask("tools/call", call, id=9)["id"] == 9
    assert [message["id"] for message in client.got if isinstance(message, dict)] == [8, 7, 9]


def test_more_calls_than_run_at_once_are_all_answered(client: Client) -> None:
    """Ours: an agent may call many tools in one turn."""
    client.is_open.clear()
    for number in range(30):
        params = {"name": "echo", "arguments": {"text": str(number)}}
        client.send({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
    client.is_open.set()
    client.wait_for(lambda: len(client.got) == 30)
    texts = {
        message["id"]: message["result"]["content"][0]["text"]
        for message in client.got
        if isinstance(message, dict)
    }
    assert texts == {number: str(number) for number in range(30)}


def test_a_batch_is_answered_by_one_batch(client: Client) -> None:
    """MCP 2025-03-26 had batches; JSON-RPC 2.0, section 6."""
    call: Json = {"name": "echo", "arguments": {"text": "x"}}
    client.send(
        [
            {"jsonrpc": "2.0", "id": 1, "method": "ping"},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call},
            7,
        ]
    )
    (answers,) = [client.wait_for(lambda: client.got and client.got[0])]
    assert isinstance(answers, list)
    assert sorted(str(answer["id"]) for answer in answers) == ["1", "2", "None"]


def test_a_batch_of_notifications_is_not_answered(client: Client) -> None:
    """JSON-RPC 2.0, section 6."""
    client.send([{"jsonrpc": "2.0", "method": "notifications/initialized"}] * 2)
    assert client.ask("ping", id=3)["id"] == 3


def test_a_subscription_is_acknowledged_and_grants_nothing(client: Client) -> None:
    """MCP 2026-07-28, subscriptions/listen: acknowledged first; our lists never change."""
    asked: Json = {"notifications": {"toolsListChanged": True}, "_meta": ENVELOPE}
    answer = client.ask("subscriptions/listen", asked, id="listen:0")
    assert answer["method"] == "notifications/subscriptions/acknowledged"
    assert answer["params"] == {
        "notifications": {},
        "_meta": {"io.modelcontextprotocol/subscriptionId": "listen:0"},
    }
    error = client.ask("subscriptions/listen", {"notifications": {}})["error"]
    assert isinstance(error, dict) and error["code"] == -32601


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["jsonrpc", "id", "method", "params", "name", "arguments", "_meta",
                         VERSION_KEY, "x"]) , inner | st.sampled_from(["2.0", "tools/call", "ping",
                         "tools/list", "initialize", "server/discover", "echo"]), max_size=5),
    max_leaves=12,
)  # fmt: skip


@given(_JSON)
def test_no_message_whatever_raises_out_of_the_server(value: object) -> None:
    """Ours: one odd line must not end the tools of a whole session."""
    client = Client()
    client.send(value)
    client.server.finish(WAIT_SECONDS)
    assert client.ask("ping", id="after")["result"] == {}
