"""A component from start to stop, on a real API server: ready, ended well, ended at once, started again."""

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
from tests import waiting
from tests.components.process import get

#: Whoever leads looks often, and loses nothing on a machine that has much to do.
TERMS = LeaseTimings(lease=120, renew=60.0, retry=0.1)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab(without=("scheduler", "controllers")) as lab:
        yield lab


@pytest.fixture(autouse=True)
def _nobody_leads_afterwards(lab: Lab) -> Iterator[None]:
    """Whatever becomes of a test: its Lease would hold up the next one."""
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
    await waiting.until(lambda: asyncio.to_thread(test))


async def forever(context: ProgramContext) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_work_under_way_is_finished_and_the_lease_given_back(lab: Lab, number: signal.Signals) -> None:
    async def story() -> None:
        begun, done = asyncio.Event(), []

        async def program(context: ProgramContext) -> None:
            async def work(key: str) -> None:
                begun.set()
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
        await begun.wait()
        assert await asyncio.to_thread(holder, lab) == "first"
        os.kill(os.getpid(), number)
        await asyncio.wait_for(running, 40)
        assert done == ["first"]

    asyncio.run(story())
    assert holder(lab) == "", "the next copy need not wait"
    assert [event["reason"] for event in lab.list("events") if event["involvedObject"]["name"] == f"n-{number}"]


def test_work_that_does_not_end_in_time_is_left(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        settings = leading("slow")._replace(shutdown_seconds=0.2)
        running = asyncio.create_task(run_component(component(forever, finishes=True), settings, target(lab)))
        await until(lambda: holder(lab) == "slow")
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(running, 40)

    asyncio.run(story())
    assert "work in progress did not finish within 0 s and was cancelled" in caplog.text
    assert holder(lab) == ""


def test_a_second_signal_ends_the_process_at_once(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    monkeypatch.setattr("logging.shutdown", lambda: None)

    async def program(context: ProgramContext) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await context.stopping.wait()
        assert codes == []
        os.kill(os.getpid(), signal.SIGTERM)
        await waiting.until(lambda: codes)

    asyncio.run(run_component(component(program, finishes=True), ComponentSettings(shutdown_seconds=40), target(lab)))
    assert codes == [128 + signal.SIGTERM]


def test_a_leader_that_loses_its_lease_ends(lab: Lab) -> None:
    ended: list[str] = []

    async def program(context: ProgramContext) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("work")

    async def story() -> None:
        running = asyncio.create_task(run_component(component(program), leading("first"), target(lab)))
        await until(lambda: holder(lab) == "first")
        stolen = {"spec": {"holderIdentity": "second"}}
        await asyncio.to_thread(lab.client.patch, LEASES, "allotment-test", stolen, "kube-system")
        with pytest.raises(LeaseLost, match="first is no longer the leader: second holds the Lease"):
            await asyncio.wait_for(running, 40)
        assert ended == ["work"]

    asyncio.run(story())
    assert holder(lab) == "second", "what is another's is not given back"


def test_a_copy_that_stands_by_knows_already_what_it_needs(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "allotment.components.diagnostic_endpoints")
    known: list[bool] = []

    async def program(context: ProgramContext) -> None:
        known.append(context.caches.trees(NODES).synced.is_set())
        os.kill(os.getpid(), signal.SIGTERM)
        await context.stopping.wait()

    def ready() -> bool:
        found = re.search(r"http://\S+/livez", caplog.text)
        return found is not None and get(found[0].replace("livez", "readyz"))[0] == 200

    async def story() -> None:
        spec = {"holderIdentity": "other", "leaseDurationSeconds": 3600}
        lease = {"kind": "Lease", "metadata": {"name": "allotment-test"}, "spec": spec}
        await asyncio.to_thread(lab.client.create, LEASES, lease, "kube-system")
        settings = leading("standing")._replace(serving=EndpointSettings(Address("127.0.0.1", 0)))
        standing = component(program, finishes=True)._replace(watched=(NODES,))
        running = asyncio.create_task(run_component(standing, settings, target(lab)))
        await until(ready)
        assert known == []
        left = {"spec": {"holderIdentity": ""}}
        await asyncio.to_thread(lab.client.patch, LEASES, "allotment-test", left, "kube-system")
        await asyncio.wait_for(running, 40)

    asyncio.run(story())
    assert known == [True]


def test_a_program_that_crashes_is_started_again(lab: Lab) -> None:
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


def test_what_cannot_be_mended_ends_the_process(lab: Lab) -> None:
    class NoDevices(Exception):
        pass

    async def program(context: ProgramContext) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(forever(context))
            raise NoDevices("there is no GPU")

    with pytest.raises(NoDevices, match="there is no GPU"):
        asyncio.run(run_component(component(program, ends_with=(NoDevices,)), leading("first"), target(lab)))


def test_a_cluster_that_does_not_answer_is_one_clear_error() -> None:
    nowhere = ClusterTarget("http://127.0.0.1:9")
    with pytest.raises(ClusterUnavailable, match=r"http://127.0.0.1:9 did not answer for 0\.5 s: "):
        asyncio.run(run_component(component(forever), ComponentSettings(connect_seconds=0.5), nowhere))


def test_who_is_stopped_before_the_cluster_answered_just_ends(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "allotment.components.lifecycle")

    async def story() -> None:
        running = asyncio.create_task(
            run_component(component(forever), ComponentSettings(), ClusterTarget("http://127.0.0.1:9"))
        )
        await waiting.until(lambda: "does not answer yet" in caplog.text)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(running, 40)

    asyncio.run(story())


def test_an_address_that_others_reach_wants_a_certificate(lab: Lab) -> None:
    settings = ComponentSettings(EndpointSettings(metrics=Address("0.0.0.0", 0)))
    with pytest.raises(
        AddressUnavailable,
        match=r"0\.0\.0\.0:0: other machines can reach it, so a certificate and its key are required",
    ):
        asyncio.run(run_component(component(forever), settings, target(lab)))


class _Api(BaseHTTPRequestHandler):
    """A server that says what it is, and notes who asks."""

    asked: ClassVar[list[tuple[str, str]]] = []
    refuses: ClassVar[list[int]] = []

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers["User-Agent"]))
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
    """Such a server, which first refuses so often."""
    _Api.asked.clear()
    _Api.refuses[:] = refuses
    with ThreadingHTTPServer(("127.0.0.1", 0), of) as server:
        Thread(target=server.serve_forever, args=(0.05,)).start()
        yield ClusterTarget(f"http://127.0.0.1:{server.server_port}")
        server.shutdown()


def test_a_server_that_has_not_read_its_roles_yet_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_requests_say_who_asks_and_the_program_hears_which_kubernetes_it_is() -> None:
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
    assert {path for path, _ in _Api.asked} == {
        "/version", "/apis", "/apis/resource.k8s.io",
        "/api/v1/namespaces/default/configmaps?fieldManager=allotment-test",
    }  # fmt: skip
    assert all(agent.startswith(f"allot-test/{__version__} ") for _, agent in _Api.asked)


class _Busy(_Api):
    """It has one Lease, and too much to do for every second renewal."""

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


def test_a_server_that_has_too_much_to_do_takes_no_lease_away() -> None:
    """It asks for more patience than a leader has."""

    async def program(context: ProgramContext) -> None:
        while len(_Busy.renewals) < 6:
            await asyncio.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)
        await context.stopping.wait()

    with api(of=_Busy) as way:
        asyncio.run(asyncio.wait_for(run_component(component(program, finishes=True), leading("first"), way), 40))
    assert _Busy.renewals[:6] == [429, 200] * 3


def test_of_errors_in_groups_the_first_that_is_meant_is_found() -> None:
    group = ExceptionGroup("", [RuntimeError(), ExceptionGroup("", [KeyError("a"), OSError("b")])])
    assert str(find_error(group, (OSError,))) == "b"
    assert find_error(group, (PermissionError,)) is None
