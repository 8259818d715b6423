"""Our claim controller, taint eviction and scheduler, in place of Kubernetes' own, come to what Kubernetes came to.

And where Kubernetes' own leave a pod waiting, ``allot explain`` says that it does not fit. The flows are the recorded
ones; ``python -m tests.kube.flows`` plays them one by one.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from bench.real_kube import ApiServer
from tests.kube.flows import FLOWS, prepared, replayed
from tests.vectors.apiserver.recording import Row, rows
from tests.vectors.exceptions import EXCEPTIONS
from tests.vectors.result import Result

#: Kubernetes' scheduler finds a place, and the API server refuses what it writes then, which nobody sees before: it
#: stamps an allocation that was made by hand without, and allocations may not change.
REFUSED_LATER = ("pre-allocated claim by hand pins the pod",)


@pytest.fixture
def running(paths: dict[str, str]) -> Iterator[ApiServer]:
    with prepared(paths) as server:
        yield server


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


@pytest.fixture
def theirs(paths: dict[str, str]) -> Iterator[ApiServer]:
    with prepared(paths, theirs=True) as server:
        yield server


def waits(flow: Row) -> bool:
    """Whether a pod of a flow has no node at its end."""
    return any(not pod["spec"].get("nodeName") for pod in flow["snapshots"][-1]["pods"])


def test_what_kube_scheduler_leaves_waiting_is_explained(
    theirs: ApiServer, record_score: Callable[[str], None]
) -> None:
    flows = [flow for flow in rows(FLOWS) if waits(flow) and flow["flow"] not in REFUSED_LATER]
    waiting: dict[str, str] = {}

    def look(namespace: str) -> None:
        code, pods = theirs.ask("GET", f"/api/v1/namespaces/{namespace}/pods")
        assert code == 200
        words = ("explain", "-n", namespace, "-o", "json", "--kubeconfig", str(theirs.kubeconfig), "--context", "real")
        said = subprocess.run(
            [sys.executable, "-m", "allotment.cli.main", *words], capture_output=True, text=True, check=False
        )
        assert said.returncode in (0, 1), said.stderr
        answers = {one["name"]: one["outcome"] for one in json.loads(said.stdout)["answers"] if one["kind"] == "Pod"}
        names = [f"{namespace}/{pod['metadata']['name']}" for pod in pods["items"] if "nodeName" not in pod["spec"]]
        waiting.update((name, answers.get(name, "not asked")) for name in names)

    async def all_of_them() -> None:
        async for _ in replayed(theirs, flows, theirs=True, look=look):
            pass

    asyncio.run(all_of_them())
    record_score(f"explain    pods that kube-scheduler leaves waiting in {len(flows)} flows: {len(waiting)} explained")
    assert len(waiting) >= 18
    assert [name for name, answer in waiting.items() if answer != "refused"] == []
