"""The driver under test: its connections, process and slices, and the claims that it has prepared."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from allotment.cluster.client import Client
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.resources import SLICES
from allotment.drivers.verify.cdi_folders import CdiFolders
from allotment.drivers.verify.claim_fixtures import ClaimChange, ClaimFixture, ClaimFixtures, unchanged
from allotment.drivers.verify.driver_process import DriverProcess, ProcessExited
from allotment.drivers.verify.socket_discovery import DriverNotFound, DriverSockets, find_driver
from allotment.drivers.verify.verdict import CheckFailed, CheckSkipped
from allotment.kubelet_plugin.client import CALL_SECONDS, PluginClient, PluginInfo
from allotment.kubelet_plugin.encoding import V1, V1BETA1, VERSIONS
from allotment.kubelet_plugin.messages import ClaimRef, PluginCallError, PrepareResult
from allotment.model.features import Features
from allotment.model.resource import ResourceSlice
from allotment.model.trees import Tree, read_value
from allotment.phrases import counted

log = logging.getLogger(__name__)

#: gRPC statuses that are not answers of the driver.
_NO_ANSWER = ("Unavailable", "DeadlineExceeded", "Canceled", "Unimplemented")
_POLL_SECONDS = 0.1
_REGISTRATION_SECONDS = 5.0


class Timeouts(NamedTuple):
    """Timeouts in seconds: for a call, for the driver's start, for publication, and for slices to be stable.

    ``interrupt_at``: the fractions of a call's duration after which checks cancel it or kill the driver.
    """

    call: float = CALL_SECONDS
    start: float = 60.0
    publish: float = 10.0
    stable: float = 3.0
    interrupt_at: tuple[float, ...] = (0.0, 0.3, 0.8)


DEFAULT_TIMEOUTS: Final = Timeouts()


class DriverSession:
    """A driver on a node. ``process``: its process, if the verifier started it."""

    def __init__(
        self, socket: Path, sockets: DriverSockets, client: Client, node: str, features: Features, cdi: CdiFolders, *,
        process: DriverProcess | None = None, class_name: str = "", timeouts: Timeouts = DEFAULT_TIMEOUTS,
    ) -> None:  # fmt: skip
        self.socket = socket
        self.sockets = sockets
        self.client = client
        self.node = node
        self.features = features
        self.cdi = cdi
        self.process = process
        self.timeouts = timeouts
        self.fixtures = ClaimFixtures(client, sockets.info.name, node, features, class_name)
        #: Duration of preparing one claim, in seconds.
        self.prepare_seconds = 0.05
        #: Why claims cannot be prepared, or "".
        self.skip_reason = ""
        self._prepared: dict[str, ClaimRef] = {}
        self._connections: dict[str, PluginClient] = {}

    @property
    def driver(self) -> str:
        return self.sockets.info.name

    @property
    def info(self) -> PluginInfo:
        """The driver's answer to GetInfo."""
        return self.sockets.info

    # --- calls ------------------------------------------------------------------------------------------------------

    def versions(self) -> list[str]:
        """Return the supported versions of the DRA service; all, if the driver has no registration socket."""
        known = [version.name for version in VERSIONS]
        return [name for name in self.info.versions if name in known] if self.sockets.registration else known

    def plugin(self, version: str = "") -> PluginClient:
        """Return a client for a version of the service, by default that of a kubelet. Raises CheckFailed."""
        name = version or next(iter(self.versions()), "")
        if not name:
            raise CheckFailed(f"the driver lists {', '.join(self.info.versions) or 'no services'}", f"list {V1.name}")
        if name not in self._connections:
            others = [other for other in self.info.versions if other not in (V1.name, V1BETA1.name)]
            info = self.info._replace(versions=(name, *others), endpoint=self.info.endpoint.absolute())
            self._connections[name] = PluginClient(info, seconds=self.timeouts.call)
        return self._connections[name]

    async def prepare(self, *refs: ClaimRef, version: str = "") -> Mapping[str, PrepareResult]:
        """Prepare claims, which are unprepared at the end. Raises CheckFailed if the answer is incomplete."""
        plugin = self.plugin(version)
        self._prepared.update({ref.uid: ref for ref in refs})
        try:
            return await plugin.prepare(refs)
        except PluginCallError as error:
            raise CheckFailed(f"NodePrepareResources: {error}", _ANSWER_REMEDY) from None

    async def unprepare(self, *refs: ClaimRef, version: str = "") -> None:
        """Unprepare claims. Raises CheckFailed if one of them fails."""
        plugin = self.plugin(version)
        try:
            answers = await plugin.unprepare(refs)
        except PluginCallError as error:
            raise CheckFailed(f"NodeUnprepareResources: {error}", _ANSWER_REMEDY) from None
        if failed := [f"{ref.name}: {answers[ref.uid]}" for ref in refs if answers[ref.uid]]:
            raise CheckFailed(
                f"not unprepared: {'; '.join(failed)}",
                "let unprepare succeed for claims and devices that do not exist: otherwise pods stay Terminating",
            )
        for ref in refs:
            self._prepared.pop(ref.uid, None)

    async def prepare_error(self, ref: ClaimRef) -> str:
        """Prepare a claim that must be rejected; return the driver's error. Raises CheckFailed if it is prepared."""
        self._prepared[ref.uid] = ref
        try:
            answer = (await self.plugin().prepare([ref]))[ref.uid]
        except PluginCallError as error:
            if any(f"code = {code} " in str(error) for code in _NO_ANSWER) or "code =" not in str(error):
                raise CheckFailed(f"NodePrepareResources: {error}", _ANSWER_REMEDY) from None
            return str(error)
        if answer.error:
            return answer.error
        raise CheckFailed(
            f"the claim was prepared, with {counted(len(answer.devices), 'device')}",
            "read the claim from the API before anything else, and return an error",
        )

    # --- claims -----------------------------------------------------------------------------------------------------

    def spec(self, *requests: str, config: Tree | None = None) -> Tree:
        """Return ``spec.devices`` of a claim with one device for each request."""
        spec: Tree = {"requests": [self.fixtures.request(name) for name in requests or ("gpu",)]}
        return spec if config is None else {**spec, "config": [self.fixtures.config(config)]}

    async def create_claims(self, *specs: Tree, change: ClaimChange = unchanged) -> list[ClaimFixture]:
        """Return allocated claims, which must be released. Raises CheckSkipped if there are too few devices."""
        if self.skip_reason:
            raise CheckSkipped(self.skip_reason)
        return await self.fixtures.create_allocated(specs, change)

    @asynccontextmanager
    async def claims(self, *specs: Tree, change: ClaimChange = unchanged) -> AsyncIterator[list[ClaimFixture]]:
        """Yield allocated claims, which are unprepared and deleted at the end of the block. Raises CheckSkipped."""
        claims = await self.create_claims(*specs, change=change)
        try:
            yield claims
        finally:
            await self.release(*(claim.ref for claim in claims))

    async def release(self, *refs: ClaimRef) -> None:
        """Unprepare and delete claims; a failed unprepare is retried by :meth:`close`."""
        with suppress(CheckFailed):
            await self.unprepare(*(ref for ref in refs if ref.uid in self._prepared))
        for ref in refs:
            await self.fixtures.remove(ref)

    # --- slices -----------------------------------------------------------------------------------------------------

    async def slices(self) -> list[ResourceSlice]:
        """Return the driver's slices that concern this node, including those of pools for several nodes."""
        items = (await self.client.list(SLICES, fields=f"spec.driver={self.driver}")).items
        slices = [read_value(tree, ResourceSlice) for tree in items]
        return [
            slice_
            for slice_ in slices
            if slice_.spec.driver == self.driver and slice_.spec.node_name in (None, "", self.node)
        ]

    async def wait_for_slices(self, condition: Callable[[Sequence[ResourceSlice]], bool]) -> list[ResourceSlice]:
        """Return the slices when the condition is true, or at the timeout."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.timeouts.publish
        while True:
            slices = await self.slices()
            if condition(slices) or loop.time() > deadline:
                return slices
            await asyncio.sleep(_POLL_SECONDS)

    async def stable_slices(self) -> list[ResourceSlice]:
        """Return the slices when they have not changed for a while: those of an earlier process may exist at first."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.timeouts.publish + self.timeouts.stable
        slices, since = await self.slices(), loop.time()
        while loop.time() < min(since + self.timeouts.stable, deadline):
            await asyncio.sleep(_POLL_SECONDS)
            now = await self.slices()
            if now != slices:
                slices, since = now, loop.time()
        return slices

    # --- its process ------------------------------------------------------------------------------------------------

    async def restart(self) -> None:
        """Stop the driver as a pod stops, and start it again. Raises CheckFailed and CheckSkipped."""
        await self._own_process().stop()
        await self.start()

    async def kill(self) -> None:
        """Kill the driver with SIGKILL. Raises CheckSkipped."""
        await self._own_process().kill()

    async def start(self) -> None:
        """Start the driver and wait until it can be called. Raises CheckFailed if it cannot."""
        process = self._own_process()
        await self._disconnect()
        await process.start()
        start = time.monotonic()
        try:
            self.sockets = await wait_for_driver(self.socket, process, self.timeouts.start)
        except (ProcessExited, DriverNotFound) as error:
            raise CheckFailed(
                f"after {time.monotonic() - start:.0f} s: {error}",
                "start from any state that a previous process left behind, and respond before hardware discovery has "
                "finished",
                "the driver starts again",
            ) from None

    def _own_process(self) -> DriverProcess:
        if self.process is None:
            raise CheckSkipped("requires the driver's command: this check starts and stops it")
        return self.process

    async def _disconnect(self) -> None:
        connections, self._connections = self._connections, {}
        for connection in connections.values():
            await connection.close()

    async def unavailable(self) -> str:
        """Return "" if the driver answers, otherwise the error."""
        if self.process is not None:
            try:
                self.process.check()
            except ProcessExited as error:
                return str(error)
        try:
            await self.plugin().prepare([])
        except PluginCallError as error:
            return str(error) if "code = Unavailable " in str(error) else ""
        except CheckFailed:
            return ""
        return ""

    async def close(self) -> None:
        """Unprepare all prepared claims and delete all objects."""
        for ref in tuple(self._prepared.values()):
            try:
                await self.unprepare(ref)
            except CheckFailed as error:
                log.error("cannot unprepare claim %s/%s (%s): %s", ref.namespace, ref.name, ref.uid, error)
        try:
            await self.fixtures.clear()
        except (StatusError, Unreachable) as error:
            log.error("%s", error)
        await self._disconnect()


_ANSWER_REMEDY = "for each claim of a call, return its devices or its own error; return no other claims"


async def wait_for_driver(socket: Path, process: DriverProcess | None, seconds: float) -> DriverSockets:
    """Return the driver's sockets when it can be called. Raises DriverNotFound, ProcessExited."""
    loop = asyncio.get_running_loop()
    deadline, found_since = loop.time() + seconds, 0.0
    while True:
        if process is not None:
            process.check()
        try:
            sockets = await find_driver(socket)
        except DriverNotFound:
            if process is None or loop.time() > deadline:
                raise
        else:
            # A starting driver creates its endpoint before its registration socket.
            found_since = found_since or loop.time()
            if (
                sockets.registration is not None
                or process is None
                or loop.time() > min(found_since + _REGISTRATION_SECONDS, deadline)
            ):
                return sockets
        await asyncio.sleep(_POLL_SECONDS)
