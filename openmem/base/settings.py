"""The settings themselves, as data: name, kind, default, limits and what a person reads.

The reference page, `config show`, the environment variables and the checks of `config.py` all
follow from this table, so that a setting is declared in one place.
"""

from __future__ import annotations

from collections.abc import Mapping

from openmem.base.light import dataclass

Value = bool | int | float | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting. `kind`: bool, int, float, str, or choice (then `choices` holds the words).

    `narrows`: how a project file may change it: "off" (true to false), "lower", or "" (never).
    """

    name: str
    kind: str
    default: Value
    help: str
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    narrows: str = ""

    @property
    def variable(self) -> str:
        """The environment variable: `proxy.port` is `OPENMEM_PROXY_PORT`."""
        return "OPENMEM_" + self.name.replace(".", "_").upper()


SETTINGS: tuple[Setting, ...] = (
    Setting(
        name="provider",
        kind="choice",
        default="local",
        choices=("local", "hindsight", "mem0", "cognee"),
        help="Where memories live.",
    ),
    Setting(
        name="server.url",
        kind="str",
        default="",
        help="Address of the provider's server; empty: the stack that openmem runs here.",
    ),
    Setting(
        name="server.port",
        kind="int",
        default=0,
        minimum=0,
        maximum=65535,
        help="Port of openmem's own stack on 127.0.0.1; 0: the provider's usual one.",
    ),
    Setting(
        name="server.key_file",
        kind="str",
        default="",
        help="File with the provider's key; empty: the one that was made for openmem's own stack.",
    ),
    Setting(
        name="server.user",
        kind="str",
        default="",
        help="Who logs in to Cognee, the key being the password; empty: the key is one of its API.",
    ),
    Setting(
        name="server.ca_file",
        kind="str",
        default="",
        help="Authorities (PEM) that vouch for the server's certificate; empty: the system's.",
    ),
    Setting(
        name="server.timeout_seconds",
        kind="float",
        default=30.0,
        minimum=1,
        maximum=600,
        help="What a call to the provider's server may take.",
    ),
    Setting(
        name="server.litellm_port",
        kind="int",
        default=0,
        minimum=0,
        maximum=65535,
        help="Port of the LiteLLM beside openmem's own stack on 127.0.0.1; 0: there is none.",
    ),
    Setting(
        name="server.infer",
        kind="bool",
        default=False,
        help="Let mem0's model draw facts out of each text; else texts are kept as they are.",
    ),
    Setting(
        name="model.api",
        kind="choice",
        default="openai",
        choices=("openai", "anthropic", "ollama", "litellm", "lemonade"),
        help="What the model of the provider's stack speaks.",
    ),
    Setting(
        name="model.url",
        kind="str",
        default="",
        help="Where that model is; empty: the API's own address, or no model.",
    ),
    Setting(
        name="model.name",
        kind="str",
        default="",
        help="Its name; empty: no model, and the provider keeps texts as they are if it can.",
    ),
    Setting(
        name="model.key",
        kind="str",
        default="",
        help="Where its key is found: env:NAME or file:PATH; empty: it needs none. Never the key.",
    ),
    Setting(
        name="embeddings.url",
        kind="str",
        default="",
        help="Where embeddings come from, if not from the model's address.",
    ),
    Setting(
        name="embeddings.name",
        kind="str",
        default="text-embedding-3-small",
        help="The model that makes embeddings.",
    ),
    Setting(
        name="embeddings.dimensions",
        kind="int",
        default=1536,
        minimum=8,
        maximum=16384,
        help="How many numbers an embedding has; it cannot be changed once memories are stored.",
    ),
    Setting(
        name="agents.integration",
        kind="choice",
        default="openmem",
        choices=("openmem", "provider"),
        help="Whose hooks the agents run: openmem's, or those of the provider's own plug-in.",
    ),
    Setting(
        name="agents.mcp",
        kind="choice",
        default="openmem",
        choices=("openmem", "provider"),
        help="Whose MCP server the agents have: openmem's, or the provider's own.",
    ),
    Setting(
        name="proxy.enabled",
        kind="bool",
        default=True,
        narrows="off",
        help="Route wired agents through the proxy.",
    ),
    Setting(
        name="proxy.port",
        kind="int",
        default=8913,
        minimum=1,
        maximum=65535,
        help="Port of the proxy on 127.0.0.1.",
    ),
    Setting(
        name="proxy.body_limit_mb",
        kind="int",
        default=64,
        minimum=1,
        maximum=1024,
        help="Largest decompressed request body that is read for recording, in MB.",
    ),
    Setting(
        name="context.ttl_days",
        kind="int",
        default=30,
        minimum=0,
        maximum=36500,
        narrows="lower",
        help="Days after its last use that a session is kept; 0 keeps all.",
    ),
    Setting(
        name="vectors.model",
        kind="str",
        default="",
        help="The model that makes vectors of stored rows; empty: none are made.",
    ),
    Setting(
        name="vectors.url",
        kind="str",
        default="http://127.0.0.1:11434/v1",
        help="Base address of the OpenAI-compatible API that serves it.",
    ),
    Setting(
        name="vectors.key",
        kind="str",
        default="",
        help="Where its key is found: env:NAME or file:PATH; empty: it needs none. Never the key.",
    ),
    Setting(
        name="vectors.timeout_seconds",
        kind="float",
        default=30.0,
        minimum=1,
        maximum=600,
        help="What a call may take for each row in it.",
    ),
    Setting(
        name="vectors.max_characters",
        kind="int",
        default=4_000,
        minimum=100,
        maximum=100_000,
        help="Characters of each row's head that are sent.",
    ),
    Setting(
        name="vectors.rank",
        kind="bool",
        default=False,
        narrows="off",
        help="Rank searches by words and vectors together; else only where it is asked for.",
    ),
    Setting(
        name="trim.enabled",
        kind="bool",
        default=True,
        narrows="off",
        help="Remove old turns from oversized requests, behind a pointer.",
    ),
    Setting(
        name="trim.soft_tokens",
        kind="int",
        default=0,
        minimum=0,
        maximum=10_000_000,
        help="Prompt tokens from which a new turn is trimmed; 0: the smaller of 100,000 and half "
        "the model's window.",
    ),
    Setting(
        name="trim.hard_tokens",
        kind="int",
        default=0,
        minimum=0,
        maximum=10_000_000,
        help="Prompt tokens from which a request is also trimmed inside a tool loop; 0: the "
        "smaller of 160,000 and 80 % of the window less the output reserve.",
    ),
    Setting(
        name="trim.to_fraction",
        kind="float",
        default=0.3,
        minimum=0.05,
        maximum=0.9,
        help="A trim goes down to this part of the soft threshold.",
    ),
    Setting(
        name="trim.compress_tokens",
        kind="int",
        default=4_000,
        minimum=0,
        maximum=1_000_000,
        help="Tool results above it are shortened when a trim happens; 0: never.",
    ),
    Setting(
        name="trim.keep_steps",
        kind="int",
        default=3,
        minimum=1,
        maximum=100,
        help="Newest tool steps that a trim inside a turn keeps whole.",
    ),
    Setting(
        name="trim.superseded",
        kind="bool",
        default=False,
        narrows="off",
        help="A trim also leaves out bodies of kept tool calls that a later call made worthless.",
    ),
    Setting(
        name="trim.clear_tool_uses",
        kind="bool",
        default=False,
        narrows="off",
        help="Also ask Anthropic's API to clear old tool results by itself from the soft threshold "
        "on, in requests that manage their context.",
    ),
    Setting(
        name="context.redact",
        kind="bool",
        default=True,
        help="Mask secrets before anything is stored.",
    ),
    Setting(
        name="context.price_file",
        kind="str",
        default="",
        help="A file with dollars per million tokens; without one no money is shown.",
    ),
    Setting(
        name="memory.recall",
        kind="bool",
        default=True,
        narrows="off",
        help="Tell agents what is remembered, at the start of a session and at prompts.",
    ),
    Setting(
        name="memory.start_tokens",
        kind="int",
        default=1_200,
        minimum=0,
        maximum=2_000,
        narrows="lower",
        help="At most so many tokens are recalled at the start of a session; 0: none.",
    ),
    Setting(
        name="memory.prompt_hits",
        kind="int",
        default=8,
        minimum=0,
        maximum=20,
        narrows="lower",
        help="At most so many memories are recalled at a prompt; 0: none.",
    ),
    Setting(
        name="memory.at_trim",
        kind="bool",
        default=False,
        narrows="off",
        help="Say beside the pointer of a trim what is remembered of the turn it stands at.",
    ),
    Setting(
        name="memory.keep_turns",
        kind="bool",
        default=True,
        narrows="off",
        help="Keep what was said when a turn ends, so that later sessions find it.",
    ),
    Setting(
        name="memory.passage_days",
        kind="int",
        default=90,
        minimum=0,
        maximum=36_500,
        narrows="lower",
        help="Days that kept turns are found; 0 keeps all.",
    ),
    Setting(
        name="memory.vectors",
        kind="bool",
        default=False,
        narrows="off",
        help="Make vectors of memories too, with vectors.model, and rank searches by both.",
    ),
    Setting(
        name="memory.reflect",
        kind="bool",
        default=False,
        narrows="off",
        help="Let memory_reflect ask the model that model.* names; else it gives the memories.",
    ),
    Setting(
        name="memory.reflect_with",
        kind="choice",
        default="model",
        choices=("model", "claude-code"),
        help="Who answers then: the model of model.*, or Claude Code's own command line, once.",
    ),
    Setting(
        name="memory.draw_statements",
        kind="bool",
        default=False,
        narrows="off",
        help="Let that model draw lasting facts out of each kept turn; they wait for review.",
    ),
    Setting(
        name="memory.daily_tokens",
        kind="int",
        default=100_000,
        minimum=0,
        maximum=100_000_000,
        narrows="lower",
        help="At most so many tokens a day are spent on that model.",
    ),
    Setting(
        name="mcp.tools",
        kind="choice",
        default="core",
        choices=("core", "full"),
        help="Which memory tools agents get: core is search, add, correct and forget.",
    ),
)

# Tables whose keys the person names; each is `<table>.<name>.<key>` and holds text.
FREE_TABLES: Mapping[str, tuple[str, ...]] = {"routes": ("upstream",)}
