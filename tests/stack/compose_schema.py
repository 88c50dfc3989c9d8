"""What a compose file of ours may hold: the part of the compose specification that we use.

Written from the specification (read 2026-11-30), narrower than it: a key that we do not use, and
anything published on more than 127.0.0.1, is wrong here. The templates were also checked against
the specification's own JSON schema on that day.
"""

from __future__ import annotations

from typing import Any

_DURATION = {"type": "string", "pattern": r"^\d+(ms|s|m|h)$"}
_SIZE = {"type": "string", "pattern": r"^\d+(k|m|g)$"}
_TEXTS = {"type": "array", "items": {"type": "string"}, "minItems": 1}
_HEALTH = {
    "type": "object",
    "additionalProperties": False,
    "required": ["test", "interval", "timeout", "retries"],
    "properties": {
        "test": {
            "type": "array",
            "prefixItems": [{"enum": ["CMD", "CMD-SHELL"]}],
            "items": {"type": "string"},
            "minItems": 2,
        },
        "interval": _DURATION,
        "timeout": _DURATION,
        "retries": {"type": "integer", "minimum": 1},
        "start_period": _DURATION,
    },
}
_SERVICE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["image", "restart", "env_file", "healthcheck", "mem_limit", "logging"],
    "properties": {
        "image": {"type": "string", "pattern": r"^[a-z0-9./_-]+:[\w.-]+$"},
        "build": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"context": {"type": "string", "pattern": r"^https://.+#v[\d.]+:\w+$"}},
        },
        "command": _TEXTS,
        "restart": {"const": "unless-stopped"},
        "ports": {
            "type": "array",
            "items": {"type": "string", "pattern": r"^127\.0\.0\.1:\d{1,5}:\d{1,5}$"},
        },
        "env_file": {"type": "array", "items": {"type": "string", "pattern": r"^\w+\.env$"}},
        "extra_hosts": {"const": ["host.docker.internal:host-gateway"]},
        "volumes": {"type": "array", "items": {"type": "string", "pattern": r"^[a-z]+:/[\w/.-]+$"}},
        "depends_on": {"type": "object"},
        "configs": {"type": "array"},
        "healthcheck": _HEALTH,
        "stop_grace_period": _DURATION,
        "mem_limit": _SIZE,
        "shm_size": _SIZE,
        "pids_limit": {"type": "integer", "minimum": 64},
        "security_opt": {"const": ["no-new-privileges:true"]},
        "logging": {
            "type": "object",
            "additionalProperties": False,
            "required": ["driver", "options"],
            "properties": {
                "driver": {"const": "json-file"},
                "options": {"type": "object", "additionalProperties": {"type": "string"}},
            },
        },
    },
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["services"],
    "properties": {
        "name": {"type": "string", "pattern": r"^[a-z0-9][a-z0-9_-]*$"},
        "services": {"type": "object", "additionalProperties": _SERVICE, "minProperties": 1},
        "volumes": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "additionalProperties": False,
                "required": ["name"],
                "properties": {"name": {"type": "string", "pattern": r"^openmem-[a-z0-9-]+$"}},
            },
        },
        "configs": {"type": "object"},
    },
}
