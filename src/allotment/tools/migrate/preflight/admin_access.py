"""Checks for namespaces that must allow admin access; the API server rejects such claims elsewhere (KEP-5018)."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.model.core import Namespace
from allotment.tools.migrate.preflight.check import Check
from allotment.tools.migrate.preflight.facts import Facts

LABEL = "resource.kubernetes.io/admin-access"


def check_admin_access(facts: Facts) -> Iterator[Check]:
    """Check the label of each namespace that needs it."""
    names = dict.fromkeys(name for workload in facts.moving for name in workload.decision.needs.admin_namespaces)
    labelled = {
        value.metadata.name
        for value in facts.migration.target.objects
        if isinstance(value, Namespace) and value.metadata.labels.get(LABEL) == "true"
    }
    for name in names:
        title = f"admin access in {name}"
        if name in labelled:
            yield Check(state="ok", title=title, text=f"Namespace {name} has the label {LABEL}=true.")
        else:
            text = f"The API server rejects the claim unless the namespace has the label {LABEL}=true."
            command = f"kubectl label namespace {name} {LABEL}=true"
            yield Check(state="to do", title=title, text=text, commands=(command,))
