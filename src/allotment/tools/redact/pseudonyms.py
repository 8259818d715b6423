"""Pseudonyms of names: collected in a first pass, assigned in sort order, and used consistently."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from allotment.model.core import HOSTNAME_LABEL
from allotment.model.trees import Tree
from allotment.vocabulary.driver_detection import driver_part

#: Names that every cluster has are kept.
_COMMON = {
    "namespace": frozenset({"default", "kube-system", "kube-public", "kube-node-lease"}),
    "priority": frozenset({"system-cluster-critical", "system-node-critical"}),
    "account": frozenset({"default"}),
    "lease": frozenset({"kube-scheduler", "kube-controller-manager"}),
}
#: Keys of labels and taints whose values are defined by Kubernetes, vendors or clouds.
_PLAIN_KEY = re.compile(
    r"(beta\.)?kubernetes\.io/(arch|os)|(node|beta)\.kubernetes\.io/instance-type|(nvidia|amd)\.com/.+"
    r"|karpenter\.k8s\.aws/instance-.+|karpenter\.sh/capacity-type|eks\.amazonaws\.com/capacityType"
    r"|cloud\.google\.com/gke-(accelerator|gpu-.+)|k8s\.amazonaws\.com/accelerator"
    r"|kubernetes\.azure\.com/(accelerator|scalesetpriority)"
)
#: Booleans, small numbers, and names of Allotment's own components.
_PLAIN_VALUE = re.compile(r"|true|false|[0-9]{1,6}|allotment|driver-nvidia|driver-amd")
#: Order in which the kinds of a name are tried for a word in a message.
_KINDS = (
    "pod", "claim", "node", "template", "namespace", "pool", "slice", "volume", "deployment", "statefulset", "job",
    "replicaset", "daemonset", "cronjob", "podgroup", "quota", "rule", "owner",
)  # fmt: skip


class Pseudonyms:
    """Original names by kind, and their pseudonyms after all names are collected.

    >>> names = Pseudonyms()
    >>> names.of("pod", "web-1"), names.of("pod", "db-0")
    ('web-1', 'db-0')
    >>> names.assign()
    >>> names.of("pod", "web-1"), names.of("pod", "db-0"), names.of("namespace", "default")
    ('pod-2', 'pod-1', 'default')
    """

    def __init__(self) -> None:
        self._known: dict[str, set[str]] = {}
        self._assigned: dict[str, dict[str, str]] | None = None
        self._words: dict[str, str] = {}
        self._kept: frozenset[str] = frozenset()
        self._plain: dict[str, set[str]] = {}

    def assign(self, kept: frozenset[str] = frozenset()) -> None:
        """Assign pseudonyms after all names were collected. ``kept``: texts that are not replaced."""
        self._kept = kept.difference(*(known for kind, known in self._known.items() if kind != "word"))
        given: dict[str, dict[str, str]] = {}
        for kind, names in self._known.items():
            width = len(str(len(names)))
            given[kind] = {
                name: f"{kind}-{number:0{width}}{_driver(kind, name)}" for number, name in enumerate(sorted(names), 1)
            }
        # A pool with the name of its node gets the same pseudonym.
        nodes = given.get("node", {})
        given["pool"] = {name: nodes.get(name, alias) for name, alias in given.get("pool", {}).items()}
        self._assigned = given
        for kind in reversed(_KINDS):
            self._words |= given.get(kind, {})

    def of(self, kind: str, name: Any) -> str:
        """The pseudonym of a name; during collection the name itself."""
        text = str(name)
        if not text or text in _COMMON.get(kind, ()) or text in self._plain.get(kind, ()):
            return text
        if self._assigned is None:
            self._known.setdefault(kind, set()).add(text)
            return text
        return self._assigned[kind][text]

    def keep(self, kind: str, name: str) -> None:
        """Keep this name, because it is also contained in kept fields."""
        self._plain.setdefault(kind, set()).add(name)

    def value(self, key: str, value: Any) -> str:
        """The pseudonym of a label's value; booleans and small numbers are kept."""
        text = str(value)
        if key == HOSTNAME_LABEL:
            return self.of("node", text)
        if key == "kubernetes.io/metadata.name":
            return self.of("namespace", text)
        return text if _PLAIN_KEY.fullmatch(key) or is_plain(text) else self.of("value", text)

    def labels(self, labels: Mapping[str, Any] | None) -> dict[str, str]:
        """Labels with redacted values."""
        return {key: self.value(key, value) for key, value in (labels or {}).items()}

    def known(self, text: str, kind: str = "") -> str:
        """The pseudonym of a name of that kind, else of any kind; empty for other texts and during collection."""
        return (self._assigned or {}).get(kind, {}).get(text) or self._words.get(text, "")

    def is_kept(self, text: str) -> bool:
        """Whether the text is contained in the kept fields; false during collection."""
        return text in self._kept

    def selectors(self, value: Any) -> Any:
        """A value with redacted label selectors, node selectors and affinities at any depth."""
        if isinstance(value, list):
            return [self.selectors(item) for item in value]
        if not isinstance(value, dict):
            return value
        found: Tree = {}
        for key, inner in value.items():
            if key == "matchLabels" and isinstance(inner, dict):
                found[key] = self.labels(inner)
            elif key in ("matchExpressions", "matchFields") and isinstance(inner, list):
                found[key] = [self._requirement(item, field=key == "matchFields") for item in inner]
            elif key == "namespaces" and isinstance(inner, list):
                found[key] = [self.of("namespace", item) for item in inner]
            else:
                found[key] = self.selectors(inner)
        return found

    def _requirement(self, item: Tree, field: bool) -> Tree:
        key = str(item.get("key", ""))
        values = item.get("values")
        if not values:
            return dict(item)
        if field and key == "metadata.name":
            return {**item, "values": [self.of("node", each) for each in values]}
        return {**item, "values": [self.value(key, each) for each in values]}


def _driver(kind: str, name: str) -> str:
    """A suffix that preserves the part of a name by which driver pods are recognized."""
    word = driver_part(name) if kind in ("daemonset", "image") else ""
    return f"-{word}" if word else ""


def is_plain(value: str) -> bool:
    """Whether a value is generic, so that it can be kept."""
    return _PLAIN_VALUE.fullmatch(value) is not None


def only(tree: Tree, keys: Iterable[str]) -> Tree:
    """The mapping restricted to these keys."""
    return {key: tree[key] for key in keys if key in tree}
