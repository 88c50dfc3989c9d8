"""Keys that a vendor's own prefix gives away, for the vendors that gitleaks' rules leave out, or
match only beside a name or with one exact length. Prefixes that are parts of common words are not
here: their keyword would run the rule over every text.

Source: the vendors' documentation and the token formats that they publish for secret scanning,
read 2026-11-30. A length is the least that the vendor has issued; longer ones are masked whole.
"""

from __future__ import annotations

VENDOR_PREFIXES: tuple[tuple[str, str, int], ...] = (
    # prefix, what follows (h: small hex, w: letters and digits, u: also - and _), at least
    ("dckr_pat_", "u", 20),
    ("dckr_oat_", "u", 20),
    ("sq0csp-", "u", 40),
    ("sq0atp-", "u", 20),
    ("sq0idp-", "u", 20),
    ("ATATT3xFfGF0", "u", 100),
    ("ATCTT3xFfGN0", "u", 100),
    ("ATBB", "w", 32),
    ("sbp_", "h", 40),
    ("sb_secret_", "u", 20),
    ("gsk_", "w", 40),
    ("xai-", "w", 60),
    ("r8_", "w", 36),
    ("pplx-", "w", 40),
    ("lsv2_pt_", "h", 32),
    ("lsv2_sk_", "h", 32),
    ("tskey-auth-", "u", 16),
    ("tskey-api-", "u", 16),
    ("tskey-client-", "u", 16),
    ("oy2", "w", 43),
    ("nfp_", "w", 32),
    ("nfc_", "w", 32),
    ("figd_", "u", 38),
    ("ntn_", "w", 40),
    ("npm_", "w", 36),
    ("glpat-", "u", 18),
    ("glrt-", "u", 18),
    ("gldt-", "u", 18),
    ("glft-", "u", 18),
    ("glsoat-", "u", 18),
    ("glcbt-", "u", 18),
    ("glimt-", "u", 18),
    ("gloas-", "u", 32),
    ("glptt-", "u", 32),
    ("glagent-", "u", 32),
    ("cio", "w", 32),
    ("rubygems_", "h", 40),
    ("NRAK-", "w", 27),
    ("NRJS-", "w", 19),
    ("NRII-", "u", 30),
    ("PMAK-", "u", 50),
    ("pscale_tkn_", "u", 32),
    ("pscale_oauth_", "u", 32),
    ("pscale_pw_", "u", 32),
    ("shpat_", "w", 32),
    ("shpca_", "w", 32),
    ("shppa_", "w", 32),
    ("shpss_", "w", 32),
    ("dop_v1_", "h", 60),
    ("doo_v1_", "h", 60),
    ("dor_v1_", "h", 60),
    ("dapi", "h", 32),
    ("lin_api_", "w", 32),
    ("lin_oauth_", "w", 32),
    ("glsa_", "u", 32),
    ("glc_eyJ", "u", 32),
    ("sntrys_", "b", 60),
    ("sntryu_", "h", 60),
    ("hvs.", "u", 24),
    ("hvb.", "u", 24),
    ("hvr.", "u", 24),
    ("dp.pt.", "w", 40),
    ("dp.st.", "u", 40),
    ("pul-", "h", 40),
    ("sk_live_", "w", 16),
    ("rk_live_", "w", 16),
    ("sk_test_", "w", 16),
    ("rk_test_", "w", 16),
    ("whsec_", "w", 24),
    ("xkeysib-", "u", 60),
    ("xsmtpsib-", "u", 60),
    ("phx_", "w", 40),
    ("e2b_", "h", 32),
    ("tvly-", "u", 30),
    ("jina_", "u", 40),
    ("nvapi-", "u", 40),
    ("csk-", "w", 40),
    ("tgp_v1_", "u", 40),
    ("vcp_", "w", 50),
    ("cfut_", "w", 40),
    ("ghp_", "w", 36),
    ("pat-na1-", "u", 30),
    ("pat-eu1-", "u", 30),
    ("HRKU-", "u", 30),
    ("IQoJb3JpZ2lu", "b", 100),
    ("FwoGZXIvYXdz", "b", 100),
    ("AKCp", "w", 60),
    ("EAAA", "u", 60),
)

_FOLLOWS = {"h": "[a-f0-9]", "w": "[A-Za-z0-9]", "u": "[A-Za-z0-9_-]", "b": "[A-Za-z0-9+/=]"}


def prefix_pattern() -> str:
    """Return one pattern for all; bounded."""
    parts = "|".join(
        f"{prefix.replace('.', chr(92) + '.')}{_FOLLOWS[kind]}{{{least},{least + 300}}}"
        for prefix, kind, least in VENDOR_PREFIXES
    )
    return rf"(?<![A-Za-z0-9_-])(?:{parts})(?![A-Za-z0-9])"


def prefix_keywords() -> tuple[str, ...]:
    return tuple(dict.fromkeys(prefix.lower() for prefix, _, _ in VENDOR_PREFIXES))
