"""A stack's files as a plan: private, made once, never over a person's changes."""

from __future__ import annotations

import itertools
import json
import os
import stat
from pathlib import Path

import pytest

from openmem.base.errors import Refused, Usage
from openmem.base.paths import Paths
from openmem.memory.providers.server import address_of
from openmem.plan.action import Plan, WriteFile, plan_of
from openmem.plan.apply import apply
from openmem.plan.diff import described
from openmem.plan.saved import plan_from_json, plan_to_json
from openmem.plan.system import RealSystem
from openmem.stack.plan import SERVICES, Wanted, folder_of, plan_stack
from openmem.stack.render import env_text, env_values, is_as_rendered
from openmem.stack.route import APIS, Route, env_of, from_inside, problem_of

KEY = "model-key-0123456789abcdef-XYZ"
ROUTE = Route(url="http://localhost:9999/v1", name="small", key=KEY)
each = pytest.mark.parametrize("provider", SERVICES)


@pytest.fixture
def paths(home: Path) -> Paths:
    return Paths(os.environ)


@pytest.fixture
def system(paths: Paths) -> RealSystem:
    return RealSystem(paths.environ)


def planned(system: RealSystem, paths: Paths, wanted: Wanted) -> Plan:
    return plan_of(plan_stack(system, paths, wanted))


def wanted(provider: str, **more: object) -> Wanted:
    values = {"port": 18_888, "route": ROUTE, "key_reference": "env:MODEL_KEY", **more}
    return Wanted(provider=provider, **values)  # type: ignore[arg-type]


def files(paths: Paths, provider: str) -> dict[str, str]:
    folder = Path(folder_of(paths, provider))
    return {path.name: path.read_text() for path in sorted(folder.iterdir())}


@each
def test_planning_again_after_applying_gives_nothing(
    system: RealSystem, paths: Paths, provider: str
) -> None:
    """Design, section 4: plan(apply(plan)) is empty. Secrets are made once."""
    apply(planned(system, paths, wanted(provider)), system, paths, label="test")
    assert planned(system, paths, wanted(provider)).is_empty


@each
def test_secrets_stand_in_private_files_and_in_no_rendering(
    system: RealSystem, paths: Paths, provider: str
) -> None:
    """Issue 6, part 1: generated secrets (0600), no secret in a compose file."""
    plan = planned(system, paths, wanted(provider))
    known = {s.text for a in plan.actions if isinstance(a, WriteFile) for s in a.secrets}
    shown = json.dumps(described(plan, system))
    assert KEY in known and len(known) >= 2 and not any(secret in shown for secret in known)
    apply(plan, system, paths, label="test")
    for path in Path(folder_of(paths, provider)).iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
        if path.suffix == ".yaml":
            assert not any(secret in path.read_text() for secret in known)
    key = files(paths, provider)["key"].strip()
    assert key in known and address_of(provider, paths).key == key


@each
def test_a_saved_plan_holds_no_secret_and_still_applies(
    system: RealSystem, paths: Paths, provider: str
) -> None:
    """Design, section 4: a saved plan holds references to secrets, never values."""
    environ = {**os.environ, "MODEL_KEY": KEY}
    system = RealSystem(environ)
    plan = planned(system, paths, wanted(provider))
    text = plan_to_json(plan, system)
    known = {s.text for a in plan.actions if isinstance(a, WriteFile) for s in a.secrets}
    assert not any(secret in text for secret in known)
    apply(plan_from_json(text, system, path="plan.json"), system, paths, label="test")
    found = files(paths, provider)
    key = found["key"].strip()
    assert len(key) >= 32 and key in found[f"{provider}.env"] and KEY in found[f"{provider}.env"]
    if provider == "mem0":
        inner = env_values(found["postgres.env"])["POSTGRES_PASSWORD"]
        assert inner == env_values(found["mem0.env"])["POSTGRES_PASSWORD"]
    assert planned(system, paths, wanted(provider)).is_empty


@each
def test_a_compose_file_that_a_person_changed_is_refused(
    system: RealSystem, paths: Paths, provider: str
) -> None:
    """Issue 6, bad input: a compose file that the person edited."""
    apply(planned(system, paths, wanted(provider)), system, paths, label="test")
    compose = Path(folder_of(paths, provider), "compose.yaml")
    assert is_as_rendered(compose.read_text())
    changed = compose.read_text().replace("mem_limit: 4g", "mem_limit: 9g") + "# mine\n"
    compose.write_text(changed)
    with pytest.raises(Refused, match="changed by hand") as raised:
        planned(system, paths, wanted(provider, port=18_889))
    assert "compose.override.yaml" in raised.value.hint and compose.read_text() == changed


def test_lines_that_a_person_added_to_an_env_file_stay(system: RealSystem, paths: Paths) -> None:
    """Ours: there are more settings than we know."""
    apply(planned(system, paths, wanted("hindsight")), system, paths, label="test")
    env = Path(folder_of(paths, "hindsight"), "hindsight.env")
    env.write_text(env.read_text() + "MY_OWN=1\n")
    other = wanted("hindsight", route=Route(url="http://models:1/v1", name="big", key=KEY))
    apply(planned(system, paths, other), system, paths, label="test")
    values = env_values(env.read_text())
    assert values["MY_OWN"] == "1" and values["HINDSIGHT_API_LLM_MODEL"] == "big"


def test_a_key_that_is_nowhere_now_is_kept(system: RealSystem, paths: Paths) -> None:
    """Ours: the next shell need not have the variable."""
    apply(planned(system, paths, wanted("mem0")), system, paths, label="test")
    without = Route(url=ROUTE.url, name=ROUTE.name)
    assert planned(system, paths, wanted("mem0", route=without, keeps_key=True)).is_empty


def test_litellm_stands_between_with_a_key_of_its_own(system: RealSystem, paths: Paths) -> None:
    """Issue 6, part 1: an optional LiteLLM service."""
    both = wanted("hindsight", litellm_port=14_000)
    apply(planned(system, paths, both), system, paths, label="test")
    found = files(paths, "hindsight")
    env = env_values(found["hindsight.env"])
    assert env["HINDSIGHT_API_LLM_BASE_URL"] == "http://litellm:4000/v1"
    assert KEY not in found["hindsight.env"] and KEY in found["litellm.env"]
    assert KEY not in found["litellm.yaml"] and "host.docker.internal:9999" in found["litellm.yaml"]
    assert planned(system, paths, both).is_empty
    apply(planned(system, paths, wanted("hindsight")), system, paths, label="test")
    assert not any(name.startswith("litellm") for name in files(paths, "hindsight"))


@pytest.mark.parametrize(("provider", "api"), list(itertools.product(SERVICES, APIS)))
def test_every_route_is_told_in_the_providers_words(provider: str, api: str) -> None:
    """Issue 6: OpenAI-compatible, Anthropic, Ollama, LiteLLM, lemonade."""
    route = Route(api=api, name="m", key=KEY, embeddings_url="http://vectors/v1")
    if provider == "mem0":
        if api == "anthropic":
            with pytest.raises(Usage, match="OpenAI's kind"):
                env_of(provider, route)
            return
        route = Route(api=api, name="m", key=KEY)
    values = env_of(provider, route)
    assert KEY in values.values() and any(value.endswith("m") for value in values.values())
    assert not any("localhost" in value for value in values.values())


@pytest.mark.parametrize(
    ("url", "inside"),
    [
        ("http://localhost:11434/v1/", "http://host.docker.internal:11434/v1"),
        ("http://127.0.0.1:1", "http://host.docker.internal:1"),
        ("https://models.example/v1", "https://models.example/v1"),
    ],
)
def test_this_machine_has_another_name_inside_a_container(url: str, inside: str) -> None:
    """Users' report 46: `localhost` is the container itself."""
    assert from_inside(url) == inside


def test_what_a_provider_lacks_is_said() -> None:
    """Issue 6: warns where a route is missing."""
    assert "embeddings" in problem_of("hindsight", Route())
    assert "embeddings" in problem_of("hindsight", Route(api="anthropic", name="m", key=KEY))
    assert problem_of("hindsight", Route(key=KEY)) == ""
    assert "--model" in problem_of("cognee", Route(key=KEY))


@pytest.mark.parametrize("value", ["plain", "with space", "do$llar", 'quo"te', "#hash", "a=b"])
def test_a_value_in_an_env_file_is_read_as_it_was(value: str) -> None:
    """Ours: compose expands `$` where nothing quotes it."""
    text = env_text("postgres", {"POSTGRES_PASSWORD": value}, None)
    assert env_values(text)["POSTGRES_PASSWORD"] == value
    if "$" in value:
        assert f"'{value}'" in text


def test_a_value_that_cannot_be_quoted_is_refused() -> None:
    """Issue 6, bad input."""
    with pytest.raises(Usage, match="POSTGRES_PASSWORD") as raised:
        env_text("postgres", {"POSTGRES_PASSWORD": "it's\nsecret"}, None)
    assert "secret" not in str(raised.value)
