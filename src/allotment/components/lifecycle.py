"""The lifecycle of a component, from start to graceful shutdown.

It starts in this order: probes and metrics, first response of the cluster, leader election, program. On SIGTERM or
SIGINT, it becomes unready, starts no more work, finishes work in progress, writes pending events and releases the
Lease. Work that does not finish in time is cancelled, which programs tolerate. A second signal ends the process
immediately.

A program that crashes is restarted. Three conditions end the process instead, so that the kubelet restarts it: a
cluster that does not respond at the start, a lost Lease, and errors that a restart of the program cannot fix.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from random import Random
from typing import TYPE_CHECKING, Any, Final

from allotment import __version__
from allotment.cluster.caches import Caches
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError, UnknownVersions, Unreachable
from allotment.cluster.gc_tuning import collect_when_idle
from allotment.cluster.inspection.release import features_of
from allotment.cluster.instrumentation import Instrumentation
from allotment.cluster.leader_election import LeaderElection
from allotment.cluster.program import Program, ProgramContext, keep_alive
from allotment.cluster.recorder import Events
from allotment.cluster.remote.http_client import HttpClient
from allotment.cluster.remote.kubeconfig import ClusterTarget
from allotment.cluster.remote.version_negotiation import DeviceApiNotServed, NegotiatingClient
from allotment.cluster.shutdown import Shutdown
from allotment.components.component import Component
from allotment.components.diagnostic_endpoints import serve_endpoints
from allotment.components.health import Health, Heartbeat
from allotment.components.settings import ComponentSettings, LeaderElectionSettings
from allotment.exporter.definitions import UNREAD
from allotment.exporter.metric import Family, Sample
from allotment.model.features import Features

if TYPE_CHECKING:
    from allotment.components.metrics import Metrics

log = logging.getLogger(__name__)

#: Time limit for pending events and the release of the Lease.
_CLEANUP_SECONDS: Final = 3.0
#: Between two tries to get the first response of the cluster.
_RETRY_SECONDS: Final = 1.0


class ClusterUnavailable(Exception):
    """Raised if the cluster does not respond in time at the start or denies access."""


async def run_component(component: Component, settings: ComponentSettings, target: ClusterTarget) -> None:
    """Run a component until SIGTERM or SIGINT, or until it is cancelled.

    Raises ClusterUnavailable, LeaseLost, AddressUnavailable, CertificateError, and the component's fatal errors.
    """
    log.info("%s %s for %s", component.name, __version__, target.server)
    if component.lease and settings.leading is None:
        log.info("%s: leader election is off, so only one replica may run", component.name)
    observing, stopping = Instrumentation(), Shutdown()
    metrics = _metrics(component, settings, observing)
    async with AsyncExitStack() as stack:
        if settings.traces:
            from allotment.components.traces import export_traces

            stack.enter_context(export_traces(settings.traces, f"allot-{component.name}", observing))

        def client(**more: Any) -> HttpClient:
            on_answer = metrics.record_request if metrics is not None else None
            return HttpClient(target, component.manager, agent=f"allot-{component.name}", on_answer=on_answer, **more)

        own = used = await stack.enter_async_context(client())
        election = None
        if component.lease and settings.leading is not None:
            # Renewals ignore Retry-After: waiting as long as a busy server requests would lose the Lease.
            lease_client = await stack.enter_async_context(client(later_seconds=0))
            election = _election(component.lease, settings.leading, lease_client)
            # The leader's requests use a client that stops writing with the Lease, even before the loss is noticed.
            used = await stack.enter_async_context(client(write_block=election.write_block))
        process = _Process(component, settings, own, used, election, observing, stopping)
        if metrics is not None:
            metrics.add_families(process.unread)
            if election is not None:
                metrics.add_leader_gauge(election.name, lambda: election.leading)
        stack.enter_context(serve_endpoints(settings.serving, process.health, metrics, own))
        stack.enter_context(_signals(stopping))
        await process.run()
    log.info("%s: stopped", component.name)


def _metrics(component: Component, settings: ComponentSettings, observing: Instrumentation) -> Metrics | None:
    if settings.serving.metrics is None:
        return None
    from allotment.components.metrics import Metrics

    return Metrics(component.name, observing, component.families)


@contextmanager
def _signals(stopping: Shutdown) -> Iterator[None]:
    """Start the shutdown on the first signal; exit on the second."""
    loop = asyncio.get_running_loop()

    def on_signal(number: signal.Signals) -> None:
        if stopping.started:
            log.warning("%s again: exiting immediately", number.name)
            logging.shutdown()
            os._exit(128 + number)
        log.info("%s: shutting down", number.name)
        stopping.start()

    with ExitStack() as stack:
        for number in (signal.SIGTERM, signal.SIGINT):
            with suppress(NotImplementedError):  # Windows: Ctrl-C arrives as KeyboardInterrupt
                loop.add_signal_handler(number, on_signal, number)
                stack.callback(loop.remove_signal_handler, number)
        yield


def _election(lease: str, leading: LeaderElectionSettings, client: HttpClient) -> LeaderElection:
    return LeaderElection(
        client, leading.lease or lease, leading.identity, clock=Clock(), random=Random(),
        namespace=leading.namespace, terms=leading.terms,
    )  # fmt: skip


class _Process:
    """The concurrent tasks of a component's process."""

    def __init__(
        self, component: Component, settings: ComponentSettings, client: HttpClient, used: HttpClient,
        election: LeaderElection | None, observing: Instrumentation, stopping: Shutdown,
    ) -> None:  # fmt: skip
        self._component = component
        self._settings = settings
        self._client = client
        self._election = election
        self._stopping = stopping
        clock, random = Clock(), Random()
        instance = settings.leading.identity if settings.leading is not None else ""
        # Programs use v1 of the device API, whatever version the cluster serves.
        negotiating = NegotiatingClient(used)
        self._versions = negotiating.versions
        self._context = ProgramContext(
            lambda name, manager="": negotiating, Caches(negotiating, clock=clock, random=random), clock,
            Events(used, clock=clock, instance=instance), random, observing, stopping,
        )  # fmt: skip
        self._heartbeat = Heartbeat()
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Set to the fatal error that ends the process."""
        self._answered = False
        self.health = Health()
        self.health.live["event-loop"] = self._heartbeat.check
        self.health.ready |= {
            "cluster": self._cluster_check,
            "caches": self._cache_check,
            component.name: self._unready,
        }
        if self._election is not None:
            self.health.ready["leader-election"] = self._lease_check
        self.health.ready["shutdown"] = lambda: "shutting down" if stopping.started else ""

    async def run(self) -> None:
        """Run the component until it ends."""
        context = self._context
        background = [
            asyncio.create_task(self._heartbeat.run(), name="pulse"),
            asyncio.create_task(collect_when_idle(), name="collection"),
            asyncio.create_task(keep_alive("caches", context, lambda _: context.caches.run()), name="caches"),
            asyncio.create_task(keep_alive("events", context, lambda _: context.events.run()), name="events"),
        ]
        work = asyncio.create_task(self._work(), name=self._component.name)
        stop = asyncio.create_task(self._stopping.wait(), name="stop")
        try:
            await asyncio.wait((work, stop, self._ended), return_when=asyncio.FIRST_COMPLETED)
            if self._stopping.started and not self._ended.done():
                await self._finish(work)
        finally:
            # The Lease and the work under it end first.
            await _cancelled((work, stop))
            await _cancelled(background)
        if self._ended.done():
            self._ended.result()
        if not work.cancelled():
            work.result()

    async def _finish(self, work: asyncio.Task[None]) -> None:
        start = time.monotonic()
        if not self._component.stops_itself or (self._election is not None and not self._election.leading):
            work.cancel()  # a standby copy has no work in progress
        done, _ = await asyncio.wait((work, self._ended), timeout=self._settings.shutdown_seconds,
                                     return_when=asyncio.FIRST_COMPLETED)  # fmt: skip
        if not done:
            log.warning(
                "work in progress did not finish within %.0f s and was canceled", self._settings.shutdown_seconds
            )
            await _cancelled((work,))
        await _cleanup("events", self._context.events.flush())
        if self._election is not None and self._election.holder == self._election.identity:
            await _cleanup("Lease", self._election.release())
        if done:
            log.info("%s: shut down in %.1f s", self._component.name, time.monotonic() - start)

    async def _work(self) -> None:
        features = await self._wait_for_cluster()
        if features is None:
            return
        if self._election is None:
            await self._lead(features)
        else:
            for resource in self._component.watched:
                self._context.caches.of(resource)
            await self._election.lead(lambda: self._lead(features))

    async def _wait_for_cluster(self) -> Features | None:
        """The cluster's features; None if the shutdown starts before they are known. Raises ClusterUnavailable."""
        until = time.monotonic() + self._settings.connect_seconds
        where = self._client.target.server
        while not self._stopping.started:
            try:
                features = await features_of(self._client, self._settings.feature_overrides)
                await self._check_device_api()
            except (StatusError, Unreachable) as error:
                late = time.monotonic() >= until
                # A server that has not read its roles yet responds with 403.
                if isinstance(error, StatusError) and (error.code == 401 or (late and error.code == 403)):
                    raise ClusterUnavailable(f"{where} denied access: {error}") from None
                if late:
                    raise ClusterUnavailable(
                        f"{where} did not respond for {self._settings.connect_seconds:g} s: {error}"
                    ) from None
                log.info("%s is not responding yet: %s", where, error)
                await self._stopping.run_until_shutdown(asyncio.sleep(_RETRY_SECONDS))
            else:
                self._answered = True
                return features
        return None

    async def _check_device_api(self) -> None:
        """Warn immediately if the cluster does not serve the device API; it may do so later."""
        try:
            await self._versions.check_device_api()
        except DeviceApiNotServed as error:
            log.warning("%s", error)
        except UnknownVersions:
            pass  # logged already

    async def _lead(self, features: Features) -> None:
        program = self._component.program(features)
        await keep_alive(self._component.name, self._context, self._with_fatal_errors(program))

    def _with_fatal_errors(self, program: Program) -> Program:
        """Wrap the program so that a fatal error ends the process."""
        component = self._component

        async def run(context: ProgramContext) -> None:
            try:
                await program(context)
            except Exception as error:
                fatal = find_error(error, component.fatal_errors)
                if fatal is None or self._ended.done():
                    raise
                self._ended.set_exception(fatal)
                await asyncio.Event().wait()

        return run

    # --- readiness -------------------------------------------------------------------------------------------------

    def _cluster_check(self) -> str:
        return "" if self._answered else "the cluster has not responded yet"

    def _lease_check(self) -> str:
        """A standby copy is ready, or a rollout of several copies would never complete."""
        election = self._election
        if election is None or election.leading or election.holder is not None:
            return ""
        return "the Lease has not been read yet"

    def _cache_check(self) -> str:
        waiting = sorted(
            f"{cache.resource.plural} ({cache.not_read})" if cache.not_read else cache.resource.plural
            for cache in self._context.caches.known()
            if not cache.synced.is_set()
        )
        return f"not synced yet: {', '.join(waiting)}" if waiting else ""

    def unread(self) -> Sequence[Family]:
        """The resources that are not read, and why, for metrics."""
        samples = [
            Sample((cache.resource.plural, cache.not_read), 1.0)
            for cache in self._context.caches.known()
            if cache.not_read
        ]
        return (Family(UNREAD, samples),)

    def _unready(self) -> str:
        return self._component.unready()


def find_error(error: BaseException, types: tuple[type[Exception], ...]) -> Exception | None:
    """The first exception of the given types in an error or exception group."""
    if isinstance(error, types):
        return error
    if isinstance(error, BaseExceptionGroup):
        return next((found for inner in error.exceptions if (found := find_error(inner, types)) is not None), None)
    return None


async def _cancelled(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def _cleanup(description: str, doing: Awaitable[None]) -> None:
    """Finish optional work within a time limit."""
    try:
        async with asyncio.timeout(_CLEANUP_SECONDS):
            await doing
    except TimeoutError:
        log.info("%s: did not finish within %.0f s", description, _CLEANUP_SECONDS)
    except (StatusError, Unreachable) as error:
        log.info("%s: %s", description, error)
