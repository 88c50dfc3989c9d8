"""Private keys in their armour, whole, indented, with escaped line ends, and cut off."""

from __future__ import annotations

import json
import textwrap
from random import Random

from tests.redact_recall.letters import base64_of
from tests.redact_recall.plant import Planted

_LABELS = (
    "RSA PRIVATE KEY",
    "EC PRIVATE KEY",
    "PRIVATE KEY",
    "OPENSSH PRIVATE KEY",
    "ENCRYPTED PRIVATE KEY",
    "PGP PRIVATE KEY BLOCK",
)


def _armoured(rng: Random) -> tuple[str, str]:
    label = rng.choice(_LABELS)
    body = "\n".join(textwrap.wrap(base64_of(rng, rng.choice((120, 320, 1190))), 64))
    return f"-----BEGIN {label}-----\n{body}\n-----END {label}-----\n", body


def private_key(rng: Random) -> Planted:
    """The secret is the whole body; every line of it must go."""
    pem, body = _armoured(rng)
    place = rng.choice(("file", "json", "yaml", "env", "listed", "cut"))
    if place == "json":
        text = json.dumps({"type": "service_account", "private_key": pem, "client_id": "12"})
    elif place == "yaml":
        text = "tls:\n  key: |\n" + textwrap.indent(pem, "    ")
    elif place == "env":
        escaped = pem.replace("\n", "\\n")
        text = f'SIGNING_KEY="{escaped}"\nPORT=80\n'
    elif place == "listed":
        lines = pem.splitlines()
        text = "\n".join(f"{number:6}\t{line}" for number, line in enumerate(lines, start=1))
    elif place == "cut":
        text = "$ head -8 server.key\n" + "\n".join(pem.splitlines()[:6]) + "\n"
        body = "\n".join(body.splitlines()[:5])
    else:
        text = f"$ cat id\n{pem}$ "
    return Planted(kind="private-key", place=place, text=text, secret=body)
