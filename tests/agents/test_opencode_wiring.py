"""What is written for OpenCode, and that everything else stays."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from openmem.agents.base import AGENTS, Wanted
from openmem.agents.launchers import HOOK, MCP, launcher_path
from openmem.base.errors import Refused
from openmem.hook import opencode
from openmem.plan.apply import apply
from openmem.plan.edit.jsonc import JsonText
from tests.fakes.any_person import AnyPerson, a_person
from tests.fakes.json_files import json_files

CONFIG = ".config/opencode"
OPENCODE = AGENTS["opencode"]


@pytest.fixture
def person(home: Path) -> AnyPerson:
    return a_person("opencode", home)


def value(path: Path) -> dict[str, Any]:
    found = JsonText.parse(path.read_bytes(), str(path), strict=False).value()
    assert isinstance(found, dict)
    return found


def test_plugin_server_and_addresses_are_written_and_the_rest_stays(person: AnyPerson) -> None:
    """Issue 7 part 2."""
    file = person.home / CONFIG / "opencode.jsonc"
    person.wire()
    found = value(file)
    assert found["provider"]["gate"]["options"]["baseURL"] == (
        "http://127.0.0.1:8913/a/opencode-gate"
    )
    assert found["provider"]["gate"]["npm"] == "@ai-sdk/openai-compatible"
    assert found["mcp"]["openmem"] == {
        "type": "local",
        "command": [launcher_path(person.paths, MCP)],
        "enabled": True,
    }
    assert found["mcp"]["theirs"]["command"] == ["x"]
    assert found["permission"] == {"openmem_memory_forget": "ask"}
    assert "// what I like" in file.read_text() and "// mine" in file.read_text()
    plugin = (person.home / CONFIG / "plugins/openmem.js").read_text()
    assert f'const HOOK = "{launcher_path(person.paths, HOOK)}"' in plugin


@pytest.mark.parametrize(
    ("there", "written"),
    [
        (("opencode.json",), "opencode.json"),
        (("opencode.json", "opencode.jsonc"), "opencode.jsonc"),
        (("config.json",), "config.json"),
        ((), "opencode.jsonc"),
    ],
)
def test_what_wins_is_written(home: Path, there: tuple[str, ...], written: str) -> None:
    """Trial: `.jsonc` lies over `.json`; with neither OpenCode makes the former itself."""
    person = a_person("opencode", home, has_own=False)
    person.environ["PATH"] = str(home)
    person.write("opencode", "#!/bin/sh\n").chmod(0o755)
    for name in there:
        person.write(f"{CONFIG}/{name}", '{"model": "openai/gpt-6.2-sol"}\n')
    before = person.tree()
    person.wire()
    (changed,) = [
        path.name for path in (home / CONFIG).glob("*.json*") if b"openmem-mcp" in path.read_bytes()
    ]
    assert changed == written
    person.unwire()
    assert person.tree() == before


def test_a_provider_below_is_overlaid_and_gets_its_own_address_back(home: Path) -> None:
    """Trial: files are laid over each other, so ours in the upper one is enough."""
    person = a_person("opencode", home, has_own=False)
    below = {"provider": {"gate": {"npm": "@ai-sdk/openai-compatible",
                                   "options": {"baseURL": "https://gate.example/v1"}}}}  # fmt: skip
    person.write(f"{CONFIG}/opencode.json", json.dumps(below))
    person.write(f"{CONFIG}/opencode.jsonc", "{}\n")
    (address,) = person.detect().addresses
    assert (address.route, address.upstream, address.is_stated) == (
        "opencode-gate", "https://gate.example/v1", True,
    )  # fmt: skip
    person.wire()
    assert person.wired().port == 8913
    assert value(person.home / CONFIG / "opencode.json") == below
    person.wire(hooks=None, mcp=None, proxy=False, skill=None)
    assert person.wired().port == 0
    assert person.detect().addresses[0].upstream == "https://gate.example/v1"


def test_every_provider_in_use_has_a_route_of_its_own_and_no_other(home: Path) -> None:
    """Issue 7 part 2: base URL per provider in use."""
    person = a_person("opencode", home, has_own=False)
    person.write(f"{CONFIG}/opencode.json", '{"model": "openrouter/x", "provider": {"my/p": {}}}')
    logins = {
        "openai": {"type": "oauth"},
        "anthropic": {"type": "api", "key": "k"},
        "google": {"type": "api", "key": "k"},
    }
    person.write(".local/share/opencode/auth.json", json.dumps(logins))
    listed = {"google": {"npm": "@ai-sdk/google"}, "mylisted": {"npm": "x", "api": "y"}}
    person.write(".cache/opencode/models.json", json.dumps(listed))
    person.environ["GROQ_API_KEY"] = "k"
    detected = person.detect()
    assert {one.route: one.upstream for one in detected.addresses} == {
        "opencode-anthropic": "https://api.anthropic.com/v1",
        "opencode-openrouter": "https://openrouter.ai/api/v1",
        "opencode-groq": "https://api.groq.com/openai/v1",
    }
    told = "\n".join(detected.warnings)
    assert '"openai"' in told and '"google"' in told and '"my/p"' in told
    person.wire()
    found = value(person.home / CONFIG / "opencode.json")["provider"]
    assert {name for name, one in found.items() if one} == {"anthropic", "openrouter", "groq"}
    assert person.wired().unrouted == ()


def test_two_providers_whose_names_look_alike_in_a_path_keep_apart(home: Path) -> None:
    """Ours: one route leads to one upstream."""
    person = a_person("opencode", home, has_own=False)
    providers = {
        name: {"options": {"baseURL": f"https://{number}.example/v1"}}
        for number, name in enumerate(("my/p", "my_p", "my.p"))
    }
    person.write(f"{CONFIG}/opencode.json", json.dumps({"provider": providers}))
    routes = {one.route: one.upstream for one in person.detect().addresses}
    assert len(routes) == 3 and routes["opencode-my_p"] == "https://1.example/v1"
    person.wire()
    assert sorted(person.wired().routes) == sorted(routes)
    environ = {"HOME": str(home)}
    for name in providers:
        assert opencode.port_in_settings(environ, name) == 8913


def test_an_address_from_the_shell_is_an_upstream_and_ours_never_is(person: AnyPerson) -> None:
    """Trap: openmem may be run inside an agent that has our own address in its environment."""
    person.write(f"{CONFIG}/opencode.jsonc", '{"model": "anthropic/claude-opus-5-5"}')
    person.environ["ANTHROPIC_BASE_URL"] = "https://gate.example/anthropic/v1"
    assert person.detect().addresses[0].upstream == "https://gate.example/anthropic/v1"
    person.environ["ANTHROPIC_BASE_URL"] = "http://127.0.0.1:8913/a/claude-code"
    assert person.detect().addresses[0].upstream == "https://api.anthropic.com/v1"


def test_an_address_with_a_variable_is_followed_or_left(person: AnyPerson) -> None:
    """OpenCode's documentation: `{env:NAME}` in a setting."""
    text = '{"provider": {"gate": {"options": {"baseURL": "{env:GATE}/v1"}}}}'
    person.write(f"{CONFIG}/opencode.jsonc", text)
    assert person.detect().addresses == () and "GATE" in "".join(person.detect().warnings)
    person.environ["GATE"] = "https://gate.example"
    assert person.detect().addresses[0].upstream == "https://gate.example/v1"


def test_a_provider_that_is_no_longer_used_loses_our_address(person: AnyPerson) -> None:
    """Ours: an address of ours must not stay behind where nothing leads it on."""
    person.environ["GROQ_API_KEY"] = "k"
    person.wire()
    assert person.wired().routes == ("opencode-gate", "opencode-groq")
    del person.environ["GROQ_API_KEY"]
    # what stands in the settings is in use, so it is switched off by name
    text = (person.home / CONFIG / "opencode.jsonc").read_text()
    off = '"disabled_providers": ["groq"],\n  "counter"'
    person.write(f"{CONFIG}/opencode.jsonc", text.replace('"counter"', off))
    person.wire()
    assert person.wired().routes == ("opencode-gate",)
    assert "a/opencode-groq" not in (person.home / CONFIG / "opencode.jsonc").read_text()


def test_a_permission_of_the_persons_is_left_alone(person: AnyPerson) -> None:
    """Facts 2: permission entries are a user's own decision."""
    person.write(f"{CONFIG}/opencode.jsonc", '{"permission": {"openmem_*": "allow"}}')
    person.wire()
    found = value(person.home / CONFIG / "opencode.jsonc")
    assert found["permission"] == {"openmem_*": "allow"}
    person.write(f"{CONFIG}/opencode.jsonc", '{"permission": "ask"}')
    person.wire()
    assert value(person.home / CONFIG / "opencode.jsonc")["permission"] == "ask"


def test_a_file_of_somebody_elses_in_the_plugins_place_is_refused(person: AnyPerson) -> None:
    """Design 4: other people's entries untouched."""
    person.write(f"{CONFIG}/plugins/openmem.js", "export const Mine = async () => ({})\n")
    with pytest.raises(Refused, match=r"openmem\.js is not openmem's"):
        person.plan()


def test_a_second_plugin_in_the_older_folder_goes(person: AnyPerson) -> None:
    """Facts 4.1: both folders are loaded, and a hook that is there twice fires twice."""
    person.wire()
    text = (person.home / CONFIG / "plugins/openmem.js").read_text()
    second = person.write(f"{CONFIG}/plugin/openmem.js", text)
    assert person.wired().older != ()
    person.wire()
    assert not second.exists() and person.wired().older == ()


def test_what_a_person_added_to_our_server_is_kept(person: AnyPerson) -> None:
    """Ours: a second setup is not the place to lose a person's own setting."""
    person.wire()
    file = person.home / CONFIG / "opencode.jsonc"
    document = JsonText.parse(file.read_bytes(), str(file), strict=False)
    file.write_bytes(document.set(("mcp", "openmem", "timeout"), 9000).data)
    person.wire()
    assert value(file)["mcp"]["openmem"]["timeout"] == 9000


def test_a_project_with_an_address_of_its_own_is_named(person: AnyPerson, tmp_path: Path) -> None:
    """A project's settings lie over the person's."""
    (tmp_path / "opencode.json").write_text(
        '{"provider": {"gate": {"options": {"baseURL": "https://x"}}}}'
    )
    plan = person.plan(projects=(str(tmp_path),))
    assert any(str(tmp_path / "opencode.json") in warning for warning in plan.warnings)


def test_the_way_back_from_the_proxy_alone_and_in_again(person: AnyPerson) -> None:
    """Design 7: `proxy stop` takes the base URL out, `proxy start` gives it back."""
    file = person.home / CONFIG / "opencode.jsonc"
    before = file.read_bytes()
    person.wire()
    wired = file.read_bytes()
    person.wire(hooks=None, mcp=None, skill=None, proxy=False)
    gate = value(file)["provider"]["gate"]["options"]
    assert gate == {"baseURL": "https://gate.example/v1"}
    person.wire(hooks=None, mcp=None, skill=None)
    assert file.read_bytes() == wired
    person.uninstall()
    assert file.read_bytes() == before


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=json_files(comments=True))
def test_any_settings_file_comes_back_to_the_byte(home: Path, text: bytes) -> None:
    """Issue 7, Show it: wiring property tests for each agent's file format."""
    person = a_person("opencode", home, has_own=False)
    person.environ["OPENAI_API_KEY"] = "k"
    file = person.write(f"{CONFIG}/opencode.jsonc", text)
    try:
        person.wire()
    except Refused:  # what we would write into is no table, or a key stands twice
        assert file.read_bytes() == text
        return
    assert person.plan().is_empty
    assert person.wired().mcp and person.wired().port == 8913
    person.unwire()
    assert file.read_bytes() == text


def test_the_version_decides_which_plugin_is_written(person: AnyPerson, tmp_path: Path) -> None:
    """Issue 7 part 2: the plug-in for version 2 as far as its published types allow."""
    program = tmp_path / "opencode-ai/bin/opencode"
    program.parent.mkdir(parents=True)
    program.write_text("")
    program.chmod(0o755)
    person.environ["PATH"] = str(program.parent)
    plugin = person.home / CONFIG / "plugins/openmem.js"
    for version, is_second in (("1.18.33", False), ("1.99.0", False), ("2.0.1", True)):
        package = {"name": "opencode-ai", "version": version}
        (tmp_path / "opencode-ai/package.json").write_text(json.dumps(package))
        detected = person.detect()
        assert detected.version == version
        apply(
            OPENCODE.wiring(person.system, person.paths, detected, Wanted(proxy=None)),
            person.system,
            person.paths,
            label="wire",
        )
        assert ("export default {" in plugin.read_text()) == is_second
        assert any("was not tried" in one for one in detected.warnings) == is_second
        assert person.wired().hooks == OPENCODE.events


_DRIVER = """
import { pathToFileURL } from "node:url"
const { default: plugin } = await import(pathToFileURL(process.argv[2]).href)
let callback
const registration = { dispose: async () => {} }
const language = async (given) => {
  callback = given
  return registration
}
await plugin.setup({ aisdk: { language } })
const delta = (text) => ({ type: "text-delta", id: "1", delta: text })
const finish = { type: "finish", finishReason: { unified: "stop" }, usage: {} }
const parts = [delta("Noted"), delta("."), finish]
const begin = (c) => {
  for (const part of parts) c.enqueue(part)
  c.close()
}
const model = {
  specificationVersion: "v3", provider: "fake", modelId: "m",
  async doGenerate() { return { via: this.modelId } },
  async doStream(options) {
    return { stream: new ReadableStream({ start: begin }) }
  },
}
const event = { model: {}, sdk: {}, options: {}, language: model }
callback(event)
if ((await event.language.doGenerate({})).via !== "m") throw new Error("not passed on")
const ask = async (headers) => {
  const { stream } = await event.language.doStream({ headers, prompt: [
    { role: "system", content: "s" },
    { role: "user", content: [{ type: "text", text: "the host is heron-42" }] }] })
  const seen = []
  for await (const part of stream) seen.push(part.type)
  return seen.join(",")
}
console.log(await ask({ "X-Session-Id": "ses_1" }))
console.log(await ask({ "X-Session-Id": "ses_1" }))
console.log(await ask({ "X-Session-Id": "ses_2", "x-parent-session-id": "ses_1" }))
console.log(await ask(undefined))
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="2026-11-30: no Node.js here")
def test_the_plugin_of_version_2_registers_once_and_hands_turns_over(
    person: AnyPerson, tmp_path: Path
) -> None:
    """Contract: the shapes of `@opencode-ai/plugin` 1.18.33, v2/promise; no such program exists."""
    log, launcher = tmp_path / "log", tmp_path / "hook"
    launcher.write_text(f'#!/bin/sh\nprintf \'%s %s\\n\' "$1" "$(cat)" >> {log}\n')
    launcher.chmod(0o755)
    from openmem.base.assets import read_asset

    text = read_asset("hooks", "opencode", "openmem-v2.js")
    plugin, driver = tmp_path / "openmem.mjs", tmp_path / "driver.mjs"
    plugin.write_text(text.replace('const HOOK = ""', f"const HOOK = {json.dumps(str(launcher))}"))
    driver.write_text(_DRIVER)
    done = subprocess.run(
        ["node", str(driver), str(plugin)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["text-delta,text-delta,finish"] * 4
    told = [line.split(" ", 1) for line in log.read_text().splitlines()]
    assert [event for event, _ in told] == ["session-start", "stop", "stop"]
    turn = json.loads(told[1][1])
    assert (turn["session_id"], turn["prompt"], turn["last_assistant_message"]) == (
        "ses_1", "the host is heron-42", "Noted.",
    )  # fmt: skip


_HEADERS_DRIVER = """
import { pathToFileURL } from "node:url"
const { Openmem } = await import(pathToFileURL(process.argv[2]).href)
const parents = { ses_2: "ses_1", ses_3: "ses_2", ses_4: "ses_3", ses_a: "ses_b", ses_b: "ses_a" }
const get = async ({ path: { id } }) => {
  if (id === "ses_lost") throw new Error("gone")
  return { data: { id, directory: "/r", parentID: parents[id] } }
}
const hooks = await Openmem({ client: { session: { get } }, directory: "/r" })
const ask = async (sessionID, baseURL = "http://127.0.0.1:8913/a/opencode-fake") => {
  const output = { headers: {} }
  const provider = { options: { baseURL } }
  await hooks["chat.headers"]({ sessionID, agent: "general", provider }, output)
  return output.headers
}
const found = {}
for (const id of ["ses_1", "ses_2", "ses_3", "ses_4", "ses_a", "ses_lost"])
  found[id] = await ask(id)
found.elsewhere = await ask("ses_4", "https://api.example.com/v1")
console.log(JSON.stringify(found))
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="2026-11-30: no Node.js here")
def test_the_plugin_names_the_session_at_the_top_to_our_proxy_only(tmp_path: Path) -> None:
    """Brief: nested children at any depth; one below the top says it by OpenCode's own header."""
    from openmem.base.assets import read_asset

    plugin, driver = tmp_path / "openmem.mjs", tmp_path / "driver.mjs"
    plugin.write_text(read_asset("hooks", "opencode", "openmem.js"))
    driver.write_text(_HEADERS_DRIVER)
    done = subprocess.run(
        ["node", str(driver), str(plugin)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    known = {"x-openmem-agent": "general"}
    nested = {**known, "x-openmem-session-id": "ses_1"}
    assert json.loads(done.stdout) == {
        "ses_1": known, "ses_2": known, "ses_3": nested, "ses_4": nested,
        "ses_a": known, "ses_lost": known, "elsewhere": {},
    }  # fmt: skip


_CALL_DRIVER = """
import { pathToFileURL } from "node:url"
const { Openmem } = await import(pathToFileURL(process.argv[2]).href)
const get = async ({ path: { id } }) => ({
  data: { id, directory: "/r", parentID: id === "ses_2" ? "ses_1" : undefined },
})
const hooks = await Openmem({ client: { session: { get } }, directory: "/r" })
const before = hooks["tool.execute.before"]
const found = []
const calls = [{ content: "plain" }, { edits: [{ text: "[openmem: x" }] }, undefined]
for (const args of calls)
  found.push(await before({ tool: "write", sessionID: "ses_2", callID: "c" }, { args })
    .then(() => "runs", (error) => error.message))
console.log(JSON.stringify(found))
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="2026-11-30: no Node.js here")
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ('printf \'%s\' \'{"hookSpecificOutput":{"permissionDecision":"deny",'
         '"permissionDecisionReason":"no"}}\'', "no"),
        ("exit 1", "runs"),
        ("printf '%s' '{\"hookSpecificOutput\":'", "runs"),
        ("exec sleep 60", "runs"),
    ],
)  # fmt: skip
def test_the_plugin_refuses_a_call_only_by_what_openmem_says(
    tmp_path: Path, answer: str, expected: str
) -> None:
    """Brief, part 5; facts 4.5: one that throws fails the call, so it throws for nothing else."""
    from openmem.base.assets import read_asset

    log, launcher = tmp_path / "log", tmp_path / "hook"
    launcher.write_text(f'#!/bin/sh\nprintf \'%s %s\\n\' "$1" "$(cat)" >> {log}\n{answer}\n')
    launcher.chmod(0o755)
    text = read_asset("hooks", "opencode", "openmem.js")
    plugin, driver = tmp_path / "openmem.mjs", tmp_path / "driver.mjs"
    plugin.write_text(text.replace('const HOOK = ""', f"const HOOK = {json.dumps(str(launcher))}"))
    driver.write_text(_CALL_DRIVER)
    done = subprocess.run(
        ["node", str(driver), str(plugin)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["runs", expected, "runs"]
    (asked,) = log.read_text().splitlines()  # a call that does not name us starts nothing
    event, payload = asked.split(" ", 1)
    told = json.loads(payload)
    assert (event, told["session_id"], told["tool_name"]) == ("tool", "ses_1", "write")
    assert told["tool_input"] == {"edits": [{"text": "[openmem: x"}]}
