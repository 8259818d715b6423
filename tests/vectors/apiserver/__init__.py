"""Scores recordings of a real API server and its control plane with a new lab: requests, and scheduling flows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

from tests.vectors.apiserver.recorded_servers import recorded_server
from tests.vectors.apiserver.recording import read
from tests.vectors.result import Result


def score(path: Path) -> Iterator[Result]:
    """Replay every row of a recording and compare; a row that cannot be replayed has failed."""
    from tests.vectors.apiserver import flows, requests

    server, recorded = recorded_server(path.name), read(path)
    for line, reason in recorded.unusable:
        yield Result(line, False, f"cannot be replayed: {reason}")
    if recorded.requests:
        yield from asyncio.run(requests.replay(recorded.requests, server))
    if recorded.flows:
        yield from asyncio.run(flows.replay(recorded.flows, server))
