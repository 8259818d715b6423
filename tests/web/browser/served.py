"""The server of the page in a thread, over a cluster whose view tests can replace."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace as replace_fields
from threading import Event, Thread

from allotment.api.cluster import Cluster
from allotment.watched.cluster import WatchedCluster, view_of
from allotment.watched.view import ClusterView
from allotment.web.options import WebOptions
from allotment.web.server import serve

#: Seconds in which the server must start.
_TIMEOUT = 60


class ServedCluster:
    """A page over a cluster. ``address``: its first page, with the token."""

    def __init__(self, watched: WatchedCluster, options: WebOptions) -> None:
        self._watched = watched
        self._options = options
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._ready = Event()
        self.address = ""

    @property
    def view(self) -> ClusterView:
        """The newest view."""
        return self._watched.view()

    def at(self, path: str) -> str:
        """Return an address, for a browser that has sent the token of ``address``."""
        return self.address.partition("/?")[0] + path

    def publish(self, view: ClusterView) -> None:
        """Show another state of the cluster to all open pages."""
        done = Event()

        def change() -> None:
            self._watched.publish(view)
            done.set()

        self._loop.call_soon_threadsafe(change)
        assert done.wait(_TIMEOUT)

    def become(self, cluster: Cluster) -> None:
        """Show another cluster under the same name."""
        old = self.view
        new = view_of(cluster, old.revision + 1)
        self.publish(replace_fields(new, name=old.name, place=old.place))

    def run(self) -> None:
        """Serve until stopped."""
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(serve(self._watched, self._options, self._started, self._stop))
        finally:
            self._loop.close()

    def _started(self, address: str) -> None:
        self.address = address
        self._ready.set()

    def wait(self) -> None:
        """Wait until the server listens."""
        assert self._ready.wait(_TIMEOUT), "the server has not started"

    def stop(self) -> None:
        """End the server."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop.set)


@contextmanager
def page_over(cluster: Cluster | WatchedCluster, base_path: str = "") -> Iterator[ServedCluster]:
    """Serve the page of a cluster, below a path."""
    watched = cluster if isinstance(cluster, WatchedCluster) else WatchedCluster.of_snapshot(cluster)
    served = ServedCluster(watched, WebOptions(base_path=base_path))
    thread = Thread(target=served.run, name="page", daemon=True)
    thread.start()
    try:
        served.wait()
        yield served
    finally:
        served.stop()
        thread.join(_TIMEOUT)
