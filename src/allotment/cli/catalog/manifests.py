"""``allot catalog slices`` and ``export``: instance types as Kubernetes objects, for a cluster or an autoscaler."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any

from allotment.api.releases import release
from allotment.cli.catalog.selection import by_reason, chosen, one_of, opened
from allotment.cli.inputs.node_classes import node_class as named_class
from allotment.cli.output.console import folded, open_screen, width_of
from allotment.errors import InputError
from allotment.fleet import FleetError
from allotment.fleet.catalog import CapacityType, InstanceType, modes_of, template_of
from allotment.fleet.catalog.export import karpenter_exclusion, karpenter_objects, kwok_objects, template_objects
from allotment.fleet.catalog.export.naming import object_name
from allotment.fleet.errors import suggestion
from allotment.model.serialization import to_json, to_yaml
from allotment.model.trees import manifest_of

#: A higher number of nodes is a typing error, and would exhaust the memory.
_MOST_NODES = 10_000


def run_slices(arguments: Namespace) -> int:
    """Print the ResourceSlices that the driver on a node of a type publishes."""
    catalog = opened(arguments.catalogs)
    instance = one_of(catalog.types, arguments.type)
    if not instance.hardware and not arguments.all:
        why = instance.unusable if instance.gpu_fraction or instance.gpus else "it has no GPUs"
        raise InputError(f"{instance.key} publishes no devices: {why}")
    if arguments.zone and instance.zones and arguments.zone not in instance.zones:
        hint = suggestion(arguments.zone, instance.zones) or f"known: {', '.join(instance.zones)}"
        raise InputError(
            f"--zone: the catalog does not list {instance.key} in {arguments.zone}, only in zones of {instance.region}",
            hint,
        )
    template = template_of(
        instance,
        arguments.mode,
        arguments.node_name or object_name(instance.key),
        zone=arguments.zone,
        capacity_type="spot" if arguments.spot else "on-demand",
        kube=release(arguments.kube_version),
    )
    objects = [*((template.node,) if arguments.all else ()), *template.slices]
    _print([manifest_of(value) for value in objects], arguments.output)
    if template.runtime_only:
        names = ", ".join(sorted(template.runtime_only))
        _print_note(f"These values are placeholders, because they are known only when the node runs: {names}.")
    return catalog.complain()


def run_export(arguments: Namespace) -> int:
    """Print types as objects for another autoscaler."""
    catalog = opened(arguments.catalogs)
    types = chosen(catalog.types, arguments)
    documents = _EXPORTS[arguments.target](types, arguments)
    if not documents:
        raise InputError("no instance type to export", "`allot catalog list --all` with the same filters shows why")
    _print(documents, arguments.output)
    return catalog.complain()


def _karpenter(types: Sequence[InstanceType], arguments: Namespace) -> list[Any]:
    if arguments.mode:
        raise InputError("--mode: Karpenter's objects contain no slices", "omit it")
    node_class = named_class(arguments.node_class) if arguments.node_class else None
    kept = _kept(types, lambda instance_type: karpenter_exclusion(instance_type, node_class))
    sold: tuple[CapacityType, ...] = ("spot",) if arguments.spot else ("on-demand", "spot")
    return list(karpenter_objects(kept, sold, node_class))


def _cluster_autoscaler(types: Sequence[InstanceType], arguments: Namespace) -> list[Any]:
    kept = _kept(types, lambda value: value.unusable or _why_not_in(value, arguments.mode))
    made = template_objects(kept, arguments.mode, _capacity(arguments), release(arguments.kube_version))
    return [manifest_of(value) for value in made]


def _kwok(types: Sequence[InstanceType], arguments: Namespace) -> list[Any]:
    if not 1 <= arguments.nodes <= _MOST_NODES:
        raise InputError(f"--nodes: expected 1 to {_MOST_NODES}, found {arguments.nodes}")
    kept = _kept(types, lambda value: value.unusable or _why_not_in(value, arguments.mode))
    made = kwok_objects(
        kept, arguments.mode, _capacity(arguments), arguments.nodes, release(arguments.kube_version)
    )  # fmt: skip
    return [manifest_of(value) for value in made]


_EXPORTS: dict[str, Callable[[Sequence[InstanceType], Namespace], list[Any]]] = {
    "karpenter": _karpenter, "cluster-autoscaler": _cluster_autoscaler, "kwok": _kwok
}  # fmt: skip


def _capacity(arguments: Namespace) -> CapacityType:
    return "spot" if arguments.spot else "on-demand"


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


def _kept(types: Sequence[InstanceType], why_not: Callable[[InstanceType], str]) -> list[InstanceType]:
    """Return the types that can be exported, and report the others with the reason."""
    reasons = [(instance_type, why_not(instance_type)) for instance_type in types]
    left = by_reason((instance_type.key, reason) for instance_type, reason in reasons)
    if left:
        _print_note("Excluded:")
    for line in left:
        _print_note(line, "  ")
    return [instance_type for instance_type, reason in reasons if not reason]


def _print(documents: Sequence[Any], form: str | None) -> None:
    out = open_screen().out
    if form == "json":
        out.write(to_json({"apiVersion": "v1", "kind": "List", "items": documents}) + "\n")
    else:
        out.write(to_yaml(documents))


def _print_note(text: str, indent: str = "") -> None:
    """Print a note on standard error, so that a pipe does not read it as an object."""
    sys.stderr.write("".join(f"{line}\n" for line in folded(text, width_of(sys.stderr), indent)))
