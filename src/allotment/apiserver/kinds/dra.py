"""The kinds of ``resource.k8s.io``, judged by the model's own validation: its texts are the real server's.

Objects of these kinds become typed values on their way in, in their v1 shape, and are stored as v1 writes them.
DeviceTaintRules and ResourcePoolStatusRequests look alike in all versions that have them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from allotment.apiserver.kinds.kind import Kind, Rules, Write
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
Judged = tuple[Tree, Sequence[FieldError]]

_VERSIONS: Final = ("v1", "v1beta2", "v1beta1")


def _to_version(tree: Tree, version: str) -> Tree:
    wanted = f"{GROUP}/{version}"
    return {**from_v1(tree, wanted), "apiVersion": wanted}


def _from_version(tree: Tree, version: str) -> Tree:
    return to_v1({**tree, "apiVersion": f"{GROUP}/{version}"})


def _relabelled(stored: str) -> Callable[[Tree, str], Tree]:
    def relabel(tree: Tree, version: str) -> Tree:
        return {**tree, "apiVersion": f"{GROUP}/{stored}"}

    return relabel


def _rules(value: type[Object], context: ValidationContext) -> Rules:
    """Rules of a kind: to a value, judged, and back."""

    def create(tree: Tree, write: Write) -> Judged:
        admitted = admission.create(
            to_value(tree, value),
            context,
            version=write.version,
            now=write.now,
            namespace_labels=_namespace_labels(write),
        )
        return _judged(admitted, tree, write, {}, None)

    def update(new: Tree, old: Tree, write: Write) -> Judged:
        before = read_value(old, value)
        after = _beside(new, value, old, before)
        if write.subresource == "status":
            labels = _namespace_labels(write)
            admitted = admission.update_status(
                after, before, context, version=write.version, now=write.now, namespace_labels=labels
            )
        else:
            admitted = admission.update(after, before, context, version=write.version, now=write.now)
        return _judged(admitted, new, write, old, before)

    return Rules(create=create, update=update)


def _beside(new: Tree, value: type[V], old: Tree, before: V) -> V:
    """The new state as a value; of parts that are the stored ones the stored values."""
    same = [name for name in value.__struct_fields__ if name in new and new[name] is old.get(name)]
    if not same:
        return read_value(new, value)
    after = read_value({name: part for name, part in new.items() if name not in same}, value)
    return replace(after, **{name: getattr(before, name) for name in same})


def _judged(
    admitted: admission.AdmissionResult, tree: Tree, write: Write, old: Tree, before: Object | None
) -> Judged:  # fmt: skip
    """The tree to store. ``before`` is the value of ``old``: parts that did not change are its very parts."""
    if admitted.errors:
        return tree, admitted.errors
    for warning in admitted.warnings:
        write.warn(warning)
    made = {"kind": tree["kind"], "apiVersion": tree["apiVersion"]}
    for name in admitted.value.__struct_fields__:
        part = getattr(admitted.value, name)
        if name in old and before is not None and part is getattr(before, name):
            made[name] = old[name]
        elif part is not None:
            made[name] = to_tree(part)
    return normalize(made, shape_of(tree["apiVersion"], tree["kind"]), old), ()


def _namespace_labels(write: Write) -> Mapping[str, str]:
    entry = write.reader.get("namespaces", "", write.namespace) if write.namespace else None
    return (entry.tree["metadata"].get("labels") or {}) if entry is not None else {}


def _spec(field: str) -> Callable[[Tree], str]:
    def read(tree: Tree) -> str:
        return (tree.get("spec") or {}).get(field) or ""

    return read


_SLICE_FIELDS: Final = {"spec.nodeName": _spec("nodeName"), "spec.driver": _spec("driver")}


#: Since when the versions before v1 are deprecated, and when they will be gone.
_DEPRECATED: Final = {"v1beta2": ("1.36", "1.39"), "v1beta1": ("1.35", "1.38")}


def _deprecations(kind: str) -> Mapping[str, str]:
    return {
        version: f"{GROUP}/{version} {kind} is deprecated in v{since}+, unavailable in v{until}+"
        for version, (since, until) in _DEPRECATED.items()
    }


def _kind(value: type[Object], plural: str, context: ValidationContext, *, namespaced: bool = False, **more: Any) -> Kind:
    kind = value.__name__
    return Kind(
        GROUP, _VERSIONS, kind, plural, namespaced, kind.lower(), rules=_rules(value, context),
        to_version=_to_version, from_version=_from_version, delete_returns_object=True,
        deprecated=_deprecations(kind), **more,
    )  # fmt: skip


def _alike(value: type[Object], plural: str, context: ValidationContext, *versions: str, **more: Any) -> Kind:
    """A kind whose versions differ in nothing but their name."""
    kind = value.__name__
    return Kind(
        GROUP, versions, kind, plural, False, kind.lower(), subresources=("status",), rules=_rules(value, context),
        from_version=_relabelled(versions[0]), delete_returns_object=True, **more,
    )  # fmt: skip


def dra_kinds(features: Features) -> tuple[Kind, ...]:
    """The kinds that a cluster with these features serves."""
    context = validation_context(features)
    kinds = [
        _kind(DeviceClass, "deviceclasses", context),
        _kind(ResourceClaim, "resourceclaims", context, namespaced=True, subresources=("status",)),
        _kind(ResourceClaimTemplate, "resourceclaimtemplates", context, namespaced=True),
        _kind(ResourceSlice, "resourceslices", context, fields=_SLICE_FIELDS),
    ]
    if features.enabled("DRADeviceTaintRules"):
        # KEP-5055: v1 came when the feature became stable, with 1.37.
        stable = ("v1",) if GATES["DRADeviceTaintRules"][features.kube][0] == "GA" else ()
        rule = _alike(
            DeviceTaintRule, "devicetaintrules", context, *stable, "v1beta2", "v1alpha3",
            conditional_update=frozenset(stable),
        )  # fmt: skip
        kinds.append(rule)
    if features.enabled("DRAResourcePoolStatus"):
        request = _alike(
            ResourcePoolStatusRequest, "resourcepoolstatusrequests", context, "v1alpha3", unconditional_update=False
        )
        kinds.append(request)
    return tuple(kinds)
