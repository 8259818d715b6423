"""CDI device names: ``vendor/class=device``, and the syntax of each part.

A kubelet passes these names on; the container runtime resolves them. It validates the syntax first, so a device with an
invalid name cannot be used.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

#: The maximum length of a class, which the specification limits like a label.
MAX_CLASS_LENGTH: Final = 63

# At least two characters: the reference library 1.1.0, which all runtimes use, panics on shorter vendors and classes.
_QUALIFIER: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*[A-Za-z0-9]")
_DEVICE: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.:-]*[A-Za-z0-9])?")


class QualifiedName(NamedTuple):
    """The parts of a qualified device name."""

    vendor: str
    class_: str
    device: str


def qualified_name(kind: str, device: str) -> str:
    """Return the name by which a container requests a device.

    >>> qualified_name("k8s.gpu.nvidia.com/claim", "7f0c-gpu-0")
    'k8s.gpu.nvidia.com/claim=7f0c-gpu-0'
    """
    return f"{kind}={device}"


def parse_name(name: str) -> QualifiedName | None:
    """Return the parts of a qualified name, or None if the name is invalid.

    >>> parse_name("nvidia.com/gpu=all")
    QualifiedName(vendor='nvidia.com', class_='gpu', device='all')
    >>> parse_name("/dev/nvidia0") is None
    True
    """
    kind, equals, device = name.partition("=")
    if not equals or kind_problem(kind) or device_problem(device):
        return None
    vendor, _, class_ = kind.partition("/")
    return QualifiedName(vendor, class_, device)


def kind_problem(kind: str) -> str:
    """Return why a ``vendor/class`` is invalid, or "" if it is valid."""
    vendor, slash, class_ = kind.partition("/")
    if not slash:
        return f"expected vendor/class, found {kind!r}"
    for part, text in (("vendor", vendor), ("class", class_)):
        if not _QUALIFIER.fullmatch(text):
            syntax = (
                "at least two letters, digits, '_', '-' or '.', starting with a letter and ending with a letter "
                "or digit"
            )
            return f"{part} {text!r}: expected {syntax}"
    if len(class_) > MAX_CLASS_LENGTH:
        return f"class {class_!r}: expected at most {MAX_CLASS_LENGTH} characters, found {len(class_)}"
    return ""


def device_problem(name: str) -> str:
    """Return why a device name is invalid, or "" if it is valid."""
    if _DEVICE.fullmatch(name):
        return ""
    return f"{name!r}: expected letters, digits, '_', '-', '.' or ':', starting and ending with a letter or digit"


def transient_name(kind: str, transient: str) -> str:
    """Return the name of a file that lives as long as another object, such as a claim.

    The names are those of the reference library.

    >>> transient_name("k8s.gpu.nvidia.com/claim", "7f0c")
    'k8s.gpu.nvidia.com-claim_7f0c'
    """
    return f"{kind}_{transient}".replace("/", "-", 1).replace("/", "_")
