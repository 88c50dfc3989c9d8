"""Where a session shows a secret: settings files, code, commands, traffic, logs, prose."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

from tests.redact_recall.plant import Plant, Planted

Place = Callable[[Random, str, str], str]
"""(rng, name, value) -> text"""


def _env(rng: Random, name: str, value: str) -> str:
    return f"NODE_ENV=production\nPORT=3000\n{name}={value}\nLOG_LEVEL=info\n"


def _env_quoted(rng: Random, name: str, value: str) -> str:
    return f'# settings\n{name}="{value}"\nDEBUG=0\n'


def _export(rng: Random, name: str, value: str) -> str:
    return f"#!/bin/sh\nset -eu\nexport {name}='{value}'\nexec ./run\n"


def _yaml(rng: Random, name: str, value: str) -> str:
    return f"service:\n  image: acme/app:3\n  replicas: 2\n  {name}: {value}\n  tier: web\n"


def _yaml_quoted(rng: Random, name: str, value: str) -> str:
    return f'production:\n  host: db\n  {name}: "{value}"\n'


def _compose(rng: Random, name: str, value: str) -> str:
    return f"    environment:\n      - TZ=UTC\n      - {name}={value}\n    ports:\n"


def _json(rng: Random, name: str, value: str) -> str:
    return json.dumps({"region": "eu-1", name: value, "retries": 3}, indent=rng.choice((None, 2)))


def _json_in_json(rng: Random, name: str, value: str) -> str:
    """As a tool's result holds a file that holds JSON."""
    return json.dumps({"stdout": json.dumps({"name": "app", name: value}), "exit": 0})


def _toml(rng: Random, name: str, value: str) -> str:
    return f'[service]\nregion = "eu-1"\n{name} = "{value}"\n'


def _python(rng: Random, name: str, value: str) -> str:
    return (
        f'import os\n\n{name.lower().replace(".", "_")} = "{value}"\nclient = Client(timeout=5)\n'
    )


def _javascript(rng: Random, name: str, value: str) -> str:
    return f"const config = {{\n  host: 'acme',\n  '{name}': '{value}',\n}};\n"


def _dockerfile(rng: Random, name: str, value: str) -> str:
    return f"FROM python:3.12\nENV {name}={value}\nRUN pip install .\n"


def _diff(rng: Random, name: str, value: str) -> str:
    return f"@@ -1,3 +1,3 @@\n PORT=1\n-{name}=changeme\n+{name}={value}\n"


def _tfvars(rng: Random, name: str, value: str) -> str:
    return f'variable "x" {{}}\n{name.lower()}    = "{value}"\n'


def _log(rng: Random, name: str, value: str) -> str:
    return f"2030-03-01T10:00:00Z INFO boot config loaded {name}={value} workers=4\n"


def _printenv(rng: Random, name: str, value: str) -> str:
    return f"$ printenv | sort\nHOME=/home/ola\n{name}={value}\nTERM=xterm\n"


def _github_actions(rng: Random, name: str, value: str) -> str:
    return f"      - run: make\n        env:\n          {name}: '{value}'\n"


def _powershell(rng: Random, name: str, value: str) -> str:
    return f'PS C:\\app> $env:{name} = "{value}"\n'


def _listed(rng: Random, name: str, value: str) -> str:
    """As an agent's file viewer shows it."""
    return f"     1\tPORT=80\n     2\t{name}={value}\n     3\tTZ=UTC\n"


NAMED_PLACES: dict[str, Place] = {
    "env": _env,
    "env-quoted": _env_quoted,
    "export": _export,
    "yaml": _yaml,
    "yaml-quoted": _yaml_quoted,
    "compose": _compose,
    "json": _json,
    "json-in-json": _json_in_json,
    "toml": _toml,
    "python": _python,
    "javascript": _javascript,
    "dockerfile": _dockerfile,
    "diff": _diff,
    "tfvars": _tfvars,
    "log": _log,
    "printenv": _printenv,
    "actions": _github_actions,
    "powershell": _powershell,
    "listed": _listed,
}


def _bearer(rng: Random, name: str, value: str) -> str:
    return f"> POST /v1 HTTP/1.1\n> Authorization: Bearer {value}\n> Accept: */*\n"


def _curl(rng: Random, name: str, value: str) -> str:
    return f'$ curl -sS https://api.acme.io/v1 -H "X-Api-Key: {value}" | jq .\n'


def _prose(rng: Random, name: str, value: str) -> str:
    return f"I pasted {value} into the console and it still says 401.\n"


def _error(rng: Random, name: str, value: str) -> str:
    return f"Error: Incorrect API key provided: {value}. You can find yours in the console.\n"


def _argument(rng: Random, name: str, value: str) -> str:
    return f"$ acme login {value}\nLogged in.\n"


def _markdown(rng: Random, name: str, value: str) -> str:
    return f"Set the header to `{value}` and call it again.\n"


BARE_PLACES: dict[str, Place] = {
    "bearer": _bearer,
    "curl": _curl,
    "prose": _prose,
    "error": _error,
    "argument": _argument,
    "markdown": _markdown,
}


def put(rng: Random, kind: str, plant: Plant, place: str) -> Planted:
    write = NAMED_PLACES.get(place) or BARE_PLACES[place]
    text = write(rng, rng.choice(plant.names), plant.value)
    return Planted(kind=kind, place=place, text=text, secret=plant.secret)
