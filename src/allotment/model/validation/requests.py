"""Device requests: either ``exactly`` or ``firstAvailable``, and references to requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from allotment.model.resource import DeviceRequest, DeviceSubRequest, ExactDeviceRequest
from allotment.model.validation import names
from allotment.model.validation.context import ValidationContext
from allotment.model.validation.derived_attributes import DerivedAttributes
from allotment.model.validation.errors import Errors, invalid, not_supported, required
from allotment.model.validation.gotext import GoNamedString
from allotment.model.validation.lists import check_set
from allotment.model.validation.selectors import selectors
from allotment.model.validation.taints import toleration

REQUESTS_MAX = 32
ALTERNATIVES_MAX = 8
ALL, EXACT_COUNT = "All", "ExactCount"

_ONE_OF = "exactly one of `exactly` or `firstAvailable` is required"
_REFERENCE = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"

#: Request names, each with the names of its alternatives.
RequestNames = Mapping[str, frozenset[str]]


def requests(
    values: Sequence[DeviceRequest], path: str, context: ValidationContext, derived: DerivedAttributes
) -> Errors:
    """Validate requests: at most 32, with unique names. ``derived`` validates their derived attributes."""
    return check_set(
        values,
        REQUESTS_MAX,
        lambda request, item_path: _request(request, item_path, context, derived),
        lambda request: request.name,
        path,
    )


def _request(request: DeviceRequest, path: str, context: ValidationContext, derived: DerivedAttributes) -> Errors:
    yield from names.label(request.name, f"{path}.name")
    if request.exactly is None and not request.first_available:
        yield required(path, _ONE_OF)
    elif request.exactly is not None and request.first_available:
        yield invalid(path, None, f"{_ONE_OF}, but multiple fields are set")
    elif request.exactly is not None:
        yield from _common_fields(request.exactly, f"{path}.exactly", context, derived, request.name)
    else:
        yield from check_set(
            request.first_available,
            ALTERNATIVES_MAX,
            lambda sub, item_path: _subrequest(sub, item_path, context, derived, request.name),
            lambda sub: sub.name,
            f"{path}.firstAvailable",
        )


def _subrequest(
    sub: DeviceSubRequest, path: str, context: ValidationContext, derived: DerivedAttributes, parent: str
) -> Errors:
    yield from names.label(sub.name, f"{path}.name")
    yield from _common_fields(sub, path, context, derived, f"{parent}/{sub.name}")


def _common_fields(
    request_fields: ExactDeviceRequest | DeviceSubRequest,
    path: str,
    context: ValidationContext,
    derived: DerivedAttributes,
    name: str,
) -> Errors:
    """Validate the fields of both forms. Capacity requests are not validated, including their names.

    ``name``: of the request, with that of the subrequest.
    """
    yield from names.class_name(request_fields.device_class_name, f"{path}.deviceClassName")
    yield from selectors(request_fields.selectors, f"{path}.selectors", context)
    yield from derived.check(request_fields.derived_attributes, f"{path}.derivedAttributes", name)
    if request_fields.allocation_mode == ALL:
        if request_fields.count != 0:
            yield invalid(f"{path}.count", request_fields.count, "must not be specified when allocationMode is 'All'")
    elif request_fields.allocation_mode == EXACT_COUNT:
        if request_fields.count <= 0:
            yield invalid(f"{path}.count", request_fields.count, "must be greater than zero")
    else:
        yield not_supported(f"{path}.allocationMode", GoNamedString(request_fields.allocation_mode), (ALL, EXACT_COUNT))
    # Not limited: the maximum of 16 tolerations is only documented.
    for index, item in enumerate(request_fields.tolerations):
        yield from toleration(item, f"{path}.tolerations[{index}]")


def request_names(values: Sequence[DeviceRequest]) -> RequestNames:
    """The names that references can use; of equal names the last one counts."""
    return {request.name: frozenset(sub.name for sub in request.first_available) for request in values}


def references(values: Sequence[str], path: str, names: RequestNames) -> Errors:
    """Validate references to requests or alternatives: at most 32, without duplicates."""
    return check_set(
        values, REQUESTS_MAX, lambda name, item_path: reference(name, item_path, names), lambda name: name, path
    )


def reference(name: str, path: str, known: RequestNames) -> Errors:
    """Validate a reference ``request`` or ``request/alternative``."""
    segments = name.split("/")
    if len(segments) > 2:
        yield invalid(path, name, _REFERENCE)
        return
    for segment in segments:
        yield from names.label(segment, path)
    if segments[0] not in known or (len(segments) == 2 and segments[1] not in known[segments[0]]):
        yield invalid(path, name, _REFERENCE)
