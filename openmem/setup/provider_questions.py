"""What is asked about the provider: its server, or the model of the stack that openmem runs.

Trap: a key is never an answer; only where it is found is one.
"""

from __future__ import annotations

import os

from openmem.setup.facts import Facts
from openmem.setup.question import Answer, Answers, Question, check_port, check_url
from openmem.stack.route import APIS, UPSTREAM_DIMENSIONS, USUAL_URLS


def _has_server(facts: Facts, answers: Answers) -> bool:
    return str(answers.get("provider", facts.provider)) != "local"


def _is_elsewhere(facts: Facts, answers: Answers) -> bool:
    return _has_server(facts, answers) and bool(answers.get("provider_url"))


def _is_own(facts: Facts, answers: Answers) -> bool:
    return _has_server(facts, answers) and not answers.get("provider_url")


def _is_never_asked(facts: Facts, answers: Answers) -> bool:
    return False


def _has_model(facts: Facts, answers: Answers) -> bool:
    return _is_own(facts, answers) and bool(answers.get("model") or answers.get("model_url"))


def _url_or_nothing(value: Answer) -> str:
    return check_url(value) if value else ""


def _file_or_nothing(value: Answer) -> str:
    """Complain of a file that is not there: a key that is not found means "no key" later on."""
    path = os.path.expanduser(str(value))
    if not value or os.path.isfile(path):
        return "" if not value or os.access(path, os.R_OK) else "expected a file that can be read"
    return "expected a file that is there"


def _name_of_variable(value: Answer) -> str:
    return "" if not value or str(value).isidentifier() else "expected the name of a variable"


def _dimensions(value: Answer) -> str:
    is_right = isinstance(value, int) and 8 <= value <= 16384
    return "" if is_right else "expected 8 to 16384"


def _key_part(facts: Facts, kind: str) -> str:
    found, _, place = str(facts.setting("model.key")).partition(":")
    return place if found == kind else ""


def _port(facts: Facts, answers: Answers) -> Answer:
    return facts.provider_ports.get(str(answers.get("provider", facts.provider)), 0)


def _usual_url(facts: Facts, answers: Answers) -> Answer:
    held = str(facts.setting("model.url"))
    same = answers.get("model_api") == facts.setting("model.api")
    return held if held and same else USUAL_URLS[str(answers.get("model_api", "openai"))]


PROVIDER_QUESTIONS: tuple[Question, ...] = (
    Question(
        name="provider_url",
        kind="text",
        flag="--provider-url",
        ask="Where does it already run? (empty: openmem runs it here, in containers)",
        help="Address of a provider that runs already; left out: openmem runs one in containers.",
        default=lambda facts: str(facts.setting("server.url")),
        when=_has_server,
        check=_url_or_nothing,
    ),
    Question(
        name="provider_key_file",
        kind="text",
        flag="--provider-key-file",
        ask="Which file holds its key? (empty: it needs none)",
        help="File with the key of a provider that runs elsewhere; never the key itself.",
        default=lambda facts: str(facts.setting("server.key_file")),
        when=_is_elsewhere,
        check=_file_or_nothing,
    ),
    Question(
        name="provider_user",
        kind="text",
        flag="--provider-user",
        ask="Who logs in, if the key is a password? (empty: it is a key of its API)",
        help="Who logs in to a Cognee that runs elsewhere, its key being the password.",
        default=lambda facts: str(facts.setting("server.user")),
        when=lambda facts, answers: (
            _is_elsewhere(facts, answers) and answers.get("provider") == "cognee"
        ),
    ),
    Question(
        name="provider_ca_file",
        kind="text",
        flag="--provider-ca-file",
        ask="Which authorities vouch for its certificate? (empty: the system's)",
        help="Authorities (PEM) that vouch for the certificate of a provider elsewhere.",
        default=lambda facts: str(facts.setting("server.ca_file")),
        when=lambda facts, answers: (
            _is_elsewhere(facts, answers)
            and str(answers.get("provider_url")).lower().startswith("https:")
        ),
        check=_file_or_nothing,
    ),
    Question(
        name="provider_port",
        kind="int",
        flag="--provider-port",
        ask="On which port of 127.0.0.1 does it listen?",
        help="Port of the provider's stack on 127.0.0.1; the next free one when it is taken.",
        default=lambda facts: facts.provider_ports.get(facts.provider, 0),
        default_after=_port,
        when=_is_own,
        check=check_port,
    ),
    Question(
        name="model_api",
        kind="choice",
        flag="--model-api",
        ask="What does the provider's model speak?",
        help="What the model of the provider's stack speaks; openai is everything compatible.",
        default=lambda facts: str(facts.setting("model.api") or "openai"),
        choices=lambda facts: APIS,
        when=_is_own,
    ),
    Question(
        name="model_url",
        kind="text",
        flag="--model-url",
        ask="Where is the model? (empty: the API's own address, or no model)",
        help="Where the model is; left out: the API's own address.",
        default=lambda facts: str(facts.setting("model.url")),
        default_after=_usual_url,
        when=_is_own,
        check=_url_or_nothing,
    ),
    Question(
        name="model",
        kind="text",
        flag="--model",
        ask="What is the model called? (empty: no model; texts are kept as they are)",
        help="The model's name; left out: no model, and texts are kept as they are.",
        default=lambda facts: str(facts.setting("model.name")),
        when=_is_own,
    ),
    Question(
        name="model_key_env",
        kind="text",
        flag="--model-key-env",
        ask="Which environment variable holds the model's key? (empty: none)",
        help="Environment variable with the model's key; never the key itself.",
        default=lambda facts: _key_part(facts, "env"),
        when=lambda facts, answers: _is_own(facts, answers) and not answers.get("model_key_file"),
        check=_name_of_variable,
    ),
    Question(
        name="model_key_file",
        kind="text",
        flag="--model-key-file",
        ask="Which file holds it? (-: type it now, unseen; empty: it needs none)",
        help="File with the model's key; - asks for it, unseen. Never the key itself.",
        default=lambda facts: _key_part(facts, "file"),
        when=lambda facts, answers: _is_own(facts, answers) and not answers.get("model_key_env"),
    ),
    Question(
        name="embeddings_url",
        kind="text",
        flag="--embeddings-url",
        ask="Where do embeddings come from? (empty: from the model's address)",
        help="Where embeddings come from; left out: from the model's address.",
        default=lambda facts: str(facts.setting("embeddings.url")),
        when=lambda facts, answers: (
            _is_own(facts, answers) and answers.get("model_api") == "anthropic"
        ),
        check=_url_or_nothing,
    ),
    Question(
        name="embeddings",
        kind="text",
        flag="--embeddings",
        ask="Which model makes embeddings?",
        help="The model that makes embeddings.",
        default=lambda facts: str(facts.setting("embeddings.name") or "text-embedding-3-small"),
        when=_has_model,
    ),
    Question(
        name="embeddings_dimensions",
        kind="int",
        flag="--embeddings-dimensions",
        ask="How many numbers has an embedding?",
        help="How many numbers an embedding has; fixed once memories are stored.",
        default=lambda facts: int(
            str(facts.setting("embeddings.dimensions") or UPSTREAM_DIMENSIONS)
        ),
        when=_is_never_asked,
        check=_dimensions,
    ),
    Question(
        name="litellm",
        kind="bool",
        flag="--litellm/--no-litellm",
        ask="Run LiteLLM beside it, between the provider and the model?",
        help="Run LiteLLM beside the provider, for its routing between models.",
        default=lambda facts: bool(facts.setting("server.litellm_port")),
        when=_is_never_asked,
    ),
    Question(
        name="infer",
        kind="bool",
        flag="--infer/--no-infer",
        ask="Let mem0's model draw facts out of each text? (no: texts are kept as they are)",
        help="Let mem0's model draw facts out of each text; else texts are kept as they are.",
        default=lambda facts: facts.setting("server.infer") is True,
        when=lambda facts, answers: (
            answers.get("provider", facts.provider) == "mem0"
            and bool(answers.get("provider_url") or answers.get("model"))
        ),
    ),
)
