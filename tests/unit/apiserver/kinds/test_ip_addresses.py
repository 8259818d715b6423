"""IPAddresses are named by an address in canonical form, and have a parent that does not change."""

from __future__ import annotations

import pytest

from allotment.model.trees import Tree
from tests.unit.apiserver.shelf import KINDS, created, updated, write

BUCKET = "ipaddresses.networking.k8s.io"


def address(**parent: str) -> Tree:
    reference = {"resource": "services", "namespace": "default", "name": "web", **parent}
    return {"kind": "IPAddress", "metadata": {"name": "10.1.2.3"}, "spec": {"parentRef": reference}}


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("10.1.2.3", ""),
        ("fe80::1", ""),
        ("FE80::1", 'must be in canonical form ("fe80::1")'),
        ("2001:db8:0::1", 'must be in canonical form ("2001:db8::1")'),
        ("x", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
        ("1.2.3", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
        ("::ffff:1.2.3.4", "must not be an IPv4-mapped IPv6 address"),
        ("01.2.3.4", "must not have leading 0s"),
    ],
)
def test_the_name_is_an_address_in_canonical_form(name: str, problem: str) -> None:
    assert list(KINDS[BUCKET].rules.name(name)) == ([problem] if problem else [])


def test_the_parent_is_named_and_immutable() -> None:
    assert created(BUCKET, address(resource="", name="a/b"), write())[1] == [
        "spec.parentRef.resource: Required value",
        "spec.parentRef.name: Invalid value: \"a/b\": may not contain '/'",
    ]
    [error] = updated(BUCKET, address(name="other"), address(), write())[1]
    assert error.startswith("spec.parentRef: Invalid value: ")
    assert error.endswith(": field is immutable")
