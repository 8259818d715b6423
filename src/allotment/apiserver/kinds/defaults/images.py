"""Whether an image is pulled always: only when its reference, read as container runtimes read it, says ``latest``."""

from __future__ import annotations

import functools
import re
from typing import Final

_COMPONENT: Final = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN: Final = rf"(?:{_COMPONENT}(?:\.{_COMPONENT})*|\[(?:[a-fA-F0-9:]+)\])(?::[0-9]+)?"
_PATH_PART: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REFERENCE: Final = re.compile(
    rf"(?P<name>{_DOMAIN}/{_PATH_PART}(?:/{_PATH_PART})*)(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}}))?"
    r"(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?"
)
_IDENTIFIER: Final = re.compile(r"[a-f0-9]{64}")
_LONGEST: Final = 4096


@functools.lru_cache(2048)
def pull_policy(image: str) -> str:
    """``Always`` for what has the tag ``latest`` or neither tag nor digest; ``IfNotPresent`` for the rest.

    References that cannot be read have no tag either way, so they are the rest.
    """
    return "Always" if _tag(image) == "latest" else "IfNotPresent"


def _tag(image: str) -> str:
    if len(image) > _LONGEST or _IDENTIFIER.fullmatch(image):
        return ""
    first, slash, rest = image.partition("/")
    if not slash or not ("." in first or ":" in first or first == "localhost" or first != first.lower()):
        first, rest = "docker.io", image
    found = _REFERENCE.fullmatch(f"{first}/{rest}")
    if found is None or len(found["name"]) > 255:
        return ""
    return found["tag"] or ("" if found["digest"] else "latest")
