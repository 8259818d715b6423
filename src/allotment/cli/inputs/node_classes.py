"""``--node-class`` and ``--mig-config``: what Karpenter and NVIDIA's MIG manager have to be told by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from allotment.cli.output.errors import Mistake
from allotment.fleet.catalog.export.karpenter import NodeClass
from allotment.fleet.errors import nearest

if TYPE_CHECKING:
    from allotment.autoscaler.providers.karpenter import MigManager

_EXAMPLE = "karpenter.k8s.aws/EC2NodeClass/gpu"


def node_class(text: str) -> NodeClass:
    """An object that says how nodes are made. Raises Mistake."""
    parts = text.split("/")
    if len(parts) != 3 or not all(parts):
        raise Mistake(f"--node-class: expected GROUP/KIND/NAME, found {text!r}", f"for example {_EXAMPLE}")
    return NodeClass(*parts)


def node_classes(words: Iterable[str], providers: Sequence[str]) -> dict[str, NodeClass]:
    """By provider; one without a provider is for all that may be bought from. Raises Mistake."""
    found: dict[str, NodeClass] = {}
    for text in words:
        name, equals, rest = text.partition("=")
        if equals and name not in providers:
            hint = nearest(name, providers) or f"known: {', '.join(providers)}"
            raise Mistake(f"--node-class: no machines are ordered from {name!r}", hint)
        found |= dict.fromkeys([name] if equals else providers, node_class(rest if equals else text))
    return found


def mig_manager(text: str) -> MigManager | None:
    """Where layouts are written for the MIG manager; ``none``: nowhere. Raises Mistake."""
    from allotment.autoscaler.providers.karpenter import MigManager

    if text == "none":
        return None
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise Mistake(f"--mig-config: expected NAMESPACE/CONFIGMAP or none, found {text!r}", "/".join(MigManager()))
    return MigManager(namespace, name)
