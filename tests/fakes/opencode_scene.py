"""A machine with the real OpenCode in front of fake model services.

The order of a person: OpenCode is there and works against its own service; openmem is installed by
its own command line; then sessions.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fakes.chat_server import FakeChat
from tests.fakes.claude import Sink, make_project
from tests.fakes.machine import Machine, taken_down
from tests.fakes.opencode import OpenCode, Outcome, opencode_binary
from tests.fakes.scene import free_port

FAKE = """{
  "$schema": "https://opencode.ai/config.json",
  // what I like
  "model": "fake/m1",
  "small_model": "fake/m1",
  "provider": {
    "fake": {
      "npm": "@ai-sdk/openai-compatible",
      "name": "Fake",
      "options": { "baseURL": "{url}/v1", "apiKey": "fake-key-of-a-test" }, // mine
      "models": { "m1": { "name": "M1", "limit": { "context": 200000, "output": 8000 } } }
    }
  }
}
"""


@dataclass(slots=True, kw_only=True)
class OpenCodeScene(Machine):
    """What a test acts with. `service` is the model."""

    service: FakeChat
    opencode: OpenCode

    @property
    def config_dir(self) -> Path:
        return self.home / ".config/opencode"

    def run(self, prompt: str, *options: str, resume: str = "") -> Outcome:
        """Run `opencode run`; it must end well."""
        done = self.opencode.run(prompt, *options, resume=resume)
        assert done.status == 0, done
        return done

    def stores(self) -> list[str]:
        """The names of the files in which sessions are stored."""
        return sorted(path.name for path in (self.state / "context/sessions").glob("*.v4.db"))

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """What reached the model as conversation, oldest first."""
        return [record.json for record in self.service.asked]


@contextlib.contextmanager
def an_opencode_scene(
    folder: Path, config: str = FAKE, *, name: str = "opencode.jsonc"
) -> Iterator[OpenCodeScene]:
    """Lay a scene below `folder`; take it down whatever happened. `config`: with `{url}` in it."""
    home = folder / "person"
    (home / ".config/opencode").mkdir(parents=True)
    with FakeChat() as service, Sink() as sink:
        (home / ".config/opencode" / name).write_text(config.replace("{url}", service.url))
        project = make_project(folder / "project")
        opencode = OpenCode(home=home, project=project, sink_url=sink.url)
        environ = opencode.environ()
        environ["PATH"] = f"{Path(opencode_binary() or '').parent}:/usr/bin:/bin"
        scene = OpenCodeScene(
            home=home,
            project=project,
            sink=sink,
            environ=environ,
            port=free_port(),
            service=service,
            opencode=opencode,
        )
        with taken_down(scene):
            yield scene


def texts_of(body: dict[str, Any]) -> list[str]:
    """Return every text of a Chat request, in order."""
    found = []
    for message in body["messages"]:
        content = message.get("content")
        parts = content if isinstance(content, list) else [{"text": content or ""}]
        found += [str(part.get("text", "")) for part in parts]
    return found


def outputs_of(body: dict[str, Any]) -> list[str]:
    """Return what tools gave back in a Chat request."""
    return [json.dumps(m["content"]) for m in body["messages"] if m["role"] == "tool"]
