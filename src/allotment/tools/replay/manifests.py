"""Kubernetes objects for a trace: pods with ResourceClaims, and nodes with ResourceSlices.

- A share of a GPU is a capacity request on a device that several claims can use (KEP-5075): every GPU has 1,000
  ``shares`` (``consumable-shares=1000`` of ``--fleet``), and a whole GPU is all of them.
- Several GPUs are one request with a count; a list of models is a CEL selector on ``productName``.
- A maximum of N pods of an application on a node is a topology spread over hostnames (KEP-895): with fewer nodes than
  ``minDomains`` (KEP-3022) the global minimum counts as 0, so that ``maxSkew`` is the limit.

So the scheduler and the engine treat a trace like any cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from allotment.fleet.device_classes import CLASSES
from allotment.fleet.modes import ConsumableShares
from allotment.fleet.nvidia.gpu import DRIVER, Gpu, gpu_uuid
from allotment.fleet.nvidia.gpu_devices import counted_gpu
from allotment.model.core import HOSTNAME_LABEL, Node, Pod
from allotment.model.meta import Object, ObjectMeta
from allotment.model.quantity import Quantity
from allotment.model.resource import (
    CapacityRequirements,
    CELDeviceSelector,
    DeviceClaim,
    DeviceRequest,
    DeviceSelector,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from allotment.model.trees import Tree, to_value
from allotment.tools.replay.trace import WHOLE, TraceNode, TracePod

#: The DeviceClass of the claims.
CLASS: Final = "gpu.nvidia.com"
#: The name of a pod's claim, in the pod.
CLAIM: Final = "gpu"
NAMESPACE: Final = "default"

#: More nodes than any cluster has, so that ``maxSkew`` is always the limit.
_UNLIMITED: Final = 2**31 - 1


#: Product names, as the driver publishes them, of GPUs in the catalog that represent a trace's models.
#: P100 is no longer offered: V100 is its successor with the same memory. G2 and G3 are undisclosed types of eight GPUs
#: with 96 and 128 CPUs: A100 with 40 and 80 GB, offered as eight GPUs, represent them. H800 and A800 are H100 and A100
#: for another market. GPU-series-1 and -2 are undisclosed and have no representative.
PRODUCTS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "T4": ("Tesla T4",),
        "A10": ("NVIDIA A10", "NVIDIA A10G"),
        "P100": ("Tesla V100-SXM2-16GB", "Tesla V100-PCIE-16GB"),
        "V100M16": ("Tesla V100-SXM2-16GB", "Tesla V100-PCIE-16GB"),
        "V100M32": ("Tesla V100-SXM2-32GB",),
        "G2": ("NVIDIA A100-SXM4-40GB",),
        "G3": ("NVIDIA A100-SXM4-80GB",),
        "A100-SXM4-80GB": ("NVIDIA A100-SXM4-80GB",),
        "A800-SXM4-80GB": ("NVIDIA A100-SXM4-80GB",),
        "H800": ("NVIDIA H100 80GB HBM3",),
    }
)


def objects_of(pods: Iterable[TracePod], products: Mapping[str, tuple[str, ...]] | None = None) -> tuple[Object, ...]:
    """The pods of a trace, each followed by its ResourceClaim if it requests GPUs.

    ``products``: product names by model. None for the trace's own nodes (`nodes_of`), which publish the model as the
    product name; `PRODUCTS` for machines of the catalog. A model without an entry keeps its name.

    >>> pod, claim = objects_of([TracePod("p", 4000, 8192, 1, 460, ("T4",))], PRODUCTS)
    >>> claim.spec.devices.requests[0].exactly.selectors[0].cel.expression
    "device.attributes['gpu.nvidia.com'].productName in ['Tesla T4']"
    """
    objects: list[Object] = []
    for each in pods:
        tree = pod_tree(each)
        objects.append(to_value(tree, Pod))
        if each.gpus:
            objects.append(claim_of(each, products))
    return tuple(objects)


def nodes_of(nodes: Iterable[TraceNode]) -> tuple[Object, ...]:
    """The nodes of a trace, the slices of their GPUs, and the DeviceClass of the claims."""
    objects: list[Object] = []
    for each in nodes:
        objects.append(to_value(node_tree(each), Node))
        if each.gpus:
            objects.append(slice_of(each))
    return (*objects, *(each for each in CLASSES["nvidia"] if each.metadata.name == CLASS))


def name_of(each: TracePod | TraceNode) -> str:
    """A valid Kubernetes name for a pod or node of the trace.

    >>> name_of(TracePod("instance_7", 1, 1, 0, 0))
    'instance-7'
    """
    return "".join(c if c.isascii() and (c.isalnum() or c in "-.") else "-" for c in each.name.lower()).strip("-.")


def pod_tree(pod: TracePod) -> Tree:
    """The pod as a manifest."""
    name = name_of(pod)
    requests = {"cpu": f"{pod.cpu_milli}m", "memory": f"{pod.memory_mib}Mi"}
    container: Tree = {"name": "main", "image": "trace", "resources": {"requests": requests}}
    metadata: Tree = {"name": name, "namespace": NAMESPACE}
    spec: Tree = {"containers": [container]}
    if pod.gpus:
        container["resources"]["claims"] = [{"name": CLAIM}]
        spec["resourceClaims"] = [{"name": CLAIM, "resourceClaimName": f"{name}-{CLAIM}"}]
    if pod.per_node is not None:
        label = pod.app.replace("/", "-")
        metadata["labels"] = {"app": label}
        spec |= _spread_constraint(pod.per_node, {"matchLabels": {"app": label}})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _spread_constraint(pods: int, selector: Tree) -> Tree:
    """The topology spread constraint for a maximum number of pods on a node."""
    constraint = {
        "maxSkew": pods, "topologyKey": HOSTNAME_LABEL, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector,
        "minDomains": _UNLIMITED,
    }  # fmt: skip
    return {"topologySpreadConstraints": [constraint]}


def claim_of(pod: TracePod, products: Mapping[str, tuple[str, ...]] | None = None) -> ResourceClaim:
    """The claim of a pod that requests GPUs."""
    request = ExactDeviceRequest(
        device_class_name=CLASS,
        selectors=_selectors(pod.models, products or {}),
        allocation_mode="ExactCount",
        count=pod.gpus,
        capacity=CapacityRequirements(requests={"shares": Quantity.of_int(pod.gpu_milli)}),
    )
    return ResourceClaim(
        metadata=ObjectMeta(name=f"{name_of(pod)}-{CLAIM}", namespace=NAMESPACE),
        spec=ResourceClaimSpec(devices=DeviceClaim(requests=(DeviceRequest(name=CLAIM, exactly=request),))),
    )


def _selectors(models: Sequence[str], products: Mapping[str, tuple[str, ...]]) -> tuple[DeviceSelector, ...]:
    if not models:
        return ()
    names = dict.fromkeys(name for model in models for name in products.get(model, (model,)))
    listed = ", ".join("'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'" for name in names)
    expression = f"device.attributes['{DRIVER}'].productName in [{listed}]"
    return (DeviceSelector(cel=CELDeviceSelector(expression=expression)),)


def node_tree(node: TraceNode) -> Tree:
    """The node as a manifest; its memory is practically unlimited if the trace does not contain it."""
    name = name_of(node)
    allocatable = {"cpu": f"{node.cpu_milli}m", "pods": str(_UNLIMITED)}
    allocatable["memory"] = f"{node.memory_mib}Mi" if node.memory_mib is not None else f"{_UNLIMITED}Gi"
    labels = {HOSTNAME_LABEL: name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}
    return {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": allocatable, "capacity": dict(allocatable)},
    }  # fmt: skip


def slice_of(node: TraceNode) -> ResourceSlice:
    """The ResourceSlice of a node of the trace: its GPUs with their shares."""
    name = name_of(node)
    return ResourceSlice(
        metadata=ObjectMeta(name=f"{name}-{DRIVER}"),
        spec=ResourceSliceSpec(
            driver=DRIVER,
            pool=ResourcePool(name=name, generation=1, resource_slice_count=1),
            node_name=name,
            devices=tuple(counted_gpu(_gpu(name, node.model, n), ConsumableShares(WHOLE)) for n in range(node.gpus)),
        ),
    )


def _gpu(node: str, model: str, minor: int) -> Gpu:
    pci = f"0000:{minor + 1:02x}:00.0"
    # Attributes that the trace does not contain are not published.
    return Gpu(
        pci=pci, uuid=gpu_uuid(node, pci), minor=minor, product=model, brand="", architecture="",
        compute_capability="", driver_version="", cuda_driver_version="", memory_bytes=None,
    )  # fmt: skip
