"""Validation of IPAddresses, which are named by the address that their parent, a Service, uses."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Final

from allotment.apiserver.kinds import field_validation
from allotment.apiserver.kinds.kind import Errors, KindRules, Write
from allotment.model.quoting import quote
from allotment.model.trees import Tree
from allotment.model.validation import names
from allotment.model.validation.errors import immutable, invalid, required

_LEADING_ZEROS: Final = re.compile(r"(?<![0-9a-fA-F:])0+(?=[0-9])")
_INVALID: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


def address_problems(name: str) -> list[str]:
    """The errors of the name of an IPAddress: it is an address in canonical form.

    >>> address_problems("fe80::1"), address_problems("FE80::1"), address_problems("010.0.0.1")
    ([], ['must be in canonical form ("fe80::1")'], ['must not have leading 0s'])
    """
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        sloppy = _LEADING_ZEROS.sub("", name)
        return ["must not have leading 0s"] if sloppy != name and not address_problems(sloppy) else [_INVALID]
    if "%" in name:
        return [_INVALID]
    if address.version == 6 and address.ipv4_mapped is not None:
        return ["must not be an IPv4-mapped IPv6 address"]
    return [] if str(address) == name else [f"must be in canonical form ({quote(str(address))})"]


def _validate(tree: Tree, write: Write) -> Errors:
    path = "spec.parentRef"
    parent = (tree.get("spec") or {}).get("parentRef")
    if parent is None:
        yield required(path)
        return
    if group := parent.get("group"):
        yield from names.subdomain(group, f"{path}.group")
    for field in ("resource", "name", "namespace"):
        value = parent.get(field) or ""
        if not value and field != "namespace":
            yield required(f"{path}.{field}")
        for problem in field_validation.path_segment_problems(value):
            yield invalid(f"{path}.{field}", value, problem)


def _validate_update(new: Tree, old: Tree, write: Write) -> Errors:
    parent = (new.get("spec") or {}).get("parentRef")
    if parent != (old.get("spec") or {}).get("parentRef"):
        yield immutable("spec.parentRef", parent)


RULES: Final[Mapping[str, KindRules]] = {
    "ipaddresses.networking.k8s.io": KindRules(
        validate_create=_validate, validate_update=_validate_update, name=address_problems
    )
}
