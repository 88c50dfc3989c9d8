"""A provider from nothing to running, and what stops it, as a person types it."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.engine_socket import FakeEngine, fake_engine
from tests.fakes.golden import assert_golden
from tests.fakes.installation import free_port
from tests.fakes.memory_servers.serving import serving
from tests.fakes.memory_servers.started import KEY, STANDS, stand_of

SECRET = "model-key-0123456789abcdef-XYZ"
ROUTE = ("--model-url", "http://models.example/v1", "--model", "m", "--model-key-env", "MODEL_KEY")
each = pytest.mark.parametrize("provider", sorted(STANDS))
GOLDEN = Path(__file__).parent / "golden"
CERTIFICATES = Path(__file__).resolve().parents[1] / "proxy/data"
QUIET = ("--no-proxy", "--no-smoke-test", "--store-git")


@pytest.fixture
def engine(machine: object, tmp_path: Path) -> Iterator[FakeEngine]:
    with fake_engine(tmp_path / "engine") as fake:
        yield fake


def setup(machine: object, engine: FakeEngine, *words: str, **environ: str) -> object:
    values = {"PATH": f"{engine.bin}:/usr/bin:/bin", "DOCKER_HOST": f"unix://{engine.socket}"}
    return machine("setup", *words, **{**values, "MODEL_KEY": SECRET, **environ})  # type: ignore[operator]


def stack(machine: object, provider: str) -> Path:
    return machine.home / ".local/share/openmem/stack" / provider  # type: ignore[attr-defined,no-any-return]


@each
def test_a_dry_run_lists_every_action_masked_and_writes_nothing(
    machine: object, engine: FakeEngine, provider: str
) -> None:
    """Issue 6: `--dry-run --json` lists every action with its diff, secrets masked."""
    before = machine.snapshot()  # type: ignore[attr-defined]
    done = setup(machine, engine, "--provider", provider, *ROUTE, *QUIET, "--dry-run", "--json")
    assert done.status == 0, done.err
    assert SECRET not in done.out + done.err and machine.snapshot() == before
    actions = done.data["actions"]
    diffs = {Path(a["path"]).name: a["diff"] for a in actions if a["kind"] == "write"}
    assert {"compose.yaml", f"{provider}.env", "key", "config.toml"} <= set(diffs)
    assert "127.0.0.1:" in diffs["compose.yaml"] and "••••" in diffs[f"{provider}.env"]
    assert "••••" in diffs["key"]
    assert any(a["kind"] == "run" and "up" in a["argv"] for a in actions)
    assert engine.commands() == []


@each
def test_every_byte_of_a_dry_run_is_as_it_was(
    machine: object, engine: FakeEngine, provider: str
) -> None:
    """Issue 6: a dry run of every provider matches golden files."""
    words = ("--provider", provider, "--provider-port", "28888", *ROUTE, *QUIET)
    done = setup(machine, engine, *words, "--dry-run", "--diff", "--no-hooks", "--no-mcp")
    assert done.status == 0, done.err
    # Which agents and what compose there is are of the machine.
    lines = [line for line in done.out.splitlines() if " found" not in line]
    assert_golden(GOLDEN / f"dry-run-{provider}.txt", lines, width=200)


@each
def test_a_provider_runs_is_read_back_and_the_second_run_has_nothing_to_do(
    machine: object, engine: FakeEngine, provider: str
) -> None:
    """Issue 6: from nothing to a running provider."""
    words = ("--provider", provider, "--provider-port", str(free_port()), *ROUTE, *QUIET, "--yes")
    done = setup(machine, engine, *words, "--json")
    assert done.status == 1, "nothing answers on the port of a stack that is only played"
    proofs = {p["name"]: p for p in done.data["proofs"]}
    assert "does not answer" in proofs[provider]["detail"]
    assert engine.commands() == ["up"]
    folder = stack(machine, provider)
    assert stat.S_IMODE((folder / f"{provider}.env").stat().st_mode) == 0o600
    assert SECRET in (folder / f"{provider}.env").read_text()
    config = (machine.home / ".config/openmem/config.toml").read_text()  # type: ignore[attr-defined]
    assert SECRET not in config and 'key = "env:MODEL_KEY"' in config
    again = setup(machine, engine, "--provider", provider, *ROUTE, *QUIET, "--yes", "--json")
    assert again.status == 0 and again.data["actions"] == [], again.data["actions"]
    # In another shell, without the variable, the key that stands there is kept.
    kept = setup(machine, engine, *QUIET, "--yes", "--json", MODEL_KEY="")
    assert kept.status == 0 and kept.data["actions"] == []


@each
def test_a_provider_that_runs_elsewhere_is_only_settings(
    machine: object, engine: FakeEngine, provider: str
) -> None:
    """Issue 6, part 7: `--provider-url` and key; no container."""
    key = machine.home / "server.key"  # type: ignore[attr-defined]
    key.write_text(KEY + "\n")
    with stand_of(provider) as stand:
        words = ["--provider", provider, "--provider-url", stand.url]
        words += ["--provider-key-file", str(key), "--no-proxy", "--store-git", "--yes", "--json"]
        if provider == "cognee":
            words += ["--provider-user", "openmem@example.com"]
        done = setup(machine, engine, *words)
        assert done.status == 0, done.err + done.out
        proofs = {p["name"]: p for p in done.data["proofs"]}
        assert "remembered, found, forgotten" in proofs[provider]["detail"]
        left = getattr(stand, "banks", None) or getattr(stand, "datasets", None)
        assert not left and not getattr(stand, "rows", None), "the trial leaves nothing there"
    assert engine.state["asked"] == [] and not stack(machine, provider).exists()


def test_a_key_that_is_refused_is_told_after_everything_was_written(
    machine: object, engine: FakeEngine
) -> None:
    """Issue 6, bad input: a key that the provider refuses."""
    key = machine.home / "server.key"  # type: ignore[attr-defined]
    key.write_text("wrong-key-000\n")
    with stand_of("hindsight") as stand:
        words = ["--provider", "hindsight", "--provider-url", stand.url, "--no-proxy", "--yes"]
        done = setup(machine, engine, *words, "--provider-key-file", str(key), "--json")
    assert done.status == 1
    detail = next(p["detail"] for p in done.data["proofs"] if p["name"] == "hindsight")
    assert "refuses the key" in detail and "wrong-key-000" not in done.out + done.err


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["--provider", "zep"], 1, "planned"),
        (["--provider", "nothing"], 2, "expected one of local, hindsight, mem0, cognee"),
        (["--provider", "mem0", "--provider-url", "127.0.0.1:8888"], 2, "http://HOST"),
        (["--provider", "mem0", "--provider-port", "http"], 2, "provider-port"),
        (["--provider", "mem0", "--provider-port", "70000"], 2, "1 to 65535"),
        (["--provider", "mem0", "--model-api", "anthropic"], 2, "OpenAI's kind"),
        (["--provider", "mem0", "--model-key-env", "A=B"], 2, "name of a variable"),
        (["--provider", "cognee", "--model-key-env", "MODEL_KEY"], 6, "cognee needs a model"),
        (["--provider", "hindsight"], 6, "needs embeddings"),
        (["--provider", "hindsight", "--model-key-env", "NOWHERE"], 6, "NOWHERE"),
        (["--provider", "hindsight", "--model-key-file", "/nowhere/key"], 6, "/nowhere/key"),
    ],
)
def test_bad_answers_are_refused_with_nothing_written(
    machine: object, engine: FakeEngine, words: list[str], status: int, said: str
) -> None:
    """Issue 6, bad input."""
    before = machine.snapshot()  # type: ignore[attr-defined]
    done = setup(machine, engine, *words, *QUIET, "--yes")
    assert (done.status, machine.snapshot() == before) == (status, True), done.err
    assert said in " ".join(done.err.split())
    assert engine.commands() == []


def test_without_an_engine_a_dry_run_warns_and_an_apply_stops(
    machine: object, tmp_path: Path
) -> None:
    """Issue 6: only warns where an engine is missing (apply: exit 6)."""
    with fake_engine(tmp_path / "engine", is_up=False) as fake:
        words = ("--provider", "hindsight", *ROUTE, *QUIET)
        dry = setup(machine, fake, *words, "--dry-run", "--json")
        assert dry.status == 0 and any("no container engine" in w for w in dry.data["warnings"])
        before = machine.snapshot()  # type: ignore[attr-defined]
        done = setup(machine, fake, *words, "--yes")
    assert done.status == 6 and "no container engine" in done.err
    assert machine.snapshot() == before  # type: ignore[attr-defined]


def test_an_image_that_cannot_be_fetched_leaves_nothing(
    machine: object, engine: FakeEngine
) -> None:
    """Ours: images come first, so nothing has to be put back."""
    engine.change(pull_error="manifest unknown")
    before = machine.snapshot()  # type: ignore[attr-defined]
    done = setup(machine, engine, "--provider", "hindsight", *ROUTE, *QUIET, "--yes")
    assert done.status == 6 and "manifest unknown" in done.err
    assert machine.snapshot() == before  # type: ignore[attr-defined]


def test_a_stack_that_does_not_start_is_put_back(machine: object, engine: FakeEngine) -> None:
    """Design, section 5: exit 5, rolled back."""
    engine.change(up_error="Error: no space left on device")
    done = setup(machine, engine, "--provider", "hindsight", *ROUTE, *QUIET, "--yes")
    assert done.status == 5 and "no space left" in " ".join(done.err.split())
    assert not (stack(machine, "hindsight") / "compose.yaml").exists()


def test_undo_takes_the_stack_down_and_leaves_its_data(machine: object, engine: FakeEngine) -> None:
    """Issue 6: it can take it all back."""
    engine.change(volumes=["openmem-hindsight-data"])
    setup(machine, engine, "--provider", "hindsight", *ROUTE, *QUIET, "--yes")
    environ = {"PATH": f"{engine.bin}:/usr/bin:/bin", "DOCKER_HOST": f"unix://{engine.socket}"}
    done = machine("undo", "--yes", **environ)  # type: ignore[operator]
    assert done.status == 0, done.err
    assert engine.commands() == ["up", "down"]
    assert engine.state["volumes"] == ["openmem-hindsight-data"]
    assert not (stack(machine, "hindsight") / "hindsight.env").exists()


def test_answers_from_a_file_are_the_same_as_flags(
    machine: object, engine: FakeEngine, tmp_path: Path
) -> None:
    """Issue 6: the same by `--answers FILE`."""
    file = tmp_path / "answers.toml"
    file.write_text(
        'provider = "hindsight"\nmodel_url = "http://models.example/v1"\nmodel = "m"\n'
        'model_key_env = "MODEL_KEY"\nproxy = false\nstore_git = true\nprovider_port = 18123\n'
    )
    by_file = setup(machine, engine, "--answers", str(file), "--dry-run", "--json")
    flags = ("--provider", "hindsight", *ROUTE, *QUIET, "--provider-port", "18123")
    by_flag = setup(machine, engine, *flags, "--dry-run", "--json")
    paths = [[a["path"] for a in done.data["actions"]] for done in (by_file, by_flag)]
    assert paths[0] == paths[1]
    file.write_text('provider = "hindsight"\nmodle = "m"\n')
    wrong = setup(machine, engine, "--answers", str(file), "--yes")
    assert wrong.status == 2 and "model" in wrong.err


def test_a_typed_key_comes_from_a_pipe_too_and_is_in_no_saved_plan(
    machine: object, engine: FakeEngine
) -> None:
    """Issue 6: a key typed unseen; never the key itself as an argument."""
    words = ("--provider", "hindsight", "--model-url", "http://m.example/v1", "--model", "m")
    done = machine(  # type: ignore[operator]
        "plan",
        *words,
        "--model-key-file",
        "-",
        "--no-proxy",
        "--out",
        "plan.json",
        PATH=f"{engine.bin}:/usr/bin:/bin",
        DOCKER_HOST=f"unix://{engine.socket}",
    )
    assert done.status == 2 and "no key was given" in done.err


def test_a_plan_is_saved_without_secrets_and_applied_later(
    machine: object, engine: FakeEngine
) -> None:
    """Issue 6; design, section 4: references to secrets, never values."""
    environ = {
        "PATH": f"{engine.bin}:/usr/bin:/bin",
        "DOCKER_HOST": f"unix://{engine.socket}",
        "MODEL_KEY": SECRET,
    }
    words = ("plan", "--provider", "mem0", *ROUTE, "--no-proxy", "--out", "plan.json")
    done = machine(*words, **environ)  # type: ignore[operator]
    assert done.status == 0, done.err
    saved = (machine.home / "plan.json").read_text()  # type: ignore[attr-defined]
    assert SECRET not in saved and "env:MODEL_KEY" in saved and "new:mem0:" in saved
    assert json.loads(saved)["kind"] == "openmem-plan"
    applied = machine("apply", "plan.json", "--yes", **environ)  # type: ignore[operator]
    assert applied.status == 0, applied.err
    assert SECRET in (stack(machine, "mem0") / "mem0.env").read_text()
    assert engine.commands() == ["up"]


def test_a_server_with_a_private_certificate_needs_its_authority_by_name(
    machine: object, engine: FakeEngine
) -> None:
    """Issue 6, part 7: a team's server: TLS, custom CA, and a key that is found from anywhere."""
    (machine.home / "server.key").write_text(KEY + "\n")  # type: ignore[attr-defined]
    stand = STANDS["hindsight"](key=KEY)
    with serving(stand, certificate=str(CERTIFICATES / "server.pem")) as served:
        words = ["--provider", "hindsight", "--provider-url", served.url, "--no-proxy", "--yes"]
        # Named from the folder in which setup is run; the settings hold for every folder.
        words += ["--provider-key-file", "server.key", "--store-other", "--json"]
        plain = setup(machine, engine, *words)
        detail = next(p["detail"] for p in plain.data["proofs"] if p["name"] == "hindsight")
        assert plain.status == 1 and "certificate" in detail and served.asked == []
        named = [*words, "--provider-ca-file", str(CERTIFICATES / "authority.pem")]
        done = setup(machine, engine, *named)
        assert done.status == 0, done.err + done.out
        folder = machine.home / "elsewhere"  # type: ignore[attr-defined]
        folder.mkdir()
        added = subprocess.run(
            [sys.executable, "-m", "openmem", "memory", "add", "Deploys need the VPN."],
            env=machine.environ(),  # type: ignore[attr-defined]
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=90,
        )
        assert added.returncode == 0, added.stderr
        assert [len(bank.documents) for bank in served.banks.values()] == [1]  # type: ignore[attr-defined]
        policy = machine.home / ".config/openmem/policy.toml"  # type: ignore[attr-defined]
        policy.write_text(policy.read_text().replace("retain = true", "retain = false"))
        count = len(served.asked)
        denied = subprocess.run(
            [sys.executable, "-m", "openmem", "memory", "add", "Not for the team."],
            env=machine.environ(),  # type: ignore[attr-defined]
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=90,
        )
        assert denied.returncode == 7 and len(served.asked) == count, "policy decides here"


@pytest.mark.parametrize("flag", ["--provider-key-file", "--provider-ca-file"])
def test_a_named_file_that_is_not_there_is_no_answer(
    machine: object, engine: FakeEngine, flag: str
) -> None:
    """Ours: a key file that is missing would mean no key, and a server without accounts."""
    before = machine.snapshot()  # type: ignore[attr-defined]
    words = ("--provider", "hindsight", "--provider-url", "https://memory.example")
    done = setup(machine, engine, *words, flag, "/nowhere/file", *QUIET, "--yes")
    assert done.status == 2 and "expected a file" in done.err
    assert machine.snapshot() == before  # type: ignore[attr-defined]


def test_a_compose_file_that_was_edited_stops_setup_up_to_the_last_byte(
    machine: object, engine: FakeEngine
) -> None:
    """Issue 6, bad input: refused with 4, nothing written; `up` runs what the person wrote."""
    words = ("--provider", "hindsight", *ROUTE, *QUIET, "--yes")
    setup(machine, engine, *words)
    compose = stack(machine, "hindsight") / "compose.yaml"
    compose.write_text(compose.read_text().replace("mem_limit: 4g", "mem_limit: 8g"))
    before = machine.snapshot()  # type: ignore[attr-defined]
    done = setup(machine, engine, *words, "--model", "another")
    assert done.status == 4 and "compose.override.yaml" in " ".join(done.err.split())
    assert machine.snapshot() == before and engine.commands() == ["up"]  # type: ignore[attr-defined]
    environ = {"PATH": f"{engine.bin}:/usr/bin:/bin", "DOCKER_HOST": f"unix://{engine.socket}"}
    assert machine("up", **environ).status == 0  # type: ignore[operator]


_MORE = {
    "local": ("--provider", "local"),
    "litellm": ("--provider", "hindsight", "--provider-port", "28888", *ROUTE, "--litellm"),
    "elsewhere": ("--provider", "cognee", "--provider-url", "https://memory.example"),
}


@pytest.mark.parametrize("name", _MORE)
def test_every_byte_of_the_other_ways_is_as_it_was(
    machine: object, engine: FakeEngine, name: str
) -> None:
    """Issue 6: a dry run of every provider matches golden files."""
    words = (*_MORE[name], *QUIET, "--dry-run", "--diff", "--no-hooks", "--no-mcp")
    done = setup(machine, engine, *words)
    assert done.status == 0, done.err
    lines = [line for line in done.out.splitlines() if " found" not in line]
    assert_golden(GOLDEN / f"dry-run-{name}.txt", lines, width=240)
