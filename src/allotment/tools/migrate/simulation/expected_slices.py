"""The slices that DRA drivers would publish on a cluster's nodes that have a device plugin and no driver yet.

Before a migration there are no slices to simulate claims with. The labels of feature discovery and the plugin's
resources (model, count, partitions) suffice to derive what the driver would publish, for known models.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from allotment.fleet import CLASSES, Accelerator, FleetError, Hardware, Mode, accelerators, hardware, parse_mode
from allotment.fleet import slices_of as published
from allotment.fleet.gpu_product_labels import product_of_label
from allotment.fleet.mig import parse_layout
from allotment.model.core import Node
from allotment.model.resource import DeviceClass, ResourceSlice
from allotment.tools.migrate.plugin_requests import Vendor
from allotment.tools.migrate.resource_names import SHARED, amd_partition, mig_profile, vendor_of
from allotment.tools.migrate.simulation.cluster_nodes import PRODUCT, plugged_resources
from allotment.tools.migrate.target import Target

#: The drivers by vendor.
DRIVERS: Mapping[Vendor, str] = {"nvidia": "gpu.nvidia.com", "amd": "gpu.amd.com", "intel": "gpu.intel.com"}
_SINGLE = re.compile(r".+-MIG-([1-9][0-9]*g\.[0-9]+gb(?:\.me)?)(?:-SHARED)?")


def with_expected(target: Target) -> Target:
    """The target with the slices and classes that drivers would add to nodes without a driver.

    ``expected`` names the nodes of these slices.
    """
    if not target.known or target.fleet or target.features is None:
        return target
    has = {(slice_.spec.driver, slice_.spec.node_name) for slice_ in target.slices}
    found: dict[str, tuple[ResourceSlice, ...]] = {}
    vendors: list[Vendor] = []
    for node in target.nodes:
        vendor = vendor_of_node(node)
        name = node.metadata.name
        if vendor is None or (DRIVERS[vendor], name) in has:
            continue
        machine = machine_of(node)
        if machine is not None:
            found[name] = published(*machine, name, target.features.kube)
            vendors.append(vendor)
    slices = (*target.slices, *(slice_ for each in found.values() for slice_ in each))
    classes = (*target.classes, *_classes(vendors, target.classes))
    return replace(target, slices=slices, classes=classes, expected=tuple(found))


def vendor_of_node(node: Node) -> Vendor | None:
    """The vendor of the GPUs that a node's device plugin publishes, or None if it publishes none."""
    return next((vendor for name in plugged_resources(node) if (vendor := vendor_of(name))), None)


def machine_of(node: Node) -> tuple[Hardware, Mode] | None:
    """The hardware and partition mode of a node with a device plugin, or None if its labels do not identify them."""
    labels, resources = node.metadata.labels, plugged_resources(node)
    match vendor_of_node(node):
        case "nvidia":
            return _nvidia(labels, resources)
        case "amd":
            return _amd(labels, resources)
    return None


def _nvidia(labels: Mapping[str, str], resources: Mapping[str, int]) -> tuple[Hardware, Mode] | None:
    label = labels.get(PRODUCT, "")
    product, certain = product_of_label(label)
    model = next((model for model in accelerators().values() if model.product == product), None)
    if not certain or model is None:
        return None
    single = _SINGLE.fullmatch(label)
    pieces = {mig_profile(name): count for name, count in resources.items() if not name.endswith(SHARED)}
    pieces = {profile: count for profile, count in pieces.items() if profile}
    if single:
        pieces = {single[1].replace(".me", "+me"): resources.get("nvidia.com/gpu", 0)}
    replicas = max(1, _number(labels.get("nvidia.com/gpu.replicas", "")))
    whole = 0 if single else resources.get("nvidia.com/gpu", 0) // replicas
    gpus = 0 if single else _number(labels.get("nvidia.com/gpu.count", ""))
    if not pieces:
        return _machine(model, gpus or whole, "")
    layouts = _cut(model, max(gpus - whole, 0), pieces)
    if layouts is None:
        return None
    layouts += ("full",) * (max(gpus, len(layouts) + whole) - len(layouts))
    return _machine(model, len(layouts), f"static-mig={'/'.join(layouts)}")


def _cut(model: Accelerator, gpus: int, pieces: Mapping[str, int]) -> tuple[str, ...] | None:
    """MIG layouts that have these pieces in total, equal for all GPUs if possible, or None if they need more GPUs.

    ``gpus``: their number; 0 if unknown, then as many as the pieces need.
    """
    if gpus and all(count % gpus == 0 for count in pieces.values()):
        even = "+".join(f"{profile}:{count // gpus}" for profile, count in pieces.items())
        if _holds(even, model):
            return (even,) * gpus
    cut: list[dict[str, int]] = []
    for profile, count in pieces.items():
        for _ in range(count):
            for layout in cut:
                if _holds(_text(layout | {profile: layout.get(profile, 0) + 1}), model):
                    layout[profile] = layout.get(profile, 0) + 1
                    break
            else:
                if not _holds(f"{profile}:1", model):
                    return None
                cut.append({profile: 1})
    return tuple(map(_text, cut)) if not gpus or len(cut) <= gpus else None


def _text(layout: Mapping[str, int]) -> str:
    return "+".join(f"{profile}:{count}" for profile, count in layout.items())


def _holds(layout: str, model: Accelerator) -> bool:
    try:
        return bool(parse_layout(layout, model))
    except FleetError:
        return False


def _amd(labels: Mapping[str, str], resources: Mapping[str, int]) -> tuple[Hardware, Mode] | None:
    label_values = {
        labels.get(f"{prefix}amd.com/gpu.{name}", "")
        for prefix in ("", "beta.")
        for name in ("product-name", "device-id")
    }
    model = next(
        (
            model
            for model in accelerators().values()
            if model.vendor == "amd" and {model.product, model.pci_device.removeprefix("0x")} & label_values
        ),
        None,
    )
    if model is None:
        return None
    mode = next((amd_partition(name) for name in resources if amd_partition(name)), "")
    mode = mode or labels.get("amd.com/compute-memory-partition", "").lower()
    each = next((p.per_gpu for p in model.partitions if p.profile == mode), 1)
    count = next(iter(resources.values()))
    return _machine(model, count // each, mode.replace("_", "-"))


def _machine(model: Accelerator, gpus: int, mode: str) -> tuple[Hardware, Mode] | None:
    try:
        machine = hardware(model.id, gpus)
        return machine, parse_mode(mode, machine)
    except FleetError:
        return None


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 6 else 0


def _classes(vendors: Iterable[Vendor], existing: Iterable[DeviceClass]) -> Iterable[DeviceClass]:
    """The classes of the vendors' charts that do not exist yet."""
    names = {device_class.metadata.name for device_class in existing}
    for vendor in dict.fromkeys(vendors):
        yield from (device_class for device_class in CLASSES.get(vendor, ()) if device_class.metadata.name not in names)
