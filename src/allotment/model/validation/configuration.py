"""Driver parameters in classes, claims and allocations, and other raw JSON."""

from __future__ import annotations

from collections.abc import Sequence

from allotment.model.resource import (
    DeviceAllocationConfiguration,
    DeviceClaimConfiguration,
    DeviceClassConfiguration,
    OpaqueDeviceConfiguration,
)
from allotment.model.validation import names
from allotment.model.validation.errors import Errors, invalid, not_supported, required, too_long
from allotment.model.validation.gotext import GoNamedString, raw_json, size
from allotment.model.validation.lists import check_list
from allotment.model.validation.requests import RequestNames, references

CONFIG_MAX = 32
PARAMETERS_MAX = 10 * 1024
SOURCES = ("FromClaim", "FromClass")


def claim_config(values: Sequence[DeviceClaimConfiguration], path: str, request_names: RequestNames) -> Errors:
    """Validate parameters in a claim, for some or all of its requests."""

    def check(value: DeviceClaimConfiguration, item_path: str) -> Errors:
        yield from references(value.requests, f"{item_path}.requests", request_names)
        yield from _opaque(value.opaque, f"{item_path}.opaque", stored=False)

    return check_list(values, CONFIG_MAX, check, path)


def class_config(values: Sequence[DeviceClassConfiguration], path: str, *, stored: bool) -> Errors:
    """Validate parameters in a class; unchanged ones may exceed the size limit, which was introduced later."""
    return check_list(
        values, CONFIG_MAX, lambda value, item_path: _opaque(value.opaque, f"{item_path}.opaque", stored=stored), path
    )


def allocation_config(
    values: Sequence[DeviceAllocationConfiguration], path: str, request_names: RequestNames
) -> Errors:
    """Validate parameters in an allocation: those of the classes and of the claim."""

    def check(value: DeviceAllocationConfiguration, item_path: str) -> Errors:
        if not value.source:
            yield required(f"{item_path}.source")
        elif value.source not in SOURCES:
            yield not_supported(f"{item_path}.source", GoNamedString(value.source), SOURCES)
        yield from references(value.requests, f"{item_path}.requests", request_names)
        yield from _opaque(value.opaque, f"{item_path}.opaque", stored=False)

    return check_list(values, 2 * CONFIG_MAX, check, path)


def _opaque(value: OpaqueDeviceConfiguration | None, path: str, *, stored: bool) -> Errors:
    if value is None:
        yield required(path)
        return
    yield from names.driver_name(value.driver, f"{path}.driver")
    yield from json_object(value.parameters, f"{path}.parameters", None if stored else PARAMETERS_MAX)


def json_object(value: object, path: str, limit: int | None) -> Errors:
    """Validate raw JSON: an object of at most ``limit`` bytes in compact form."""
    if value is None:
        yield required(path)
    elif limit is not None and size(raw_json(value)) > limit:
        yield too_long(path, limit)
    elif not isinstance(value, dict):
        yield invalid(path, "<value omitted>", "must be a valid JSON object")
