"""The way to a model: what a stack's container is told about it.

Idea: five kinds of API come down to three that servers know; embeddings take the model's address
unless they have one of their own. Invariant: a key is a value handed in, never part of a setting.
Trap: `localhost` inside a container is the container; a model on this machine is reached by the
name of its host, and only if it listens on more than 127.0.0.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from openmem.base.errors import Usage

APIS = ("openai", "anthropic", "ollama", "litellm", "lemonade")
# Where each is when nothing else is said; "" is the API's own address.
USUAL_URLS = {
    "openai": "",
    "anthropic": "",
    "ollama": "http://localhost:11434/v1",
    "litellm": "http://localhost:4000/v1",
    "lemonade": "http://localhost:13305/api/v1",
}
HOST_NAME = "host.docker.internal"
_LOCAL = ("localhost", "127.0.0.1", "::1", "0.0.0.0")
UPSTREAM_DIMENSIONS = 1536


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A model and embeddings. `name`: "" for no model. `key`: "" when it needs none.

    `embeddings_url`: "" for the model's own.
    """

    api: str = "openai"
    url: str = ""
    name: str = ""
    key: str = ""
    embeddings_url: str = ""
    embeddings_name: str = "text-embedding-3-small"
    dimensions: int = UPSTREAM_DIMENSIONS

    @property
    def has_model(self) -> bool:
        return bool(self.name)

    @property
    def model_url(self) -> str:
        """Where a container finds the model, "" for the API's own address."""
        return from_inside(self.url or USUAL_URLS[self.api])

    @property
    def vectors_url(self) -> str:
        """Where a container finds embeddings, "" for OpenAI's own address."""
        if self.embeddings_url:
            return from_inside(self.embeddings_url)
        return "" if self.api == "anthropic" else self.model_url

    @property
    def vectors_key(self) -> str:
        return "" if self.api == "anthropic" else self.key

    @property
    def has_vectors(self) -> bool:
        """Whether embeddings can be had at all: an address, or a key for OpenAI's own."""
        return bool(self.vectors_url or self.vectors_key)


def from_inside(url: str) -> str:
    """Return an address as a container reaches it."""
    parts = urlsplit(url)
    if parts.hostname not in _LOCAL:
        return url.rstrip("/")
    port = f":{parts.port}" if parts.port else ""
    return urlunsplit((parts.scheme, HOST_NAME + port, parts.path.rstrip("/"), "", ""))


def is_local(url: str) -> bool:
    """Return whether an address is on this machine."""
    return urlsplit(url).hostname in _LOCAL


def env_of(provider: str, route: Route) -> dict[str, str]:
    """Return what the provider's env file says of the route. Usage when it cannot take it."""
    return {"hindsight": _hindsight, "mem0": _mem0, "cognee": _cognee}[provider](route)


def secrets_of(route: Route) -> tuple[str, ...]:
    return (route.key,) if route.key else ()


def _hindsight(route: Route) -> dict[str, str]:
    kind = {"anthropic": "anthropic", "ollama": "ollama"}.get(route.api, "openai")
    values = {
        "HINDSIGHT_API_LLM_PROVIDER": kind if route.has_model else "none",
        "HINDSIGHT_API_LLM_API_KEY": route.key if route.has_model else "",
        "HINDSIGHT_API_LLM_BASE_URL": route.model_url if route.has_model else "",
        "HINDSIGHT_API_LLM_MODEL": route.name,
        "HINDSIGHT_API_EMBEDDINGS_OPENAI_API_KEY": route.vectors_key or _NO_KEY,
        "HINDSIGHT_API_EMBEDDINGS_OPENAI_BASE_URL": route.vectors_url,
        "HINDSIGHT_API_EMBEDDINGS_OPENAI_MODEL": route.embeddings_name,
    }
    if route.dimensions != UPSTREAM_DIMENSIONS:
        values["HINDSIGHT_API_EMBEDDINGS_OPENAI_DIMENSIONS"] = str(route.dimensions)
    return values


# What servers want to see where a local model needs no key.
_NO_KEY = "none-needed"


def _mem0(route: Route) -> dict[str, str]:
    if route.api == "anthropic":
        raise Usage(
            "mem0's server takes a model of OpenAI's kind, for its embeddings too.",
            hint="Choose another: --model-api openai (also litellm, ollama, lemonade)",
        )
    if route.embeddings_url and from_inside(route.embeddings_url) != route.model_url:
        raise Usage(
            "mem0's server asks one address for both model and embeddings.",
            hint="Leave --embeddings-url out, or put both behind LiteLLM: --model-api litellm",
        )
    return {
        "OPENAI_API_KEY": route.key or _NO_KEY,
        "OPENAI_BASE_URL": route.model_url,
        "MEM0_DEFAULT_LLM_MODEL": route.name,
        "MEM0_DEFAULT_EMBEDDER_MODEL": route.embeddings_name,
    }


def _cognee(route: Route) -> dict[str, str]:
    kind = {"anthropic": "anthropic", "ollama": "ollama"}.get(route.api, "openai")
    name = route.name
    if name and kind == "openai" and "/" not in name:
        name = f"openai/{name}"
    elif name and kind == "anthropic" and "/" not in name:
        name = f"anthropic/{name}"
    vectors = route.vectors_url
    return {
        "LLM_PROVIDER": kind,
        "LLM_MODEL": name,
        "LLM_ENDPOINT": route.model_url,
        "LLM_API_KEY": route.key or _NO_KEY,
        "EMBEDDING_PROVIDER": "openai_compatible" if vectors else "openai",
        "EMBEDDING_MODEL": route.embeddings_name if vectors else f"openai/{route.embeddings_name}",
        "EMBEDDING_ENDPOINT": vectors,
        "EMBEDDING_API_KEY": route.vectors_key or _NO_KEY,
        "EMBEDDING_DIMENSIONS": str(route.dimensions),
    }


def problem_of(provider: str, route: Route) -> str:
    """Return what the provider lacks to work with this route, "" when it can."""
    if not route.has_vectors:
        return (
            f"{provider} needs embeddings: name a model's address (--model-url), a key for "
            "OpenAI's own (--model-key-env), or another address (--embeddings-url)."
        )
    if provider == "cognee" and not route.has_model:
        return "cognee needs a model to take texts in: name one (--model)."
    return ""
