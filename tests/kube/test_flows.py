"""Allotment's claim controller, taint eviction and scheduler, in place of Kubernetes' own, reach the recorded results.

And where Kubernetes' own leave a pod pending, ``allot explain`` reports that it does not fit. The flows are the
recorded ones; ``python -m tests.kube.flows`` replays them one by one.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from allotment.cli.main import main
from bench.real_kube import ApiServer
from tests.kube.flows import FLOWS, control_plane, replay
from tests.vectors.apiserver.recorded_servers import recorded_server
from tests.vectors.apiserver.recording import Row, rows
from tests.vectors.exceptions import EXCEPTIONS
from tests.vectors.result import Result

#: kube-scheduler finds a node, and the API server then rejects its write, which explain cannot foresee: kube-scheduler
#: adds a timestamp to an allocation made by hand without one, and allocations are immutable.
REFUSED_LATER = ("pre-allocated claim by hand pins the pod",)


@pytest.fixture
def recording(release: str) -> Path:
    """The recorded flows of the release."""
    if not FLOWS[release].exists():
        pytest.skip(f"NOT TESTED: {FLOWS[release].name} not found")
    return FLOWS[release]


@pytest.fixture
def running(paths: dict[str, str], recording: Path) -> Iterator[ApiServer]:
    with control_plane(paths, recorded_server(recording.name)) as server:
        yield server


@pytest.mark.every_release
def test_flows_have_the_recorded_results(
    running: ApiServer, recording: Path, record_score: Callable[[str], None]
) -> None:
    flows = list(rows(recording))

    async def all_of_them() -> list[Result]:
        return [result async for result in replay(running, flows, recorded_server(recording.name))]

    results = asyncio.run(all_of_them())
    failed = {result.name: result.detail for result in results if not result.passed}
    excused = EXCEPTIONS["apiserver"].get(recording.name, {})
    verb = "differs" if len(excused) == 1 else "differ"
    record_score(
        f"kubernetes {recording.name:30} passed {len(results) - len(failed)} of {len(results)}, "
        f"{len(excused)} {verb} on purpose (tests/vectors/exceptions.py)"
    )
    assert failed.keys() == excused.keys(), failed


@pytest.fixture
def kubernetes(paths: dict[str, str], recording: Path) -> Iterator[ApiServer]:
    with control_plane(paths, recorded_server(recording.name), kubernetes_only=True) as server:
        yield server


def has_pending_pod(flow: Row) -> bool:
    """Whether a pod of a flow has no node at its end."""
    return any(not pod["spec"].get("nodeName") for pod in flow["snapshots"][-1]["pods"])


@pytest.mark.every_release
def test_pods_that_kube_scheduler_leaves_pending_are_explained(
    kubernetes: ApiServer, recording: Path, record_score: Callable[[str], None]
) -> None:
    flows = [flow for flow in rows(recording) if has_pending_pod(flow) and flow["flow"] not in REFUSED_LATER]
    pending: dict[str, str] = {}

    def look(namespace: str) -> None:
        code, pods = kubernetes.send_request("GET", f"/api/v1/namespaces/{namespace}/pods")
        assert code == 200
        connection = ("--kubeconfig", str(kubernetes.kubeconfig), "--context", "real")
        with contextlib.redirect_stdout(io.StringIO()) as output:
            assert main(["explain", "-n", namespace, "-o", "json", *connection]) in (0, 1)
        answers = {
            answer["name"]: answer["outcome"]
            for answer in json.loads(output.getvalue())["answers"]
            if answer["kind"] == "Pod"
        }
        names = [f"{namespace}/{pod['metadata']['name']}" for pod in pods["items"] if "nodeName" not in pod["spec"]]
        pending.update((name, answers.get(name, "explain not run")) for name in names)

    async def all_of_them() -> None:
        async for _ in replay(kubernetes, flows, recorded_server(recording.name), kubernetes_only=True, look=look):
            pass

    asyncio.run(all_of_them())
    explained = sum(answer == "refused" for answer in pending.values())
    record_score(
        f"explain    explained {explained} of the {len(pending)} pods that kube-scheduler left pending in"
        f" {len(flows)} flows"
    )
    assert len(pending) >= {"1.36": 18, "1.37": 2}[recorded_server(recording.name).release]
    assert [name for name, answer in pending.items() if answer != "refused"] == []
