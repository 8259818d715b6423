"""Admission of a write to one object: defaults, preparation, validation, warnings.

The three functions serve a server, a dry run and a linter. The input is a decoded object in its v1 shape; the result is
the object to store, with all errors. Storage is up to the caller: resource versions, conflicts and existence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from allotment.model.defaults import with_defaults
from allotment.model.fields import GROUP, shape_of
from allotment.model.loading.marks import split_path
from allotment.model.meta import ObjectMeta
from allotment.model.normal_form import normalize
from allotment.model.resource import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourcePoolStatusRequest,
    ResourceSlice,
)
from allotment.model.trees import Tree, to_tree
from allotment.model.validation import (
    admin_access,
    claim_status,
    claims,
    classes,
    declarative,
    pool_status,
    preparation,
    slices,
    taint_rules,
)
from allotment.model.validation.context import ValidationContext
from allotment.model.validation.errors import Errors, FieldError
from allotment.model.validation.gotext import GoValue
from allotment.model.validation.metadata import common_update
from allotment.model.validation.release import release
from allotment.model.versions import from_v1


class KindValidators(NamedTuple):
    """The validators of one kind."""

    create: Callable[[Any, ValidationContext], Errors]
    update: Callable[[Any, Any, ValidationContext], Errors]
    status_update: Callable[[Any, Any, ValidationContext], Errors] | None


VALIDATORS: Mapping[type, KindValidators] = {
    ResourceClaim: KindValidators(claims.claim, claims.claim_update, claim_status.claim_status_update),
    ResourceClaimTemplate: KindValidators(claims.template, claims.template_update, None),
    DeviceClass: KindValidators(classes.device_class, classes.device_class_update, None),
    ResourceSlice: KindValidators(slices.resource_slice, slices.resource_slice_update, None),
    DeviceTaintRule: KindValidators(
        taint_rules.taint_rule, taint_rules.taint_rule_update, taint_rules.taint_rule_status_update
    ),
    ResourcePoolStatusRequest: KindValidators(
        pool_status.pool_status_request,
        pool_status.pool_status_request_update,
        pool_status.pool_status_request_status_update,
    ),
}


class AdmissionResult(NamedTuple):
    """The result of a write: the object to store, its errors, and, if there are none, warnings.

    ``owned``: the object with the fields of disabled features; the client that wrote them owns them nevertheless.
    """

    value: Any
    errors: list[FieldError]
    warnings: list[str]
    owned: Any


def create(
    value: Any,
    context: ValidationContext,
    *,
    version: str,
    now: str,
    namespace_labels: Mapping[str, str] | None = None,
    path_version: str = "",
) -> AdmissionResult:
    """Admit a new object, whose name is generated and whose namespace is set already.

    ``version``: the API version that it was written in. ``now``: RFC 3339, whole seconds. ``namespace_labels``: the
    labels of its namespace; required only for admin access. ``path_version``: the version whose paths errors have, if
    it is not ``version``.
    """
    written = with_defaults(value, version=version, now=now)
    value = preparation.for_create(written, context.features)
    errors = _create_errors(value, context, namespace_labels or {})
    result = _admitted(value, None, (), errors, context, path_version or version)
    return result._replace(owned=preparation.for_create(written, None))


def _create_errors(value: Any, context: ValidationContext, namespace_labels: Mapping[str, str]) -> Iterator[FieldError]:
    if isinstance(value, ResourceClaim):
        yield from admin_access.admin_requests(value.spec.devices.requests, namespace_labels)
    elif isinstance(value, ResourceClaimTemplate):
        yield from admin_access.admin_requests(value.spec.spec.devices.requests, namespace_labels)
    yield from VALIDATORS[type(value)].create(value, context)


def as_written(errors: Iterable[FieldError], tree: Tree) -> list[FieldError]:
    """The errors of an object with the values as a client wrote them in ``tree``, in the shape of the errors' paths."""
    return [
        error._replace(value=error.value._replace(written=_at(tree, error.path)))
        if isinstance(error.value, GoValue)
        else error
        for error in errors
    ]


def _at(tree: Any, path: str) -> object:
    """The part of a tree at a field path; None if it has none."""
    for step in split_path(path):
        if isinstance(tree, dict):
            tree = tree.get(step)
        elif isinstance(tree, list) and isinstance(step, int) and step < len(tree):
            tree = tree[step]
        else:
            return None
    return tree


def object_errors(value: Any, context: ValidationContext) -> list[FieldError]:
    """The errors of an object in v1 as it is: without defaults, and with the fields of disabled features."""
    errors = VALIDATORS[type(value)].create(value, context)
    return _admitted(value, None, (), errors, context, "v1").errors


def update(new: Any, old: Any, context: ValidationContext, *, version: str, now: str) -> AdmissionResult:
    """Admit an update; ``old`` is the stored object."""
    new = with_defaults(new, version=version, now=now, stored=old)
    new = replace(new, metadata=replace(new.metadata, generation=old.metadata.generation))
    owned = _with_kept_metadata(preparation.for_update(new, old, None, now=now), old.metadata)
    new = _with_kept_metadata(preparation.for_update(new, old, context.features, now=now), old.metadata)
    errors = VALIDATORS[type(new)].update(new, old, context)
    return _admitted(new, old, _common_errors(new, old), errors, context, version)._replace(owned=owned)


def update_status(
    new: Any,
    old: Any,
    context: ValidationContext,
    *,
    version: str,
    now: str,
    namespace_labels: Mapping[str, str] | None = None,
    permissions: Callable[[ResourceClaim, ResourceClaim], Iterable[FieldError]] = lambda new, old: (),
) -> AdmissionResult:
    """Admit an update of the status subresource.

    ``permissions``: the errors of a claim's user, who may lack permissions for parts of the status.

    Raises LookupError for a kind without status.
    """
    rule = VALIDATORS[type(new)].status_update
    if rule is None:
        raise LookupError(f"{type(new).__name__} has no status")
    new = with_defaults(new, version=version, now=now, stored=old)
    new = _with_kept_metadata(preparation.for_status_update(new, old, context.features), old.metadata)
    errors: list[FieldError] = []
    if isinstance(new, ResourceClaim):
        errors.extend(admin_access.admin_results(new.status.allocation, old.status.allocation, namespace_labels or {}))
        errors.extend(permissions(new, old))
    errors.extend(rule(new, old, context))
    return _admitted(new, old, _common_errors(new, old), errors, context, version)


def _common_errors(new: Any, old: Any) -> Errors:
    namespaced = isinstance(new, ResourceClaim | ResourceClaimTemplate)
    return common_update(new.metadata, old.metadata, namespaced=namespaced)


def _with_kept_metadata(value: Any, old: ObjectMeta) -> Any:
    """Restore the metadata that an update can neither set nor remove."""
    meta: ObjectMeta = value.metadata
    seconds = meta.deletion_grace_period_seconds
    return replace(
        value,
        metadata=replace(
            meta,
            uid=meta.uid or old.uid,
            creation_timestamp=old.creation_timestamp or meta.creation_timestamp,
            deletion_timestamp=old.deletion_timestamp or meta.deletion_timestamp,
            deletion_grace_period_seconds=old.deletion_grace_period_seconds if seconds is None else seconds,
        ),
    )


def _admitted(
    value: Any,
    old: Any,
    common: Iterable[FieldError],
    coded: Iterable[FieldError],
    context: ValidationContext,
    version: str,
) -> AdmissionResult:
    """The result for the errors of any object's metadata, of the kind's code and of its declared rules."""
    kube = context.features.kube
    problems = [*common]
    own = [*coded]
    if declarative.is_declared(f"{GROUP}/{version}", type(value).__name__, context.features):
        before = _written(old, version, kube) if old is not None else None
        declared = declarative.declared_errors(_written(value, version, kube), before, context.features)
        if release(context.features).declared_rules_are_last:
            problems = declarative.merged([*problems, *own], declared)
        else:
            problems += declarative.merged(own, declared)
    else:
        problems += own
    warnings = slices.warnings(value) if isinstance(value, ResourceSlice) and not problems else []
    return AdmissionResult(value, [_of_release(error, kube) for error in problems], warnings, value)


def _of_release(error: FieldError, kube: str) -> FieldError:
    """An error whose text has the fields that the release has."""
    return error._replace(value=GoValue(error.value, kube)) if isinstance(error.value, Struct) else error


def _written(value: Any, version: str, kube: str) -> Tree:
    """An object as a tree of a version, in its normal form, so that equal objects are equal trees."""
    kind, api_version = type(value).__name__, f"{GROUP}/{version}"
    tree = {**from_v1(to_tree(value, f"{GROUP}/v1", kind), api_version), "apiVersion": api_version}
    return normalize(tree, shape_of(api_version, kind, kube))
