"""Options that mean the same wherever they occur."""

from __future__ import annotations

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON envelope on stdout.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", "-n", help="Show what would change; write nothing.")
]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Take the defaults shown and do not ask to go on.")
]
YesForGood = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask: what would be shown goes for good.")
]
Session = Annotated[
    str, typer.Option("--session", help="This session; the start of its id will do.")
]
Bank = Annotated[
    str, typer.Option("--bank", help="A bank; this folder's when left out.", show_default=False)
]
Diff = Annotated[bool, typer.Option("--diff", help="Show every byte that changes.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]

# One for each question of setup; `tests/setup/test_flags.py` compares them with the questions.
Provider = Annotated[
    str | None,
    typer.Option(
        "--provider",
        help="Where memories live: local (embedded, no server, no key), hindsight, mem0 or cognee. "
        "Planned: graphiti, letta, zep.",
    ),
]
ProviderUrl = Annotated[
    str | None,
    typer.Option(
        "--provider-url",
        help="Address of a provider that runs already; left out: openmem runs one in containers.",
    ),
]
ProviderKeyFile = Annotated[
    str | None,
    typer.Option(
        "--provider-key-file",
        help="File with the key of a provider that runs elsewhere; never the key itself.",
    ),
]
ProviderUser = Annotated[
    str | None,
    typer.Option(
        "--provider-user",
        help="Who logs in to a Cognee that runs elsewhere, its key being the password.",
    ),
]
ProviderCaFile = Annotated[
    str | None,
    typer.Option(
        "--provider-ca-file",
        help="Authorities (PEM) that vouch for the certificate of a provider elsewhere.",
    ),
]
ProviderPort = Annotated[
    int | None,
    typer.Option(
        "--provider-port",
        help="Port of the provider's stack on 127.0.0.1; the next free one when it is taken.",
    ),
]
ModelApi = Annotated[
    str | None,
    typer.Option(
        "--model-api",
        help="What the model of the provider's stack speaks; openai is everything compatible.",
    ),
]
ModelUrl = Annotated[
    str | None,
    typer.Option(
        "--model-url",
        help="Where the model is; left out: the API's own address.",
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="The model's name; left out: no model, and texts are kept as they are.",
    ),
]
ModelKeyEnv = Annotated[
    str | None,
    typer.Option(
        "--model-key-env",
        help="Environment variable with the model's key; never the key itself.",
    ),
]
ModelKeyFile = Annotated[
    str | None,
    typer.Option(
        "--model-key-file",
        help="File with the model's key; - asks for it, unseen. Never the key itself.",
    ),
]
EmbeddingsUrl = Annotated[
    str | None,
    typer.Option(
        "--embeddings-url",
        help="Where embeddings come from; left out: from the model's address.",
    ),
]
Embeddings = Annotated[
    str | None,
    typer.Option(
        "--embeddings",
        help="The model that makes embeddings.",
    ),
]
EmbeddingsDimensions = Annotated[
    int | None,
    typer.Option(
        "--embeddings-dimensions",
        help="How many numbers an embedding has; fixed once memories are stored.",
    ),
]
Litellm = Annotated[
    bool | None,
    typer.Option(
        "--litellm/--no-litellm",
        help="Run LiteLLM beside the provider, for its routing between models.",
        show_default=False,
    ),
]
Infer = Annotated[
    bool | None,
    typer.Option(
        "--infer/--no-infer",
        help="Let mem0's model draw facts out of each text; else texts are kept as they are.",
        show_default=False,
    ),
]
Agents = Annotated[
    list[str] | None,
    typer.Option("--agent", help="Wire this agent; may be repeated. Left out: all that are found."),
]
Without = Annotated[
    list[str] | None, typer.Option("--without", help="Leave this agent out; may be repeated.")
]
ProviderPlugin = Annotated[
    bool | None,
    typer.Option(
        "--provider-plugin/--no-provider-plugin",
        help="Let the provider's own plug-in take the place of openmem's hooks; MCP stays.",
        show_default=False,
    ),
]
Hooks = Annotated[
    bool | None,
    typer.Option(
        "--hooks/--no-hooks",
        help="Install the hooks that tell openmem of a session and its folder.",
        show_default=False,
    ),
]
TrustHooks = Annotated[
    bool | None,
    typer.Option(
        "--trust-hooks/--no-trust-hooks",
        help="Mark openmem's own hooks as trusted in Codex, which else passes them over.",
        show_default=False,
    ),
]
Mcp = Annotated[
    bool | None,
    typer.Option(
        "--mcp/--no-mcp",
        help="Give the agents the search tools, as an MCP server.",
        show_default=False,
    ),
]
Skill = Annotated[
    bool | None,
    typer.Option(
        "--skill/--no-skill",
        help="Give the agents the skill that says when to use these tools.",
        show_default=False,
    ),
]
AllowTools = Annotated[
    bool | None,
    typer.Option(
        "--allow-tools/--no-allow-tools",
        help="Let agents call openmem's tools without asking each time; what erases still asks.",
        show_default=False,
    ),
]
KeepSessions = Annotated[
    int | None,
    typer.Option(
        "--keep-sessions",
        help="Days that Claude Code keeps its own session files; it deletes older ones.",
        show_default=False,
    ),
]
Proxy = Annotated[
    bool | None,
    typer.Option(
        "--proxy/--no-proxy",
        help="Run the recording proxy and send the wired agents through it.",
        show_default=False,
    ),
]
Port = Annotated[
    int | None,
    typer.Option(
        "--port", help="Port of the proxy on 127.0.0.1; the next free one when it is taken."
    ),
]
Upstream = Annotated[
    str | None,
    typer.Option(
        "--upstream",
        help="Where Claude Code's requests go on to; the address in force if left out.",
    ),
]
Service = Annotated[
    bool | None,
    typer.Option(
        "--service/--no-service",
        help="Keep the proxy with the user's service manager; else a process of our own does.",
        show_default=False,
    ),
]
StoreGit = Annotated[
    bool | None,
    typer.Option(
        "--store-git/--no-store-git",
        help="Store, recall and retain sessions in git repositories.",
        show_default=False,
    ),
]
StoreOther = Annotated[
    bool | None,
    typer.Option(
        "--store-other/--no-store-other",
        help="Store, recall and retain sessions in every other folder.",
        show_default=False,
    ),
]
SaveAnswers = Annotated[
    str | None,
    typer.Option("--save-answers", help="Write the answers to a file that --answers reads."),
]
AnswersFile = Annotated[
    str | None, typer.Option("--answers", help="A TOML file of answers; flags win over it.")
]
