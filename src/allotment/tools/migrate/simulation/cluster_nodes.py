"""The nodes of a cluster with the resources of their device plugins, minus the use of running pods.

Resource names and labels specify what is counted: GPUs of a product, partitions of a profile, or shares of a GPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from allotment.explanation.node_eligibility import UNSCHEDULABLE
from allotment.fleet.gpu_product_labels import product_of_label
from allotment.model.core import HOSTNAME_LABEL, Node, Pod
from allotment.model.pod_resources import pod_requests, with_default_requests
from allotment.model.resource import ResourceSlice
from allotment.model.trees import to_tree
from allotment.tools.migrate.plugin_config import REPLICAS_LABELS, single_profile
from allotment.tools.migrate.resource_names import SHARED, amd_partition, mig_profile, vendor_of
from allotment.tools.migrate.simulation.device_kind import DeviceKind, kind_of_device
from allotment.tools.migrate.simulation.plugin_node import FRACTIONS, Offer, PluginNode
from allotment.tools.migrate.simulation.plugin_supply import CountedSupply, FractionSupply

PRODUCT: Final = "nvidia.com/gpu.product"
_AMD_PRODUCTS: Final = ("amd.com/gpu.product-name", "beta.amd.com/gpu.product-name")


def cluster_nodes(nodes: Iterable[Node], slices: Iterable[ResourceSlice], users: Iterable[Pod]) -> list[PluginNode]:
    """The nodes with the resources that ``users``, the running pods that stay, leave."""
    products = _products(slices)
    pods: dict[str, list[Pod]] = {}
    for pod in users:
        pods.setdefault(pod.spec.node_name, []).append(pod)
    return [_node(node, products.get(node.metadata.name, ""), pods.get(node.metadata.name, ())) for node in nodes]


def _node(node: Node, product: str, users: Iterable[Pod]) -> PluginNode:
    labels = {HOSTNAME_LABEL: node.metadata.name, **node.metadata.labels}
    taints = node.spec.taints + ((UNSCHEDULABLE,) if node.spec.unschedulable else ())
    supply = CountedSupply(
        {name: (count, _kind(name, labels, product)) for name, count in plugged_resources(node).items()}
    )
    for pod in users:
        for resource, count in extended_of(pod).items():
            supply.use(resource, count)
    offers = [Offer(labels, supply, None)]
    gpus, memory = labels.get("nvidia.com/gpu.count", ""), labels.get("nvidia.com/gpu.memory", "")
    if gpus.isdecimal() and memory.isdecimal():
        parts = FractionSupply(int(gpus), int(memory), _kind("nvidia.com/gpu", labels, product).product)
        offers.append(Offer(labels, parts, FRACTIONS))
    return PluginNode(node.metadata.name, offers, taints, given=True)


def plugged_resources(node: Node) -> dict[str, int]:
    """The amounts that GPU device plugins publish on a node, by resource name."""
    amounts = node.status.allocatable
    return {name: amounts[name].value() for name in amounts if vendor_of(name) and amounts[name].sign() > 0}


def extended_of(pod: Pod) -> dict[str, int]:
    """The GPU device plugin resources of a pod, by resource name."""
    requests = pod_requests(with_default_requests(to_tree(pod.spec)))
    return {name: amount.value() for name, amount in requests.items() if vendor_of(name) and amount.sign() > 0}


def _kind(resource: str, labels: Mapping[str, str], product: str) -> DeviceKind:
    profile = mig_profile(resource) or amd_partition(resource)
    labelled = ""
    if vendor_of(resource) == "nvidia":
        label = labels.get(PRODUCT, "")
        profile = profile or single_profile(label)
        labelled = product_of_label(label)[0]
    elif vendor_of(resource) == "amd":
        labelled = next((labels[key] for key in _AMD_PRODUCTS if key in labels), "")
        mode = labels.get("amd.com/compute-memory-partition", "").lower()
        profile = profile or ("" if mode.startswith("spx") else mode)
    replicas = next((labels[key] for key in REPLICAS_LABELS if key in labels), "1")
    is_shared = resource.endswith(SHARED) or (resource == "nvidia.com/gpu" and replicas not in ("0", "1"))
    return DeviceKind(
        product=product or labelled, profile="" if profile.startswith("spx") else profile, shared=is_shared
    )


def _products(slices: Iterable[ResourceSlice]) -> dict[str, str]:
    """The product of each node's devices, if it is the same for all."""
    found: dict[str, set[str]] = {}
    for slice_ in slices:
        for device in slice_.spec.devices or ():
            name = kind_of_device(device, slice_.spec.driver, False).product
            if name:
                found.setdefault(slice_.spec.node_name or device.node_name or "", set()).add(name)
    return {node: next(iter(names)) for node, names in found.items() if len(names) == 1}
