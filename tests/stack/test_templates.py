"""Templates are valid as they stand, pinned, private, and hold no secret."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from openmem.base.assets import asset_path
from openmem.base.errors import Usage
from openmem.memory.providers.server import OWN_USER, USUAL_PORTS
from openmem.stack import pins as pins_module
from openmem.stack.pins import pins, repinned
from openmem.stack.plan import SERVICES
from openmem.stack.render import compose_text, env_values, port_in
from tests.stack.compose_schema import SCHEMA

TEMPLATES = Path(asset_path("templates"))
COMPOSE = sorted((TEMPLATES / "compose").glob("*.yaml"))
by_file = pytest.mark.parametrize("path", COMPOSE, ids=lambda path: path.stem)


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


@by_file
def test_a_compose_file_is_one_by_the_specification(path: Path) -> None:
    """Issue 6, part 1: named volumes, 127.0.0.1, healthchecks, restart, limits."""
    jsonschema.validate(read(path), SCHEMA)


@by_file
def test_every_image_and_source_is_pinned_in_the_one_table(path: Path) -> None:
    """Issue 6, part 1: version pins in one table."""
    references = {pin.reference for pin in pins().values()}
    for service in read(path)["services"].values():
        if "build" in service:
            assert service["build"]["context"].rpartition(":")[0] in references
        else:
            assert service["image"] in references


@by_file
def test_a_volume_that_is_used_is_declared_and_named(path: Path) -> None:
    """Users' report 46: named volumes, never a folder of the person's."""
    document = read(path)
    used = {v.split(":")[0] for s in document["services"].values() for v in s.get("volumes", ())}
    assert used == set(document.get("volumes", {}))


@pytest.mark.parametrize("provider", SERVICES)
def test_services_ports_and_env_files_are_what_the_program_thinks(provider: str) -> None:
    """Ours: two places must not part."""
    document = read(TEMPLATES / "compose" / f"{provider}.yaml")
    assert set(document["services"]) == set(SERVICES[provider])
    assert document["name"] == f"openmem-{provider}"
    assert port_in(compose_text(provider, USUAL_PORTS[provider])) == USUAL_PORTS[provider]
    for service in document["services"].values():
        for name in service["env_file"]:
            assert (TEMPLATES / "env" / name).is_file()


def test_no_template_holds_a_secret_and_telemetry_is_off() -> None:
    """Issue 6, part 1."""
    found: dict[str, dict[str, str]] = {}
    for path in (TEMPLATES / "env").glob("*.env"):
        found[path.stem] = env_values(path.read_text())
        for name, value in found[path.stem].items():
            if any(word in name for word in ("KEY", "SECRET", "PASSWORD")):
                assert value == "", name
    assert found["mem0"]["MEM0_TELEMETRY"] == "false"
    assert found["cognee"]["TELEMETRY_DISABLED"] == "1"
    assert found["hindsight"]["HINDSIGHT_API_WORKER_ID"] == "openmem"
    assert found["cognee"]["DEFAULT_USER_EMAIL"] == OWN_USER
    assert found["litellm"]["LITELLM_TELEMETRY"] == "False"


def test_a_pin_is_changed_in_table_and_templates_alike() -> None:
    """Issue 6, part 1: one table that a script can refresh."""
    table = (TEMPLATES / "pins.toml").read_text()
    known = pins()
    for name, pin in known.items():
        changed = pins(repinned(table, pin, "v9.9.9"))
        assert changed[name].tag == "v9.9.9"
        assert {n: p.tag for n, p in changed.items() if n != name} == {
            n: p.tag for n, p in known.items() if n != name
        }
    text = (TEMPLATES / "compose/mem0.yaml").read_text()
    text = repinned(text, known["mem0"], "v9.9.9")
    assert "mem0.git#v9.9.9:server" in text and "openmem-mem0:v9.9.9" in text
    assert "pgvector/pgvector:pg17" in text


def test_the_script_changes_one_pin_in_a_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 6, part 1: one table that a script can refresh."""
    shutil.copytree(TEMPLATES, tmp_path / "templates")
    monkeypatch.setattr(pins_module, "asset_path", lambda *parts: str(tmp_path.joinpath(*parts)))
    assert pins_module.main(["cognee", "main-abc123"]) == 0
    assert pins((tmp_path / "templates/pins.toml").read_text())["cognee"].tag == "main-abc123"
    assert "cognee/cognee:main-abc123" in (tmp_path / "templates/compose/cognee.yaml").read_text()
    for path in COMPOSE:
        if path.stem != "cognee":
            assert (tmp_path / "templates/compose" / path.name).read_text() == path.read_text()
    with pytest.raises(Usage, match="no pin"):
        pins_module.main(["nothing", "1"])
    with pytest.raises(Usage, match="no tag"):
        pins_module.main(["cognee", "a b"])
