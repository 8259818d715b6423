"""Groups, versions and resources of a set of kinds, as used by all API documents."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from allotment.apiserver.kinds.kind import ServedKind

_VERSION: Final = re.compile(r"v([0-9]+)(?:(alpha|beta)([0-9]+))?")
_STAGES: Final = {None: 2, "beta": 1, "alpha": 0}
_CHANGE: Final = ("get", "patch", "update")


class Subresource(NamedTuple):
    """A subresource: its kind, group and version (empty: the resource's own), and verbs."""

    name: str
    kind: str
    group: str
    version: str
    verbs: tuple[str, ...]


#: Subresources with a type of their own.
_CALLS: Final[Mapping[str, tuple[str, str, str, tuple[str, ...]]]] = {
    "binding": ("", "", "Binding", ("create",)),
    "eviction": ("policy", "v1", "Eviction", ("create",)),
    "token": ("authentication.k8s.io", "v1", "TokenRequest", ("create",)),
    "scale": ("autoscaling", "v1", "Scale", _CHANGE),
    "attach": ("", "", "PodAttachOptions", ("create", "get")),
    "exec": ("", "", "PodExecOptions", ("create", "get")),
    "portforward": ("", "", "PodPortForwardOptions", ("create", "get")),
    "log": ("", "", "", ("get",)),
    "finalize": ("", "", "", ("update",)),
}


def subresources(kind: ServedKind) -> list[Subresource]:
    """A kind's subresources, by name."""
    result = []
    # Those of custom resources are in creation order, as in Kubernetes.
    for name in kind.subresources if kind.shapes else sorted(kind.subresources):
        group, version, other, verbs = _CALLS.get(name, ("", "", "", _CHANGE))
        result.append(Subresource(name, other or kind.kind, group, version, verbs))
    return result


def group_version(group: str, version: str) -> str:
    """The group and version as in ``apiVersion``."""
    return f"{group}/{version}" if group else version


def by_group(kinds: Sequence[ServedKind]) -> dict[str, dict[str, list[ServedKind]]]:
    """Kinds by group in the given order and by version, preferred first; sorted by plural within a version."""
    result: dict[str, dict[str, list[ServedKind]]] = {}
    for kind in sorted(kinds, key=lambda kind: kind.plural):
        for version in kind.versions:
            result.setdefault(kind.group, {}).setdefault(version, []).append(kind)
    order = {kind.group: position for position, kind in reversed(list(enumerate(kinds)))}
    return {
        group: {version: result[group][version] for version in sorted(result[group], key=_rank, reverse=True)}
        for group in sorted(result, key=lambda group: order[group])
    }


def _rank(version: str) -> tuple[int, int, int, str]:
    """The sort key of a version: v2, v1, v1beta2, v1alpha1, then names of any other form."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (-1, 0, 0, version)
    return (_STAGES[match[2]], int(match[1]), int(match[3] or 0), version)
