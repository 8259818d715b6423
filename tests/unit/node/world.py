"""A node whose pods run in a test: its API, its drivers, and containers that the test controls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from allotment.cluster.caches import Caches
from allotment.cluster.client import Client, PatchKind, Propagation, Resource
from allotment.cluster.program import ProgramContext, run
from allotment.cluster.recorder import Events
from allotment.cluster.resources import CLAIMS, EVENTS, NODES, PODS
from allotment.kubelet_plugin.messages import ClaimRef, DeviceHealth, PluginCallError, PreparedDevice, PrepareResult
from allotment.model.trees import Tree
from allotment.node.kubelet import SIMULATED, Kubelets
from allotment.node.kubelet_features import DEFAULT_FEATURES, KubeletFeatures
from allotment.node.node_config import Machine
from allotment.node.plugins import Plugins
from allotment.node.runtimes.runtime import Connection, Sandbox, Write
from tests.polling import until
from tests.unit.cluster.idle import IdleClock
from tests.unit.cluster.memory import MemoryClient

NODE = "n1"
DRIVER = "gpu.example.com"
NAMESPACE = "ns"


class Cluster(MemoryClient):
    """Deleted pods remain until their node removes them, as in a real API server."""

    def _replace(self, resource: Resource, known: Tree, tree: Tree, subresource: str) -> Tree:
        if resource == PODS and subresource == "status":
            return self.put(resource, {**known, "status": tree["status"]})
        return super()._replace(resource, known, tree, subresource)

    def __init__(self) -> None:
        super().__init__()
        self.undeletable: list[Exception] = []

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", *, uid: str = "", revision: str = "",
        grace_seconds: int | None = None, propagation: Propagation | None = None, dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        if self.undeletable:
            raise self.undeletable.pop(0)
        return await super().delete(resource, name, namespace, uid=uid)

    async def patch(
        self, resource: Resource, name: str, patch: Any, namespace: str = "", *, kind: PatchKind = "merge",
        subresource: str = "", force: bool = False, dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        return await super().patch(resource, name, patch, namespace, kind=kind, subresource=subresource)


class FakeDriver:
    """A driver. ``prepare_results``: by claim name, instead of one device each; ``fails``: error of all calls."""

    def __init__(self, name: str = DRIVER) -> None:
        self.name = name
        self.calls: list[tuple[str, list[str]]] = []
        self.prepare_results: dict[str, PrepareResult] = {}
        self.unprepare_errors: dict[str, str] = {}
        self.fails = ""
        self.silent: set[str] = set()
        self.before_unprepare: Callable[[], None] = lambda: None
        self.health_stream: asyncio.Queue[Sequence[DeviceHealth]] | None = None

    async def prepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, PrepareResult]:
        await asyncio.sleep(0)
        self.calls.append(("prepare", [claim.name for claim in claims]))
        if self.fails:
            raise PluginCallError(self.fails)
        return {
            claim.uid: self.prepare_results.get(claim.name, self.default_result(claim))
            for claim in claims
            if claim.name not in self.silent
        }

    async def unprepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        await asyncio.sleep(0)
        self.before_unprepare()
        self.calls.append(("unprepare", [claim.name for claim in claims]))
        if self.fails:
            raise PluginCallError(self.fails)
        return {
            claim.uid: self.unprepare_errors.get(claim.name, "") for claim in claims if claim.name not in self.silent
        }

    def default_result(self, claim: ClaimRef) -> PrepareResult:
        return PrepareResult((PreparedDevice(("gpu",), NODE, "gpu-0", (f"k8s.{self.name}/claim={claim.uid}-gpu-0",)),))

    def health(self) -> AsyncIterator[Sequence[DeviceHealth]] | None:
        return None if self.health_stream is None else self._health_messages(self.health_stream)

    async def _health_messages(
        self, changes: asyncio.Queue[Sequence[DeviceHealth]]
    ) -> AsyncIterator[Sequence[DeviceHealth]]:
        while True:
            yield await changes.get()


class FakeConnection:
    """A connection that answers every request with 204."""

    async def read(self) -> bytes:
        return b"HTTP/1.1 204 No Content\r\n\r\n"

    async def write(self, data: bytes) -> None:
        """Ignore the data."""

    async def write_eof(self) -> None:
        """Ignore the end of the data."""

    async def close(self) -> None:
        """Ignore the call: the connection has no resources."""


class FakeContainer:
    """Runs until it is stopped. ``stubborn``: only SIGKILL ends it."""

    def __init__(self, sandbox: Sandbox, runtime: FakeRuntime) -> None:
        self.sandbox = sandbox
        self.code: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.ran: list[list[str]] = []
        self._runtime = runtime

    def ends(self, code: int = 0) -> None:
        if not self.code.done():
            self.code.set_result(code)

    async def wait(self) -> int:
        return await asyncio.shield(self.code)

    async def stop(self, grace_seconds: float) -> None:
        self._runtime.stops.append((self.sandbox.spec["name"], grace_seconds))
        if self._runtime.stubborn:
            await asyncio.wait([self.code], timeout=0.01)
        self.ends(137 if self._runtime.stubborn else 143)

    async def exec(
        self, words: Sequence[str], *, stdin: AsyncIterator[bytes] | None, stdout: Write, stderr: Write, tty: bool
    ) -> int:
        self.ran.append(list(words))
        if self._runtime.breaks:
            raise self._runtime.breaks.pop(0)
        await stdout(self._runtime.printed)
        return self._runtime.exec_code

    async def feed(self, data: bytes) -> None:
        """Ignore the data: the container has no standard input."""

    async def written(self, path: str) -> bytes:
        return b""

    async def connect(self, port: int) -> Connection:
        if port not in self._runtime.ports:
            raise ConnectionRefusedError
        return FakeConnection()


class FakeRuntime:
    """Containers by name, controlled by the test."""

    name = "fake"
    real = False

    def __init__(self) -> None:
        self.containers: dict[str, FakeContainer] = {}
        self.started: list[str] = []
        self.stops: list[tuple[str, float]] = []
        self.refuses: list[Exception] = []
        self.breaks: list[Exception] = []
        self.stubborn = False
        self.exec_code = 0
        self.printed = b""
        self.ports: set[int] = set()

    async def start(self, sandbox: Sandbox, output: Write) -> FakeContainer:
        if self.refuses:
            raise self.refuses.pop(0)
        name = sandbox.spec["name"]
        self.started.append(name)
        self.containers[name] = container = FakeContainer(sandbox, self)
        await output(f"{name} runs\n".encode())
        return container

    async def close(self) -> None:
        """Do nothing: no files or processes exist."""


class World:
    """The node of a test. Its clock runs a thousand times as fast."""

    def __init__(self, client: Cluster, kubelets: Kubelets, runtime: FakeRuntime, events: Events) -> None:
        self.client = client
        self.kubelets = kubelets
        self.runtime = runtime
        self._events = events

    def pod(self, name: str = "p", **more: Any) -> Tree:
        """A pod on the node. ``more``: fields of its spec; ``main`` of its container; ``status`` of its status."""
        main = {"name": "main", "image": "app:1", **more.pop("main", {})}
        status = more.pop("status", {})
        spec = {"nodeName": NODE, "containers": [main], **more}
        return self.client.put(
            PODS,
            {"metadata": {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}"}, "spec": spec, "status": status},
        )

    def claim(self, name: str = "gpu", *, users: Sequence[str] = ("p",), driver: str = DRIVER, **more: Any) -> Tree:
        return self.client.put(CLAIMS, claim(name, users=users, driver=driver, **more))

    def with_claim(self, name: str = "gpu") -> Tree:
        """Fields of a pod's spec."""
        return {"resourceClaims": [{"name": "c", "resourceClaimName": name}]}

    def delete(self, name: str = "p", grace: int = 30) -> None:
        """Mark the pod as deleted; the node completes the deletion."""
        tree = self.now(name)
        metadata = {
            **tree["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": grace
        }  # fmt: skip
        self.client.put(PODS, {**tree, "metadata": metadata})

    def now(self, name: str = "p") -> Tree:
        return self.client.objects[PODS, NAMESPACE, name]

    def exists(self, name: str = "p") -> bool:
        return (PODS, NAMESPACE, name) in self.client.objects

    def phase(self, name: str = "p") -> str:
        return str((self.now(name).get("status") or {}).get("phase", ""))

    def main(self, name: str = "p") -> Tree:
        """The status of a pod's first container."""
        found: Tree = (self.now(name).get("status") or {}).get("containerStatuses", [{}])[0]
        return found

    def ready(self, name: str = "p") -> str:
        conditions = (self.now(name).get("status") or {}).get("conditions") or ()
        return next((str(condition["status"]) for condition in conditions if condition["type"] == "Ready"), "")

    def events(self, reason: str = "") -> list[str]:
        trees = [tree for (kind, _, _), tree in self.client.objects.items() if kind == EVENTS]
        return [tree["message"] for tree in trees if reason in ("", tree["reason"])]

    async def until(self, true: Callable[[], object]) -> None:
        """Wait until a condition is true; fails with the objects and events on a timeout."""
        await until(true, lambda: f"{self.client.summary()}\n{self.events()}")

    async def flush_events(self) -> None:
        """Wait until all events are written."""
        await self._events.flush()


def claim(name: str = "gpu", *, users: Sequence[str] = ("p",), driver: str = DRIVER, **more: Any) -> Tree:
    """A claim with one device, reserved for pods."""
    result = {"driver": driver, "pool": NODE, "device": "gpu-0", "request": "gpu"}
    reserved = [{"resource": "pods", "name": user, "uid": f"uid-{user}"} for user in users]
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved}
    uid = more.pop("uid", f"uid-of-{name}")
    metadata = {"name": name, "namespace": NAMESPACE, "uid": uid, **more.pop("metadata", {})}
    return {"metadata": metadata, "spec": {"devices": {}}, "status": status | more.pop("status", {})}


@asynccontextmanager
async def world(
    *drivers: FakeDriver,
    plugins: Plugins | None = None,
    machine: Machine | None = None,
    speed: float = 1000.0,
    real: bool = False,
    features: KubeletFeatures = DEFAULT_FEATURES,
) -> AsyncIterator[World]:
    """A node with these drivers. ``real``: containers run in the machine's own runtime."""
    client = Cluster()
    client.put(NODES, {
        "metadata": {"name": NODE, "annotations": {SIMULATED: "true"}}, "spec": {},
        "status": {"addresses": [{"type": "InternalIP", "address": "172.18.0.1"}], "allocatable": {"cpu": "8"}},
    })  # fmt: skip
    clock, random = IdleClock(speed), Random(1)

    def client_for(name: str, manager: str = "") -> Client:
        return client

    caches = Caches(client, clock=clock, random=random)
    events = Events(client, clock=clock)
    runtime = FakeRuntime()
    machine = machine or Machine()
    machines = {NODE: machine if real else machine._replace(runtime=runtime)}
    kubelets = Kubelets(plugins or Plugins(permissive=False), machines, features=features)
    for driver in drivers:
        kubelets.plugins.add(NODE, driver)
    task = asyncio.create_task(
        run({"kubelets": kubelets.run}, ProgramContext(client_for, caches, clock, events, random))
    )
    try:
        yield World(client, kubelets, runtime, events)
    finally:
        task.cancel()
        await asyncio.wait([task])
