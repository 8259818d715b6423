"""What a lab needs beyond what is always installed: asked for once, so that its absence is a line and no traceback."""

from __future__ import annotations

from importlib.util import find_spec

NEEDED = ("httptools", "aiohttp", "cryptography")
INSTALL = "pip install 'allotment[lab]'"


class NotInstalled(ImportError):
    """A lab, or a connection to a cluster, was asked for where its packages are not."""


def missing() -> list[str]:
    """The packages that are not there."""
    return [name for name in NEEDED if find_spec(name) is None]


def check() -> None:
    """Raise NotInstalled, with the names and the command, if something is not there."""
    if names := missing():
        raise NotInstalled(f"a lab needs {', '.join(names)}: {INSTALL}")
