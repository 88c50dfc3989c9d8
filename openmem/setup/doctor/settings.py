"""Checks of openmem's own files: settings and policy."""

from __future__ import annotations

import os

from openmem.base.config import load_config
from openmem.base.counts import counted
from openmem.base.errors import InvalidConfig
from openmem.base.paths import Paths
from openmem.base.policy import KINDS, load_policy
from openmem.setup.doctor.finding import Finding

_KIND_WORDS = {"git": "git repositories", "other": "other folders", "unregistered": "unknown"}


def check_config(paths: Paths) -> Finding:
    """The settings file and `OPENMEM_*` variables."""
    try:
        config = load_config(paths.config_file, paths.environ)
    except InvalidConfig as error:
        return Finding(
            name="config",
            outcome="error",
            subject="settings",
            detail=error.message,
            advice=error.hint or f"mend {paths.config_file}",
        )
    stated = sum(held.source != "default" for held in config.values.values())
    if not stated and not os.path.exists(paths.config_file):
        return Finding(name="config", outcome="ok", detail="settings: the defaults, no file yet")
    return Finding(name="config", outcome="ok", detail=f"settings read, {stated} not default")


def check_policy(paths: Paths) -> Finding:
    """The policy file; without one nothing is stored."""
    policy = load_policy(paths.policy_file, paths.home)
    if policy.problem:
        exists = os.path.exists(paths.policy_file)
        return Finding(
            name="policy",
            outcome="error" if exists else "warning",
            subject="policy",
            detail=f"nothing is stored: {policy.problem.partition('; run')[0]}",
            advice=f"mend {paths.policy_file}" if exists else "openmem setup",
        )
    stored = [_KIND_WORDS[k] for k in KINDS if policy.defaults.get(k, {}).get("store")]
    rules = f", {counted(len(policy.rules), 'rule')}" if policy.rules else ""
    what = f"stored: {', '.join(stored) or 'nothing by default'}{rules}"
    return Finding(name="policy", outcome="ok", detail=f"policy read; {what}")
