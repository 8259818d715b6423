"""Parses ``--node-class`` and ``--mig-config``, the names of Karpenter's and the MIG manager's objects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from allotment.api.plans.node_classes import parse_node_class
from allotment.errors import InputError
from allotment.fleet.catalog.export.karpenter import NodeClass
from allotment.fleet.errors import suggestion

if TYPE_CHECKING:
    from allotment.autoscaler.providers.karpenter import MigManager


def node_classes(words: Iterable[str], providers: Sequence[str]) -> dict[str, NodeClass]:
    """Return node classes by provider; one without a provider applies to all. Raises InputError."""
    found: dict[str, NodeClass] = {}
    for text in words:
        name, equals, rest = text.partition("=")
        if equals and name not in providers:
            hint = suggestion(name, providers) or f"known: {', '.join(providers)}"
            raise InputError(f"--node-class: no machines are ordered from provider {name!r}", hint)
        found |= dict.fromkeys([name] if equals else providers, parse_node_class(rest if equals else text))
    return found


def mig_manager(text: str) -> MigManager | None:
    """Return the ConfigMap of the MIG manager, or None for ``none``. Raises InputError."""
    from allotment.autoscaler.providers.karpenter import MigManager

    if text == "none":
        return None
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise InputError(f"--mig-config: expected NAMESPACE/CONFIGMAP or none, found {text!r}", "/".join(MigManager()))
    return MigManager(namespace, name)
