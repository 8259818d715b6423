"""Device attributes: exactly one value, of bounded length, versions by semver.org."""

from __future__ import annotations

import re

from allotment.model.resource import Device, DeviceAttribute
from allotment.model.validation.errors import Errors, invalid, too_long
from allotment.model.validation.gotext import size

VALUE_MAX = 64

_NUMBER = r"(?:0|[1-9]\d*)"
_LABEL = rf"(?:{_NUMBER}|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_BUILD = "[0-9a-zA-Z-]+"
_is_version = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-{_LABEL}(?:\.{_LABEL})*)?(?:\+{_BUILD}(?:\.{_BUILD})*)?", re.ASCII
).fullmatch

#: The value fields in Go's order, which is also the order of the checks.
_SCALARS = ("bool_", "int_", "string", "version")
_LISTS = ("bools", "ints", "strings", "versions")


def attribute(value: DeviceAttribute, path: str) -> Errors:
    """Validate one attribute."""
    if value.string is not None:
        yield from _string(value.string, f"{path}.string")
    if value.version is not None:
        yield from _version(value.version, f"{path}.version")
    for name in _LISTS:
        items = getattr(value, name)
        if items is not None and not items:
            yield invalid(f"{path}.{name}", items, "must not be empty if specified")
        elif name == "strings":
            for index, item in enumerate(items or ()):
                yield from _string(item, f"{path}.strings[{index}]")
        elif name == "versions":
            for index, item in enumerate(items or ()):
                yield from _version(item, f"{path}.versions[{index}]")
    count = sum(getattr(value, name) is not None for name in _SCALARS + _LISTS)
    if count != 1:
        yield invalid(path, value if count else "", "exactly one value must be specified")


def _string(text: str, path: str) -> Errors:
    if size(text) > VALUE_MAX:
        yield too_long(path, VALUE_MAX)


def _version(text: str, path: str) -> Errors:
    if not _is_version(text):
        yield invalid(path, text, "must be a string compatible with semver.org spec 2.0.0")
    yield from _string(text, path)


def has_list(device: Device) -> bool:
    """Whether any attribute of the device is a list."""
    return any(getattr(value, name) is not None for value in device.attributes.values() for name in _LISTS)


def value_count(device: Device) -> int:
    """The number of attribute values: a list counts as its items, an empty list as one."""
    return sum(sum(len(getattr(value, name) or ()) for name in _LISTS) or 1 for value in device.attributes.values())
