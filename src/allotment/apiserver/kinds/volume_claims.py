"""Claims of storage: what they may ask for, on their own and as templates of a StatefulSet or of a pod's volume."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from allotment.apiserver.kinds import field_validation
from allotment.apiserver.kinds.kind import Errors, Rules, Write
from allotment.apiserver.kinds.limit_range_admission import keep_claim_within
from allotment.model.quantity import Quantity
from allotment.model.trees import Tree
from allotment.model.validation import names
from allotment.model.validation.errors import FieldError, forbidden, immutable, invalid, not_supported, required

_ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODES: Final = ("Block", "Filesystem")
_ALONE: Final = "ReadWriteOncePod"
_FIXED: Final = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)


def claim_spec(spec: Tree, path: str) -> Errors:
    """A PersistentVolumeClaimSpec."""
    modes = spec.get("accessModes") or ()
    if not modes:
        yield required(f"{path}.accessModes", "at least 1 access mode is required")
    if spec.get("selector") is not None:
        yield from field_validation.label_selector(spec["selector"], f"{path}.selector")
    yield from access_modes(modes, path)
    asked = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    at = f"{path}.resources[storage]"
    if asked is None:
        yield required(at)
    else:
        amount = Quantity.parse(str(asked))
        if amount.nano <= 0:
            yield invalid(at, str(amount), "must be greater than zero")
    yield from _class_name(spec, "storageClassName", path)
    mode = spec.get("volumeMode")
    if mode is not None and mode not in _VOLUME_MODES:
        yield not_supported(f"{path}.volumeMode", mode, _VOLUME_MODES)
    yield from _sources(spec, path)
    yield from _class_name(spec, "volumeAttributesClassName", path)


def access_modes(modes: Iterable[str], path: str) -> Errors:
    """How a volume may be mounted; by one pod alone goes with nothing else (KEP-2485)."""
    listed = [mode or "" for mode in modes]
    for mode in listed:
        if mode not in _ACCESS_MODES:
            yield not_supported(f"{path}.accessModes", mode, _ACCESS_MODES)
    if _ALONE in listed and any(mode != _ALONE and mode in _ACCESS_MODES for mode in listed):
        yield forbidden(f"{path}.accessModes", f"may not use {_ALONE} with other access modes")


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


def _created(tree: Tree, write: Write) -> Errors:
    errors: list[FieldError] = list(claim_spec(tree.get("spec") or {}, "spec"))
    if not errors:
        keep_claim_within(tree, write)
    return errors


def _pending(tree: Tree, write: Write) -> Tree:
    return {**tree, "status": {"phase": "Pending"}}


def _updated(new: Tree, old: Tree, write: Write) -> Errors:
    if write.subresource:
        return
    after, before = new.get("spec") or {}, old.get("spec") or {}
    yield from claim_spec(after, "spec")
    bound = (new.get("status") or {}).get("phase") == "Bound"
    if _fixed(after, bound) != _fixed(
        {**before, "volumeName": before.get("volumeName") or after.get("volumeName")}, bound
    ):
        yield forbidden("spec", _FIXED)
    if _storage(after) < _storage(before) and _storage(after) <= _storage({"resources": {"requests": _held(old)}}):
        yield forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")
    if after.get("volumeMode") != before.get("volumeMode"):
        yield immutable("volumeMode", after.get("volumeMode"))


def _fixed(spec: Tree, bound: bool) -> Tree:
    kept = {key: value for key, value in spec.items() if value not in (None, "")}
    if bound:
        kept.pop("volumeAttributesClassName", None)
        resources: Tree = kept.get("resources") or {}
        asked = {key: value for key, value in (resources.get("requests") or {}).items() if key != "storage"}
        kept["resources"] = {**resources, "requests": asked}
    return kept


def _held(tree: Tree) -> Mapping[str, Any]:
    return (tree.get("status") or {}).get("capacity") or {}


def _storage(spec: Tree) -> Quantity:
    return Quantity.parse(str(((spec.get("resources") or {}).get("requests") or {}).get("storage") or 0))


RULES: Final[Mapping[str, Rules]] = {
    "persistentvolumeclaims": Rules(prepare_create=_pending, validate_create=_created, validate_update=_updated)
}
