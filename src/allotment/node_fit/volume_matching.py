"""Matching of PersistentVolumeClaims with PersistentVolumes, for the volume controller and the scheduler.

Claims and volumes are trees. A volume matches a claim if it is large enough and has the claim's class, volume mode,
attributes class and labels; of those, the smallest is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Set
from typing import Final

from allotment.model.core import LabelSelector
from allotment.model.quantity import Quantity
from allotment.model.trees import Tree, to_value
from allotment.node_fit.label_selectors import matcher

#: The class of a claim or volume before it was a field.
BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
#: The node for which the scheduler wants a volume to be provisioned.
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
#: The provisioner of classes whose volumes are created by hand.
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"


def annotations_of(tree: Tree) -> dict[str, str]:
    """The annotations of an object."""
    return tree["metadata"].get("annotations") or {}


def class_of(tree: Tree) -> str:
    """The name of the StorageClass of a claim or volume; empty if it has none."""
    beta = annotations_of(tree).get(BETA_CLASS)
    return str((tree["spec"].get("storageClassName") if beta is None else beta) or "")


def has_class(claim: Tree) -> bool:
    """Whether a claim states its class, if only that it wants none."""
    return BETA_CLASS in annotations_of(claim) or claim["spec"].get("storageClassName") is not None


def default_class(classes: Iterable[Tree]) -> Tree | None:
    """The default StorageClass: of several, the newest."""
    found = [each for each in classes if annotations_of(each).get(DEFAULT_CLASS) == "true"]
    found.sort(key=lambda each: str(each["metadata"]["name"]))
    return max(found, key=lambda each: str(each["metadata"].get("creationTimestamp") or ""), default=None)


def waits_for_consumer(storage_class: Tree | None) -> bool:
    """Whether claims of a class are bound only when their first pod is scheduled."""
    return storage_class is not None and storage_class.get("volumeBindingMode") == "WaitForFirstConsumer"


def is_fully_bound(claim: Tree) -> bool:
    """Whether the volume controller has completed the binding of a claim."""
    return bool(claim["spec"].get("volumeName")) and BIND_COMPLETED in annotations_of(claim)


def is_bound_to(volume: Tree, claim: Tree) -> bool:
    """Whether a volume is reserved for a claim, by its name or also by its uid."""
    reference: Tree = volume["spec"].get("claimRef") or {}
    metadata = claim["metadata"]
    if (reference.get("namespace"), reference.get("name")) != (metadata.get("namespace"), metadata["name"]):
        return False
    return reference.get("uid") in (None, "", metadata.get("uid"))


def size_of(volume: Tree) -> Quantity:
    """The capacity of a volume."""
    return Quantity.parse(str((volume["spec"].get("capacity") or {}).get("storage") or 0))


def requested_size(claim: Tree) -> Quantity:
    """The size that a claim requests."""
    return Quantity.parse(str(((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage") or 0))


def volume_mode(tree: Tree) -> str:
    """Filesystem or Block."""
    return str(tree["spec"].get("volumeMode") or "Filesystem")


def attributes_class(tree: Tree) -> str:
    """The name of the VolumeAttributesClass."""
    return str(tree["spec"].get("volumeAttributesClassName") or "")


def access_modes(tree: Tree) -> frozenset[str]:
    """The access modes that a claim requests or a volume has."""
    return frozenset(tree["spec"].get("accessModes") or ())


def mismatch(volume: Tree, claim: Tree) -> str:
    """The reason why a claim cannot be bound to the volume that it names; empty if it can."""
    if "deletionTimestamp" in volume["metadata"]:
        return f'the volume is marked for deletion "{volume["metadata"]["name"]}"'
    if size_of(volume) < requested_size(claim):
        return "requested PV is too small"
    if class_of(volume) != class_of(claim):
        return "storageClassName does not match"
    if attributes_class(volume) != attributes_class(claim):
        return "volumeAttributesClassName does not match"
    if volume_mode(volume) != volume_mode(claim):
        return "incompatible volumeMode"
    return "" if access_modes(claim) <= access_modes(volume) else "incompatible accessMode"


def smallest_match(
    claim: Tree, volumes: Iterable[Tree], *, delayed: bool, reaches: Callable[[Tree], bool] | None = None,
    excluded: Set[str] = frozenset(),
) -> Tree | None:  # fmt: skip
    """The volume reserved for a claim, else the smallest free one that matches it; None if there is none.

    ``delayed``: the class waits for the first consumer. ``reaches``: whether a node can use a volume, for the
    scheduler. ``excluded``: the names of volumes that are chosen for other claims.
    """
    wanted, class_name, mode, attributes = (
        requested_size(claim),
        class_of(claim),
        volume_mode(claim),
        attributes_class(claim),
    )
    selector = claim["spec"].get("selector")
    selects = matcher(to_value(selector, LabelSelector)) if selector is not None else None
    best: Tree | None = None
    for volume in volumes:
        metadata = volume["metadata"]
        reserved = is_bound_to(volume, claim)
        if (
            metadata["name"] in excluded
            or "deletionTimestamp" in metadata
            or (volume["spec"].get("claimRef") is not None and not reserved)
            or size_of(volume) < wanted
            or volume_mode(volume) != mode
            or attributes_class(volume) != attributes
        ):
            continue
        reached = reaches is None or reaches(volume)
        if reserved:
            return volume if reached else None
        if (
            (reaches is None and delayed)
            or not reached
            or (volume.get("status") or {}).get("phase") != "Available"
            or (selects is not None and not selects(metadata.get("labels") or {}))
            or class_of(volume) != class_name
            or (reaches is not None and not access_modes(claim) <= access_modes(volume))
        ):
            continue
        if best is None or size_of(volume) < size_of(best):
            best = volume
    return best


def best_match(claim: Tree, volumes: Collection[Tree], *, delayed: bool) -> Tree | None:
    """The volume to bind a claim to, preferably one with few access modes beyond those requested."""
    groups: dict[tuple[str, ...], list[Tree]] = {}
    for volume in volumes:
        if access_modes(claim) <= (modes := access_modes(volume)):
            groups.setdefault(tuple(sorted(modes)), []).append(volume)
    for key in sorted(groups, key=lambda each: (len(each), each)):
        if (found := smallest_match(claim, groups[key], delayed=delayed)) is not None:
            return found
    return None


def reserved_for(volume: Tree, claim: Tree) -> Tree:
    """A volume with a reference to a claim; the same tree if it has it."""
    metadata, spec = volume["metadata"], volume["spec"]
    about = claim["metadata"]
    reference: Tree = spec.get("claimRef") or {}
    names = ("namespace", "name", "uid")
    by_controller = not is_bound_to(volume, claim) and BOUND_BY_CONTROLLER not in annotations_of(volume)
    if all(reference.get(name) == about.get(name) for name in names) and not by_controller:
        return volume
    if by_controller:
        metadata = {**metadata, "annotations": {**annotations_of(volume), BOUND_BY_CONTROLLER: "yes"}}
    if any(reference.get(name) != about.get(name) for name in names):
        spec = {**spec, "claimRef": reference_to(claim)}
    return {**volume, "metadata": metadata, "spec": spec}


def reference_to(claim: Tree) -> Tree:
    """The reference of a volume to its claim."""
    metadata = claim["metadata"]
    reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}
    return reference | {name: metadata[name] for name in ("namespace", "name", "uid", "resourceVersion")}
