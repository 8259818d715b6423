"""Public objects, as they are read from the source."""

from __future__ import annotations

import griffe

from tests.docs import api_objects


def test_a_class_with_a_private_base_has_fields() -> None:
    node = api_objects.exports("allotment.drivers")["DeviceNode"]
    assert isinstance(node, griffe.Class)
    assert api_objects.is_value(node)
    assert [member.name for member in api_objects.members(node)][:2] == ["path", "host_path"]


def test_the_default_of_a_renamed_field_is_its_value() -> None:
    rdt = api_objects.exports("allotment.drivers")["IntelRdt"]
    value = rdt.members["clos_id"]
    assert isinstance(value, griffe.Attribute)
    assert api_objects.constant(value.value).strip("'\"") == ""
