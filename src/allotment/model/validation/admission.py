"""Admission of a write to one object: defaults, preparation, validation, warnings.

The three functions serve a server, a dry run and a linter. The input is a decoded object in its v1 shape; the result is
the object to store, with all errors. Storage is up to the caller: resource versions, conflicts and existence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from allotment.model.defaults import with_defaults
from allotment.model.meta import ObjectMeta
from allotment.model.resource import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourcePoolStatusRequest,
    ResourceSlice,
)
from allotment.model.validation import (
    admin_access,
    claim_status,
    claims,
    classes,
    pool_status,
    preparation,
    slices,
    taint_rules,
)
from allotment.model.validation.context import ValidationContext
from allotment.model.validation.errors import Errors, FieldError
from allotment.model.validation.metadata import common_update


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
    """The result of a write: the object to store, its errors, and, if there are none, warnings."""

    value: Any
    errors: list[FieldError]
    warnings: list[str]


def create(
    value: Any, context: ValidationContext, *, version: str, now: str, namespace_labels: Mapping[str, str] | None = None
) -> AdmissionResult:
    """Admit a new object, whose name is generated and whose namespace is set already.

    ``version``: the API version that it was written in. ``now``: RFC 3339, whole seconds. ``namespace_labels``: the
    labels of its namespace; required only for admin access.
    """
    value = preparation.for_create(with_defaults(value, version=version, now=now), context.features)
    return _admitted(value, _create_errors(value, context, namespace_labels or {}))


def _create_errors(value: Any, context: ValidationContext, namespace_labels: Mapping[str, str]) -> Iterator[FieldError]:
    if isinstance(value, ResourceClaim):
        yield from admin_access.admin_requests(value.spec.devices.requests, namespace_labels)
    elif isinstance(value, ResourceClaimTemplate):
        yield from admin_access.admin_requests(value.spec.spec.devices.requests, namespace_labels)
    yield from VALIDATORS[type(value)].create(value, context)


def update(new: Any, old: Any, context: ValidationContext, *, version: str, now: str) -> AdmissionResult:
    """Admit an update; ``old`` is the stored object."""
    new = with_defaults(new, version=version, now=now, stored=old)
    new = replace(new, metadata=replace(new.metadata, generation=old.metadata.generation))
    new = _with_kept_metadata(preparation.for_update(new, old, context.features, now=now), old.metadata)
    return _admitted(new, _update_errors(new, old, VALIDATORS[type(new)].update, context))


def update_status(
    new: Any,
    old: Any,
    context: ValidationContext,
    *,
    version: str,
    now: str,
    namespace_labels: Mapping[str, str] | None = None,
) -> AdmissionResult:
    """Admit an update of the status subresource.

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
    errors.extend(rule(new, old, context))
    return _admitted(new, [*_common_errors(new, old), *errors])


def _update_errors(
    new: Any, old: Any, rule: Callable[[Any, Any, ValidationContext], Errors], context: ValidationContext
) -> Errors:
    yield from _common_errors(new, old)
    yield from rule(new, old, context)


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


def _admitted(value: Any, errors: Iterator[FieldError] | list[FieldError]) -> AdmissionResult:
    problems = list(errors)
    warnings = slices.warnings(value) if isinstance(value, ResourceSlice) and not problems else []
    return AdmissionResult(value, problems, warnings)
