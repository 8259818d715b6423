"""Validates creates and updates of ResourceClaims and ResourceClaimTemplates; ``claim_status`` validates the status."""

from __future__ import annotations

from collections.abc import Sequence

from allotment.model.resource import DeviceConstraint, ResourceClaim, ResourceClaimSpec, ResourceClaimTemplate
from allotment.model.validation.configuration import claim_config
from allotment.model.validation.context import ValidationContext
from allotment.model.validation.derived_attributes import DerivedAttributes
from allotment.model.validation.errors import Errors, immutable, required
from allotment.model.validation.lists import check_list
from allotment.model.validation.metadata import object_meta, object_meta_update, template_meta
from allotment.model.validation.qualified_names import fully_qualified_name
from allotment.model.validation.requests import RequestNames, references, request_names, requests

CONSTRAINTS_MAX = 32


def constraints(
    values: Sequence[DeviceConstraint], path: str, request_names: RequestNames, context: ValidationContext
) -> Errors:
    """Validate constraints: at most 32, each with an attribute."""
    return check_list(
        values, CONSTRAINTS_MAX, lambda value, item_path: _constraint(value, item_path, request_names, context), path
    )


def _constraint(
    constraint: DeviceConstraint, path: str, request_names: RequestNames, context: ValidationContext
) -> Errors:
    yield from references(constraint.requests, f"{path}.requests", request_names)
    # Both set: accepted; validation and the allocator use only the first.
    if constraint.match_attribute is not None:
        yield from fully_qualified_name(constraint.match_attribute, f"{path}.matchAttribute")
    elif constraint.distinct_attribute is not None:
        yield from fully_qualified_name(constraint.distinct_attribute, f"{path}.distinctAttribute")
    elif context.features.enabled("DRAConsumableCapacity"):
        # The end of the message is an upstream mistake; the recorded responses contain it.
        yield required(
            path, 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
        )
    else:
        yield required(f"{path}.matchAttribute")


def claim_spec(spec: ResourceClaimSpec, path: str, context: ValidationContext) -> Errors:
    """Validate the spec of a new claim."""
    path = f"{path}.devices"
    known = request_names(spec.devices.requests)
    derived = DerivedAttributes(spec.devices.constraints, context)
    yield from requests(spec.devices.requests, f"{path}.requests", context, derived)
    yield from constraints(spec.devices.constraints, f"{path}.constraints", known, context)
    yield from claim_config(spec.devices.config, f"{path}.config", known)
    yield from derived.total_cost(path)


def claim(value: ResourceClaim, context: ValidationContext) -> Errors:
    """Validate a new claim."""
    yield from object_meta(value.metadata, namespaced=True)
    yield from claim_spec(value.spec, "spec", context)


def claim_update(new: ResourceClaim, old: ResourceClaim, _: ValidationContext) -> Errors:
    """Validate a changed claim: the metadata only, as the spec is immutable."""
    yield from object_meta(new.metadata, namespaced=True)
    yield from object_meta_update(new.metadata, old.metadata)
    if new.spec != old.spec:
        yield immutable("spec", new.spec)


def template(value: ResourceClaimTemplate, context: ValidationContext) -> Errors:
    """Validate a new template."""
    yield from object_meta(value.metadata, namespaced=True)
    yield from template_meta(value.spec.metadata, "spec.metadata")
    yield from claim_spec(value.spec.spec, "spec.spec", context)


def template_update(new: ResourceClaimTemplate, old: ResourceClaimTemplate, context: ValidationContext) -> Errors:
    """Validate a changed template: like a new one, although its spec is immutable."""
    yield from template(new, context)
    yield from object_meta_update(new.metadata, old.metadata)
    if new.spec != old.spec:
        yield immutable("spec", new.spec)
