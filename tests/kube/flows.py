"""``python -m tests.kube.flows [--kubernetes-only] [FILE…] [FLOW…]``: replays recorded flows on kube-apiserver.

Allotment's claim controller, taint eviction and scheduler replace Kubernetes' own, as clients over HTTPS; all other
controllers are Kubernetes'. The resulting objects are compared as on a lab (:mod:`tests.vectors.apiserver.flows`). The
flows run one after the other on one control plane, which is cleared in between; objects that cannot be deleted are
reported, too. ``--kubernetes-only`` runs without Allotment's, which shows that flows are replayed
as they were recorded.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import aiohttp

from allotment.apiserver.http_messages import Request, Response
from allotment.cluster.program import Program
from allotment.controllers.device_taints import device_taints
from allotment.controllers.resource_claims import resource_claims
from allotment.model.features import Features
from allotment.model.pod_groups import are_groups_enabled
from allotment.model.trees import Tree
from allotment.scheduler.program import SchedulerOptions, scheduler
from bench.kube_programs import missing, programs, selected_release
from bench.real_kube import ApiServer, plane
from tests.kube.allotment_programs import running_programs
from tests.kube.releases import KUBE_RELEASES, changed_gates
from tests.vectors.apiserver.flows import replay_flow, send
from tests.vectors.apiserver.recorded_servers import RecordedServer, recorded_server
from tests.vectors.apiserver.recording import DATA, FIXTURES, Row, rows
from tests.vectors.apiserver.step_requests import StepRequest
from tests.vectors.exceptions import EXCEPTIONS
from tests.vectors.result import Result

#: Recordings that are not part of this repository.
_SHARED: Final = Path(os.environ.get("ALLOTMENT_SHARED") or Path(__file__).parents[3] / "shared")
#: The recorded flows of each release: 1.36 with every gate that is off by default, 1.37 as it comes. Those of 1.37 with
#: all gates take ten minutes: `python -m tests.kube.flows FILE` replays them.
FLOWS: Final[Mapping[str, Path]] = {
    "1.36": DATA / "apiserver" / "60-scheduler-flows.jsonl.gz",
    "1.37": _SHARED / "vectors/k8s-1.37/apiserver/137-60-scheduler-flows-p1.jsonl.gz",
}
#: The server of the selected release with all gates of the recordings.
SERVER: Final = recorded_server({"1.36": "60-scheduler-flows", "1.37": "137-60-scheduler-flows-p2"}[selected_release()])
#: The Kubernetes controllers that Allotment's programs replace.
REPLACED_CONTROLLERS: Final = ("resourceclaim-controller", "device-taint-eviction-controller")
FEATURES: Final = SERVER.features
_RESOURCE: Final = "/apis/resource.k8s.io/v1"
#: Cluster-scoped objects that flows leave behind.
_CLUSTER_PATHS: Final = (
    f"{_RESOURCE}/resourceslices", f"{_RESOURCE}/deviceclasses", "/api/v1/nodes",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
)  # fmt: skip
_TIMEOUT_SECONDS: Final = 30.0
#: Kubernetes' programs and Allotment's choose at random which of several pods is served first, so the object that a
#: later step is about may not be the recorded one. Such a flow is retried.
_MAX_ATTEMPTS: Final = 3


class RealControlPlane:
    """kube-apiserver, reached over HTTPS."""

    timeout_seconds = _TIMEOUT_SECONDS
    random_order = True
    speed = 1.0

    def __init__(self, running: ApiServer, http: aiohttp.ClientSession, server: RecordedServer) -> None:
        self._running = running
        self._http = http
        rules = f"/apis/resource.k8s.io/{KUBE_RELEASES[server.release].rule_version}/devicetaintrules"
        self._cluster_paths: tuple[str, ...] = (*_CLUSTER_PATHS, rules)
        version = KUBE_RELEASES[server.release].group_version
        kinds = [("podgroups", version), ("workloads", version)] if are_groups_enabled(server.features) else []
        if server.features.enabled("CompositePodGroup"):
            kinds.append(("compositepodgroups", "v1alpha3"))
        self._group_paths = [f"/apis/scheduling.k8s.io/{served}/namespaces/{{}}/{plural}" for plural, served in kinds]
        if server.features.enabled("DRAResourcePoolStatus"):
            self._cluster_paths += ("/apis/resource.k8s.io/v1alpha3/resourcepoolstatusrequests",)
        self._kept: set[str] = set()

    async def request(self, request: Request) -> Response:
        url = f"{request.path}?{request.query}" if request.query else request.path
        async with self._http.request(
            request.method, url, headers=dict(request.headers), data=request.body
        ) as response:
            return Response(response.status, tuple(response.headers.items()), await response.read())

    async def settle(self, rest: float = 0.15) -> None:
        """Wait until nothing has been written for ``rest`` seconds; by then the namespace has its service account."""
        loop = asyncio.get_running_loop()
        latest = loop.time() + 5
        revision, since = await self._revision(), loop.time()
        while loop.time() - since < rest and loop.time() < latest:
            await asyncio.sleep(0.03)
            now = await self._revision()
            if now != revision:
                revision, since = now, loop.time()

    async def create_fixtures(self) -> None:
        """Create the classes, nodes and slices of the recordings, which stay for all flows."""
        for row in rows(FIXTURES):
            recorded = row["request"]
            refusal = await send(self, StepRequest(recorded["method"], recorded["path"], recorded["body"]))
            assert refusal == "", refusal
        for path in self._cluster_paths:
            self._kept |= {f"{path}/{tree['metadata']['name']}" for tree in await self._items(path)}

    async def clear(self, namespace: str) -> str:
        """Delete the objects of a flow; return those that still exist after the timeout, as text."""
        for owners in ("batch/v1/namespaces/{}/jobs", "apps/v1/namespaces/{}/deployments"):
            await self._delete(f"/apis/{owners.format(namespace)}?propagationPolicy=Background")
        groups = [path.format(namespace) for path in self._group_paths]
        everywhere = (
            *groups,
            f"/api/v1/namespaces/{namespace}/pods", f"{_RESOURCE}/namespaces/{namespace}/resourceclaims",
            *self._cluster_paths,
        )  # fmt: skip
        latest = time.monotonic() + _TIMEOUT_SECONDS
        while True:
            existing = [f"{path}/{tree['metadata']['name']}" for path in everywhere for tree in await self._items(path)]
            remaining = [path for path in existing if path not in self._kept]
            if not remaining:
                break
            if time.monotonic() > latest:
                return f"not deleted: {', '.join(remaining)}"
            for path in remaining:
                await self._delete(f"{path}?gracePeriodSeconds=0" if "/pods/" in path else path)
            await asyncio.sleep(0.1)
        await self._delete(f"/api/v1/namespaces/{namespace}")
        return ""

    async def wait_deleted(self, namespace: str) -> None:
        """Wait until a namespace is deleted."""
        while any(tree["metadata"]["name"] == namespace for tree in await self._items("/api/v1/namespaces")):
            await asyncio.sleep(0.1)

    async def _items(self, path: str) -> list[Tree]:
        items: list[Tree] = (await self._read(path))["items"]
        return items

    async def _revision(self) -> str:
        read = await self._read("/apis/scheduling.k8s.io/v1/priorityclasses?limit=1")
        return str(read["metadata"]["resourceVersion"])

    async def _read(self, path: str) -> Tree:
        async with self._http.get(path, raise_for_status=True) as answer:
            read: Tree = await answer.json()
            return read

    async def _delete(self, path: str) -> None:
        """Delete an object; it need not exist."""
        (await self._http.delete(path)).release()


@contextmanager
def control_plane(
    paths: dict[str, str], server: RecordedServer = SERVER, *, kubernetes_only: bool = False,
    without: Sequence[str] | None = None,
) -> Iterator[ApiServer]:  # fmt: skip
    """Run Kubernetes with the gates of a recording, without the controllers and the scheduler that Allotment replaces
    unless ``kubernetes_only``.

    ``without``: the controllers to disable instead of these.
    """
    off = (() if kubernetes_only else REPLACED_CONTROLLERS) if without is None else without
    controllers = ",".join(("*", *(f"-{name}" for name in off)))
    with plane(
        paths, controllers=controllers, scheduler=kubernetes_only, runtime_config=",".join(server.runtime_config),
        gates=changed_gates(server),
    ) as running:  # fmt: skip
        yield running


def allotment_programs(features: Features = FEATURES) -> dict[str, Program]:
    """The programs that replace Kubernetes' own."""
    return {
        "resource-claims": resource_claims(features),
        "device-taints": device_taints(features),
        # No other scheduler runs, though a flow that allocates by hand looks like one.
        "scheduler": scheduler(SchedulerOptions(features, settle=0.0)),
    }


async def replay(
    running: ApiServer,
    flows: Sequence[Row],
    server: RecordedServer = SERVER,
    *,
    kubernetes_only: bool = False,
    look: Callable[[str], None] = lambda _: None,
    excused: Container[str] = (),
) -> AsyncIterator[Result]:
    """Replay the flows one after the other, with Allotment's programs or, if ``kubernetes_only``, with the
    running ones.

    ``look`` is called with the namespace of each flow, at its end and before it is cleared. ``excused``: flows that are
    not retried, because they differ on purpose.
    """
    headers = {"Authorization": f"Bearer {running.server.token}"}
    connector = aiohttp.TCPConnector(ssl=running.verified())
    async with (
        aiohttp.ClientSession(running.server.url, headers=headers, connector=connector) as http,
        running_programs(running, {} if kubernetes_only else allotment_programs(server.features)),
    ):
        plane = RealControlPlane(running, http, server)
        await plane.create_fixtures()
        for flow in flows:
            for _ in range(1 if flow.get("upstream_bug") or flow["flow"] in excused else _MAX_ATTEMPTS):
                found = await replay_flow(plane, flow)
                await asyncio.to_thread(look, flow["namespace"])
                remaining = await plane.clear(flow["namespace"])
                if remaining or not found:
                    break
                await plane.wait_deleted(flow["namespace"])
            yield Result(flow["flow"], not (found or remaining), "; ".join(filter(None, (found, remaining))))


async def _run(
    running: ApiServer, flows: Sequence[Row], server: RecordedServer, excused: Mapping[str, str], *,
    kubernetes_only: bool,
) -> int:  # fmt: skip
    passed, differ, start = 0, 0, time.monotonic()
    async for result in replay(running, flows, server, kubernetes_only=kubernetes_only, excused=excused):
        reason = "" if result.passed else excused.get(result.name, "")
        passed, differ = passed + result.passed, differ + bool(reason)
        elapsed, start = time.monotonic() - start, time.monotonic()
        word = "ok" if result.passed else "differs" if reason else "FAILED"
        print(f"{word} {elapsed:5.1f} s  {result.name}", reason or result.detail, flush=True)
    print(f"passed {passed} of {len(flows)}, {differ} differ on purpose (tests/vectors/exceptions.py)")
    return 0 if passed + differ == len(flows) else 1


def main(arguments: Sequence[str]) -> int:
    """Run the command line; return 1 if a flow had another result, 2 if the programs are missing."""
    kubernetes_only = "--kubernetes-only" in arguments
    words = [word for word in arguments if not word.endswith(".gz") and word != "--kubernetes-only"]
    failed = 0
    for file in [Path(word) for word in arguments if word.endswith(".gz")] or [FLOWS[selected_release()]]:
        server = recorded_server(file.name)
        paths = programs(release=server.release)
        if paths is None:
            lacking = ", ".join(missing(release=server.release))
            print(f"{lacking} not found: `python -m tests.kube.binaries` builds them", file=sys.stderr)
            return 2
        flows = [flow for flow in rows(file) if not words or flow["flow"] in words]
        with control_plane(paths, server, kubernetes_only=kubernetes_only) as running:
            excused = {} if kubernetes_only else EXCEPTIONS["apiserver"].get(file.name, {})
            failed |= asyncio.run(_run(running, flows, server, excused, kubernetes_only=kubernetes_only))
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
