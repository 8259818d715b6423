"""Node templates in each mode that a plan can choose, including static MIG with an undecided layout.

``static-mig`` without a layout stands for GPUs whose layout the plan decides (`fleet.nvidia.undecided_layout`). All
other templates are those of the catalog.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from allotment.fleet.catalog.instance_type import CapacityType, InstanceType, Template
from allotment.fleet.catalog.runtime_attributes import runtime_only, symbolic, unmeasured
from allotment.fleet.catalog.templates import ANY, hardware_called, on_node, template_of
from allotment.fleet.errors import FleetError
from allotment.fleet.hardware import Hardware, hardware
from allotment.fleet.modes import Full, parse_mode
from allotment.fleet.nvidia.gpu import DRIVER
from allotment.fleet.nvidia.undecided_layout import undecided_layout_devices
from allotment.fleet.profiles import Accelerator
from allotment.fleet.slices import slices_of
from allotment.fleet.splitting import split
from allotment.model.features import Features
from allotment.model.meta import ObjectMeta
from allotment.model.resource import ResourcePool, ResourceSlice, ResourceSliceSpec
from allotment.model.trees import to_tree

#: The mode of GPUs whose MIG layout the plan decides.
UNDECIDED: Final = "static-mig"


def template(
    instance: InstanceType, mode: str, node: str, kube: str, zone: str = "", capacity_type: CapacityType = "on-demand"
) -> Template:
    """The node of a type with its GPUs in a mode, which can be `UNDECIDED`. Raises FleetError if there is none."""
    if mode != UNDECIDED:
        return template_of(instance, mode, node, zone=zone, capacity_type=capacity_type, kube=kube)
    whole = template_of(instance, "", node, zone=zone, capacity_type=capacity_type, kube=kube)
    slices, runtime_names = _undecided(instance.hardware, kube)
    on_node_slices = tuple(on_node(slice_, node) for slice_ in slices)
    return Template(instance, f"{whole.form}/{mode}", whole.node, on_node_slices, runtime_names, whole.unmeasured)


def node_tree(template: Template) -> dict[str, Any]:
    return to_tree(template.node)


@lru_cache(maxsize=256)
def sample_slices(accelerator: str, mode: str, kube: str) -> tuple[ResourceSlice, ...] | None:
    """The slices of a node with one GPU of a model in a mode; None if the model does not have the mode."""
    hardware_, node = hardware(accelerator), sample_node_name(accelerator, mode)
    try:
        if mode == UNDECIDED:
            return _slices(hardware_, node, kube) if hardware_.accelerator.mig is not None else None
        return slices_of(hardware_, parse_mode(mode, hardware_), node, kube)
    except FleetError:
        return None


def sample_node_name(accelerator: str, mode: str) -> str:
    """The name of the node in `sample_slices`."""
    return f"sample-{accelerator}-{mode or 'whole'}"


def candidate_modes(accelerator: Accelerator) -> tuple[str, ...]:
    """The modes of a model besides whole GPUs that a plan can choose; those with fewer published devices first."""
    if accelerator.vendor == "nvidia":
        mig = (UNDECIDED, "dynamic-mig") if accelerator.mig is not None else ()
        return (*mig, "consumable-shares=memory", "shared", "vfio")
    if accelerator.vendor == "amd":
        cut = tuple(f"{p.compute}-{p.memory}" for p in accelerator.partitions if p.per_gpu > 1)
        return (*cut, *(("auto",) if cut else ()), "vfio")
    return ()


@lru_cache(maxsize=256)
def _undecided(name: str, kube: str) -> tuple[tuple[ResourceSlice, ...], frozenset[str]]:
    """The slices of hardware with an undecided MIG layout on node `ANY`, and its runtime-only attributes."""
    hardware_ = hardware_called(name)
    slices = _slices(hardware_, ANY, kube)
    runtime_names = runtime_only(slices, Full())
    return symbolic(slices, runtime_names, unmeasured(hardware_) & runtime_names), runtime_names


def _slices(hardware_: Hardware, node: str, kube: str) -> tuple[ResourceSlice, ...]:
    groups, counters = undecided_layout_devices(hardware_, node)
    chunks = split(groups, counters, Features(kube))
    pool = ResourcePool(name=node, generation=1, resource_slice_count=len(chunks))
    return tuple(
        ResourceSlice(
            metadata=ObjectMeta(name=f"{index:05x}-{DRIVER}-{node}"),
            spec=ResourceSliceSpec(
                driver=DRIVER, node_name=node, pool=pool,
                devices=chunk.devices or None, shared_counters=chunk.counters or None,
            ),
        )
        for index, chunk in enumerate(chunks)
    )  # fmt: skip
