"""The password with which nodes ask a directory: a secret of the stack, and no part of a declaration or a plan."""

from __future__ import annotations

import pulumi

from stampworks.plan import Plan

_NAMESPACE, _KEY = "stampworks", "directoryPassword"
SET = f"pulumi config set --secret {_NAMESPACE}:{_KEY}"


def password_problem(plan: Plan) -> str:
    """Return why the stack has no usable password for the directory's `bind`; empty if it has one or needs none."""
    if plan.directory is None or not plan.directory.bind:
        return ""
    password = pulumi.Config(_NAMESPACE).get(_KEY)
    if not password:
        return "the stack has no password for it"
    if not pulumi.runtime.is_config_secret(f"{_NAMESPACE}:{_KEY}"):
        return "its password is unencrypted in the stack's file"
    if not password.isprintable() or password != password.strip():
        return "its password has characters that settings of SSSD cannot have"
    return ""


def secrets(plan: Plan) -> dict[str, pulumi.Input[str]]:
    """Return the secret variables of the role `directory`."""
    if plan.directory is None or not plan.directory.bind:
        return {}
    return {"directory_password": pulumi.Config(_NAMESPACE).require_secret(_KEY)}
