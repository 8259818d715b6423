"""The kinds of ``resource.k8s.io``, validated by :mod:`allotment.model.validation` with the real server's texts.

Objects of these kinds are converted to typed v1 values, validated, and stored as v1 trees. The versions of
DeviceTaintRule and ResourcePoolStatusRequest do not differ, except for their apiVersion.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from allotment.apiserver.kinds.kind import KindRules, ServedKind, Write
from allotment.cel.validation_context import validation_context
from allotment.model.features import GATES, Features
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
from allotment.model.validation.errors import FieldError
from allotment.model.versions import from_v1, to_v1

V = TypeVar("V", bound=Object)
WriteResult = tuple[Tree, Sequence[FieldError]]

_VERSIONS: Final = ("v1", "v1beta2", "v1beta1")


def _to_version(tree: Tree, version: str) -> Tree:
    api_version = f"{GROUP}/{version}"
    return {**from_v1(tree, api_version), "apiVersion": api_version}


def _from_version(tree: Tree, version: str) -> Tree:
    return to_v1({**tree, "apiVersion": f"{GROUP}/{version}"})


def _with_api_version_of(stored: str) -> Callable[[Tree, str], Tree]:
    def convert(tree: Tree, version: str) -> Tree:
        return {**tree, "apiVersion": f"{GROUP}/{stored}"}

    return convert


def _rules(value: type[Object], context: ValidationContext) -> KindRules:
    """Rules that convert a tree to a value, validate it, and convert it back."""

    def create(tree: Tree, write: Write) -> WriteResult:
        admitted = admission.create(
            to_value(tree, value),
            context,
            version=write.version,
            now=write.now,
            namespace_labels=_namespace_labels(write),
        )
        return _write_result(admitted, tree, write, {}, None)

    def update(new: Tree, old: Tree, write: Write) -> WriteResult:
        before = read_value(old, value)
        after = _updated_value(new, value, old, before)
        if write.subresource == "status":
            labels = _namespace_labels(write)
            admitted = admission.update_status(
                after, before, context, version=write.version, now=write.now, namespace_labels=labels
            )
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
) -> WriteResult:  # fmt: skip
    """The tree to store, with errors. ``before`` is the value of ``old``; unchanged parts are taken from ``old``."""
    if admitted.errors:
        return tree, admitted.errors
    for warning in admitted.warnings:
        write.warn(warning)
    stored = {"kind": tree["kind"], "apiVersion": tree["apiVersion"]}
    for name in admitted.value.__struct_fields__:
        part = getattr(admitted.value, name)
        if name in old and old_value is not None and part is getattr(old_value, name):
            stored[name] = old[name]
        elif part is not None:
            stored[name] = to_tree(part)
    return normalize(stored, shape_of(tree["apiVersion"], tree["kind"]), old), ()


def _namespace_labels(write: Write) -> Mapping[str, str]:
    entry = write.reader.get("namespaces", "", write.namespace) if write.namespace else None
    return (entry.tree["metadata"].get("labels") or {}) if entry is not None else {}


def _spec_field(field: str) -> Callable[[Tree], str]:
    def read(tree: Tree) -> str:
        return (tree.get("spec") or {}).get(field) or ""

    return read


_SLICE_FIELDS: Final = {"spec.nodeName": _spec_field("nodeName"), "spec.driver": _spec_field("driver")}


#: Releases in which the versions before v1 became deprecated and will be removed.
_DEPRECATED: Final = {"v1beta2": ("1.36", "1.39"), "v1beta1": ("1.35", "1.38")}


def _deprecations(kind: str) -> Mapping[str, str]:
    return {
        version: f"{GROUP}/{version} {kind} is deprecated in v{since}+, unavailable in v{until}+"
        for version, (since, until) in _DEPRECATED.items()
    }


def _versioned_kind(
    value: type[Object], plural: str, context: ValidationContext, *, namespaced: bool = False, **options: Any
) -> ServedKind:
    kind = value.__name__
    return ServedKind(
        GROUP, _VERSIONS, kind, plural, namespaced, kind.lower(), rules=_rules(value, context),
        to_version=_to_version, from_version=_from_version, delete_returns_object=True,
        deprecated=_deprecations(kind), **options,
    )  # fmt: skip


def _versionless_kind(
    value: type[Object], plural: str, context: ValidationContext, *versions: str, **options: Any
) -> ServedKind:
    """A kind whose versions differ only in apiVersion."""
    kind = value.__name__
    return ServedKind(
        GROUP, versions, kind, plural, False, kind.lower(), subresources=("status",), rules=_rules(value, context),
        from_version=_with_api_version_of(versions[0]), delete_returns_object=True, **options,
    )  # fmt: skip


def dra_kinds(features: Features) -> tuple[ServedKind, ...]:
    """The kinds that a cluster with these features serves."""
    context = validation_context(features)
    kinds = [
        _versioned_kind(DeviceClass, "deviceclasses", context),
        _versioned_kind(ResourceClaim, "resourceclaims", context, namespaced=True, subresources=("status",)),
        _versioned_kind(ResourceClaimTemplate, "resourceclaimtemplates", context, namespaced=True),
        _versioned_kind(ResourceSlice, "resourceslices", context, fields=_SLICE_FIELDS),
    ]
    if features.enabled("DRADeviceTaintRules"):
        # KEP-5055: v1 was added when the feature became stable, in 1.37.
        stable = ("v1",) if GATES["DRADeviceTaintRules"][features.kube][0] == "GA" else ()
        rule = _versionless_kind(
            DeviceTaintRule, "devicetaintrules", context, *stable, "v1beta2", "v1alpha3",
            conditional_update=frozenset(stable),
        )  # fmt: skip
        kinds.append(rule)
    if features.enabled("DRAResourcePoolStatus"):
        request = _versionless_kind(
            ResourcePoolStatusRequest, "resourcepoolstatusrequests", context, "v1alpha3", unconditional_update=False
        )
        kinds.append(request)
    return tuple(kinds)
