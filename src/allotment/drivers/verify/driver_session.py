"""One driver under test: how it is called, what it has prepared for the kit, and how all of that ends."""

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

#: Statuses of calls that nobody answered; every other one is an answer.
_NO_ANSWER = ("Unavailable", "DeadlineExceeded", "Canceled", "Unimplemented")
_POLL_SECONDS = 0.1
_REGISTRATION_SECONDS = 5.0


class Timeouts(NamedTuple):
    """How long the kit waits, in seconds: for a call, for a driver that starts, for what it publishes, for quiet.

    ``moments``: after which parts of the time that a call takes it hangs up, or kills the driver.
    """

    call: float = CALL_SECONDS
    start: float = 60.0
    publish: float = 10.0
    quiet: float = 3.0
    interrupt_at: tuple[float, ...] = (0.0, 0.3, 0.8)


DEFAULT_TIMEOUTS: Final = Timeouts()


class DriverSession:
    """A driver on a node. ``life``: its process, where the kit has it in its hands."""

    def __init__(
        self, socket: Path, sockets: DriverSockets, client: Client, node: str, features: Features, cdi: CdiFolders, *,
        process: DriverProcess | None = None, class_name: str = "", timeouts: Timeouts = DEFAULT_TIMEOUTS,
    ) -> None:  # fmt: skip
        self.socket = socket
        self.found = sockets
        self.client = client
        self.node = node
        self.features = features
        self.cdi = cdi
        self.life = process
        self.patience = timeouts
        self.fixtures = ClaimFixtures(client, sockets.info.name, node, features, class_name)
        #: How long preparing one claim took, in seconds.
        self.prepare_seconds = 0.05
        #: Why there is no use in preparing claims; empty if there is.
        self.skip_reason = ""
        self._prepared: dict[str, ClaimRef] = {}
        self._connections: dict[str, PluginClient] = {}

    @property
    def driver(self) -> str:
        """The driver's name."""
        return self.found.info.name

    @property
    def info(self) -> PluginInfo:
        """How it introduced itself."""
        return self.found.info

    # --- calls ----------------------------------------------------------------------------------------------------

    def versions(self) -> list[str]:
        """The versions of the DRA service that it has; both are tried of a driver that nobody introduced."""
        known = [version.name for version in VERSIONS]
        return [name for name in self.info.versions if name in known] if self.found.registration else known

    def plugin(self, version: str = "") -> PluginClient:
        """A connection that speaks a version of the service: by default what a kubelet would choose. Raises Wrong."""
        name = version or next(iter(self.versions()), "")
        if not name:
            raise CheckFailed(f"it lists {', '.join(self.info.versions) or 'no services'}", f"list {V1.name}")
        if name not in self._connections:
            others = [each for each in self.info.versions if each not in (V1.name, V1BETA1.name)]
            info = self.info._replace(versions=(name, *others), endpoint=self.info.endpoint.absolute())
            self._connections[name] = PluginClient(info, seconds=self.patience.call)
        return self._connections[name]

    async def prepare(self, *refs: ClaimRef, version: str = "") -> Mapping[str, PrepareResult]:
        """Call it; what is prepared is undone in the end. Raises Wrong if there is no complete answer."""
        plugin = self.plugin(version)
        self._prepared.update({ref.uid: ref for ref in refs})
        try:
            return await plugin.prepare(refs)
        except PluginCallError as error:
            raise CheckFailed(f"NodePrepareResources: {error}", _ANSWER_REMEDY) from None

    async def unprepare(self, *refs: ClaimRef, version: str = "") -> None:
        """Call it. Raises Wrong if any of them is not undone."""
        plugin = self.plugin(version)
        try:
            answers = await plugin.unprepare(refs)
        except PluginCallError as error:
            raise CheckFailed(f"NodeUnprepareResources: {error}", _ANSWER_REMEDY) from None
        if failed := [f"{ref.name}: {answers[ref.uid]}" for ref in refs if answers[ref.uid]]:
            raise CheckFailed(
                f"not unprepared: {'; '.join(failed)}",
                "let unprepare succeed for whatever is not there: until it does, the pod stays Terminating",
            )
        for ref in refs:
            self._prepared.pop(ref.uid, None)

    async def prepare_error(self, ref: ClaimRef) -> str:
        """Prepare what cannot be prepared, and return the driver's words. Raises Wrong if it has none against it."""
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
            f"it was prepared, with {counted(len(answer.devices), 'device')}",
            "read the claim from the API before anything else, and answer with an error",
        )

    # --- claims ---------------------------------------------------------------------------------------------------

    def spec(self, *requests: str, config: Tree | None = None) -> Tree:
        """``spec.devices`` of a claim with a device for each request."""
        spec: Tree = {"requests": [self.fixtures.request(name) for name in requests or ("gpu",)]}
        return spec if config is None else {**spec, "config": [self.fixtures.config(config)]}

    async def create_claims(self, *specs: Tree, changed: ClaimChange = unchanged) -> list[ClaimFixture]:
        """Allocated claims, to be given back. Raises NotChecked without devices enough."""
        if self.skip_reason:
            raise CheckSkipped(self.skip_reason)
        return await self.fixtures.create_allocated(specs, changed)

    @asynccontextmanager
    async def claims(self, *specs: Tree, changed: ClaimChange = unchanged) -> AsyncIterator[list[ClaimFixture]]:
        """Allocated claims, unprepared and gone when the block ends. Raises NotChecked without devices enough."""
        made = await self.create_claims(*specs, changed=changed)
        try:
            yield made
        finally:
            await self.release(*(each.ref for each in made))

    async def release(self, *refs: ClaimRef) -> None:
        """Have claims unprepared and delete them; what cannot be undone now is tried again in the end."""
        with suppress(CheckFailed):
            await self.unprepare(*(ref for ref in refs if ref.uid in self._prepared))
        for ref in refs:
            await self.fixtures.remove(ref)

    # --- slices ---------------------------------------------------------------------------------------------------

    async def slices(self) -> list[ResourceSlice]:
        """Those of the driver that concern this node: its own, and those of pools for several nodes."""
        every = (await self.client.list(SLICES, fields=f"spec.driver={self.driver}")).items
        found = [read_value(tree, ResourceSlice) for tree in every]
        return [one for one in found if one.spec.driver == self.driver and one.spec.node_name in (None, "", self.node)]

    async def wait_for_slices(self, true: Callable[[Sequence[ResourceSlice]], bool]) -> list[ResourceSlice]:
        """The slices as soon as they are as they should be, or as they are when patience ends."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self.patience.publish
        while True:
            slices = await self.slices()
            if true(slices) or loop.time() > until:
                return slices
            await asyncio.sleep(_POLL_SECONDS)

    async def stable_slices(self) -> list[ResourceSlice]:
        """The slices when they have not changed for a while: those of an earlier process may be there at first."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self.patience.publish + self.patience.quiet
        seen, since = await self.slices(), loop.time()
        while loop.time() < min(since + self.patience.quiet, until):
            await asyncio.sleep(_POLL_SECONDS)
            now = await self.slices()
            if now != seen:
                seen, since = now, loop.time()
        return seen

    # --- its process ----------------------------------------------------------------------------------------------

    async def restart(self) -> None:
        """End it as a pod ends, and start it again; returns when it can be called. Raises Wrong and NotChecked."""
        await self._own_process().stop()
        await self.start()

    async def kill(self) -> None:
        """SIGKILL. Raises NotChecked."""
        await self._own_process().kill()

    async def start(self) -> None:
        """Start it, after its end; returns when it can be called. Raises Wrong when it does not come back."""
        life = self._own_process()
        await self._disconnect()
        await life.start()
        began = time.monotonic()
        try:
            self.found = await wait_for_driver(self.socket, life, self.patience.start)
        except (ProcessExited, DriverNotFound) as error:
            raise CheckFailed(
                f"after {time.monotonic() - began:.0f} s: {error}",
                "start with whatever the last process left, and answer before looking for hardware",
                "the driver comes back",
            ) from None

    def _own_process(self) -> DriverProcess:
        if self.life is None:
            raise CheckSkipped("needs --command: the kit must start the driver itself")
        return self.life

    async def _disconnect(self) -> None:
        connections, self._connections = self._connections, {}
        for connection in connections.values():
            await connection.close()

    async def unavailable(self) -> str:
        """Empty if the driver answers, or why not."""
        if self.life is not None:
            try:
                self.life.check()
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
        """Undo what is still prepared, delete what was made."""
        for ref in tuple(self._prepared.values()):
            try:
                await self.unprepare(ref)
            except CheckFailed as error:
                log.error("claim %s/%s (%s) is still prepared: %s", ref.namespace, ref.name, ref.uid, error)
        try:
            await self.fixtures.clear()
        except (StatusError, Unreachable) as error:
            log.error("%s", error)
        await self._disconnect()


_ANSWER_REMEDY = "answer each claim of a call with its devices or an error of its own, and no other claim"


async def wait_for_driver(socket: Path, life: DriverProcess | None, seconds: float) -> DriverSockets:
    """The driver as soon as it can be called. Raises NotFound, and Ended if its process has ended."""
    loop = asyncio.get_running_loop()
    until, alone = loop.time() + seconds, 0.0
    while True:
        if life is not None:
            life.check()
        try:
            found = await find_driver(socket)
        except DriverNotFound:
            if life is None or loop.time() > until:
                raise
        else:
            # A driver that starts has its endpoint before it has the socket that tells of it.
            alone = alone or loop.time()
            if (
                found.registration is not None
                or life is None
                or loop.time() > min(alone + _REGISTRATION_SECONDS, until)
            ):
                return found
        await asyncio.sleep(_POLL_SECONDS)
