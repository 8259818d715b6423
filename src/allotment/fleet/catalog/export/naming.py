"""Object names derived from instance type names, which may contain capitals, dots and underscores."""

from __future__ import annotations

import re

_OTHERS = re.compile(r"[^a-z0-9]+")


def object_name(*words: str) -> str:
    """Return a DNS label made of the given parts.

    >>> object_name("azure/Standard_NC4as_T4_v3", "spot")
    'azure-standard-nc4as-t4-v3-spot'
    """
    return _OTHERS.sub("-", "-".join(filter(None, words)).lower()).strip("-")[:63].rstrip("-")
