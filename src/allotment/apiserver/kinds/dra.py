"""The kinds of ``resource.k8s.io``, validated by :mod:`allotment.model.validation` with the real server's texts.

Objects of these kinds are converted to typed v1 values, validated, and stored as v1 trees. The versions of
DeviceTaintRule and ResourcePoolStatusRequest do not differ, except for their apiVersion.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from allotment.apiserver.kinds.claim_status_permissions import status_errors
from allotment.apiserver.kinds.kind import KindRules, TypedWrite, Write
from allotment.apiserver.kinds.slice_admission import check_allocatable_resources
from allotment.cel.validation_context import validation_context
from allotment.model.features import Features
from allotment.model.fields import GROUP, shape_of
from allotment.model.meta import Object
from allotment.model.normal_form import normalize
from allotment.model.resource import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourcePoolStatusRequest,
    ResourceSlice,
)
from allotment.model.trees import Tree, read_value, to_tree, to_value
from allotment.model.validation import admission
from allotment.model.validation.context import ValidationContext
from allotment.model.versions import from_v1, to_v1

V = TypeVar("V", bound=Object)


def _to_version(tree: Tree, version: str) -> Tree:
    api_version = f"{GROUP}/{version}"
    return {**from_v1(tree, api_version), "apiVersion": api_version}


def _from_version(tree: Tree, version: str) -> Tree:
    return to_v1({**tree, "apiVersion": f"{GROUP}/{version}"})


def _rules(value: type[Object], context: ValidationContext) -> KindRules:
    """Rules that convert a tree to a value, validate it, and convert it back."""

    def create(tree: Tree, write: Write) -> TypedWrite:
        admitted = admission.create(
            to_value(tree, value),
            context,
            version=write.version,
            now=write.now,
            namespace_labels=_namespace_labels(write),
        )
        return _write_result(admitted, tree, write, {}, None)

    def update(new: Tree, old: Tree, write: Write) -> TypedWrite:
        before = read_value(old, value)
        after = _updated_value(new, value, old, before)
        if write.subresource == "status":
            admitted = admission.update_status(
                after, before, context, version=write.version, now=write.now,
                namespace_labels=_namespace_labels(write), permissions=partial(status_errors, write=write),
            )  # fmt: skip
        else:
            admitted = admission.update(after, before, context, version=write.version, now=write.now)
        return _write_result(admitted, new, write, old, before)

    return KindRules(create=create, update=update)


def _updated_value(new: Tree, value: type[V], old: Tree, before: V) -> V:
    """The new state as a value that shares unchanged parts with the stored value."""
    unchanged = [name for name in value.__struct_fields__ if name in new and new[name] is old.get(name)]
    if not unchanged:
        return read_value(new, value)
    after = read_value({name: part for name, part in new.items() if name not in unchanged}, value)
    return replace(after, **{name: getattr(before, name) for name in unchanged})


def _write_result(
    admitted: admission.AdmissionResult, tree: Tree, write: Write, old: Tree, old_value: Object | None
) -> TypedWrite:
    """The tree to store, with errors. ``before`` is the value of ``old``; unchanged parts are taken from ``old``.

    Raises StatusError if admission refuses the object.
    """
    if admitted.errors:
        return TypedWrite(tree, tree, admission.as_written(admitted.errors, tree))
    if isinstance(admitted.value, ResourceSlice):
        check_allocatable_resources(admitted.value, write)
    for warning in admitted.warnings:
        write.warn(warning)
    kube = write.features.kube
    stored = _as_tree(admitted.value, tree, old, old_value, kube)
    owned = stored if admitted.owned == admitted.value else _as_tree(admitted.owned, tree, old, old_value, kube)
    return TypedWrite(stored, owned)


def _as_tree(value: Object, tree: Tree, old: Tree, old_value: Object | None, kube: str) -> Tree:
    result = {"kind": tree["kind"], "apiVersion": tree["apiVersion"]}
    for name in value.__struct_fields__:
        part = getattr(value, name)
        if name in old and old_value is not None and part is getattr(old_value, name):
            result[name] = old[name]
        elif part is not None:
            result[name] = to_tree(part)
    return normalize(result, shape_of(tree["apiVersion"], tree["kind"], kube), old)


def _namespace_labels(write: Write) -> Mapping[str, str]:
    entry = write.reader.get("namespaces", "", write.namespace) if write.namespace else None
    return (entry.tree["metadata"].get("labels") or {}) if entry is not None else {}


def _spec_field(*path: str) -> Callable[[Tree], str]:
    def read(tree: Tree) -> str:
        value: Any = tree.get("spec")
        for name in path:
            value = (value or {}).get(name)
        return value or ""

    return read


#: Fields that select slices, and the first release that has them.
_SLICE_FIELDS: Final = {
    "spec.nodeName": ("1.34", _spec_field("nodeName")),
    "spec.driver": ("1.34", _spec_field("driver")),
    "spec.pool.name": ("1.37", _spec_field("pool", "name")),
}


def _slice_fields(features: Features) -> Mapping[str, Callable[[Tree], str]]:
    return {name: read for name, (since, read) in _SLICE_FIELDS.items() if features.since(since)}


#: Properties of kinds with several versions, of which the typed values are those of v1.
_CONVERTED: Final[Mapping[str, Any]] = {
    "to_version": _to_version,
    "from_version": _from_version,
    "delete_returns_object": True,
}


def dra_options(features: Features) -> Mapping[str, Mapping[str, Any]]:
    """Rules, conversions and selectable fields of the kinds, by bucket: fields of a ServedKind."""
    context = validation_context(features)
    options: Mapping[str, tuple[type[Object], Mapping[str, Any]]] = {
        "deviceclasses": (DeviceClass, _CONVERTED),
        "resourceclaims": (ResourceClaim, _CONVERTED),
        "resourceclaimtemplates": (ResourceClaimTemplate, _CONVERTED),
        "resourceslices": (ResourceSlice, {**_CONVERTED, "fields": _slice_fields(features)}),
        "devicetaintrules": (
            DeviceTaintRule,
            # KEP-5055: v1 was added when the feature became stable, in 1.37.
            {
                "delete_returns_object": True,
                "conditional_update": frozenset({"v1"}),
                "delete_returns_status": frozenset({"v1"}),
            },
        ),
        "resourcepoolstatusrequests": (
            ResourcePoolStatusRequest,
            {"delete_returns_object": True, "unconditional_update": False},
        ),
    }
    return {
        f"{plural}.{GROUP}": {**properties, "rules": _rules(value, context)}
        for plural, (value, properties) in options.items()
    }
