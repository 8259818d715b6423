"""Scores recordings of a real API server and its control plane with a new lab: requests, and scheduling flows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

from tests.vectors.apiserver.recording import rows
from tests.vectors.result import Result


def score(path: Path) -> Iterator[Result]:
    """Replay every row of a recording and compare."""
    from tests.vectors.apiserver import flows, requests

    recorded = list(rows(path))
    if recorded and "flow" in recorded[0]:
        yield from asyncio.run(flows.replay(recorded))
    else:
        yield from asyncio.run(requests.replay(recorded))
