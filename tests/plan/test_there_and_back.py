"""Installing, upgrading, undoing and somebody else's changes, in any order, over any file."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openmem.base.errors import Refused
from openmem.base.paths import Paths
from openmem.plan.action import Edit, Json, Plan, copied, same
from openmem.plan.apply import apply
from openmem.plan.edit.jsonc import JsonText
from openmem.plan.edit.planner import plan_json_edit, plan_toml_edit
from openmem.plan.edit.toml import TomlText
from openmem.plan.receipt import plan_undo, plan_uninstall
from openmem.plan.system import MemorySystem
from tests.fakes.json_files import json_files
from tests.fakes.toml_files import toml_files

PATH = "/home/u/file"
VERSIONS = st.sampled_from(["1", "2", "3"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("install"), VERSIONS),
        st.tuples(st.just("undo"), st.just("")),
        st.tuples(st.just("theirs"), st.sampled_from(["p", "q"])),
        st.tuples(st.just("rewrite"), st.sampled_from(["2", "4"])),
    ),
    min_size=1,
    max_size=7,
)
BUSY = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))


def _edits(version: str) -> list[Edit]:
    """What a wiring is made of: a value over another, a value in a table that may be missing, a
    marked entry in a list that may be missing, a server."""
    return [
        Edit(keys=("env", "ANTHROPIC_BASE_URL"), op="set", value=f"http://127.0.0.1:{version}"),
        Edit(keys=("model",), op="set", value=version),
        Edit(
            keys=("hooks", "Stop"),
            op="append",
            value={"hooks": [{"command": f"openmem-hook {version}"}]},
            marker="openmem-hook",
        ),
        Edit(keys=("mcpServers", "openmem"), op="set", value={"command": "x", "args": [version]}),
    ]


@dataclass
class Bench:
    """One file, what was done to it, and what should be there once all of ours is out."""

    before: bytes
    form: str
    theirs: dict[str, Json] = field(default_factory=dict)
    was_rewritten: bool = False

    def __post_init__(self) -> None:
        self.system = MemorySystem({PATH: self.before})
        self.paths = Paths(self.system.environ)

    def parse(self, data: bytes) -> JsonText | TomlText:
        if self.form == "toml":
            return TomlText.parse(data, PATH)
        return JsonText.parse(data, PATH, strict=self.form == "json")

    def plan(self, version: str) -> Plan:
        edits = _edits(version)
        if self.form == "toml":
            return Plan(actions=tuple(plan_toml_edit(self.system, PATH, edits, why="x")))
        strict = self.form == "json"
        return Plan(actions=tuple(plan_json_edit(self.system, PATH, edits, strict=strict, why="x")))

    def do(self, step: str, word: str) -> None:
        if step == "install":
            apply(self.plan(word), self.system, self.paths, label=step)
            assert self.plan(word).is_empty
        elif step == "undo":
            apply(plan_undo(self.system, self.paths), self.system, self.paths, label=step)
        elif step == "theirs":
            key = f"theirs-{word}"
            self.theirs[key] = len(self.theirs)
            changed = self.parse(self.system.files[PATH]).set((key,), self.theirs[key])
            self.system.write(PATH, changed.data)
        elif step == "rewrite" and self.form == "json":
            root = self.parse(self.system.files[PATH]).value()
            self.system.write(PATH, json.dumps(root, indent=int(word)).encode())
            self.was_rewritten = True

    def finish(self) -> None:
        plan = plan_uninstall(self.system, self.paths)
        assert plan.left == ()
        apply(plan, self.system, self.paths, label="uninstall")
        after = self.system.files[PATH]
        if not self.theirs and not self.was_rewritten:
            assert after == self.before
        root = copied(self.parse(self.before).value())
        assert isinstance(root, dict)
        assert same(self.parse(after).value(), {**root, **self.theirs})
        assert plan_uninstall(self.system, self.paths).is_empty


@BUSY
@given(data=st.data(), form=st.sampled_from(["json", "jsonc", "toml"]), steps=STEPS)
def test_whatever_happens_uninstall_leaves_what_others_wrote(
    data: st.DataObject, form: str, steps: list[tuple[str, str]]
) -> None:
    """Issue 2, part 2: install→uninstall is the identity over generated files."""
    files = toml_files() if form == "toml" else json_files(comments=form == "jsonc")
    bench = Bench(data.draw(files), form)
    for step, word in steps:
        try:
            bench.do(step, word)
        except Refused as error:
            # A file that holds something else at our places: refused, and nothing was written.
            assert error.code == "unexpected-kind" and step == "install"
            if not bench.theirs and not bench.was_rewritten:
                assert bench.system.files[PATH] == bench.before
            return
    bench.finish()
