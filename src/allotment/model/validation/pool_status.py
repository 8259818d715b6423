"""ResourcePoolStatusRequest (KEP-5677, alpha), whose spec and status are written once.

Most of its rules are declared (:mod:`~allotment.model.validation.declarative`), also in 1.36.
"""

from __future__ import annotations

from allotment.model.resource import ResourcePoolStatusRequest
from allotment.model.validation.conditions import check_conditions
from allotment.model.validation.context import ValidationContext
from allotment.model.validation.errors import Errors, immutable
from allotment.model.validation.metadata import object_meta, object_meta_update


def pool_status_request(value: ResourcePoolStatusRequest, _: ValidationContext) -> Errors:
    """Validate a new request."""
    return object_meta(value.metadata, namespaced=False)


def pool_status_request_update(
    new: ResourcePoolStatusRequest, old: ResourcePoolStatusRequest, _: ValidationContext
) -> Errors:
    """Validate a changed request: only its metadata can change."""
    return object_meta_update(new.metadata, old.metadata)


def pool_status_request_status_update(
    new: ResourcePoolStatusRequest, old: ResourcePoolStatusRequest, context: ValidationContext
) -> Errors:
    """Validate the status, which can be written once."""
    yield from object_meta_update(new.metadata, old.metadata)
    if old.status is not None:
        if new.status != old.status:
            yield immutable("status", new.status)
    elif new.status is not None:
        yield from check_conditions(new.status.conditions, "status.conditions", context.features)
