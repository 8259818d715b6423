"""A component from start to stop, on a real API server: ready, shut down, terminated, restarted."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from threading import Thread
from typing import ClassVar

import pytest

from allotment import Lab, __version__
from allotment.cluster.errors import StatusError
from allotment.cluster.leader_election import LeaseLost, LeaseTimings
from allotment.cluster.program import Program, ProgramContext
from allotment.cluster.remote.kubeconfig import ClusterTarget
from allotment.cluster.resources import CONFIG_MAPS, LEASES, NODES
from allotment.cluster.work_queue import WorkQueue
from allotment.components.component import Component
from allotment.components.http_server import AddressUnavailable
from allotment.components.lifecycle import ClusterUnavailable, find_error, run_component
from allotment.components.settings import Address, ComponentSettings, EndpointSettings, LeaderElectionSettings
from allotment.model.features import Features
from allotment.model.trees import Tree
from tests import polling
from tests.components.process import get

#: Frequent renewals, and a Lease that does not expire on a busy machine.
TERMS = LeaseTimings(lease=120, renew=60.0, retry=0.1)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab(without=("scheduler", "controllers")) as lab:
        yield lab


@pytest.fixture(autouse=True)
def _delete_lease(lab: Lab) -> Iterator[None]:
    """Delete the Lease after every test, since it would block the next one."""
    yield
    with suppress(StatusError):
        lab.client.delete(LEASES, "allotment-test", "kube-system")


def target(lab: Lab) -> ClusterTarget:
    return ClusterTarget(lab.url)


def component(program: Program, *, finishes: bool = False, ends_with: tuple[type[Exception], ...] = ()) -> Component:
    return Component(
        "test",
        lambda features: program,
        "allotment-test",
        "allotment-test",
        stops_itself=finishes,
        fatal_errors=ends_with,
    )


def leading(identity: str) -> ComponentSettings:
    return ComponentSettings(leading=LeaderElectionSettings(identity, terms=TERMS), connect_seconds=0.5)


def holder(lab: Lab) -> str:
    try:
        lease: Tree = lab.client.get(LEASES, "allotment-test", "kube-system")
    except StatusError:
        return ""
    return str(lease["spec"]["holderIdentity"])


async def until(test: Callable[[], object]) -> None:
    await polling.until(lambda: asyncio.to_thread(test))


async def forever(context: ProgramContext) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_work_in_flight_is_finished_and_the_lease_released(lab: Lab, number: signal.Signals) -> None:
    async def scenario() -> None:
        started, done = asyncio.Event(), []

        async def program(context: ProgramContext) -> None:
            async def work(key: str) -> None:
                started.set()
                await context.stopping.wait()
                await asyncio.sleep(0.1)
                done.append(key)

            queue = WorkQueue("test", work, clock=context.clock, random=Random(1), workers=1)
            queue.add("first")
            queue.add("second")
            await queue.run(context.stopping)
            about = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": f"n-{number}", "uid": "1"}}
            context.recorder("test").event(about, "Normal", "Ended", "well")

        running = asyncio.create_task(run_component(component(program, finishes=True), leading("first"), target(lab)))
        await started.wait()
        assert await asyncio.to_thread(holder, lab) == "first"
        os.kill(os.getpid(), number)
        await asyncio.wait_for(running, 40)
        assert done == ["first"]

    asyncio.run(scenario())
    assert holder(lab) == "", "the next replica does not have to wait"
    assert [event["reason"] for event in lab.list("events") if event["involvedObject"]["name"] == f"n-{number}"]


def test_work_that_exceeds_the_shutdown_time_is_abandoned(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        settings = leading("slow")._replace(shutdown_seconds=0.2)
        running = asyncio.create_task(run_component(component(forever, finishes=True), settings, target(lab)))
        await until(lambda: holder(lab) == "slow")
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(running, 40)

    asyncio.run(scenario())
    assert "work in progress did not finish within 0 s and was canceled" in caplog.text
    assert holder(lab) == ""


def test_a_second_signal_ends_the_process_immediately(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    monkeypatch.setattr("logging.shutdown", lambda: None)

    async def program(context: ProgramContext) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await context.stopping.wait()
        assert codes == []
        os.kill(os.getpid(), signal.SIGTERM)
        await polling.until(lambda: codes)

    asyncio.run(run_component(component(program, finishes=True), ComponentSettings(shutdown_seconds=40), target(lab)))
    assert codes == [128 + signal.SIGTERM]


def test_a_leader_that_loses_its_lease_exits(lab: Lab) -> None:
    ended: list[str] = []

    async def program(context: ProgramContext) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("work")

    async def scenario() -> None:
        running = asyncio.create_task(run_component(component(program), leading("first"), target(lab)))
        await until(lambda: holder(lab) == "first")
        stolen = {"spec": {"holderIdentity": "second"}}
        await asyncio.to_thread(lab.client.patch, LEASES, "allotment-test", stolen, "kube-system")
        with pytest.raises(LeaseLost, match="first is no longer the leader: second holds the Lease"):
            await asyncio.wait_for(running, 40)
        assert ended == ["work"]

    asyncio.run(scenario())
    assert holder(lab) == "second", "the Lease of another replica is not released"


def test_a_standby_replica_has_filled_caches(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "allotment.components.diagnostic_endpoints")
    known: list[bool] = []

    async def program(context: ProgramContext) -> None:
        known.append(context.caches.trees(NODES).synced.is_set())
        os.kill(os.getpid(), signal.SIGTERM)
        await context.stopping.wait()

    def ready() -> bool:
        found = re.search(r"http://\S+/livez", caplog.text)
        return found is not None and get(found[0].replace("livez", "readyz"))[0] == 200

    async def scenario() -> None:
        spec = {"holderIdentity": "other", "leaseDurationSeconds": 3600}
        lease = {"kind": "Lease", "metadata": {"name": "allotment-test"}, "spec": spec}
        await asyncio.to_thread(lab.client.create, LEASES, lease, "kube-system")
        settings = leading("standby")._replace(serving=EndpointSettings(Address("127.0.0.1", 0)))
        standby = component(program, finishes=True)._replace(watched=(NODES,))
        running = asyncio.create_task(run_component(standby, settings, target(lab)))
        await until(ready)
        assert known == []
        left = {"spec": {"holderIdentity": ""}}
        await asyncio.to_thread(lab.client.patch, LEASES, "allotment-test", left, "kube-system")
        await asyncio.wait_for(running, 40)

    asyncio.run(scenario())
    assert known == [True]


def test_a_crashed_program_is_restarted(lab: Lab) -> None:
    starts: list[int] = []

    async def program(context: ProgramContext) -> None:
        starts.append(1)
        if len(starts) < 3:
            raise RuntimeError("a mistake")
        os.kill(os.getpid(), signal.SIGTERM)
        await context.stopping.wait()

    asyncio.run(
        asyncio.wait_for(run_component(component(program, finishes=True), ComponentSettings(), target(lab)), 40)
    )
    assert len(starts) == 3


def test_an_unrecoverable_error_ends_the_process(lab: Lab) -> None:
    class NoDevices(Exception):
        pass

    async def program(context: ProgramContext) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(forever(context))
            raise NoDevices("there is no GPU")

    with pytest.raises(NoDevices, match="there is no GPU"):
        asyncio.run(run_component(component(program, ends_with=(NoDevices,)), leading("first"), target(lab)))


def test_an_unreachable_cluster_is_one_error() -> None:
    nowhere = ClusterTarget("http://127.0.0.1:9")
    with pytest.raises(ClusterUnavailable, match=r"http://127.0.0.1:9 did not respond for 0\.5 s: "):
        asyncio.run(run_component(component(forever), ComponentSettings(connect_seconds=0.5), nowhere))


def test_stopping_before_the_first_response_exits_cleanly(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "allotment.components.lifecycle")

    async def scenario() -> None:
        running = asyncio.create_task(
            run_component(component(forever), ComponentSettings(), ClusterTarget("http://127.0.0.1:9"))
        )
        await polling.until(lambda: "is not responding yet" in caplog.text)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(running, 40)

    asyncio.run(scenario())


def test_a_public_address_requires_a_certificate(lab: Lab) -> None:
    settings = ComponentSettings(EndpointSettings(metrics=Address("0.0.0.0", 0)))
    with pytest.raises(
        AddressUnavailable,
        match=r"0\.0\.0\.0:0: other machines can reach this address, so a certificate and its key are required",
    ):
        asyncio.run(run_component(component(forever), settings, target(lab)))


class _Api(BaseHTTPRequestHandler):
    """A server that reports its version and records paths and user agents."""

    requests: ClassVar[list[tuple[str, str]]] = []
    refuses: ClassVar[list[int]] = []

    def do_GET(self) -> None:
        self.requests.append((self.path, self.headers["User-Agent"]))
        body = json.dumps({"major": "1", "minor": "35", "kind": "APIGroupList", "groups": []}).encode()
        self.send_response(self.refuses.pop() if self.refuses else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def api(*refuses: int, of: type[_Api] = _Api) -> Iterator[ClusterTarget]:
    """Run such a server, whose first responses are ``refuses``."""
    _Api.requests.clear()
    _Api.refuses[:] = refuses
    with ThreadingHTTPServer(("127.0.0.1", 0), of) as server:
        Thread(target=server.serve_forever, args=(0.05,)).start()
        yield ClusterTarget(f"http://127.0.0.1:{server.server_port}")
        server.shutdown()


def test_forbidden_responses_at_startup_are_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allotment.components.lifecycle._RETRY_SECONDS", 0.05)

    async def program(context: ProgramContext) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await context.stopping.wait()

    with api(403, 403) as way:
        asyncio.run(asyncio.wait_for(run_component(component(program), ComponentSettings(), way), 40))
    with api(*[403] * 100) as way, pytest.raises(ClusterUnavailable, match="denied access"):
        asyncio.run(run_component(component(program), ComponentSettings(connect_seconds=0.3), way))
    with api(401) as way, pytest.raises(ClusterUnavailable, match="denied access"):
        asyncio.run(run_component(component(program), ComponentSettings(), way))


def test_requests_have_a_user_agent_and_the_server_version_is_known() -> None:
    made: list[Features] = []

    async def program(context: ProgramContext) -> None:
        tree = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "made", "namespace": "default"}}
        await context.client_for("anything").create(CONFIG_MAPS, tree)
        os.kill(os.getpid(), signal.SIGTERM)
        await context.stopping.wait()

    def of(features: Features) -> Program:
        made.append(features)
        return program

    with api() as way:
        asyncio.run(
            asyncio.wait_for(run_component(component(forever)._replace(program=of), ComponentSettings(), way), 40)
        )
    assert [features.kube for features in made] == ["1.35"]
    assert {path for path, _ in _Api.requests} == {
        "/version", "/apis", "/apis/resource.k8s.io",
        "/api/v1/namespaces/default/configmaps?fieldManager=allotment-test",
    }  # fmt: skip
    assert all(agent.startswith(f"allot-test/{__version__} ") for _, agent in _Api.requests)


class _Busy(_Api):
    """It has one Lease and throttles every second renewal."""

    lease: ClassVar[Tree] = {}
    renewals: ClassVar[list[int]] = []

    def do_GET(self) -> None:
        if "/leases/" not in self.path:
            super().do_GET()
        elif self.lease:
            self._answer(200, self.lease)
        else:
            self._answer(404, {"kind": "Status", "code": 404})

    def do_POST(self) -> None:
        self._written(201)

    def do_PUT(self) -> None:
        busy = len(self.renewals) % 2 == 0
        self.renewals.append(429 if busy else 200)
        if busy:
            self._body()
            self._answer(429, {"kind": "Status", "code": 429}, ("Retry-After", "60"))
        else:
            self._written(200)

    def _body(self) -> Tree:
        body: Tree = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        return body

    def _written(self, code: int) -> None:
        self.lease.update(self._body())
        self.lease["metadata"]["resourceVersion"] = str(len(self.renewals) + 1)
        self._answer(code, self.lease)

    def _answer(self, code: int, tree: Tree, *headers: tuple[str, str]) -> None:
        body = json.dumps(tree).encode()
        self.send_response(code)
        for name, value in (*headers, ("Content-Length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def test_throttling_does_not_lose_the_lease() -> None:
    """Its Retry-After exceeds the renewal deadline."""

    async def program(context: ProgramContext) -> None:
        while len(_Busy.renewals) < 6:
            await asyncio.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)
        await context.stopping.wait()

    with api(of=_Busy) as way:
        asyncio.run(asyncio.wait_for(run_component(component(program, finishes=True), leading("first"), way), 40))
    assert _Busy.renewals[:6] == [429, 200] * 3


def test_the_first_matching_error_of_a_group_is_found() -> None:
    group = ExceptionGroup("", [RuntimeError(), ExceptionGroup("", [KeyError("a"), OSError("b")])])
    assert str(find_error(group, (OSError,))) == "b"
    assert find_error(group, (PermissionError,)) is None
