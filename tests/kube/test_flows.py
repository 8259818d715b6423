"""Our claim controller, taint eviction and scheduler, in place of Kubernetes' own, come to what Kubernetes came to.

A part of the recorded flows; ``python -m tests.kube.flows`` plays them all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from bench.real_kube import ApiServer
from tests.kube.flows import FLOWS, prepared, replayed
from tests.vectors.apiserver.recording import rows
from tests.vectors.exceptions import EXCEPTIONS
from tests.vectors.result import Result


@pytest.fixture(scope="module")
def running(paths: dict[str, str]) -> Iterator[ApiServer]:
    with prepared(paths) as server:
        yield server


@pytest.mark.timeout(400)
def test_flows_come_to_what_they_came_to_on_kubernetes(running: ApiServer, record_score: Callable[[str], None]) -> None:
    flows = list(rows(FLOWS))

    async def all_of_them() -> list[Result]:
        return [result async for result in replayed(running, flows)]

    results = asyncio.run(all_of_them())
    failed = {result.name: result.detail for result in results if not result.passed}
    excused = EXCEPTIONS["apiserver"][FLOWS.name]
    record_score(
        f"kubernetes {FLOWS.name:30} passed {len(results) - len(failed)} of {len(results)}, "
        f"{len(excused)} differ on purpose (tests/vectors/exceptions.py)"
    )
    assert failed.keys() == excused.keys(), failed
