"""``python -m tests.kube.flows [--theirs] [FILE…] [FLOW…]``: recorded flows on kube-apiserver, with our programs.

Our claim controller, taint eviction and scheduler work in place of Kubernetes' own, as clients over HTTPS; all other
controllers are Kubernetes'. What becomes of the objects is compared as on a lab (:mod:`tests.vectors.apiserver.flows`).
One flow after the other on one plane, which is cleared in between; whatever cannot be cleared is told, too.
``--theirs``: with Kubernetes' programs alone, which shows that flows are played as they were recorded.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import aiohttp

from allotment.apiserver.http_messages import Request, Response
from allotment.cluster.program import Program
from allotment.controllers.device_taints import device_taints
from allotment.controllers.resource_claims import resource_claims
from allotment.model.features import GATES, Features
from allotment.model.trees import Tree
from allotment.scheduler.program import SchedulerOptions, scheduler
from bench.kube_programs import missing, programs
from bench.real_kube import ApiServer, plane
from tests.kube.ours import at_work
from tests.vectors.apiserver.doings import Doing
from tests.vectors.apiserver.flows import asked_of, played
from tests.vectors.apiserver.recording import DATA, FIXTURES, Row, rows
from tests.vectors.result import Result

FLOWS: Final = DATA / "apiserver" / "60-scheduler-flows.jsonl.gz"
RELEASE: Final = "1.36"
#: The controllers of Kubernetes whose work is ours here.
OURS: Final = ("resourceclaim-controller", "device-taint-eviction-controller")
FEATURES: Final = Features(RELEASE, {gate: True for gate, releases in GATES.items() if RELEASE in releases})
#: Every gate of the recordings that is off by default.
_GATES: Final = {
    "GenericWorkload": True,
    **{gate: True for gate, releases in GATES.items() if not releases.get(RELEASE, ("", True))[1]},
}
_SERVED: Final = ",".join(
    f"{version}=true"
    for version in ("resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1", "resource.k8s.io/v1alpha3",
                    "scheduling.k8s.io/v1alpha2")
)  # fmt: skip
_RESOURCE: Final = "/apis/resource.k8s.io/v1"
#: What flows leave behind beside their namespace; rules are of another version.
_CLUSTER: Final = (
    f"{_RESOURCE}/resourceslices", f"{_RESOURCE}/deviceclasses", "/apis/resource.k8s.io/v1beta2/devicetaintrules",
    "/api/v1/nodes", "/apis/scheduling.k8s.io/v1/priorityclasses",
)  # fmt: skip
_PATIENCE_SECONDS: Final = 30.0
#: Who is served first of several is drawn by lot, by Kubernetes' own programs as by ours; so what a later step is about
#: may have come to another.
_MOST_TRIES: Final = 3


class RealPlace:
    """kube-apiserver, asked over HTTPS."""

    patience_seconds = _PATIENCE_SECONDS
    draws_lots = True

    def __init__(self, running: ApiServer, http: aiohttp.ClientSession) -> None:
        self._running = running
        self._http = http
        self._kept: set[str] = set()

    async def ask(self, request: Request) -> Response:
        """One request, answered."""
        url = f"{request.path}?{request.query}" if request.query else request.path
        async with self._http.request(request.method, url, headers=dict(request.headers), data=request.body) as told:
            return Response(told.status, tuple(told.headers.items()), await told.read())

    async def settled(self, rest: float = 0.15) -> None:
        """Wait until nothing has been written for so long; a namespace has its service account."""
        loop = asyncio.get_running_loop()
        latest = loop.time() + 5
        revision, since = await self._revision(), loop.time()
        while loop.time() - since < rest and loop.time() < latest:
            await asyncio.sleep(0.03)
            now = await self._revision()
            if now != revision:
                revision, since = now, loop.time()

    async def begin(self) -> None:
        """Classes, nodes and slices of the recordings, which stay."""
        for row in rows(FIXTURES):
            asked = row["request"]
            told = await asked_of(self, Doing(asked["method"], asked["path"], asked["body"]))
            assert told == "", told
        for path in _CLUSTER:
            self._kept |= {f"{path}/{tree['metadata']['name']}" for tree in await self._items(path)}

    async def clear(self, namespace: str) -> str:
        """Delete what a flow made; what is still there after a while, or nothing."""
        for owners in ("batch/v1/namespaces/{}/jobs", "apps/v1/namespaces/{}/deployments"):
            await self._delete(f"/apis/{owners.format(namespace)}?propagationPolicy=Background")
        everywhere = (
            f"/api/v1/namespaces/{namespace}/pods", f"{_RESOURCE}/namespaces/{namespace}/resourceclaims", *_CLUSTER,
        )  # fmt: skip
        latest = time.monotonic() + _PATIENCE_SECONDS
        while True:
            there = [f"{path}/{tree['metadata']['name']}" for path in everywhere for tree in await self._items(path)]
            left = [path for path in there if path not in self._kept]
            if not left:
                break
            if time.monotonic() > latest:
                return f"left behind: {', '.join(left)}"
            for path in left:
                await self._delete(f"{path}?gracePeriodSeconds=0" if "/pods/" in path else path)
            await asyncio.sleep(0.1)
        await self._delete(f"/api/v1/namespaces/{namespace}")
        return ""

    async def gone(self, namespace: str) -> None:
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
        """Delete; what is gone already is no matter."""
        (await self._http.delete(path)).release()


@contextmanager
def prepared(
    paths: dict[str, str], *, theirs: bool = False, without: Sequence[str] | None = None
) -> Iterator[ApiServer]:  # fmt: skip
    """Kubernetes, with every gate of the recordings; without those whose work is ours, or with ``theirs``.

    ``without``: controllers that do not run, if not these.
    """
    off = (() if theirs else OURS) if without is None else without
    controllers = ",".join(("*", *(f"-{name}" for name in off)))
    with plane(paths, controllers=controllers, scheduler=theirs, runtime_config=_SERVED, gates=_GATES) as running:
        yield running


def ours() -> dict[str, Program]:
    """What works in place of Kubernetes' own."""
    return {
        "resource-claims": resource_claims(FEATURES),
        "device-taints": device_taints(FEATURES),
        # Nobody else schedules, though a flow that allocates by hand looks like it.
        "scheduler": scheduler(SchedulerOptions(FEATURES, settle=0.0)),
    }


async def replayed(
    running: ApiServer, flows: Sequence[Row], *, theirs: bool = False, look: Callable[[str], None] = lambda _: None
) -> AsyncIterator[Result]:
    """Every flow, one after the other; with our programs, or with ``theirs``, which run.

    ``look`` is called with the namespace of each, at its end and before it is cleared.
    """
    headers = {"Authorization": f"Bearer {running.server.token}"}
    connector = aiohttp.TCPConnector(ssl=running.verified())
    async with (
        aiohttp.ClientSession(running.server.url, headers=headers, connector=connector) as http,
        at_work(running, {} if theirs else ours()),
    ):
        place = RealPlace(running, http)
        await place.begin()
        for flow in flows:
            for _ in range(1 if flow.get("upstream_bug") else _MOST_TRIES):
                found = await played(place, flow)
                await asyncio.to_thread(look, flow["namespace"])
                left = await place.clear(flow["namespace"])
                if left or not found:
                    break
                await place.gone(flow["namespace"])
            yield Result(flow["flow"], not (found or left), "; ".join(filter(None, (found, left))))


async def _told(running: ApiServer, flows: Sequence[Row], *, theirs: bool) -> int:
    wrong, began = 0, time.monotonic()
    async for result in replayed(running, flows, theirs=theirs):
        wrong += not result.passed
        took, began = time.monotonic() - began, time.monotonic()
        print(f"{'ok' if result.passed else 'FAILED'} {took:5.1f} s  {result.name}", result.detail, flush=True)
    print(f"passed {len(flows) - wrong} of {len(flows)}")
    return 1 if wrong else 0


def main(arguments: Sequence[str]) -> int:
    """Run; 1 if a flow came to something else, 2 if the programs are not there."""
    paths = programs()
    if paths is None:
        print(f"{', '.join(missing())} not found: `python -m tests.kube.binaries` builds them", file=sys.stderr)
        return 2
    theirs = "--theirs" in arguments
    words = [word for word in arguments if not word.endswith(".gz") and word != "--theirs"]
    files = [Path(word) for word in arguments if word.endswith(".gz")] or [FLOWS]
    flows = [flow for file in files for flow in rows(file) if not words or flow["flow"] in words]
    with prepared(paths, theirs=theirs) as running:
        return asyncio.run(_told(running, flows, theirs=theirs))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
