"""The kinds NodeMetrics and PodMetrics, which are computed when they are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from allotment.apiserver.custom_resources.kinds import kind_from_definition
from allotment.apiserver.kinds.kind import Column, ComputeEntries, ServedKind, StoreReader, TableConverter
from allotment.apiserver.resource_metrics.usage import node_metrics, pod_metrics
from allotment.model.quantity import Quantity
from allotment.model.trees import Tree

_GROUP: Final = "metrics.k8s.io"
_VERSION: Final = "v1beta1"
_USAGE: Final[Tree] = {
    "type": "object",
    "additionalProperties": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True},
}
_TIMES: Final[Tree] = {"timestamp": {"type": "string", "format": "date-time"}, "window": {"type": "string"}}
_CONTAINER: Final[Tree] = {"type": "object", "properties": {"name": {"type": "string"}, "usage": _USAGE}}
_MEBIBYTE: Final = 2**20


def metrics_kinds() -> tuple[ServedKind, ...]:
    """The kinds of ``metrics.k8s.io``, in the order of metrics-server's discovery."""
    containers: Tree = {"containers": {"type": "array", "items": _CONTAINER}}
    return (
        _kind("NodeMetrics", "nodes", "Cluster", {"usage": _USAGE}, node_metrics, _node_usage),
        _kind("PodMetrics", "pods", "Namespaced", containers, pod_metrics, _pod_usage),
    )


def _kind(
    kind: str, plural: str, scope: str, properties: Tree, compute: ComputeEntries, usage: Callable[[Tree], list[Tree]]
) -> ServedKind:
    schema: Tree = {"type": "object", "properties": {**_TIMES, **properties}}
    version = {"name": _VERSION, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": kind, "plural": plural}
    made = kind_from_definition({
        "spec": {"group": _GROUP, "names": names, "scope": scope, "versions": [version]},
        "status": {"conditions": [{"type": "Established", "status": "True"}]},
    })  # fmt: skip
    assert made is not None, "the version is served"

    def cells(tree: Tree, now: str, reader: StoreReader) -> list[object]:
        amounts = usage(tree)
        cpu = -(-sum(Quantity.parse(amount["cpu"]).nano for amount in amounts) // 10**6)
        memory = sum(Quantity.parse(amount["memory"]).nano for amount in amounts) // 10**9 // _MEBIBYTE
        return [tree["metadata"]["name"], f"{cpu}m", f"{memory}Mi", tree["window"]]

    columns = (
        Column("Name", "string", "Name of the resource", format="name"), Column("cpu", "string", ""),
        Column("memory", "string", ""), Column("Window", "string", ""),
    )  # fmt: skip
    return made._replace(
        verbs=("get", "list"), singular="", computed=compute, table=TableConverter(columns, cells), fields={}
    )


def _node_usage(tree: Tree) -> list[Tree]:
    return [tree["usage"]]


def _pod_usage(tree: Tree) -> list[Tree]:
    return [container["usage"] for container in tree["containers"]]
