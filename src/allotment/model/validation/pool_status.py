"""ResourcePoolStatusRequest (KEP-5677, alpha), whose spec and status are written once.

It is the only kind here with declarative validation upstream; the messages differ from those of other kinds ("bytes",
segment numbers of pool names).
"""

from __future__ import annotations

from allotment.model.resource import PoolStatus, ResourcePoolStatusRequest, ResourcePoolStatusRequestSpec
from allotment.model.validation import names
from allotment.model.validation.conditions import check_conditions
from allotment.model.validation.context import ValidationContext
from allotment.model.validation.errors import Errors, duplicate, immutable, invalid, required, too_long, too_many
from allotment.model.validation.gotext import size
from allotment.model.validation.metadata import object_meta, object_meta_update

LIMIT_MAX = 1000
POOLS_MAX = 1000
CONDITIONS_MAX = 10
VALIDATION_ERROR_MAX = 256


def pool_status_request(value: ResourcePoolStatusRequest, _: ValidationContext) -> Errors:
    """Validate a new request."""
    yield from _distinct(object_meta(value.metadata, namespaced=False))
    yield from _spec(value.spec)


def pool_status_request_update(
    new: ResourcePoolStatusRequest, old: ResourcePoolStatusRequest, _: ValidationContext
) -> Errors:
    """Validate a changed request: only its metadata can change."""
    yield from _distinct(object_meta_update(new.metadata, old.metadata))
    if new.spec != old.spec:
        yield immutable("spec", None)


def pool_status_request_status_update(
    new: ResourcePoolStatusRequest, old: ResourcePoolStatusRequest, _: ValidationContext
) -> Errors:
    """Validate the status, which can be written once."""
    yield from _distinct(_status_update(new, old))
    status = new.status
    if status is None or status == old.status:
        return
    if status.pool_count is None:
        yield required("status.poolCount")
    else:
        yield from _at_least(0, status.pool_count, "status.poolCount")
    if len(status.pools) > POOLS_MAX:
        yield too_many("status.pools", len(status.pools), POOLS_MAX)
    else:
        for index, pool in enumerate(status.pools):
            yield from _pool(pool, f"status.pools[{index}]")
    if len(status.conditions) > CONDITIONS_MAX:
        yield too_many("status.conditions", len(status.conditions), CONDITIONS_MAX)
        return
    seen: set[str] = set()
    for index, condition in enumerate(status.conditions):
        if condition.type in seen:
            yield duplicate(f"status.conditions[{index}]", condition)
        seen.add(condition.type)


def _status_update(new: ResourcePoolStatusRequest, old: ResourcePoolStatusRequest) -> Errors:
    """Validate by the rules that are not declarative."""
    yield from object_meta_update(new.metadata, old.metadata)
    if old.status is not None:
        if new.status != old.status:
            yield immutable("status", new.status)
    elif new.status is not None:
        yield from check_conditions(new.status.conditions, "status.conditions")


def _distinct(errors: Errors) -> Errors:
    """Remove repeated errors, as upstream does for rules that are not declarative when it joins both kinds of rules."""
    return iter({str(error): error for error in errors}.values())


def _spec(spec: ResourcePoolStatusRequestSpec) -> Errors:
    yield from _driver(spec.driver, "spec.driver")
    if spec.pool_name is not None:
        yield from _pool_name(spec.pool_name, "spec.poolName")
    if spec.limit is None:  # defaulted before
        yield required("spec.limit")
    else:
        if spec.limit > LIMIT_MAX:
            yield invalid("spec.limit", spec.limit, f"must be less than or equal to {LIMIT_MAX}")
        yield from _at_least(1, spec.limit, "spec.limit")


def _pool(pool: PoolStatus, path: str) -> Errors:
    yield from _driver(pool.driver, f"{path}.driver")
    if not pool.pool_name:
        yield required(f"{path}.poolName")
    else:
        yield from _pool_name(pool.pool_name, f"{path}.poolName")
    if not pool.generation:
        yield required(f"{path}.generation")
    else:
        yield from _at_least(0, pool.generation, f"{path}.generation")
    for name, minimum, value in (
        ("resourceSliceCount", 1, pool.resource_slice_count), ("totalDevices", 0, pool.total_devices),
        ("allocatedDevices", 0, pool.allocated_devices), ("availableDevices", 0, pool.available_devices),
        ("unavailableDevices", 0, pool.unavailable_devices),
    ):  # fmt: skip
        if value is not None:
            yield from _at_least(minimum, value, f"{path}.{name}")
    if pool.node_name is not None:
        for problem in names.subdomain_problems(pool.node_name, unit="bytes"):
            yield invalid(f"{path}.nodeName", pool.node_name, problem)
    if pool.validation_error is not None and size(pool.validation_error) > VALIDATION_ERROR_MAX:
        yield too_long(f"{path}.validationError", VALIDATION_ERROR_MAX)


def _at_least(minimum: int, value: int, path: str) -> Errors:
    if value < minimum:
        yield invalid(path, value, f"must be greater than or equal to {minimum}")


def _driver(text: str, path: str) -> Errors:
    if not text:
        yield required(path)
        return
    for problem in names.caseless_subdomain_problems(text):
        yield invalid(path, text, problem)


def _pool_name(text: str, path: str) -> Errors:
    if size(text) > names.POOL_MAX:
        yield too_long(path, names.POOL_MAX)
    for index, part in enumerate(text.split("/")):
        if not part:
            yield invalid(path, text, f"segment {index}: must not be empty")
        for problem in names.subdomain_problems(part, unit="bytes") if part else ():
            yield invalid(path, part, f"segment {index}: {problem}")
