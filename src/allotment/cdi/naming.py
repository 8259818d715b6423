"""The names of CDI: ``vendor/class=device``, and what each part may be made of.

A kubelet passes these names through; the container runtime looks them up. The runtime judges a name by its letters
before it looks, so a name that breaks the rules is as good as one that nobody wrote.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

#: The longest class; the specification limits it as a label.
MAX_CLASS_LENGTH: Final = 63

# Two characters at least: the library that all runtimes use, 1.1.0, panics on a vendor or class of one.
_QUALIFIER: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*[A-Za-z0-9]")
_DEVICE: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.:-]*[A-Za-z0-9])?")


class QualifiedName(NamedTuple):
    """A qualified device name, taken apart."""

    vendor: str
    class_: str
    device: str


def qualified_name(kind: str, device: str) -> str:
    """The name by which a container asks for a device.

    >>> qualified("k8s.gpu.nvidia.com/claim", "7f0c-gpu-0")
    'k8s.gpu.nvidia.com/claim=7f0c-gpu-0'
    """
    return f"{kind}={device}"


def parse_name(name: str) -> QualifiedName | None:
    """The parts of a qualified name; None when it is none.

    >>> parse("nvidia.com/gpu=all")
    Qualified(vendor='nvidia.com', class_='gpu', device='all')
    >>> parse("/dev/nvidia0") is None
    True
    """
    kind, equals, device = name.partition("=")
    if not equals or kind_problem(kind) or device_problem(device):
        return None
    vendor, _, class_ = kind.partition("/")
    return QualifiedName(vendor, class_, device)


def kind_problem(kind: str) -> str:
    """What is wrong with a ``vendor/class``; empty when nothing is."""
    vendor, slash, class_ = kind.partition("/")
    if not slash:
        return f"wanted vendor/class, found {kind!r}"
    for part, text in (("vendor", vendor), ("class", class_)):
        if not _QUALIFIER.fullmatch(text):
            wanted = "two characters or more: a letter first, a letter or digit last, between them also '_', '-', '.'"
            return f"{part} {text!r}: wanted {wanted}"
    if len(class_) > MAX_CLASS_LENGTH:
        return f"class {class_!r}: wanted at most {MAX_CLASS_LENGTH} characters, found {len(class_)}"
    return ""


def device_problem(name: str) -> str:
    """What is wrong with a device's name; empty when nothing is."""
    if _DEVICE.fullmatch(name):
        return ""
    return f"{name!r}: wanted a letter or digit first and last, between them also '_', '-', '.', ':'"


def transient_name(kind: str, transient: str) -> str:
    """The name of a file that lives as long as something else does (a claim), as runtimes' own library makes it.

    >>> transient_name("k8s.gpu.nvidia.com/claim", "7f0c")
    'k8s.gpu.nvidia.com-claim_7f0c'
    """
    return f"{kind}_{transient}".replace("/", "-", 1).replace("/", "_")
