"""Instance types as Kubernetes objects, for a cluster or an autoscaler."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from os import PathLike
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from allotment.api.choices import require_choice
from allotment.api.objects.releases import release
from allotment.api.plans.instance_types import TypeFilter, find_type
from allotment.api.plans.node_classes import parse_node_class
from allotment.errors import InputError
from allotment.fleet import FleetError
from allotment.fleet.catalog import CapacityType, InstanceType, modes_of, template_of
from allotment.fleet.catalog.export import karpenter_exclusion, karpenter_objects, kwok_objects, template_objects
from allotment.fleet.catalog.export.naming import object_name
from allotment.fleet.errors import suggestion
from allotment.model import DEFAULT_RELEASE
from allotment.model.meta import Object
from allotment.model.trees import Tree, manifest_of
from allotment.reference.instance_type_data import valid_catalog

#: The autoscalers that types can be exported for.
ExportTarget: TypeAlias = Literal["karpenter", "cluster-autoscaler", "kwok"]
#: A higher number of nodes is a typing error, and would exhaust the memory.
_MOST_NODES: Final = 10_000


class PublishedSlices(NamedTuple):
    """The objects of a node. ``placeholders``: attributes whose values are known only when the node runs."""

    objects: list[Tree]
    placeholders: list[str]


class ExportedTypes(NamedTuple):
    """The objects of types. ``excluded``: the types that cannot be exported, with the reason."""

    objects: list[Tree]
    excluded: list[tuple[str, str]]

    def required(self) -> list[Tree]:
        """Return the objects. Raises InputError if there are none."""
        if self.objects:
            return self.objects
        raise InputError("no instance type to export", "`allot catalog list --all` with the same filters shows why")


def instance_slices(
    name: str,
    *,
    mode: str = "",
    node_name: str = "",
    zone: str = "",
    spot: bool = False,
    everything: bool = False,
    kube: str = DEFAULT_RELEASE,
    catalog: Sequence[str | PathLike[str]] = (),
) -> dict[str, Any]:
    """Return the ResourceSlices that a node of an instance type publishes, as a List.

    ``mode``: of the GPUs (``"static-mig=1g.5gb:7"``), by default whole GPUs. ``node_name``: by default that of the
    type. ``zone``: by default the first one of the region. ``spot``: of a spot machine. ``everything``: also the Node.
    ``catalog``: CSV files that add types and prices. Raises InputError.
    """
    instance = find_type(valid_catalog(catalog).types, name)
    found = slices_of_type(instance, mode, node_name, zone, spot=spot, everything=everything, kube=kube)
    return {"apiVersion": "v1", "kind": "List", "items": found.objects}


def exported(
    target: ExportTarget,
    *patterns: str,
    providers: Sequence[str] = (),
    gpu: str = "",
    gpus: int | None = None,
    memory: str = "",
    mig: bool = False,
    max_price: Decimal | float | str | None = None,
    spot: bool = False,
    mode: str = "",
    nodes: int = 1,
    node_class: str = "",
    kube: str = DEFAULT_RELEASE,
    catalog: Sequence[str | PathLike[str]] = (),
) -> dict[str, Any]:
    """Return instance types as objects for another autoscaler, as a List; types that it cannot use are left out.

    ``patterns`` and filters: as for ``instance_types``. ``mode``: of the GPUs; not for Karpenter. ``nodes``: of each
    type, for kwok. ``node_class``: for Karpenter, as ``"GROUP/KIND/NAME"``. Raises InputError, also if no type is left.
    """
    wanted = TypeFilter(
        patterns=patterns, providers=providers, gpu=gpu, gpus=gpus, memory=memory, mig=mig, max_price=max_price,
        spot=spot,
    )  # fmt: skip
    types = wanted.select(valid_catalog(catalog).types)
    found = export_types(target, types, spot=spot, mode=mode, nodes=nodes, node_class=node_class, kube=kube)
    return {"apiVersion": "v1", "kind": "List", "items": found.required()}


def slices_of_type(
    instance: InstanceType, mode: str, node_name: str, zone: str, *, spot: bool, everything: bool, kube: str
) -> PublishedSlices:
    """Return the slices of a node of a type; the arguments are those of ``instance_slices``. Raises InputError."""
    if not instance.hardware and not everything:
        why = instance.unusable if instance.gpu_fraction or instance.gpus else "it has no GPUs"
        raise InputError(f"{instance.key} publishes no devices: {why}")
    if zone and instance.zones and zone not in instance.zones:
        raise InputError(
            f"the catalog does not list {instance.key} in {zone}, only in zones of {instance.region}",
            suggestion(zone, instance.zones) or f"known: {', '.join(instance.zones)}",
            argument="zone",
        )
    name = node_name or object_name(instance.key)
    template = template_of(instance, mode, name, zone=zone, capacity_type=_capacity(spot), kube=release(kube))
    objects = [*((template.node,) if everything else ()), *template.slices]
    return PublishedSlices([manifest_of(value) for value in objects], sorted(template.runtime_only))


def export_types(
    target: ExportTarget,
    types: Sequence[InstanceType],
    *,
    spot: bool,
    mode: str,
    nodes: int,
    node_class: str,
    kube: str,
) -> ExportedTypes:
    """Return types as objects; the arguments are those of ``exported``. Raises InputError."""
    require_choice("target", target, ExportTarget)
    if target == "karpenter":
        return _karpenter(types, spot, mode, node_class)
    if target == "kwok" and not 1 <= nodes <= _MOST_NODES:
        raise InputError(f"expected 1 to {_MOST_NODES}, found {nodes}", argument="nodes")
    kept, excluded = _separated(types, lambda value: value.unusable or _why_not_in(value, mode))
    made: Iterable[Object]
    if target == "kwok":
        made = kwok_objects(kept, mode, _capacity(spot), nodes, release(kube))
    else:
        made = template_objects(kept, mode, _capacity(spot), release(kube))
    return ExportedTypes([manifest_of(value) for value in made], excluded)


def _karpenter(types: Sequence[InstanceType], spot: bool, mode: str, node_class: str) -> ExportedTypes:
    if mode:
        raise InputError("Karpenter's objects contain no slices", "omit it", argument="mode")
    named = parse_node_class(node_class) if node_class else None
    kept, excluded = _separated(types, lambda instance_type: karpenter_exclusion(instance_type, named))
    sold: tuple[CapacityType, ...] = ("spot",) if spot else ("on-demand", "spot")
    return ExportedTypes(list(karpenter_objects(kept, sold, named)), excluded)


def _capacity(spot: bool) -> CapacityType:
    return "spot" if spot else "on-demand"


def _why_not_in(instance: InstanceType, mode: str) -> str:
    """Return why a type does not support a mode. Raises InputError for a mode that no type supports."""
    if not mode:
        return ""
    if mode.partition("=")[0].partition("@")[0] not in modes_of(instance):
        return f"its GPUs do not support mode {mode}" if instance.hardware else "it has no GPUs"
    try:
        template_of(instance, mode, "node")
    except FleetError as error:
        return str(error)
    return ""


def _separated(
    types: Iterable[InstanceType], why_not: Callable[[InstanceType], str]
) -> tuple[list[InstanceType], list[tuple[str, str]]]:
    """Return the types that can be exported, and the names of the others with the reason."""
    reasons = [(instance_type, why_not(instance_type)) for instance_type in types]
    kept = [instance_type for instance_type, reason in reasons if not reason]
    return kept, [(instance_type.key, reason) for instance_type, reason in reasons if reason]
