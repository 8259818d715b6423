"""What a lab, and a cluster elsewhere, need beyond what is always installed: its absence is a line and no traceback."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

NEEDED = ("httptools", "aiohttp", "cryptography")
INSTALL = "pip install 'allotment[lab]'"

#: For a cluster elsewhere; labs need it, too.
CLUSTER = ("aiohttp",)
CLUSTER_INSTALL = "pip install 'allotment[cluster]'"


class NotInstalled(ImportError):
    """A lab was asked for where its packages are not."""


def missing(needed: Sequence[str] = NEEDED) -> list[str]:
    """The packages that are not there."""
    return [name for name in needed if find_spec(name) is None]


def check() -> None:
    """Raise NotInstalled, with the names and the command, if something is not there."""
    if names := missing():
        raise NotInstalled(f"a lab needs {', '.join(names)}: {INSTALL}")
