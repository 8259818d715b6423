"""Pseudonyms: collected in a first pass, given in order, and the same in every place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from allotment.model.core import HOSTNAME_LABEL
from allotment.model.trees import Tree
from allotment.vocabulary.driver_detection import telling

#: Names that everybody's cluster has tell nothing.
_COMMON = {
    "namespace": frozenset({"default", "kube-system", "kube-public", "kube-node-lease"}),
    "priority": frozenset({"system-cluster-critical", "system-node-critical"}),
    "account": frozenset({"default"}),
    "lease": frozenset({"kube-scheduler", "kube-controller-manager"}),
}
#: Labels and taints whose values are Kubernetes', a vendor's or a cloud's words: what a machine is, and has.
_PLAIN_KEY = re.compile(
    r"(beta\.)?kubernetes\.io/(arch|os)|(node|beta)\.kubernetes\.io/instance-type|(nvidia|amd)\.com/.+"
    r"|karpenter\.k8s\.aws/instance-.+|karpenter\.sh/capacity-type|eks\.amazonaws\.com/capacityType"
    r"|cloud\.google\.com/gke-(accelerator|gpu-.+)|k8s\.amazonaws\.com/accelerator"
    r"|kubernetes\.azure\.com/(accelerator|scalesetpriority)"
)
#: Yes, no, a small number, and what our own parts are called.
_PLAIN_VALUE = re.compile(r"|true|false|[0-9]{1,6}|allotment|driver-nvidia|driver-amd")
#: In a text a word may be the name of several things; which of them is meant, nobody can tell.
_KINDS = (
    "pod", "claim", "node", "template", "namespace", "pool", "slice", "volume", "deployment", "statefulset", "job",
    "replicaset", "daemonset", "cronjob", "podgroup", "quota", "rule", "owner",
)  # fmt: skip


class Pseudonyms:
    """Original names by sort, and their pseudonyms once all are known.

    >>> names = Pseudonyms()
    >>> names.of("pod", "web-1"), names.of("pod", "db-0")
    ('web-1', 'db-0')
    >>> names.assign()
    >>> names.of("pod", "web-1"), names.of("pod", "db-0"), names.of("namespace", "default")
    ('pod-2', 'pod-1', 'default')
    """

    def __init__(self) -> None:
        self._known: dict[str, set[str]] = {}
        self._given: dict[str, dict[str, str]] | None = None
        self._words: dict[str, str] = {}
        self._kept: frozenset[str] = frozenset()
        self._plain: dict[str, set[str]] = {}

    def assign(self, kept: frozenset[str] = frozenset()) -> None:
        """Everything has been seen: from now on pseudonyms are told. ``kept``: texts that stay as they are."""
        self._kept = kept.difference(*(known for sort, known in self._known.items() if sort != "word"))
        given: dict[str, dict[str, str]] = {}
        for sort, names in self._known.items():
            width = len(str(len(names)))
            given[sort] = {
                name: f"{sort}-{number:0{width}}{_driver(sort, name)}" for number, name in enumerate(sorted(names), 1)
            }
        # A node's own pool is called like the node.
        nodes = given.get("node", {})
        given["pool"] = {name: nodes.get(name, alias) for name, alias in given.get("pool", {}).items()}
        self._given = given
        for sort in reversed(_KINDS):
            self._words |= given.get(sort, {})

    def of(self, sort: str, name: Any) -> str:
        """The pseudonym of a name; in the first pass the name itself."""
        text = str(name)
        if not text or text in _COMMON.get(sort, ()) or text in self._plain.get(sort, ()):
            return text
        if self._given is None:
            self._known.setdefault(sort, set()).add(text)
            return text
        return self._given[sort][text]

    def keep(self, sort: str, name: str) -> None:
        """This name is told elsewhere, and stays."""
        self._plain.setdefault(sort, set()).add(name)

    def value(self, key: str, value: Any) -> str:
        """The pseudonym of a label's value; yes, no and small numbers are no secret."""
        text = str(value)
        if key == HOSTNAME_LABEL:
            return self.of("node", text)
        if key == "kubernetes.io/metadata.name":
            return self.of("namespace", text)
        return text if _PLAIN_KEY.fullmatch(key) or is_plain(text) else self.of("value", text)

    def labels(self, labels: Mapping[str, Any] | None) -> dict[str, str]:
        """Labels with their values replaced."""
        return {key: self.value(key, value) for key, value in (labels or {}).items()}

    def known(self, text: str, sort: str = "") -> str:
        """The pseudonym of something of that sort, else of any; empty if the text is no name, and in the first pass."""
        return (self._given or {}).get(sort, {}).get(text) or self._words.get(text, "")

    def is_kept(self, text: str) -> bool:
        """Whether the text stands as it is in what is kept; in the first pass that is not known of any."""
        return text in self._kept

    def selectors(self, value: Any) -> Any:
        """Affinities, label and node selectors, spread constraints: whatever selects by labels, at any depth."""
        if isinstance(value, list):
            return [self.selectors(item) for item in value]
        if not isinstance(value, dict):
            return value
        found: Tree = {}
        for key, inner in value.items():
            if key == "matchLabels" and isinstance(inner, dict):
                found[key] = self.labels(inner)
            elif key in ("matchExpressions", "matchFields") and isinstance(inner, list):
                found[key] = [self._requirement(one, field=key == "matchFields") for one in inner]
            elif key == "namespaces" and isinstance(inner, list):
                found[key] = [self.of("namespace", one) for one in inner]
            else:
                found[key] = self.selectors(inner)
        return found

    def _requirement(self, one: Tree, field: bool) -> Tree:
        key = str(one.get("key", ""))
        values = one.get("values")
        if not values:
            return dict(one)
        if field and key == "metadata.name":
            return {**one, "values": [self.of("node", each) for each in values]}
        return {**one, "values": [self.value(key, each) for each in values]}


def _driver(sort: str, name: str) -> str:
    """By these a driver's program is known, so that much of them stays."""
    word = telling(name) if sort in ("daemonset", "image") else ""
    return f"-{word}" if word else ""


def is_plain(value: str) -> bool:
    """Whether a value is nothing that somebody has thought of."""
    return _PLAIN_VALUE.fullmatch(value) is not None


def only(tree: Tree, keys: Iterable[str]) -> Tree:
    """The part of an object that is harmless as it is."""
    return {key: tree[key] for key in keys if key in tree}
