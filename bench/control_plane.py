"""A control plane under load, over HTTP: writes while clients watch, reads, and pods from creation to binding.

The same requests go to the lab and, where its programs are installed, to the real control plane. The client is raw
asyncio on the same machine, so that neither side is measured through a client library. Nodes and slices are plain
objects on both sides: no kubelets run.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import statistics
import time
from collections.abc import Iterator
from functools import partial
from http.client import HTTPConnection, HTTPSConnection
from typing import Any, Final, NamedTuple, cast

import httptools

from allotment.model.trees import Tree
from bench.http_load import Figures, Load, measure
from bench.server import BenchServer

WATCHERS: Final = 4
CONNECTIONS: Final = 16
_DRIVER: Final = "gpu.example.com"
_NAMESPACE: Final = "bench"
_ENOUGH_SECONDS: Final = 180.0


class Scale(NamedTuple):
    """A cluster and the pods that are scheduled on it."""

    pods: int
    nodes: int
    gpus: int

    def __str__(self) -> str:
        return f"{self.pods:,} pods, {self.nodes} nodes x {self.gpus} GPUs"


class Writes(NamedTuple):
    """Pods created while others watch. ``delay``: ms from sending the POST to the event's arrival, p50 and p99."""

    load: Figures
    delay_p50: float
    delay_p99: float


class Bound(NamedTuple):
    """Pods from the first POST to the last binding; latency of a pod from its POST, in ms."""

    pods: int
    seconds: float
    p50: float
    p99: float

    @property
    def rate(self) -> float:
        """Pods per second."""
        return self.pods / self.seconds


class _Watch(asyncio.Protocol):
    """One watch: passes each event, with its time of arrival, to a callback."""

    def __init__(self, server: BenchServer, path: str, callback: Any) -> None:
        head = "".join(f"{name}: {value}\r\n" for name, value in server.headers.items())
        self._request = f"GET {path} HTTP/1.1\r\nHost: {server.host}:{server.port}\r\n{head}\r\n".encode()
        self._callback = callback
        self._parser = httptools.HttpResponseParser(self)
        self._rest = b""
        self.ready = asyncio.get_running_loop().create_future()
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_headers_complete(self) -> None:
        code = self._parser.get_status_code()
        if code != 200:
            self.ready.set_exception(RuntimeError(f"the watch returned status {code}"))
        else:
            self.ready.set_result(None)

    def on_body(self, data: bytes) -> None:
        now = time.perf_counter()
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._callback(line, now)

    def on_message_complete(self) -> None:
        self.transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


async def _watching(server: BenchServer, tls: ssl.SSLContext | None, path: str, record: Any) -> _Watch:
    loop = asyncio.get_running_loop()
    _, watch = await loop.create_connection(partial(_Watch, server, path, record), server.host, server.port, ssl=tls)
    await watch.ready
    return watch


class Bench:
    """The measurements of one server."""

    def __init__(self, server: BenchServer) -> None:
        self.server = server
        self.tls = server.context()
        self.url = server.url
        self.headers = server.headers
        self._kept: HTTPConnection | None = None

    def send(self, method: str, path: str, body: Tree | None = None) -> int:
        """Send one request on a kept-alive connection; return the answer's code. Raises RuntimeError for a
        rejection."""
        if self._kept is None:
            self._kept = (
                HTTPConnection(self.server.host, self.server.port)
                if self.tls is None
                else HTTPSConnection(self.server.host, self.server.port, context=self.tls)
            )
        self._kept.request(method, path, None if body is None else json.dumps(body), self.headers)
        answer = self._kept.getresponse()
        text = answer.read()
        if answer.status >= 300 and answer.status not in (404, 409):
            raise RuntimeError(f"{method} {path}: {answer.status} {text[:500]!r}")
        return answer.status

    async def ready(self) -> None:
        """Create a namespace, and wait until its default service account exists."""
        self.send("POST", "/api/v1/namespaces", {"metadata": {"name": _NAMESPACE}})
        for _ in range(100):
            if self.send("GET", f"/api/v1/namespaces/{_NAMESPACE}/serviceaccounts/default") == 200:
                return
            await asyncio.sleep(0.1)
        raise RuntimeError("the namespace has no default service account after ten seconds")

    async def writes(self, seconds: float) -> Writes:
        """Pods that no scheduler binds, created over 16 connections while 4 watch."""
        path = f"/api/v1/namespaces/{_NAMESPACE}/pods"
        arrived: list[tuple[int, float]] = []

        def record(line: bytes, now: float) -> None:
            at = line.find(b'"name":"write-')
            if at > 0:
                arrived.append((int(line[at + 14 : line.find(b'"', at + 14)]), now))

        watches = [await _watching(self.server, self.tls, f"{path}?watch=true", record) for _ in range(WATCHERS)]
        load = Load("POST", path, self.headers, json.dumps(_pod("write-{n}", {"schedulerName": "none"})))
        figures = await measure(self.url, load, connections=CONNECTIONS, seconds=seconds, tls=self.tls)
        await asyncio.sleep(1)
        for watch in watches:
            watch.transport.close()
        delays = sorted((now - figures.moments[number - 1]) * 1000 for number, now in arrived)
        return Writes(figures, delays[len(delays) // 2], delays[int(len(delays) * 0.99)])

    async def reads(self, seconds: float) -> Figures:
        """Read one pod repeatedly."""
        path = f"/api/v1/namespaces/{_NAMESPACE}/pods"
        self.send("POST", path, _pod("read", {"schedulerName": "none"}))
        load = Load("GET", f"{path}/read", self.headers)
        return await measure(self.url, load, connections=CONNECTIONS, seconds=seconds, tls=self.tls)

    async def bound(self, scale: Scale) -> Bound:
        """Pods with a one-GPU claim template, from the first POST until the last is bound."""
        for path, body in _cluster(scale):
            self.send("POST", path, body)
        for name in _names(scale.nodes):  # admission taints every new node
            self.send("PUT", f"/api/v1/nodes/{name}", _node(name))
        await asyncio.sleep(2)
        path = f"/api/v1/namespaces/{_NAMESPACE}/pods"
        when: dict[str, float] = {}
        done = asyncio.Event()

        def record(line: bytes, now: float) -> None:
            if b'"nodeName":"' not in line:
                return
            name = json.loads(line)["object"]["metadata"]["name"]
            if name.startswith("run-") and name not in when:
                when[name] = now
                if len(when) == scale.pods:
                    done.set()

        selected = f"{path}?watch=true&labelSelector=app%3Drun"

        async def keep_watching() -> None:
            # The real server ends the watch of a slow reader. A new one starts with all existing objects.
            while True:
                watch = await _watching(self.server, self.tls, selected, record)
                started.set()
                try:
                    await watch.ended
                finally:
                    watch.transport.close()

        started = asyncio.Event()
        watching = asyncio.create_task(keep_watching())
        await started.wait()
        claims = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
        body = _pod("run-{n}", {"resourceClaims": claims}, claims=[{"name": "gpu"}])
        load = Load("POST", path, self.headers, json.dumps(body))
        start = time.perf_counter()
        figures = await measure(self.url, load, connections=CONNECTIONS, seconds=600, most=scale.pods, tls=self.tls)
        if set(figures.codes) != {201}:
            raise RuntimeError(f"unexpected status codes for created pods: {figures.codes}")
        await asyncio.wait_for(done.wait(), _ENOUGH_SECONDS)
        watching.cancel()
        latencies = sorted((moment - start) * 1000 for moment in when.values())
        last = max(when.values()) - start
        return Bound(scale.pods, last, statistics.median(latencies), latencies[int(scale.pods * 0.99)])


def _pod(name: str, spec: Tree, claims: list[Tree] | None = None) -> Tree:
    resources: Tree = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    container = {"name": "c", "image": "busybox", "command": ["sleep", "3600"], "resources": resources}
    if claims:
        resources["claims"] = claims
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name.partition("-")[0]}},
        "spec": {**spec, "containers": [container]},
    }  # fmt: skip


def _names(nodes: int) -> list[str]:
    return [f"n{number:04}" for number in range(nodes)]


def _cluster(scale: Scale) -> Iterator[tuple[str, Tree]]:
    """The objects to create and their paths: nodes of eight GPUs, their slices, a class and a template."""
    resource = "/apis/resource.k8s.io/v1"
    for name in _names(scale.nodes):
        yield "/api/v1/nodes", _node(name)
        yield f"{resource}/resourceslices", _slice(name, scale.gpus)
    selector = {"cel": {"expression": f'device.driver == "{_DRIVER}"'}}
    yield f"{resource}/deviceclasses", {"metadata": {"name": _DRIVER}, "spec": {"selectors": [selector]}}
    requests = [{"name": "gpu", "exactly": {"deviceClassName": _DRIVER}}]
    template = {"metadata": {"name": "one"}, "spec": {"spec": {"devices": {"requests": requests}}}}
    yield f"{resource}/namespaces/{_NAMESPACE}/resourceclaimtemplates", template


def _node(name: str) -> Tree:
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    return {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}}  # fmt: skip


def _slice(name: str, gpus: int) -> Tree:
    devices = [
        {"name": f"gpu-{index}", "attributes": {"productName": {"string": "NVIDIA H100"}, "index": {"int": index}},
         "capacity": {"memory": {"value": "81559Mi"}}}
        for index in range(gpus)
    ]  # fmt: skip
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    return {"metadata": {"name": name}, "spec": {"driver": _DRIVER, "nodeName": name, "pool": pool, "devices": devices}}


async def throughput(server: BenchServer, seconds: float) -> tuple[Writes, Figures]:
    """Writes, then reads."""
    bench = Bench(server)
    await bench.ready()
    return await bench.writes(seconds), await bench.reads(seconds)


async def binding(server: BenchServer, scale: Scale) -> Bound:
    """Pods to nodes and devices; the server is new."""
    bench = Bench(server)
    await bench.ready()
    return await bench.bound(scale)
