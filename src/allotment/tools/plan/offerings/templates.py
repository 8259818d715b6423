"""Templates as a planner asks for them: of every mode that may be decided, one of them not known to any driver.

``static-mig`` without a layout stands for GPUs whose layout is still to be decided (`fleet.nvidia.undecided`). All
others are the catalogue's.
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
from allotment.fleet.nvidia.undecided import undecided
from allotment.fleet.profiles import Accelerator
from allotment.fleet.slices import slices_of
from allotment.fleet.splitting import split
from allotment.model.meta import ObjectMeta
from allotment.model.resource import ResourcePool, ResourceSlice, ResourceSliceSpec
from allotment.model.trees import to_tree

#: The mode of GPUs whose MIG layout is a decision.
UNDECIDED: Final = "static-mig"


def template(
    instance: InstanceType, mode: str, node: str, kube: str, zone: str = "", capacity_type: CapacityType = "on-demand"
) -> Template:
    """The node of a type with its GPUs in a mode, `UNDECIDED` included. Raises FleetError where there is none."""
    if mode != UNDECIDED:
        return template_of(instance, mode, node, zone=zone, capacity_type=capacity_type, kube=kube)
    whole = template_of(instance, "", node, zone=zone, capacity_type=capacity_type, kube=kube)
    slices, names = _undecided(instance.hardware, kube)
    there = tuple(on_node(one, node) for one in slices)
    return Template(instance, f"{whole.form}/{mode}", whole.node, there, names, whole.unmeasured)


def node_tree(made: Template) -> dict[str, Any]:
    """The node as a tree, as the API server would have it."""
    return to_tree(made.node)


@lru_cache(maxsize=256)
def sample(accelerator: str, mode: str, kube: str) -> tuple[ResourceSlice, ...] | None:
    """What one GPU of a model publishes in a mode, to see which requests it concerns; None if it has no such mode."""
    machine, node = hardware(accelerator), sample_name(accelerator, mode)
    try:
        if mode == UNDECIDED:
            return _slices(machine, node, kube) if machine.accelerator.mig is not None else None
        return slices_of(machine, parse_mode(mode, machine), node, kube)
    except FleetError:
        return None


def sample_name(accelerator: str, mode: str) -> str:
    """The node that `sample` is of."""
    return f"sample-{accelerator}-{mode or 'whole'}"


def modes(accelerator: Accelerator) -> tuple[str, ...]:
    """The modes beside whole GPUs that may be decided for a model, those that publish less first."""
    if accelerator.vendor == "nvidia":
        mig = (UNDECIDED, "dynamic-mig") if accelerator.mig is not None else ()
        return (*mig, "consumable-shares=memory", "shared", "vfio")
    if accelerator.vendor == "amd":
        cut = tuple(f"{p.compute}-{p.memory}" for p in accelerator.partitions if p.per_gpu > 1)
        return (*cut, *(("auto",) if cut else ()), "vfio")
    return ()


@lru_cache(maxsize=256)
def _undecided(name: str, kube: str) -> tuple[tuple[ResourceSlice, ...], frozenset[str]]:
    """The pieces of hardware by its name, on node `ANY`."""
    machine = hardware_called(name)
    made = _slices(machine, ANY, kube)
    names = runtime_only(made, Full())
    return symbolic(made, names, unmeasured(machine) & names), names


def _slices(machine: Hardware, node: str, kube: str) -> tuple[ResourceSlice, ...]:
    groups, counters = undecided(machine, node)
    parts = split(groups, counters, together=kube == "1.34")
    pool = ResourcePool(name=node, generation=1, resource_slice_count=len(parts))
    return tuple(
        ResourceSlice(
            metadata=ObjectMeta(name=f"{index:05x}-{DRIVER}-{node}"),
            spec=ResourceSliceSpec(
                driver=DRIVER, node_name=node, pool=pool,
                devices=part.devices or None, shared_counters=part.counters or None,
            ),
        )
        for index, part in enumerate(parts)
    )  # fmt: skip
