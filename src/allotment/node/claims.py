"""A node's claims: prepared by their drivers before a pod's containers exist, undone after the last pod that had them.

What a kubelet's DRA manager does (KEP-3063, KEP-4381), in its order and words. Everything that can be refused is judged
first, on the live claim, so that a pod that never got its devices owes nobody anything. Then the claim is recorded, and
only then are drivers called: once per driver with all claims of the pod that are not prepared yet. A claim that several
pods share is prepared once and undone once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from allotment.cluster.client import Client
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.resources import CLAIMS
from allotment.kubelet_plugin.messages import ClaimRef, KubeletPlugin, PluginCallError, PreparedDevice
from allotment.model import pod_groups
from allotment.model.trees import Tree
from allotment.node import checkpoint
from allotment.node.checkpoint import ClaimRecord
from allotment.node.keyed_lock import KeyedLocks
from allotment.node.plugins import Plugins
from allotment.node.pod_claims import ClaimsError, claim_names, is_made_for, requests_of

#: Real seconds that a driver may take for a call: its work is real even where the lab's clock runs faster.
_CALL_SECONDS: Final = 45.0

T = TypeVar("T")
_Key = tuple[str, str]

log = logging.getLogger(__name__)


class _CheckedClaim(NamedTuple):
    """A claim of a pod that passed the judgement. ``entry``: the pod's name for it; empty for extended resources."""

    entry: str
    claim: Tree
    plugins: Mapping[str, KubeletPlugin]

    @property
    def key(self) -> _Key:
        metadata = self.claim["metadata"]
        return metadata["namespace"], metadata["name"]


class _ClaimState:
    """A claim that drivers were asked for. ``prepared``: by these, since this program began."""

    __slots__ = ("drivers", "name", "namespace", "pods", "prepared", "uid")

    def __init__(self, record: ClaimRecord) -> None:
        self.namespace, self.name, self.uid = record.namespace, record.name, record.uid
        self.pods = set(record.pods)
        self.drivers = dict(record.drivers)
        self.prepared: set[str] = set()

    @property
    def ref(self) -> ClaimRef:
        return ClaimRef(self.namespace, self.uid, self.name)

    @property
    def record(self) -> ClaimRecord:
        return ClaimRecord(self.namespace, self.name, self.uid, frozenset(self.pods), self.drivers)


class NodeClaims:
    """The claims of one node; with a ``state`` folder they are recorded there. Raises CorruptCheckpoint, OSError.

    ``groups``: whether a pod may use what was made and reserved for its PodGroup (KEP-5729).
    """

    def __init__(
        self, node: str, plugins: Plugins, client: Client, state: Path | None = None, *, groups: bool = False
    ) -> None:
        self._node = node
        self._plugins = plugins
        self._client = client
        self._state = state
        self._groups = groups
        records = checkpoint.load(state) if state is not None else ()
        self._known = {(record.namespace, record.name): _ClaimState(record) for record in records}
        # Nobody prepares what another one is about to undo.
        self._locks: KeyedLocks[_Key] = KeyedLocks()

    # --- preparing ------------------------------------------------------------------------------------------------

    async def prepare(self, pod: Tree) -> dict[str, Tree]:
        """Have all claims of a pod prepared; the claims by the pod's names for them. Raises ClaimsError.

        May be repeated, and must be while it fails: what is prepared already stays so.
        """
        try:
            wanted = [one async for one in self._checked_claims(pod)]
            async with self._locks.hold(one.key for one in wanted):
                await self._prepare(pod["metadata"]["uid"], wanted)
        except ClaimsError as error:
            raise ClaimsError(f"prepare dynamic resources: {error}") from error
        return {one.entry: one.claim for one in wanted}

    async def _checked_claims(self, pod: Tree) -> AsyncIterator[_CheckedClaim]:
        """The pod's claims, after everything that may be wrong with them was looked at."""
        metadata = pod["metadata"]
        group = pod_groups.group_name(pod["spec"]) if self._groups else ""
        for entry, name, generated in claim_names(pod):
            if not name:
                continue  # none was needed
            try:
                claim = await self._client.get(CLAIMS, name, metadata["namespace"])
            except (StatusError, Unreachable) as error:
                raise ClaimsError(f"fetch ResourceClaim {name}: {error}") from error
            if generated and not is_made_for(metadata["uid"], claim, group):
                told = f"{claim['metadata']['namespace']}/{name}"
                where = f"{metadata['namespace']}/{metadata['name']}"
                raise ClaimsError(pod_groups.not_owner_message(told, where, group))
            status = claim.get("status") or {}
            if not pod_groups.is_consumer(status.get("reservedFor") or (), metadata["uid"], group):
                who = f"pod {metadata['name']} ({metadata['uid']})"
                raise ClaimsError(f"{who} is not allowed to use ResourceClaim {name} ({claim['metadata']['uid']})")
            if not status.get("allocation"):
                raise ClaimsError(f"ResourceClaim {name}: not allocated")
            results = (status["allocation"].get("devices") or {}).get("results") or ()
            drivers = sorted({result["driver"] for result in results})
            yield _CheckedClaim(entry, claim, {driver: self._plugin(driver) for driver in drivers})

    def _plugin(self, driver: str) -> KubeletPlugin:
        plugin = self._plugins.find(self._node, driver)
        if plugin is None:
            raise ClaimsError(f"DRA driver {driver} is not registered")
        return plugin

    async def _prepare(self, pod_uid: str, wanted: Sequence[_CheckedClaim]) -> None:
        claims_by_driver: dict[str, list[_ClaimState]] = {}
        called: dict[str, KubeletPlugin] = {}
        for one in wanted:
            known = self._register(one, pod_uid)
            for driver, plugin in one.plugins.items():
                claims = claims_by_driver.setdefault(driver, [])
                if driver not in known.prepared and known not in claims:
                    called[driver] = plugin
                    claims.append(known)
        if wanted:
            self._record()
        for driver, plugin in called.items():
            await self._call(plugin, driver, claims_by_driver[driver])
        if called:
            self._record()

    def _register(self, one: _CheckedClaim, pod_uid: str) -> _ClaimState:
        uid = one.claim["metadata"]["uid"]
        known = self._known.get(one.key)
        if known is None:
            record = ClaimRecord(*one.key, uid, frozenset(), dict.fromkeys(one.plugins, ()))
            known = self._known[one.key] = _ClaimState(record)
        elif known.uid != uid:
            raise ClaimsError(
                f"old ResourceClaim with same name {known.name} and different UID {known.uid} still exists"
                " (previous pod force-deleted?!)"
            )
        known.pods.add(pod_uid)
        return known

    async def _call(self, plugin: KubeletPlugin, driver: str, claims: Sequence[_ClaimState]) -> None:
        """One call for several claims. Those that the driver prepared count, whatever became of the others."""
        by_uid = {known.uid: known for known in claims}
        try:
            answers = await _call_driver(plugin.prepare([known.ref for known in claims]))
        except PluginCallError as error:
            raise ClaimsError(f"NodePrepareResources: {error}") from error
        for uid in answers:
            if uid not in by_uid:
                raise ClaimsError(f"NodePrepareResources returned result for unknown claim UID {uid}")
        failure = ""
        for uid, known in by_uid.items():
            answer = answers.get(uid)
            if answer is not None and not answer.error:
                known.drivers[driver] = answer.devices
                known.prepared.add(driver)
            elif answer is not None and not failure:
                failure = f"NodePrepareResources failed for ResourceClaim {known.name}: {answer.error}"
        if failure:
            raise ClaimsError(failure)
        if skipped := len(claims) - len(answers):
            raise ClaimsError(f"NodePrepareResources skipped {skipped} ResourceClaims")

    # --- what containers get --------------------------------------------------------------------------------------

    def cdi_ids(self, pod: Tree, container: Tree) -> tuple[str, ...]:
        """The CDI names for a container, in the order of the pod's claims; of its own claims and requests only."""
        found: dict[str, None] = {}
        for name, request in requests_of(pod, container):
            for devices in self.devices(pod["metadata"]["namespace"], name, request).values():
                for device in devices:
                    found.update(dict.fromkeys(device.cdi_ids))
        return tuple(found)

    def devices(self, namespace: str, claim: str, request: str) -> Mapping[str, tuple[PreparedDevice, ...]]:
        """By driver, what was prepared of a claim for a request; for all of them when it is empty."""
        known = self._known.get((namespace, claim))
        if known is None:
            return {}
        return {
            driver: tuple(
                device for device in devices if not request or not device.requests or request in device.requests
            )
            for driver, devices in known.drivers.items()
        }

    def pods_with(self, driver: str, devices: Collection[tuple[str, str]]) -> Iterator[str]:
        """The uids of pods that have one of a driver's devices, each a pool and a name."""
        for known in self._known.values():
            if any((device.pool, device.device) in devices for device in known.drivers.get(driver, ())):
                yield from known.pods

    # --- undoing --------------------------------------------------------------------------------------------------

    def has_claims(self, pod_uid: str) -> bool:
        """Whether anything is prepared, or half prepared, for a pod."""
        return any(pod_uid in known.pods for known in self._known.values())

    async def unprepare(self, pod_uid: str) -> None:
        """Undo what was prepared for a pod and no other one has. Raises ClaimsError; to be repeated then."""
        keys = [key for key, known in self._known.items() if pod_uid in known.pods]
        if not keys:
            return
        try:
            async with self._locks.hold(keys):
                await self._unprepare(pod_uid, keys)
        except ClaimsError as error:
            raise ClaimsError(f"unprepare dynamic resources: {error}") from error

    async def _unprepare(self, pod_uid: str, keys: Iterable[_Key]) -> None:
        last: list[_ClaimState] = []
        batches: dict[str, list[_ClaimState]] = {}
        for known in filter(None, map(self._known.get, keys)):
            if len(known.pods) > 1:
                known.pods.discard(pod_uid)
            elif pod_uid in known.pods:
                last.append(known)
                known.prepared.clear()  # half undone is not prepared
                for driver in known.drivers:
                    batches.setdefault(driver, []).append(known)
        for driver, claims in batches.items():
            await self._undo(driver, claims)
        for known in last:
            del self._known[known.namespace, known.name]
        self._record()

    async def _undo(self, driver: str, claims: Sequence[_ClaimState]) -> None:
        plugin = self._plugin(driver)
        by_uid = {known.uid: known for known in claims}
        try:
            answers = await _call_driver(plugin.unprepare([known.ref for known in claims]))
        except PluginCallError as error:
            raise ClaimsError(f"NodeUnprepareResources: {error}") from error
        for uid, error_text in answers.items():
            if uid not in by_uid:
                raise ClaimsError(f"NodeUnprepareResources returned result for unknown claim UID {uid}")
            if error_text:
                raise ClaimsError(f"NodeUnprepareResources failed for ResourceClaim {by_uid[uid].name}: {error_text}")
        if skipped := len(claims) - len(answers):
            raise ClaimsError(f"NodeUnprepareResources skipped {skipped} ResourceClaims")

    async def reconcile(self, active: Callable[[str], bool]) -> None:
        """Undo what pods have that are no more; what fails is tried the next time."""
        gone = {uid for known in self._known.values() for uid in known.pods if not active(uid)}
        for uid in sorted(gone):
            try:
                await self.unprepare(uid)
            except ClaimsError as error:
                log.info("node %s: cleaning up claims of deleted pod %s: %s", self._node, uid, error)

    def _record(self) -> None:
        if self._state is not None:
            try:
                checkpoint.save(self._state, (known.record for known in self._known.values()))
            except OSError as error:
                raise ClaimsError(f"checkpoint ResourceClaim state: {error}") from error


async def _call_driver(call: Awaitable[T]) -> T:
    """A driver's answer. Raises PluginCallError, also for one that takes too long or breaks down in this process."""
    try:
        async with asyncio.timeout(_CALL_SECONDS):
            return await call
    except TimeoutError as error:
        raise PluginCallError("rpc error: code = DeadlineExceeded desc = context deadline exceeded") from error
    except PluginCallError:
        raise
    except Exception as error:
        log.exception("driver call failed")
        raise PluginCallError(f"rpc error: code = Unknown desc = {error}") from error
