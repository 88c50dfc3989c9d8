"""Keys of vendors, by the formats that the vendors publish.

`bare` kinds carry a prefix or a form of their own; the others are plain hex, base64 or uuids and
are known only by the name beside them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

from tests.redact_recall.letters import (
    ALNUM,
    BASE32,
    BASE64,
    DIGITS,
    HEX,
    LOWER,
    UPPER,
    URLSAFE,
    base64_of,
    draw,
    urlsafe_of,
    uuid_of,
)
from tests.redact_recall.plant import Kind, Plant


def prefixed(name: str, prefix: str, alphabet: str, count: int, *names: str, end: str = "") -> Kind:
    """A fixed prefix and `count` drawn characters."""

    def make(rng: Random) -> Plant:
        drawn = draw(rng, alphabet, count)
        return Plant(value=prefix + drawn + end, secret=drawn, names=names)

    return Kind(name=name, make=make)


def named(name: str, make: Callable[[Random], str], *names: str) -> Kind:
    """A value without a form of its own, known by the variable that it is kept in."""

    def plant(rng: Random) -> Plant:
        value = make(rng)
        return Plant(value=value, secret=value, names=names, bare=False)

    return Kind(name=name, make=plant)


def formed(name: str, make: Callable[[Random], str], *names: str) -> Kind:
    """A value with a form of its own, made by `make`."""

    def plant(rng: Random) -> Plant:
        value = make(rng)
        return Plant(value=value, secret=value, names=names)

    return Kind(name=name, make=plant)


def within(
    name: str, make: Callable[[Random], str], around: str, *names: str, bare: bool = True
) -> Kind:
    """A secret inside a longer text whose other parts are no secret; `{}` marks the place."""

    def plant(rng: Random) -> Plant:
        secret = make(rng)
        return Plant(value=around.format(secret), secret=secret, names=names, bare=bare)

    return Kind(name=name, make=plant)


def jwt(rng: Random) -> str:
    head = urlsafe_of(b'{"alg":"HS256","typ":"JWT"}')
    claims = {
        "sub": draw(rng, DIGITS, 10),
        "iat": rng.randrange(1_600_000_000, 1_900_000_000),
        "scope": rng.choice(("admin", "read write", "user")),
    }
    body = urlsafe_of(json.dumps(claims, separators=(",", ":")).encode())
    return f"{head}.{body}.{urlsafe_of(rng.randbytes(32))}"


def discord_bot(rng: Random) -> str:
    ident = urlsafe_of(draw(rng, DIGITS, 18).encode())
    return f"{ident}.{draw(rng, URLSAFE, 6)}.{draw(rng, URLSAFE, 38)}"


def mapbox_secret(rng: Random) -> str:
    body = urlsafe_of(json.dumps({"u": "acme", "a": draw(rng, LOWER + DIGITS, 25)}).encode())
    return f"sk.{body}.{draw(rng, URLSAFE, 22)}"


def openai_old(rng: Random) -> str:
    return f"sk-{draw(rng, ALNUM, 20)}T3BlbkFJ{draw(rng, ALNUM, 20)}"


def openai_project(rng: Random) -> str:
    return f"sk-proj-{draw(rng, URLSAFE, 74)}T3BlbkFJ{draw(rng, URLSAFE, 74)}"


def slack_bot(rng: Random) -> str:
    return f"xoxb-{draw(rng, DIGITS, 12)}-{draw(rng, DIGITS, 13)}-{draw(rng, ALNUM, 24)}"


def slack_app(rng: Random) -> str:
    return f"xapp-1-A{draw(rng, UPPER + DIGITS, 10)}-{draw(rng, DIGITS, 13)}-{draw(rng, HEX, 64)}"


def azure_client_secret(rng: Random) -> str:
    return f"{draw(rng, ALNUM, 3)}8Q~{draw(rng, ALNUM + '-_.~', 34)}"


def google_oauth_access(rng: Random) -> str:
    return f"ya29.a0{draw(rng, URLSAFE, 160)}"


def tailscale(rng: Random) -> str:
    return f"tskey-auth-k{draw(rng, ALNUM, 10)}CNTRL-{draw(rng, ALNUM, 32)}"


def postman(rng: Random) -> str:
    return f"PMAK-{draw(rng, HEX, 24)}-{draw(rng, HEX, 34)}"


def airtable(rng: Random) -> str:
    return f"pat{draw(rng, ALNUM, 14)}.{draw(rng, HEX, 64)}"


def sendgrid(rng: Random) -> str:
    return f"SG.{draw(rng, URLSAFE, 22)}.{draw(rng, URLSAFE, 43)}"


def telegram(rng: Random) -> str:
    return f"{rng.randrange(10**9, 9 * 10**9)}:AA{draw(rng, URLSAFE, 33)}"


def terraform_cloud(rng: Random) -> str:
    return f"{draw(rng, ALNUM, 14)}.atlasv1.{draw(rng, ALNUM, 67)}"


def fly(rng: Random) -> str:
    return f"fm2_{base64_of(rng, 110)}"


KEYS: tuple[Kind, ...] = (
    prefixed("aws-access-key-id", "AKIA", BASE32, 16, "AWS_ACCESS_KEY_ID", "aws_access_key_id"),
    named(
        "aws-secret-access-key",
        lambda rng: draw(rng, BASE64, 40),
        "AWS_SECRET_ACCESS_KEY",
        "aws_secret_access_key",
        "secretAccessKey",
    ),
    named(
        "aws-session-token",
        lambda rng: "IQoJb3JpZ2luX2Vj" + base64_of(rng, 330),
        "AWS_SESSION_TOKEN",
        "aws_session_token",
        "sessionToken",
    ),
    prefixed("github-personal", "ghp_", ALNUM, 36, "GITHUB_TOKEN", "GH_TOKEN", "token"),
    formed(
        "github-fine-grained",
        lambda rng: f"github_pat_{draw(rng, ALNUM, 22)}_{draw(rng, ALNUM, 59)}",
        "GITHUB_TOKEN",
        "gh_pat",
    ),
    prefixed("github-oauth", "gho_", ALNUM, 36, "oauth_token", "GH_TOKEN"),
    prefixed("github-app", "ghs_", ALNUM, 36, "INSTALLATION_TOKEN", "token"),
    prefixed("gitlab-personal", "glpat-", URLSAFE, 20, "GITLAB_TOKEN", "CI_JOB_TOKEN"),
    prefixed("gitlab-runner", "glrt-", URLSAFE, 20, "RUNNER_TOKEN", "registration_token"),
    prefixed("gitlab-deploy", "gldt-", URLSAFE, 20, "CI_DEPLOY_PASSWORD"),
    prefixed("gitlab-trigger", "glptt-", HEX, 40, "TRIGGER_TOKEN"),
    formed("slack-bot", slack_bot, "SLACK_BOT_TOKEN", "slackToken"),
    formed("slack-app", slack_app, "SLACK_APP_TOKEN"),
    within(
        "slack-webhook",
        lambda rng: draw(rng, ALNUM, 24),
        "https://hooks.slack.com/services/T02ACME7XY/B05HOOK9ZQ/{}",
        "SLACK_WEBHOOK_URL",
    ),
    prefixed("stripe-secret", "sk_live_", ALNUM, 99, "STRIPE_SECRET_KEY", "stripeKey"),
    prefixed("stripe-restricted", "rk_live_", ALNUM, 24, "STRIPE_RESTRICTED_KEY"),
    prefixed("stripe-webhook", "whsec_", ALNUM, 32, "STRIPE_WEBHOOK_SECRET"),
    formed("openai-old", openai_old, "OPENAI_API_KEY", "apiKey"),
    formed("openai-project", openai_project, "OPENAI_API_KEY", "openai_api_key"),
    prefixed("anthropic", "sk-ant-api03-", URLSAFE, 93, "ANTHROPIC_API_KEY", "x-api-key", end="AA"),
    prefixed("anthropic-admin", "sk-ant-admin01-", URLSAFE, 93, "ANTHROPIC_ADMIN_KEY", end="AA"),
    prefixed("anthropic-oauth", "sk-ant-oat01-", URLSAFE, 93, "CLAUDE_CODE_OAUTH_TOKEN", end="AA"),
    prefixed("google-api", "AIzaSy", URLSAFE, 33, "GOOGLE_API_KEY", "GEMINI_API_KEY", "key"),
    prefixed("google-client-secret", "GOCSPX-", URLSAFE, 28, "client_secret", "GOOGLE_SECRET"),
    formed("google-access-token", google_oauth_access, "access_token"),
    prefixed("npm", "npm_", ALNUM, 36, "NPM_TOKEN", "NODE_AUTH_TOKEN"),
    within(
        "npmrc-line",
        lambda rng: f"npm_{draw(rng, ALNUM, 36)}",
        "//packages.example.test/:_authToken={}",
        "NPMRC",
    ),
    prefixed("pypi", "pypi-AgEIcHlwaS5vcmc", URLSAFE, 150, "TWINE_PASSWORD", "PYPI_TOKEN"),
    prefixed("docker-hub", "dckr_pat_", URLSAFE, 27, "DOCKERHUB_TOKEN", "DOCKER_PASSWORD"),
    prefixed("hugging-face", "hf_", UPPER + LOWER, 34, "HF_TOKEN", "HUGGINGFACE_TOKEN"),
    formed("sendgrid", sendgrid, "SENDGRID_API_KEY"),
    prefixed("twilio-api-key", "SK", HEX, 32, "TWILIO_API_KEY"),
    named("twilio-auth-token", lambda rng: draw(rng, HEX, 32), "TWILIO_AUTH_TOKEN"),
    named("mailgun", lambda rng: f"key-{draw(rng, HEX, 32)}", "MAILGUN_API_KEY"),
    formed("telegram-bot", telegram, "TELEGRAM_BOT_TOKEN", "BOT_TOKEN"),
    formed("discord-bot", discord_bot, "DISCORD_TOKEN", "DISCORD_BOT_TOKEN"),
    within(
        "discord-webhook",
        lambda rng: draw(rng, URLSAFE, 68),
        "https://discord.com/api/webhooks/1180347615029846016/{}",
        "DISCORD_WEBHOOK",
    ),
    prefixed("digitalocean", "dop_v1_", HEX, 64, "DIGITALOCEAN_TOKEN", "DO_PAT"),
    named("heroku", uuid_of, "HEROKU_API_KEY"),
    prefixed("heroku-new", "HRKU-AA", URLSAFE, 58, "HEROKU_API_KEY"),
    named("cloudflare-token", lambda rng: draw(rng, URLSAFE, 40), "CLOUDFLARE_API_TOKEN"),
    named("cloudflare-global", lambda rng: draw(rng, HEX, 37), "CLOUDFLARE_API_KEY", "CF_API_KEY"),
    within(
        "azure-storage",
        lambda rng: base64_of(rng, 64),
        "DefaultEndpointsProtocol=https;AccountName=acmeprod;AccountKey={};"
        "EndpointSuffix=core.windows.net",
        "AZURE_STORAGE_CONNECTION_STRING",
        bare=False,
    ),
    formed("azure-client-secret", azure_client_secret, "AZURE_CLIENT_SECRET", "clientSecret"),
    formed("jwt", jwt, "ACCESS_TOKEN", "id_token", "jwt"),
    prefixed("shopify", "shpat_", HEX, 32, "SHOPIFY_ACCESS_TOKEN"),
    prefixed("square", "sq0csp-", URLSAFE, 43, "SQUARE_SECRET"),
    prefixed("square-access", "EAAA", URLSAFE, 60, "SQUARE_ACCESS_TOKEN"),
    prefixed("new-relic", "NRAK-", UPPER + DIGITS, 27, "NEW_RELIC_API_KEY"),
    named("datadog-api", lambda rng: draw(rng, HEX, 32), "DD_API_KEY", "DATADOG_API_KEY"),
    named("datadog-app", lambda rng: draw(rng, HEX, 40), "DD_APP_KEY", "DD_APPLICATION_KEY"),
    prefixed("sentry-user", "sntryu_", HEX, 64, "SENTRY_AUTH_TOKEN"),
    prefixed("vault-service", "hvs.", URLSAFE, 95, "VAULT_TOKEN"),
    prefixed("doppler", "dp.pt.", ALNUM, 43, "DOPPLER_TOKEN"),
    prefixed("linear", "lin_api_", ALNUM, 40, "LINEAR_API_KEY"),
    prefixed("notion", "ntn_", ALNUM, 46, "NOTION_TOKEN"),
    prefixed("figma", "figd_", URLSAFE, 40, "FIGMA_TOKEN"),
    prefixed("atlassian", "ATATT3xFfGF0", URLSAFE, 172, "JIRA_API_TOKEN", end="=8A1B2C3D"),
    prefixed("databricks", "dapi", HEX, 32, "DATABRICKS_TOKEN"),
    formed(
        "grafana-service",
        lambda rng: f"glsa_{draw(rng, ALNUM, 32)}_{draw(rng, HEX, 8)}",
        "GRAFANA_TOKEN",
    ),
    prefixed("planetscale", "pscale_tkn_", URLSAFE, 43, "PLANETSCALE_TOKEN"),
    prefixed("supabase", "sbp_", HEX, 40, "SUPABASE_ACCESS_TOKEN"),
    prefixed("groq", "gsk_", ALNUM, 52, "GROQ_API_KEY"),
    prefixed("perplexity", "pplx-", ALNUM, 48, "PERPLEXITY_API_KEY"),
    prefixed("xai", "xai-", ALNUM, 80, "XAI_API_KEY"),
    prefixed("replicate", "r8_", ALNUM, 37, "REPLICATE_API_TOKEN"),
    prefixed("openrouter", "sk-or-v1-", HEX, 64, "OPENROUTER_API_KEY"),
    prefixed("deepseek", "sk-", HEX, 32, "DEEPSEEK_API_KEY"),
    prefixed("langsmith", "lsv2_pt_", HEX, 32, "LANGSMITH_API_KEY", end="_0a1b2c3d4e"),
    formed("postman", postman, "POSTMAN_API_KEY"),
    formed("airtable", airtable, "AIRTABLE_TOKEN"),
    named("okta", lambda rng: f"00{draw(rng, URLSAFE, 40)}", "OKTA_API_TOKEN", "OKTA_TOKEN"),
    formed("tailscale", tailscale, "TS_AUTHKEY", "TAILSCALE_AUTHKEY"),
    prefixed("age", "AGE-SECRET-KEY-1", "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58, "SOPS_AGE_KEY"),
    prefixed("rubygems", "rubygems_", HEX, 48, "GEM_HOST_API_KEY"),
    prefixed("crates-io", "cio", ALNUM, 32, "CARGO_REGISTRY_TOKEN"),
    prefixed("nuget", "oy2", LOWER + "234567", 43, "NUGET_API_KEY"),
    formed("terraform-cloud", terraform_cloud, "TFE_TOKEN", "TF_TOKEN_app_terraform_io"),
    prefixed("pulumi", "pul-", HEX, 40, "PULUMI_ACCESS_TOKEN"),
    formed("fly-io", fly, "FLY_API_TOKEN"),
    prefixed("netlify", "nfp_", ALNUM, 36, "NETLIFY_AUTH_TOKEN"),
    named("vercel", lambda rng: draw(rng, ALNUM, 24), "VERCEL_TOKEN"),
    formed("mapbox-secret", mapbox_secret, "MAPBOX_SECRET_TOKEN"),
    named("launchdarkly", lambda rng: f"sdk-{uuid_of(rng)}", "LAUNCHDARKLY_SDK_KEY"),
    prefixed("artifactory", "AKCp", ALNUM, 69, "ARTIFACTORY_API_KEY"),
    named("circleci", lambda rng: draw(rng, HEX, 40), "CIRCLECI_TOKEN", "CIRCLE_TOKEN"),
    named("snyk", uuid_of, "SNYK_TOKEN"),
    named("pagerduty", lambda rng: f"u+{draw(rng, ALNUM, 18)}", "PAGERDUTY_API_KEY"),
    named("algolia-admin", lambda rng: draw(rng, HEX, 32), "ALGOLIA_ADMIN_KEY"),
    named("wireguard", lambda rng: base64_of(rng, 32), "PrivateKey", "WG_PRIVATE_KEY"),
    named(
        "django-secret",
        lambda rng: draw(rng, LOWER + DIGITS + "!@#$%^&*(-_=+)", 50),
        "SECRET_KEY",
        "DJANGO_SECRET_KEY",
    ),
    named("hmac-secret", lambda rng: draw(rng, HEX, 64), "JWT_SECRET", "SESSION_SECRET"),
    named("encryption-key", lambda rng: base64_of(rng, 32), "ENCRYPTION_KEY", "APP_KEY"),
    named("totp-seed", lambda rng: draw(rng, BASE32, 32), "TOTP_SECRET", "MFA_SEED"),
)
