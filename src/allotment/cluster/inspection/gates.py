"""Which feature gates are on in an API server, as its own metrics say (KEP-3466, since Kubernetes 1.26).

Of other programs (scheduler, kubelets) that says nothing: each has gates of its own.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from typing import Final, Protocol

_PATH: Final = "/metrics"
_SERIES: Final = "kubernetes_feature_enabled"
_SAMPLE: Final = re.compile(rf'{_SERIES}{{name="([A-Za-z0-9]+)"[^}}]*}} ([01])')


class Streamer(Protocol):
    """A client that reads any path as it comes."""

    def stream(self, path: str, query: Sequence[tuple[str, str]] = (), accept: str = ...) -> AsyncIterator[bytes]:
        """The bytes at a path."""
        ...


async def gates_of(client: Streamer) -> dict[str, bool]:
    """Gates by name; empty where the server tells of none. Raises StatusError and Unreachable.

    Metrics are many, and in alphabetical order: what comes behind the gates is not waited for.
    """
    found: dict[str, bool] = {}
    rest = ""
    async for piece in client.stream(_PATH):
        *lines, rest = (rest + piece.decode("utf-8", "replace")).split("\n")
        for line in lines:
            if sample := _SAMPLE.match(line):
                found[sample[1]] = sample[2] == "1"
        if found and lines and _SERIES not in lines[-1]:
            break
    if sample := _SAMPLE.match(rest):
        found[sample[1]] = sample[2] == "1"
    return found
