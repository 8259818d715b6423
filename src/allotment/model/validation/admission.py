"""A write to one object, from decoded to ready to store: defaults, preparation, validation, warnings.

The same three entries serve whoever stores objects (a server, a dry run, a linter). Objects come in in their v1 shape,
decoded; what comes out is what would be stored, with all problems. Nothing is decided about storage: resource
versions, conflicts and existence are the caller's.
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
    DeviceTaintRule: KindValidators(taint_rules.taint_rule, taint_rules.taint_rule_update, taint_rules.taint_rule_status_update),
    ResourcePoolStatusRequest: KindValidators(
        pool_status.pool_status_request,
        pool_status.pool_status_request_update,
        pool_status.pool_status_request_status_update,
    ),
}


class AdmissionResult(NamedTuple):
    """The outcome of a write: the object as it would be stored, what is wrong with it, and warnings (if nothing is)."""

    value: Any
    errors: list[FieldError]
    warnings: list[str]


def create(
    value: Any, context: ValidationContext, *, version: str, now: str, namespace_labels: Mapping[str, str] | None = None
) -> AdmissionResult:
    """A new object; its name is generated and its namespace set already.

    ``version``: the API version it was written in. ``now``: RFC 3339, whole seconds. ``namespace_labels``: of the
    object's namespace; needed only where admin access is asked for.
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
    """A changed object; ``old`` is the stored one."""
    new = with_defaults(new, version=version, now=now, stored=old)
    new = replace(new, metadata=replace(new.metadata, generation=old.metadata.generation))
    new = _kept_meta(preparation.for_update(new, old, context.features, now=now), old.metadata)
    return _admitted(new, _update_errors(new, old, VALIDATORS[type(new)].update, context))


def update_status(
    new: Any, old: Any, context: ValidationContext, *, version: str, now: str, namespace_labels: Mapping[str, str] | None = None
) -> AdmissionResult:
    """An object whose status subresource is written.

    Raises LookupError for a kind without status.
    """
    rule = VALIDATORS[type(new)].status_update
    if rule is None:
        raise LookupError(f"{type(new).__name__} has no status")
    new = with_defaults(new, version=version, now=now, stored=old)
    new = _kept_meta(preparation.for_status_update(new, old, context.features), old.metadata)
    errors: list[FieldError] = []
    if isinstance(new, ResourceClaim):
        errors.extend(admin_access.admin_results(new.status.allocation, old.status.allocation, namespace_labels or {}))
    errors.extend(rule(new, old, context))
    return _admitted(new, [*_common(new, old), *errors])


def _update_errors(new: Any, old: Any, rule: Callable[[Any, Any, ValidationContext], Errors], context: ValidationContext) -> Errors:
    yield from _common(new, old)
    yield from rule(new, old, context)


def _common(new: Any, old: Any) -> Errors:
    namespaced = isinstance(new, ResourceClaim | ResourceClaimTemplate)
    return common_update(new.metadata, old.metadata, namespaced=namespaced)


def _kept_meta(value: Any, old: ObjectMeta) -> Any:
    """What an update can neither set nor take away."""
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
