"""A component from start to stop.

It starts in this order: probes and metrics, the cluster's answer, leader election, the program. SIGTERM or SIGINT ends
it well: not ready any more, nothing more begun, what is under way finished, events written, the Lease given back. What
does not end in time is left where it is, which programs are made for. A second signal ends the process at once.

A program that crashes is started again. Three things end the process instead, and whoever runs it starts it anew: a
cluster that does not answer at first, a Lease that is lost, and what starting again cannot mend.
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
from allotment.model.features import Features

if TYPE_CHECKING:
    from allotment.components.metrics import Metrics

log = logging.getLogger(__name__)

#: For what is only good manners: events that are not written yet, the Lease.
_MANNERS_SECONDS: Final = 3.0
#: Between two tries to hear from the cluster for the first time.
_AGAIN_SECONDS: Final = 1.0


class ClusterUnavailable(Exception):
    """Raised when the cluster did not answer in time at the start, or denied access; the text says why."""


async def run_component(component: Component, settings: ComponentSettings, target: ClusterTarget) -> None:
    """Run a component until SIGTERM or SIGINT, or until it is cancelled.

    Raises NoAnswer, LeaseLost, Unusable and UnusableCertificate (nothing can be served at an address), and what the
    component says that it ends with.
    """
    log.info("%s %s for %s", component.name, __version__, target.server)
    if component.lease and settings.leading is None:
        log.info("%s: leader election is off, so only one copy may run", component.name)
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
            # A Lease is renewed in its own rhythm: who waited as long as a busy server wishes would lose it.
            standing = await stack.enter_async_context(client(later_seconds=0))
            election = _stands(component.lease, settings.leading, standing)
            # What is done by whoever leads goes its own way, which ends with the Lease even while nobody has noticed.
            used = await stack.enter_async_context(client(barred=election.write_block))
        process = _Process(component, settings, own, used, election, observing, stopping)
        if metrics is not None and election is not None:
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
    """The first signal begins the end, the second one is it."""
    loop = asyncio.get_running_loop()

    def heard(number: signal.Signals) -> None:
        if stopping.started:
            log.warning("%s again: exiting immediately", number.name)
            logging.shutdown()
            os._exit(128 + number)
        log.info("%s: shutting down", number.name)
        stopping.start()

    with ExitStack() as stack:
        for number in (signal.SIGTERM, signal.SIGINT):
            with suppress(NotImplementedError):  # Windows: Ctrl-C arrives as KeyboardInterrupt
                loop.add_signal_handler(number, heard, number)
                stack.callback(loop.remove_signal_handler, number)
        yield


def _stands(lease: str, leading: LeaderElectionSettings, client: HttpClient) -> LeaderElection:
    return LeaderElection(
        client, leading.lease or lease, leading.identity, clock=Clock(), random=Random(),
        namespace=leading.namespace, terms=leading.terms,
    )  # fmt: skip


class _Process:
    """What runs beside each other in the process of one component."""

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
        # Programs speak v1 of devices, whatever the cluster has.
        speaking = NegotiatingClient(used)
        self._versions = speaking.versions
        self._context = ProgramContext(
            lambda name, manager="": speaking, Caches(speaking, clock=clock, random=random), clock,
            Events(used, clock=clock, instance=instance), random, observing, stopping,
        )  # fmt: skip
        self._pulse = Heartbeat()
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Holds what ends the process, if something does."""
        self._answered = False
        self.health = Health()
        self.health.live["event-loop"] = self._pulse.check
        self.health.ready |= {"cluster": self._no_answer, "caches": self._unsynced, component.name: self._unready}
        if self._election is not None:
            self.health.ready["leader-election"] = self._no_lease
        self.health.ready["shutdown"] = lambda: "shutting down" if stopping.started else ""

    async def run(self) -> None:
        """From the cluster's first answer to the last event."""
        context = self._context
        beside = [
            asyncio.create_task(self._pulse.run(), name="pulse"),
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
            # The Lease and what is done under it end before anything else does.
            await _cancelled((work, stop))
            await _cancelled(beside)
        if self._ended.done():
            self._ended.result()
        if not work.cancelled():
            work.result()

    async def _finish(self, work: asyncio.Task[None]) -> None:
        began = time.monotonic()
        if not self._component.stops_itself or (self._election is not None and not self._election.leading):
            work.cancel()  # who stands by has nothing under way
        done, _ = await asyncio.wait((work, self._ended), timeout=self._settings.shutdown_seconds,
                                     return_when=asyncio.FIRST_COMPLETED)  # fmt: skip
        if not done:
            log.warning("work in progress did not finish within %.0f s and was cancelled", self._settings.shutdown_seconds)
            await _cancelled((work,))
        await _politely("events", self._context.events.flush())
        if self._election is not None and self._election.holder == self._election.identity:
            await _politely("Lease", self._election.release())
        if done:
            log.info("%s: shut down in %.1f s", self._component.name, time.monotonic() - began)

    async def _work(self) -> None:
        features = await self._first_answer()
        if features is None:
            return
        if self._election is None:
            await self._lead(features)
        else:
            for resource in self._component.watched:
                self._context.caches.of(resource)
            await self._election.lead(lambda: self._lead(features))

    async def _first_answer(self) -> Features | None:
        """What the cluster is; None if it is to stop before that is known. Raises NoAnswer."""
        until = time.monotonic() + self._settings.connect_seconds
        where = self._client.target.server
        while not self._stopping.started:
            try:
                features = await features_of(self._client, self._settings.feature_overrides)
                await self._devices()
            except (StatusError, Unreachable) as error:
                late = time.monotonic() >= until
                # 403 is what a server answers to all that has not read its roles yet.
                if isinstance(error, StatusError) and (error.code == 401 or (late and error.code == 403)):
                    raise ClusterUnavailable(f"{where} denied access: {error}") from None
                if late:
                    raise ClusterUnavailable(f"{where} did not answer for {self._settings.connect_seconds:g} s: {error}") from None
                log.info("%s does not answer yet: %s", where, error)
                await self._stopping.run_until_shutdown(asyncio.sleep(_AGAIN_SECONDS))
            else:
                self._answered = True
                return features
        return None

    async def _devices(self) -> None:
        """Say at once if the cluster serves none, or none that can be read; it may begin to."""
        try:
            await self._versions.check_device_api()
        except DeviceApiNotServed as error:
            log.warning("%s", error)
        except UnknownVersions:
            pass  # it is in the log already

    async def _lead(self, features: Features) -> None:
        program = self._component.program(features)
        await keep_alive(self._component.name, self._context, self._until_it_ends(program))

    def _until_it_ends(self, program: Program) -> Program:
        """The program, but what cannot be mended by starting it again ends the process."""
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

    def _no_answer(self) -> str:
        return "" if self._answered else "the cluster has not answered yet"

    def _no_lease(self) -> str:
        """Whoever stands by is ready to: or a rollout of several copies would wait for ever."""
        election = self._election
        if election is None or election.leading or election.holder is not None:
            return ""
        return "the Lease could not be read yet"

    def _unsynced(self) -> str:
        waiting = sorted(one.resource.plural for one in self._context.caches.known() if not one.synced.is_set())
        return f"not synced yet: {', '.join(waiting)}" if waiting else ""

    def _unready(self) -> str:
        return self._component.unready()


def find_error(error: BaseException, types: tuple[type[Exception], ...]) -> Exception | None:
    """The first of some kinds in an error, which may be a group of them."""
    if isinstance(error, types):
        return error
    if isinstance(error, BaseExceptionGroup):
        return next((found for one in error.exceptions if (found := find_error(one, types)) is not None), None)
    return None


async def _cancelled(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel tasks, and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def _politely(what: str, doing: Awaitable[None]) -> None:
    """Do what others are glad of, but not for long."""
    try:
        async with asyncio.timeout(_MANNERS_SECONDS):
            await doing
    except TimeoutError:
        log.info("%s: not written in %.0f s", what, _MANNERS_SECONDS)
    except (StatusError, Unreachable) as error:
        log.info("%s: %s", what, error)
