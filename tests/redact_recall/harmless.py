"""Text that looks like a secret and is none: what a session is full of, and must stay readable."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.redact_recall.letters import ALNUM, HEX, URLSAFE, base64_of, draw, uuid_of

_LINES: tuple[Callable[[Random], str], ...] = (
    lambda rng: f"commit {draw(rng, HEX, 40)}\nAuthor: Ola <ola@acme.io>",
    lambda rng: f"index {draw(rng, HEX, 7)}..{draw(rng, HEX, 7)} 100644",
    lambda rng: f'"integrity": "sha512-{base64_of(rng, 64)}"',
    lambda rng: f"    --hash=sha256:{draw(rng, HEX, 64)} \\",
    lambda rng: f"FROM python:3.12@sha256:{draw(rng, HEX, 64)}",
    lambda rng: f"acme.io/app v1.2.3 h1:{base64_of(rng, 32)}",
    lambda rng: f"{draw(rng, HEX, 64)}  dist/app-1.0.tar.gz",
    lambda rng: f'{{"request_id": "{uuid_of(rng)}", "status": 200}}',
    lambda rng: f"toolu_01{draw(rng, ALNUM, 22)}",
    lambda rng: f"Opened PR https://github.com/acme/app/pull/{rng.randrange(9999)}",
    lambda rng: f"session {uuid_of(rng)} resumed",
    lambda rng: (
        f"/Users/ola/.cache/ms-playwright/chromium-{rng.randrange(9999)}/chrome-linux/chrome"
    ),
    lambda rng: f"https://cdn.acme.io/assets/index-{draw(rng, URLSAFE, 8)}.js",
    lambda rng: f"container {draw(rng, HEX, 12)} exited with code 137",
    lambda rng: f'ETag: W/"{draw(rng, HEX, 32)}"',
    lambda rng: "password = getpass.getpass('Password: ')",
    lambda rng: 'api_key = os.environ["ACME_API_KEY"]',
    lambda rng: "token = tokens[index + 1].value",
    lambda rng: "PASSWORD=${POSTGRES_PASSWORD:?set it in .env}",
    lambda rng: "password: <your-password>",
    lambda rng: 'API_KEY="YOUR_API_KEY_HERE"',
    lambda rng: "export TOKEN=$(gh auth token)",
    lambda rng: "secret: ${{ secrets.NPM_TOKEN }}",
    lambda rng: f"max_tokens: {rng.randrange(1, 99) * 1024}, temperature: 0.2",
    lambda rng: f"input_tokens={rng.randrange(99999)} output_tokens={rng.randrange(9999)}",
    lambda rng: "def verify_password(password: str, hashed: str) -> bool:",
    lambda rng: "if (!user.password) throw new Error('password is required')",
    lambda rng: '<input type="password" name="password" autocomplete="current-password">',
    lambda rng: "The password must have at least twelve characters and one digit.",
    lambda rng: "token: string;\n  refreshToken?: string;\n  passwordHash: string;",
    lambda rng: "const token = await getToken(request)",
    lambda rng: "SELECT password_hash FROM users WHERE id = $1",
    lambda rng: "key: value pairs are read in order; secret: a name of a secret",
    lambda rng: "PrivateKey = load_key(path)",
    lambda rng: 'pub const API_KEY: &str = env!("API_KEY");',
    lambda rng: "authorization: Bearer ${token}",
    lambda rng: "-H 'Authorization: Bearer $ACCESS_TOKEN'",
    lambda rng: "docker login -u acme -p $DOCKER_PASSWORD",
    lambda rng: "mysql -u root -p orders < dump.sql",
    lambda rng: "mkdir -p build/output && tar -p -xf archive.tar",
    lambda rng: "postgres://app:${DB_PASSWORD}@db/orders",
    lambda rng: "http://localhost:8913/a/claude-code/v1/messages",
    lambda rng: f"fingerprint {draw(rng, HEX, 32)} equals the one before",
    lambda rng: f"data:image/png;base64,{base64_of(rng, 400)}",
    lambda rng: f"revision = '{draw(rng, HEX, 12)}'\ndown_revision = '{draw(rng, HEX, 12)}'",
    lambda rng: "primary_key=True, foreign_key='orders.id', cache_key=cache_key_of(row)",
    lambda rng: "keyboard shortcut: ctrl+shift+p; hotkey: cmd+k; monkey: banana",
    lambda rng: "passing: 1204 tests, failing: 0; bypass: none; compass: north",
    lambda rng: "author: someone-with-a-long-name; authority: example.org; oauth: enabled",
    lambda rng: "class TokenBucketRateLimiter(RateLimiter): ...",
    lambda rng: "the next token is `identifier`, then a semicolon",
    lambda rng: 'raise PermissionError("credentials: not found in keychain")',
    lambda rng: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + draw(rng, ALNUM, 43) + " ola@laptop",
    lambda rng: f"build id {draw(rng, ALNUM, 21)} took 3.2s",
    lambda rng: f"-----BEGIN CERTIFICATE-----\n{base64_of(rng, 48)}\n-----END CERTIFICATE-----",
)


def harmless(seed: int, per_line: int = 10) -> list[str]:
    rng = Random(seed)
    return [make(rng) for make in _LINES for _ in range(per_line)]
