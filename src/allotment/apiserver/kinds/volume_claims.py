"""Validation of PersistentVolumeClaims, also as templates in StatefulSets and ephemeral volumes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from allotment.apiserver.kinds import field_validation
from allotment.apiserver.kinds.admission_errors import forbidden as refused
from allotment.apiserver.kinds.kind import Errors, KindRules, Write
from allotment.apiserver.kinds.limit_range_admission import check_claim_limits
from allotment.model.quantity import Quantity
from allotment.model.trees import Tree
from allotment.model.validation import names
from allotment.model.validation.errors import FieldError, forbidden, immutable, invalid, not_supported, required
from allotment.node_fit.volume_matching import class_of, default_class, has_class, requested_size

_ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODES: Final = ("Block", "Filesystem")
_SINGLE_POD: Final = "ReadWriteOncePod"
_IMMUTABLE_SPEC: Final = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)
_NO_EXPANSION: Final = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
)


def claim_spec(spec: Tree, path: str) -> Errors:
    """Validate a PersistentVolumeClaimSpec."""
    modes = spec.get("accessModes") or ()
    if not modes:
        yield required(f"{path}.accessModes", "at least 1 access mode is required")
    if spec.get("selector") is not None:
        yield from field_validation.label_selector(spec["selector"], f"{path}.selector")
    yield from access_modes(modes, path)
    storage = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    item_path = f"{path}.resources[storage]"
    if storage is None:
        yield required(item_path)
    else:
        amount = Quantity.parse(str(storage))
        if amount.nano <= 0:
            yield invalid(item_path, str(amount), "must be greater than zero")
    yield from _class_name(spec, "storageClassName", path)
    mode = spec.get("volumeMode")
    if mode is not None and mode not in _VOLUME_MODES:
        yield not_supported(f"{path}.volumeMode", mode, _VOLUME_MODES)
    yield from _sources(spec, path)
    yield from _class_name(spec, "volumeAttributesClassName", path)


def access_modes(modes: Iterable[str], path: str) -> Errors:
    """Validate access modes; ReadWriteOncePod excludes all others (KEP-2485)."""
    mode_names = [mode or "" for mode in modes]
    for mode in mode_names:
        if mode not in _ACCESS_MODES:
            yield not_supported(f"{path}.accessModes", mode, _ACCESS_MODES)
    if _SINGLE_POD in mode_names and any(mode != _SINGLE_POD and mode in _ACCESS_MODES for mode in mode_names):
        yield forbidden(f"{path}.accessModes", f"may not use {_SINGLE_POD} with other access modes")


def _class_name(spec: Tree, field: str, path: str) -> Errors:
    if spec.get(field):
        yield from names.subdomain(spec[field], f"{path}.{field}")


def _sources(spec: Tree, path: str) -> Errors:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None:
        yield from _source(source, f"{path}.dataSource")
    if reference is not None:
        yield from _source(reference, f"{path}.dataSourceRef")
        if reference.get("namespace"):
            yield from names.label(reference["namespace"], f"{path}.dataSourceRef.namespace")
    if source is not None and reference is not None:
        # Upstream gives the path as the value, a struct without public fields.
        if reference.get("namespace"):
            yield invalid(path, {}, "may not be specified when dataSourceRef.namespace is specified")
        elif any(source.get(part) != reference.get(part) for part in ("apiGroup", "kind", "name")):
            yield invalid(path, {}, "must match dataSourceRef")


def _source(source: Tree, path: str) -> Errors:
    if not source.get("name"):
        yield required(f"{path}.name")
    kind, group = source.get("kind") or "", source.get("apiGroup") or ""
    if not kind:
        yield required(f"{path}.kind")
    if not group and kind != "PersistentVolumeClaim":
        yield invalid(path, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup")
    if group:
        yield from names.subdomain(group, f"{path}.apiGroup")


def _validate_create(tree: Tree, write: Write) -> Errors:
    errors: list[FieldError] = list(claim_spec(tree.get("spec") or {}, "spec"))
    if not errors:
        check_claim_limits(tree, write)
    return errors


def _prepare_create(tree: Tree, write: Write) -> Tree:
    return {**tree, "status": {"phase": "Pending"}}


def _admit(tree: Tree, write: Write) -> Tree:
    """Set the default class of a claim without class, and protect the claim from deletion while it is used."""
    if not has_class(tree) and "DefaultStorageClass" not in write.disabled_plugins:
        classes = (entry.tree for entry in write.reader.list("storageclasses.storage.k8s.io"))
        if (found := default_class(classes)) is not None:
            tree = {**tree, "spec": {**tree["spec"], "storageClassName": found["metadata"]["name"]}}
    return protected(tree, "kubernetes.io/pvc-protection", write)


def protected(tree: Tree, finalizer: str, write: Write) -> Tree:
    """A claim or volume with the finalizer that keeps it while it is used."""
    present = tree["metadata"].get("finalizers") or []
    if finalizer in present or "StorageObjectInUseProtection" in write.disabled_plugins:
        return tree
    return {**tree, "metadata": {**tree["metadata"], "finalizers": [*present, finalizer]}}


def _check_expansion(new: Tree, old: Tree, write: Write) -> None:
    """Raise StatusError if a claim may not become larger."""
    if requested_size(new) <= requested_size(old) or "PersistentVolumeClaimResize" in write.disabled_plugins:
        return
    name = new["metadata"]["name"]
    if (old.get("status") or {}).get("phase") != "Bound":
        raise refused("persistentvolumeclaims", name, "Only bound persistent volume claims can be expanded")
    class_name = class_of(new)
    entry = write.reader.get("storageclasses.storage.k8s.io", "", class_name) if class_name else None
    if entry is None or class_name != class_of(old) or not entry.tree.get("allowVolumeExpansion"):
        raise refused("persistentvolumeclaims", name, _NO_EXPANSION)


def _validate_update(new: Tree, old: Tree, write: Write) -> Errors:
    errors = list(_update_errors(new, old, write))
    if not errors and not write.subresource:
        _check_expansion(new, old, write)
    return errors


def _update_errors(new: Tree, old: Tree, write: Write) -> Errors:
    if write.subresource:
        return
    after, before = new.get("spec") or {}, old.get("spec") or {}
    yield from claim_spec(after, "spec")
    bound = (new.get("status") or {}).get("phase") == "Bound"
    kept = {**before, "volumeName": before.get("volumeName") or after.get("volumeName")}
    if before.get("storageClassName") is None and after.get("storageClassName") in (
        class_of(old) or after.get("storageClassName"),
        None,
    ):
        kept["storageClassName"] = after.get("storageClassName")  # a claim may get its class later
    if _immutable_part(after, bound) != _immutable_part(kept, bound):
        yield forbidden("spec", _IMMUTABLE_SPEC)
    if _storage_request(after) < _storage_request(before) and _storage_request(after) <= _storage_request(
        {"resources": {"requests": _status_capacity(old)}}
    ):
        yield forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")
    if after.get("volumeMode") != before.get("volumeMode"):
        yield immutable("volumeMode", after.get("volumeMode"))


def _immutable_part(spec: Tree, bound: bool) -> Tree:
    result = {key: value for key, value in spec.items() if value not in (None, "")}
    if bound:
        result.pop("volumeAttributesClassName", None)
        resources: Tree = result.get("resources") or {}
        requests = {key: value for key, value in (resources.get("requests") or {}).items() if key != "storage"}
        result["resources"] = {**resources, "requests": requests}
    return result


def _status_capacity(tree: Tree) -> Mapping[str, Any]:
    return (tree.get("status") or {}).get("capacity") or {}


def _storage_request(spec: Tree) -> Quantity:
    return Quantity.parse(str(((spec.get("resources") or {}).get("requests") or {}).get("storage") or 0))


RULES: Final[Mapping[str, KindRules]] = {
    "persistentvolumeclaims": KindRules(
        prepare_create=_prepare_create, admit=_admit, validate_create=_validate_create, validate_update=_validate_update
    )
}
