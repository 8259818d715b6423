"""A lab that goes away leaves its last state on the page, with the reason, and is shown again when it is back."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path

from allotment.api.cluster import Cluster
from allotment.lab.lab import Lab
from allotment.watched.cluster import WatchedCluster
from allotment.watched.view import ClusterView
from allotment.web.options import WebOptions
from tests.web.clients import TOKEN
from tests.web.visitors import page_server


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


async def view_with(watched: WatchedCluster, holds: Callable[[ClusterView], bool]) -> ClusterView:
    async with asyncio.timeout(120):
        view = watched.view()
        while not holds(view):
            view = await watched.changed(view.revision)
        return view


def test_a_lab_that_is_stopped_and_started_again(tmp_path: Path) -> None:
    port = free_port()

    def lab(*fleet: str) -> Lab:
        return Lab(fleet, data=tmp_path / "lab", port=port)

    async def scenario(first: Lab) -> None:
        watched = WatchedCluster.of(Cluster.lab(first), is_lab=True)
        running = asyncio.create_task(watched.run())
        try:
            before = await view_with(watched, lambda view: view.connected)
            assert before.free.count() == 4
            await asyncio.to_thread(first.stop)
            away = await view_with(watched, lambda view: not view.connected)
            assert away.free.count() == 4
            assert away.error.startswith(f"the cluster cannot be read: http://127.0.0.1:{port}")
            assert away.seen_at >= before.seen_at
            second = await asyncio.to_thread(lab("a=t4-4x-pcie", "b=t4-4x-pcie").start)
            try:
                back = await view_with(watched, lambda view: view.connected and view.free.count() == 8)
                assert back.error == ""
            finally:
                await asyncio.to_thread(second.stop)
        finally:
            running.cancel()
            await asyncio.wait((running,))

    asyncio.run(scenario(lab("a=t4-4x-pcie").start()))


def test_a_lab_without_data_that_is_started_again_with_another_certificate(tmp_path: Path) -> None:
    """Its kubeconfig, which the page reads again, has the new authority and the new credentials."""
    port, kubeconfig = free_port(), tmp_path / "config"

    def started(*fleet: str) -> Lab:
        lab = Lab(fleet, port=port, tls=True).start()
        kubeconfig.write_bytes(lab.kubeconfig.read_bytes())
        return lab

    async def scenario() -> None:
        first = await asyncio.to_thread(started, "a=t4-4x-pcie")
        watched = WatchedCluster.of(Cluster.live(kubeconfig=kubeconfig, prefer_lab=False), is_lab=True)
        running = asyncio.create_task(watched.run())
        try:
            await view_with(watched, lambda view: view.connected)
            await asyncio.to_thread(first.stop)
            await view_with(watched, lambda view: not view.connected)
            second = await asyncio.to_thread(started, "a=t4-4x-pcie", "b=t4-4x-pcie")
            try:
                await view_with(watched, lambda view: view.connected and view.free.count() == 8)
            finally:
                await asyncio.to_thread(second.stop)
        finally:
            running.cancel()
            await asyncio.wait((running,))

    asyncio.run(scenario())


def test_a_page_of_a_lab_that_is_not_running_says_so() -> None:
    with Lab("a=t4-4x-pcie") as ended:
        watched = WatchedCluster.of(Cluster.lab(ended), is_lab=True)
    with page_server(watched, WebOptions(token=TOKEN)) as server:
        found = server.send("/map", TOKEN).data
        assert found["cluster"]["connected"] is False
        assert found["cluster"]["error"]
        assert server.send("/readyz").status == 503
        assert server.send("/healthz").status == 200
        assert server.send("/lab/apply", TOKEN, {"text": "apiVersion: v1\nkind: Pod\n"}).status == 503
