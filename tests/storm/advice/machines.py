"""Kinds of machines of the random worlds, from the profiles of the fleet, and what a pod requests of each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final, Literal, NamedTuple

from allotment.fleet import CLASSES, cluster_of, parse_fleet
from allotment.model.quantity import Quantity
from allotment.model.trees import Tree, to_tree
from tests.storm.advice.worlds import FEATURES

GPU: Final = "gpu.nvidia.com"
MIG: Final = "mig.nvidia.com"
AMD: Final = "gpu.amd.com"
GIB: Final = 1 << 30

#: What a request of a kind of machine is about.
Form = Literal["whole", "mig", "dynamic", "share", "amd"]


class MachineKind(NamedTuple):
    """A kind of machine. ``pool``: the value of its nodes' label `POOL_LABEL`; ``fleet``: in the format of
    ``--fleet``, without the name."""

    pool: str
    fleet: str
    form: Form

    @property
    def driver(self) -> str:
        """The driver of its devices."""
        return AMD if self.form == "amd" else GPU

    @property
    def device_class(self) -> str:
        """The class of the devices that pods request of it."""
        return {"amd": AMD, "mig": MIG, "dynamic": MIG}.get(self.form, GPU)


POOL_LABEL: Final = "example.com/pool"
PRODUCT_LABEL: Final = "nvidia.com/gpu.product"

KINDS: Final = (
    MachineKind("t4", "2xnvidia-t4-16gb", "whole"),
    MachineKind("l4", "2xnvidia-l4-24gb", "whole"),
    MachineKind("a10", "nvidia-a10-24gb", "whole"),
    MachineKind("a30", "a30-2x-pcie", "whole"),
    MachineKind("a100-40gb", "2xnvidia-a100-sxm4-40gb", "whole"),
    MachineKind("a100-80gb", "2xnvidia-a100-sxm4-80gb", "whole"),
    MachineKind("a100-80gb-pcie", "2xnvidia-a100-pcie-80gb", "whole"),
    MachineKind("h100", "3xnvidia-h100-80gb-hbm3", "whole"),
    MachineKind("h100-hgx", "hgx-h100-generic", "whole"),
    MachineKind("dgx-a100", "dgx-a100-40gb", "whole"),
    MachineKind("l40s", "2xnvidia-l40s-48gb", "whole"),
    MachineKind("a100-mig", "nvidia-a100-sxm4-40gb/static-mig=1g.5gb:4+3g.20gb:1", "mig"),
    MachineKind("a30-mig", "a30-2x-pcie/static-mig=1g.6gb:2+2g.12gb:1", "mig"),
    MachineKind("a100-80gb-mig", "nvidia-a100-sxm4-80gb/static-mig=1g.10gb:7", "mig"),
    MachineKind("a30-any-mig", "nvidia-a30-24gb/dynamic-mig", "dynamic"),
    MachineKind("a100-any-mig", "nvidia-a100-sxm4-40gb/dynamic-mig", "dynamic"),
    MachineKind("l4-shared", "nvidia-l4-24gb/shared", "share"),
    MachineKind("l40s-shared", "2xnvidia-l40s-48gb/shared", "share"),
    MachineKind("mi300x", "2xamd-mi300x-192gb", "amd"),
    MachineKind("mi325x", "2xamd-mi325x-256gb", "amd"),
    MachineKind("mi300x-parts", "amd-mi300x-192gb/cpx", "amd"),
)  # fmt: skip


@cache
def _machine(kind: MachineKind) -> tuple[Tree, tuple[Tree, ...]]:
    """The node and the slices of a machine named ``NODE``."""
    created = cluster_of(parse_fleet([f"machine={kind.fleet}"]), FEATURES.kube)
    slices = tuple(to_tree(slice_, "resource.k8s.io/v1", "ResourceSlice") for slice_ in created.slices)
    return to_tree(created.nodes[0], "v1", "Node"), slices


def machine(kind: MachineKind, name: str) -> Iterator[Tree]:
    """The node and the slices of a machine."""
    node, slices = _machine(kind)
    labels = {**node["metadata"]["labels"], "kubernetes.io/hostname": name, POOL_LABEL: kind.pool}
    if kind.form != "amd":
        labels[PRODUCT_LABEL] = product(kind).replace(" ", "-")
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110"}
    yield {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels, "uid": f"uid-{name}"},
        "spec": {"taints": []},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    }  # fmt: skip
    for number, tree in enumerate(slices):
        metadata = {"name": f"{name}-{kind.driver}-{number}", "uid": f"uid-{name}-{number}"}
        spec = {**tree["spec"], "nodeName": name, "pool": {**tree["spec"]["pool"], "name": name}}
        yield {**tree, "metadata": metadata, "spec": spec}


def device_classes() -> Iterator[Tree]:
    """The classes that the vendors' charts install."""
    for device_class in (*CLASSES["nvidia"], *CLASSES["amd"]):
        tree = to_tree(device_class, "resource.k8s.io/v1", "DeviceClass")
        yield {**tree, "metadata": {**tree["metadata"], "uid": f"uid-{tree['metadata']['name']}"}}


# --- devices --------------------------------------------------------------------------------------------------------


@cache
def devices(kind: MachineKind) -> tuple[Tree, ...]:
    """The devices of a machine that its class selects."""
    wanted = {"whole": "gpu", "share": "gpu", "mig": "mig", "dynamic": "mig"}.get(kind.form)
    found = (device for tree in _machine(kind)[1] for device in tree["spec"].get("devices") or ())
    return tuple(device for device in found if wanted in (None, attribute(device, "type")))


def attribute(device: Tree, name: str) -> str:
    """An attribute's value as text; empty without one."""
    value: Mapping[str, object] = (device.get("attributes") or {}).get(name) or {}
    return str(next(iter(value.values()), ""))


def memory(device: Tree) -> int:
    """A device's memory in bytes."""
    return int(Quantity.parse(device["capacity"]["memory"]["value"]).nano // 10**9)


def product(kind: MachineKind) -> str:
    """The product name of a kind's devices."""
    return attribute(_machine(kind)[1][-1]["spec"]["devices"][0], "productName")


def sold_gb(kind: MachineKind) -> int:
    """The GB in the name of a kind's accelerator; 0 if there is none."""
    found = re.search(r"-([0-9]+)gb", kind.fleet.partition("/")[0])
    return int(found[1]) if found else 0
