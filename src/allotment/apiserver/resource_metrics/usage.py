"""The usage of pods and nodes, as annotations state it.

``allotment.dev/usage: cpu=250m,memory=64Mi`` on a pod is the usage of each of its containers, and
``allotment.dev/usage.NAME`` that of the container NAME. On a node it is the usage of the node; without it, that of its
pods. A pod without annotations has no metrics, like one that metrics-server has not read yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from allotment.apiserver.kinds.kind import StoreReader
from allotment.apiserver.storage.store import Entry
from allotment.model.quantity import Quantity, QuantityError
from allotment.model.trees import Tree

API_VERSION: Final = "metrics.k8s.io/v1beta1"
USAGE: Final = "allotment.dev/usage"
#: The interval of the measurement, that of metrics-server.
_WINDOW: Final = "15s"
_RESOURCES: Final = ("cpu", "memory")
_NANO: Final = 10**9
_KIBI: Final = 1024 * _NANO

Usage = Mapping[str, Quantity]


def pod_metrics(reader: StoreReader, namespace: str | None, now: str) -> list[Entry]:
    """The PodMetrics of the running pods with a stated usage."""
    found: list[Entry] = []
    for entry in reader.list("pods", namespace):
        annotations = entry.tree["metadata"].get("annotations")
        if annotations is None or (entry.tree.get("status") or {}).get("phase") != "Running":
            continue
        containers = container_usage(entry.tree)
        if containers:
            listed = [{"name": name, "usage": _texts(usage)} for name, usage in containers.items()]
            found.append(_entry("PodMetrics", entry, now, reader.revision, {"containers": listed}))
    return found


def node_metrics(reader: StoreReader, namespace: str | None, now: str) -> list[Entry]:
    """The NodeMetrics of all nodes."""
    on_node: dict[str, list[Usage]] = {}
    for entry in reader.list("pods"):
        if entry.tree["metadata"].get("annotations") and (entry.tree.get("status") or {}).get("phase") == "Running":
            on_node.setdefault(entry.tree["spec"].get("nodeName", ""), []).extend(container_usage(entry.tree).values())
    found: list[Entry] = []
    for entry in reader.list("nodes"):
        stated = _parsed((entry.tree["metadata"].get("annotations") or {}).get(USAGE, ""))
        usage = _sum(on_node.get(entry.name, ())) | stated
        found.append(_entry("NodeMetrics", entry, now, reader.revision, {"usage": _texts(usage)}))
    return found


def container_usage(pod: Tree) -> dict[str, Usage]:
    """The stated usage of the containers of a pod."""
    annotations = pod["metadata"].get("annotations") or {}
    if not any(name.startswith(USAGE) for name in annotations):
        return {}
    found: dict[str, Usage] = {}
    for container in pod["spec"]["containers"]:
        text = annotations.get(f"{USAGE}.{container['name']}", annotations.get(USAGE, ""))
        if usage := _parsed(text):
            found[container["name"]] = {name: usage.get(name, Quantity.ZERO) for name in _RESOURCES}
    return found


def _parsed(text: str) -> dict[str, Quantity]:
    """The amounts of an annotation; parts that are not valid are left out."""
    found: dict[str, Quantity] = {}
    for part in text.split(","):
        name, _, amount = part.strip().partition("=")
        if name in _RESOURCES:
            try:
                quantity = Quantity.parse(amount)
            except QuantityError:
                continue
            if quantity.nano >= 0:
                found[name] = quantity
    return found


def _sum(usages: Sequence[Usage]) -> dict[str, Quantity]:
    cpu = sum(usage["cpu"].nano for usage in usages)
    memory = sum(usage["memory"].nano for usage in usages)
    return {"cpu": Quantity.parse(f"{cpu}n"), "memory": Quantity.parse(f"{-(-memory // _KIBI)}Ki")}


def _texts(usage: Usage) -> dict[str, str]:
    return {name: str(quantity) for name, quantity in usage.items()}


def _entry(kind: str, about: Entry, now: str, revision: int, content: Tree) -> Entry:
    """An object about a pod or node. It has no resourceVersion of its own."""
    metadata: Tree = {"name": about.name, "creationTimestamp": now}
    if about.namespace:
        metadata["namespace"] = about.namespace
    if labels := about.tree["metadata"].get("labels"):
        metadata["labels"] = labels
    tree: Tree = {
        "apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "timestamp": now, "window": _WINDOW, **content
    }  # fmt: skip
    return Entry(about.namespace, about.name, revision, tree, msgspec.json.encode(tree))
