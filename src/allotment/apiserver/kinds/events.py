"""Events in their two groups: one store of objects in the core shape, shown under other names in events.k8s.io.

A rule of thumb of upstream's: an event written with ``eventTime`` is of the newer kind and must name its controller
and action; one without is taken as it comes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from allotment.apiserver.kinds.kind import Errors, Rules, Write
from allotment.model.validation.errors import invalid, required

Tree = dict[str, Any]

NEW_VERSION: Final = "events.k8s.io/v1"
#: Core name -> name in events.k8s.io.
_RENAMED: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_BACK: Final = {new: old for old, new in _RENAMED.items()}


def to_new(tree: Tree, version: str) -> Tree:
    """A stored event as events.k8s.io shows it."""
    if tree.get("apiVersion") == NEW_VERSION:
        return tree
    return {_RENAMED.get(name, name): value for name, value in tree.items()} | {"apiVersion": NEW_VERSION}


def from_new(tree: Tree, version: str) -> Tree:
    """An event written to events.k8s.io, as stored."""
    if tree.get("apiVersion") == "v1":
        return tree
    return {_BACK.get(name, name): value for name, value in tree.items()} | {"apiVersion": "v1"}


def _event(tree: Tree, write: Write) -> Errors:
    about = (tree.get("involvedObject") or {}).get("namespace") or ""
    own = tree["metadata"].get("namespace") or ""
    # Events about what has no namespace are kept in the default one.
    if about != own and not (not about and own in ("default", "kube-system")):
        yield invalid("involvedObject.namespace", about, "does not match event.namespace")
    if tree.get("eventTime") is None:
        return
    for name, shown in (("reportingComponent", "reportingController"), ("reportingInstance", "reportingInstance"),
                        ("action", "action"), ("reason", "reason")):  # fmt: skip
        if not tree.get(name):
            yield required(shown)
    if tree.get("type") not in ("Normal", "Warning"):
        yield invalid("type", tree.get("type") or "", "")
    if len(tree.get("message") or "") > 1024:
        yield invalid("message", "", "can have at most 1024 characters")


RULES: Final[Mapping[str, Rules]] = {
    "events": Rules(validate_create=_event), "events.events.k8s.io": Rules(validate_create=_event),
}  # fmt: skip
