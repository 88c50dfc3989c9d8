"""A second set of plants, by another hand and later, from the vendors' formats and from places
where settings stand; written without the rules at hand, as the first was."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from random import Random

from tests.redact_recall.letters import ALNUM, HEX, URLSAFE, draw
from tests.redact_recall.plant import Planted

_DIGITS, _UPPER = "0123456789", "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_BECH32 = "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"


def _jwt(rng: Random) -> str:
    claims = json.dumps({"sub": draw(rng, ALNUM, 8), "iat": 1516239022}).encode()
    body = base64.urlsafe_b64encode(claims).decode().rstrip("=")
    return f"eyJhbGciOiJIUzI1NiJ9.{body}.{draw(rng, URLSAFE, 43)}"


# name → what the vendor issues: literal text, or (alphabet, length).
_Part = str | tuple[str, int]
_TOKENS: dict[str, tuple[_Part, ...]] = {
    "openai-project": ("sk-proj-", (ALNUM, 48), "T3BlbkFJ", (ALNUM, 48)),
    "anthropic": ("sk-ant-api03-", (ALNUM, 93), "AA"),
    "github": ("ghp_", (ALNUM, 36)),
    "github-fine": ("github_pat_", (ALNUM, 22), "_", (ALNUM, 59)),
    "gitlab": ("glpat-", (ALNUM, 20)),
    "slack": ("xoxb-", (_DIGITS, 12), "-", (_DIGITS, 12), "-", (ALNUM, 24)),
    "stripe": ("sk_live_", (ALNUM, 24)),
    "aws-id": ("AKIA", (_BASE32, 16)),
    "google": ("AIza", (ALNUM, 35)),
    "google-oauth": ("GOCSPX-", (ALNUM, 28)),
    "npm": ("npm_", (ALNUM, 36)),
    "pypi": ("pypi-AgEIcHlwaS5vcmc", (ALNUM, 120)),
    "sendgrid": ("SG.", (ALNUM, 22), ".", (ALNUM, 43)),
    "twilio": ("SK", (HEX, 32)),
    "digitalocean": ("dop_v1_", (HEX, 64)),
    "shopify": ("shpat_", (HEX, 32)),
    "telegram": ((_DIGITS, 10), ":AA", (ALNUM, 33)),
    "square": ("sq0atp-", (ALNUM, 22)),
    "linear": ("lin_api_", (ALNUM, 40)),
    "notion": ("ntn_", (ALNUM, 46)),
    "databricks": ("dapi", (HEX, 32)),
    "doppler": ("dp.pt.", (ALNUM, 43)),
    "vault": ("hvs.", (ALNUM, 90)),
    "planetscale": ("pscale_tkn_", (ALNUM, 43)),
    "grafana": ("glsa_", (ALNUM, 32), "_", (HEX, 8)),
    "age": ("AGE-SECRET-KEY-1", (_BECH32, 58)),
    "docker": ("dckr_pat_", (ALNUM, 27)),
    "xai": ("xai-", (ALNUM, 80)),
    "groq": ("gsk_", (ALNUM, 52)),
    "perplexity": ("pplx-", (ALNUM, 48)),
    "replicate": ("r8_", (ALNUM, 37)),
    "supabase": ("sbp_", (HEX, 40)),
    "sentry": ("sntrys_", (ALNUM, 80)),
    "fly": ("fo1_", (ALNUM, 43)),
    "tailscale": ("tskey-auth-", (ALNUM, 12), "-", (ALNUM, 32)),
    "pulumi": ("pul-", (HEX, 40)),
    "rubygems": ("rubygems_", (HEX, 48)),
    "postman": ("PMAK-", (HEX, 24), "-", (HEX, 34)),
    "figma": ("figd_", (ALNUM, 40)),
    "mailgun": ("key-", (HEX, 32)),
    "mapbox": ("sk.eyJ1Ijoi", (ALNUM, 60), ".", (ALNUM, 22)),
    "atlassian": ("ATATT3xFfGF0", (ALNUM, 180)),
}
_ROUND_A_TOKEN = (
    "export {}", "use the token {} please", '"auth": "{}"', "curl -H 'X-Key: {}' https://x",
    "got {} back\n", "const k = '{}';", "{}",
)  # fmt: skip
_ROUND_A_PASSWORD = {
    "env": "DB_PASSWORD={}", "yaml": "  password: {}", "json": '{{"password": "{}"}}',
    "url": "postgres://admin:{}@db.internal:5432/app", "basic": "curl -u admin:{} https://x/y",
    "prose": "the password is {}", "jdbc": "jdbc:mysql://h/db?user=u&password={}",
    "redis": "redis://:{}@cache:6379/0", "docker": "docker login -u me -p {} reg.io",
    "ado": "Server=x;Database=y;User Id=sa;Password={};", "php": "define('DB_PASSWORD', '{}');",
    "netrc": "machine h login u password {}", "xml": "<password>{}</password>",
    "terraform": 'secret_key = "{}"', "kubernetes": "  client_secret: {}",
    "sshpass": "sshpass -p {} ssh h", "ini": "smtp_pass = {}", "pg": "PGPASSWORD={} psql",
    "maven": "<server>\n  <id>x</id>\n  <password>\n    {}\n  </password>\n</server>",
    "net": '<add key="DbPassword" value="{}" />',
    "spring": '<property name="dbPassword" value="{}"/>',
    "plist": "<key>APIPassword</key>\n\t<string>{}</string>",
}  # fmt: skip
_ROUND_A_KEY = {
    "bearer": "Authorization: Bearer {}", "cookie": "Set-Cookie: session={}; HttpOnly",
    "python": 'client = Client(api_key="{}")', "js": "const apiKey = `{}`",
    "option": "--api-key {} --x", "option=": "--token={} run", "dart": "final token = '{}';",
    "go": 'os.Setenv("SECRET_TOKEN", "{}")', "powershell": "$env:API_TOKEN = '{}'",
    "mysql": "mysql -uroot -p{} db",
}  # fmt: skip


def second_set(seed: int, each: int = 8) -> Iterator[Planted]:
    """Yield the plants, `each` of a kind."""
    rng = Random(seed)
    for _ in range(each):
        for kind, parts in _TOKENS.items():
            token = "".join(part if isinstance(part, str) else draw(rng, *part) for part in parts)
            # What is the same in each is no secret, and may stand in the mask's name.
            known = parts[0] if isinstance(parts[0], str) else ""
            planted = _planted(kind, rng.choice(_ROUND_A_TOKEN), token)
            yield replace(planted, secret=token.removeprefix(known))
        yield _planted("jwt", rng.choice(_ROUND_A_TOKEN), _jwt(rng))
        for place, around in _ROUND_A_PASSWORD.items():
            yield _planted(f"password {place}", around, draw(rng, ALNUM + "!@#%^*_-", 14))
        for place, around in _ROUND_A_KEY.items():
            yield _planted(f"key {place}", around, draw(rng, ALNUM, 32))


def _planted(kind: str, around: str, secret: str) -> Planted:
    text = f"before\n{around.format(secret)}\nafter"
    return Planted(kind=kind, place=kind.rpartition(" ")[2], text=text, secret=secret)


HARMLESS_MARKUP = (
    '<input type="password" name="password" value="" placeholder="Enter password">',
    '<label for="password">Password</label><h1>Reset your password</h1>',
    "<Token>identifier</Token><token>{token}</token><password>${env.PW}</password>",
    '<input id="token-name" name="token_name" value="my-service">',
    "<passwordPolicy>required</passwordPolicy><td class='token'>return</td>",
    "http://localhost:3000?email=ola@acme.io and https://acme.io:8443/x?to=a@b.c",
    "<key>PasswordHint</key>\n<string>hidden</string>",
    '<setting name="tokenLifetime" value="3600"/>',
    "<PasswordField>Forgot</PasswordField><secret>  </secret>",
)
