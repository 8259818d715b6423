"""Carrying out a decision: write the claims, wait until devices are ready, bind the pod. Or take it all back.

The order makes every moment safe for a crash: first the finalizer, so that an allocated claim cannot vanish; then
allocation and reservation in one write; then the binding. A scheduler that starts again finds a claim that is allocated
and reserved for its pod, and goes on from there.

Every write names the state that it was decided on (resourceVersion); on a conflict the claim is read again and the
decision checked against it. Against a second scheduler that gives one device to another claim that is not enough: so
before binding the claims must settle (see `settling`), and we step back if anybody else holds our devices. That goes
for claims, too, that a scheduler before this one wrote for the pod.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Final

from allotment.cluster.cache import Cache
from allotment.cluster.client import Client
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.recorder import Recorder
from allotment.cluster.resources import CLAIMS, PODS
from allotment.model.features import Features
from allotment.model.meta import ObjectKey
from allotment.model.pod_groups import is_among, is_group
from allotment.model.resource import AllocationResult, ResourceClaim
from allotment.scheduler import extended, readiness
from allotment.scheduler.attempt import Chosen
from allotment.scheduler.grouping import Grouping
from allotment.scheduler.guards import Guards
from allotment.scheduler.ledger import EXTENDED, KnownClaim, Ledger
from allotment.scheduler.pods import WaitingPod
from allotment.scheduler.settling import Settling

Tree = dict[str, Any]

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
#: How often a write that met a conflict is tried again.
_RETRIES: Final = 5
_PRE_BIND: Final = 'running PreBind plugin "DynamicResources": '


class NotBound(Exception):
    """A decision could not be carried out; the text is Kubernetes'."""


class Contested(NotBound):
    """Somebody else was given a device of a claim, too. ``claim`` is ours."""

    def __init__(self, claim: ObjectKey, text: str) -> None:
        super().__init__(text)
        self.claim = claim


class Binder:
    """Writes decisions."""

    def __init__(
        self, client: Client, ledger: Ledger, groups: Grouping, features: Features, clock: Clock, recorder: Recorder,
        claims: Cache[Any], settling: Settling, guards: Guards, timeout: float = 600.0,
    ) -> None:  # fmt: skip
        self._client = client
        self._ledger = ledger
        self._groups = groups
        self._clock = clock
        self._recorder = recorder
        self._claims = claims
        self._settling = settling
        self._guards = guards
        self._timeout = timeout
        self._stamped = features.enabled("DRADeviceBindingConditions")
        self._watchers: dict[ObjectKey, asyncio.Event] = {}
        self.unusable: set[str] = set()
        """Claims (uids) whose devices failed to get ready; they are freed by the next attempt."""

    def changed(self, key: ObjectKey) -> None:
        """A claim has changed: whoever waits for its devices looks again."""
        watcher = self._watchers.get(key)
        if watcher is not None:
            watcher.set()

    # --- planning: synchronous, in the same step as the decision ---------------------------------------------------

    def plan(self, pod: WaitingPod, chosen: Chosen) -> None:
        """Book what was decided, so that the next decision sees it."""
        for claim, allocation in chosen.allocations:
            self._ledger.plan(claim.key, pod.uid, allocation)
            self.unusable.discard(claim.uid)
        if chosen.extended is not None:
            self._ledger.plan(_placeholder(pod), pod.uid, chosen.extended[1])

    def cancel(self, pod: WaitingPod, chosen: Chosen) -> None:
        """Give back what is booked and not written."""
        for claim, _ in chosen.allocations:
            self._ledger.settle(claim.key)
        self._ledger.settle(_placeholder(pod))

    # --- carrying out ----------------------------------------------------------------------------------------------

    async def bind(self, pod: WaitingPod, chosen: Chosen) -> None:
        """Write claims and binding; raises `NotBound` after everything written was taken back."""
        written: list[tuple[ObjectKey, bool]] = []
        try:
            await self._write_claims(pod, chosen, written)
            await self._bind(pod, chosen.node)
        except (NotBound, StatusError, Unreachable) as error:
            self.cancel(pod, chosen)
            # Another scheduler may have bound it: then it runs with these claims, whoever wrote them.
            if written and not await self._node_of(pod):
                for key, ours in written:
                    known = self._ledger.known.get(key)
                    contested = isinstance(error, Contested) and error.claim == key
                    if contested and known is not None and self._guards.can_replace(known, pod):
                        await self._guards.replace(known, pod)
                    else:
                        await self._take_back(key, pod, ours)
            raise NotBound(str(error)) from error
        key = pod.key
        self._recorder.event(
            pod.tree, "Normal", "Scheduled", f"Successfully assigned {key} to {chosen.node}", "Binding"
        )

    async def _write_claims(self, pod: WaitingPod, chosen: Chosen, written: list[tuple[ObjectKey, bool]]) -> None:
        """All claims of a pod; ``written`` grows with each, and whether it was allocated here."""
        revision = ""
        for claim, _ in chosen.allocations:
            revision = await self._write(claim, pod, self._ledger.planned(claim.key))
            written.append((claim.key, True))
            self._ledger.settle(claim.key)
        if chosen.extended is not None:
            key, revision = await self._make_extended(pod, *chosen.extended)
            written.append((key, True))
        await self._settle(pod, chosen, written, revision)
        for claim in chosen.allocated:
            if not claim.is_reserved_for(pod.uid, self._groups.of(pod.tree)):
                await self._write(claim, pod, None)
                written.append((claim.key, False))
        await self._wait_until_ready(pod, chosen)

    async def _settle(
        self, pod: WaitingPod, chosen: Chosen, written: list[tuple[ObjectKey, bool]], revision: str
    ) -> None:
        """Step back if somebody else gave one of these devices to another claim.

        A claim that others use already has settled before; one that nobody else uses may be from a scheduler that
        ended before it had.
        """
        found = [claim.key for claim in chosen.allocated if all(user.get("uid") == pod.uid for user in claim.users)]
        keys = [*(key for key, _ in written), *found]
        if not keys:
            return
        contested = await self._settling.settle(keys, revision, chosen.node)
        if contested is None:
            return
        key, contest = contested
        if key in found:
            written.append((key, True))
        known = self._ledger.known.get(key)
        if known is not None and any(map(is_group, known.users)):
            self.unusable.add(known.uid)  # others of the group must not come to it before it is freed
        text = f"device {contest.device} of claim {key} was given to claim {contest.holder} meanwhile"
        raise Contested(key, f"{_PRE_BIND}{text}")

    async def _write(self, claim: KnownClaim, pod: WaitingPod, allocation: Tree | None) -> str:
        """Finalizer, allocation and reservation of one claim; returns the revision that it has then."""
        try:
            user = self._groups.user(pod, claim.key)
        except LookupError as error:
            raise NotBound(f"{_PRE_BIND}{error}") from error
        known = self._ledger.known.get(claim.key)
        tree = (known or claim).tree
        doing = "add reservation to claim"
        conflicts, again = 0, False
        while True:
            try:
                if again:
                    doing = "get updated claim"
                    tree = await self._client.get(CLAIMS, claim.key.name, claim.key.namespace)
                if self._is_done(claim, tree, pod, allocation):
                    break
                if allocation is not None and FINALIZER not in (tree["metadata"].get("finalizers") or ()):
                    doing = "add finalizer to claim"
                    metadata = tree["metadata"]
                    finalizers = [*(metadata.get("finalizers") or ()), FINALIZER]
                    tree = await self._client.update(
                        CLAIMS, {**tree, "metadata": {**metadata, "finalizers": finalizers}}
                    )
                doing = "add allocation and reservation to claim" if allocation else "add reservation to claim"
                tree = await self._client.update(CLAIMS, self._reserved(tree, user, allocation), subresource="status")
                break
            except StatusError as error:
                if error.code == 404:
                    raise NotBound(f"{_PRE_BIND}claim {claim.key} got deleted in the meantime") from error
                conflicts += 1
                if error.code != 409 or conflicts > _RETRIES:
                    raise NotBound(f"{_PRE_BIND}{doing} {claim.key}: {error}") from error
            except Unreachable:
                await self._clock.sleep(0.5)
            again = True
        self._claims.noted(tree)
        return str(tree["metadata"].get("resourceVersion", ""))

    def _is_done(self, claim: KnownClaim, tree: Tree, pod: WaitingPod, allocation: Tree | None) -> bool:
        """Whether the claim has what is to be written, from a write whose answer was lost; raises if it never can."""
        metadata, status = tree["metadata"], tree.get("status") or {}
        there = status.get("allocation")
        decided = allocation if allocation is not None else claim.allocation
        if "deletionTimestamp" in metadata or metadata.get("uid", "") != claim.uid:
            raise NotBound(f"{_PRE_BIND}claim {claim.key} got deleted in the meantime")
        if there and decided and _devices(there) != _devices(decided):
            raise NotBound(f"{_PRE_BIND}claim {claim.key} got allocated elsewhere in the meantime")
        if there and is_among(status.get("reservedFor") or (), pod.uid, self._groups.of(pod.tree)):
            return True
        if allocation is not None and there:
            raise NotBound(f"{_PRE_BIND}claim {claim.key} got allocated elsewhere in the meantime")
        if allocation is None and not there:
            raise NotBound(f"{_PRE_BIND}claim {claim.key} got deallocated elsewhere in the meantime")
        return False

    def _reserved(self, tree: Tree, user: Tree, allocation: Tree | None) -> Tree:
        status = tree.get("status") or {}
        there = allocation if allocation is not None else status["allocation"]
        # Kubernetes stamps every allocation that it reserves, also one made by hand without (which the API server
        # then refuses, for an allocation cannot change).
        if self._stamped and "allocationTimestamp" not in there:
            there = {**there, "allocationTimestamp": self._clock.now()}
        if allocation is not None:
            self._ledger.stamp(ObjectKey(tree["metadata"].get("namespace", ""), tree["metadata"]["name"]), there)
        users = status.get("reservedFor") or []
        if all(other.get("uid") != user["uid"] for other in users):
            users = [*users, user]
        return {**tree, "status": {**status, "allocation": there, "reservedFor": users}}

    async def _make_extended(
        self, pod: WaitingPod, claim: ResourceClaim, allocation: AllocationResult
    ) -> tuple[ObjectKey, str]:
        """The claim for extended resources: made, allocated, and named in the pod's status."""
        try:
            tree = await self._client.create(CLAIMS, extended.claim_tree(pod.tree, claim), pod.key.namespace)
        except StatusError as error:
            raise NotBound(f"{_PRE_BIND}create claim for extended resources {pod.key}: {error}") from error
        self._ledger.settle(_placeholder(pod))
        self._claims.noted(tree)
        made = KnownClaim(tree, claim.spec)
        planned = self._ledger.plan(made.key, pod.uid, allocation)
        try:
            revision = await self._write(made, pod, planned)
            status = {
                "extendedResourceClaimStatus": {
                    "requestMappings": extended.mappings(pod.tree, claim), "resourceClaimName": made.key.name,
                }
            }  # fmt: skip
            await self._client.patch(
                PODS, pod.key.name, {"status": status}, pod.key.namespace, kind="merge", subresource="status"
            )
        except (NotBound, StatusError, Unreachable) as error:
            self._ledger.settle(made.key)
            await self._delete(made)
            raise NotBound(str(error)) from error
        self._ledger.settle(made.key)
        return made.key, revision

    async def _bind(self, pod: WaitingPod, node: str) -> None:
        key = pod.key
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": key.name, "namespace": key.namespace, "uid": pod.uid},
            "target": {"kind": "Node", "name": node},
        }
        while True:
            try:
                await self._client.create(PODS, body, key.namespace, name=key.name, subresource="binding")
                return
            except StatusError as error:
                # An answer that was lost before may have done it.
                if error.code == 409 and await self._node_of(pod) == node:
                    return
                raise NotBound(f"binding rejected: {error}") from error
            except Unreachable:
                await self._clock.sleep(0.5)

    async def _node_of(self, pod: WaitingPod) -> str:
        while True:
            try:
                tree = await self._client.get(PODS, pod.key.name, pod.key.namespace)
                break
            except StatusError:
                return ""
            except Unreachable:
                await self._clock.sleep(0.5)
        return str(tree["spec"].get("nodeName") or "") if tree["metadata"].get("uid") == pod.uid else ""

    # --- devices that have to get ready (KEP-5007) -----------------------------------------------------------------

    async def _wait_until_ready(self, pod: WaitingPod, chosen: Chosen) -> None:
        keys = [*(claim.key for claim, _ in chosen.allocations), *(claim.key for claim in chosen.allocated)]
        keys = [key for key in keys if readiness.has_conditions(self._tree(key))]
        if not keys or not self._stamped:
            return
        text = f"waiting for binding conditions for device on node {chosen.node}"
        self._recorder.event(pod.tree, "Normal", "BindingConditionsPending", text, "Scheduling")
        await self._nominate(pod, chosen.node)
        began = self._clock.seconds()
        for key in keys:
            watcher = self._watchers[key] = asyncio.Event()
            try:
                while True:
                    watcher.clear()
                    state = readiness.of(self._tree(key))
                    if state.failure:
                        self._give_up(key)
                        raise NotBound(f"{_PRE_BIND}device binding failed: claim={key.name}, {state.failure}")
                    if state.ready:
                        break
                    left = self._timeout - (self._clock.seconds() - began)
                    if left <= 0:
                        self._give_up(key)
                        raise NotBound(f"{_PRE_BIND}device binding timeout: claim={key.name}")
                    alarm = self._clock.later(left, watcher.set)
                    try:
                        await watcher.wait()
                    finally:
                        alarm.cancel()
            finally:
                self._watchers.pop(key, None)

    async def _nominate(self, pod: WaitingPod, node: str) -> None:
        """Say where the pod is going while it takes long; nobody depends on it."""
        patch = {"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": node}}
        with contextlib.suppress(StatusError, Unreachable):
            await self._client.patch(PODS, pod.key.name, patch, pod.key.namespace, subresource="status")

    def _give_up(self, key: ObjectKey) -> None:
        known = self._ledger.known.get(key)
        if known is not None:
            self.unusable.add(known.uid)

    def _tree(self, key: ObjectKey) -> Tree:
        known = self._ledger.known.get(key)
        return known.tree if known is not None else {}

    # --- taking back -------------------------------------------------------------------------------------------------

    async def _take_back(self, key: ObjectKey, pod: WaitingPod, ours: bool) -> None:
        """Undo a reservation, and an allocation that was made for this pod and that nobody else uses.

        What a group has stays: others of it may be on their way.
        """

        def undone(status: Tree) -> Tree | None:
            users = status.get("reservedFor") or []
            left = [user for user in users if user.get("uid") != pod.uid]
            if len(left) == len(users) and not (ours and not left and status.get("allocation")):
                return None
            if ours and not left:
                return {k: v for k, v in status.items() if k not in ("allocation", "reservedFor", "devices")}
            return {**status, "reservedFor": left}

        known = self._ledger.known.get(key)
        if known is not None and EXTENDED in (known.tree["metadata"].get("annotations") or {}):
            await self.change_status(key, undone)
            await self._delete(known)
        elif known is not None:
            await self.change_status(key, undone)

    async def discard(self, claim: KnownClaim) -> None:
        """Delete a claim for extended resources that an earlier attempt of its pod left behind."""
        await self.change_status(claim.key, lambda status: {} if status else None)
        await self._delete(claim)

    async def deallocate(self, claim: KnownClaim, pod: WaitingPod) -> bool:
        """Free a claim whose devices the pod cannot use where they are, if nobody else uses it."""

        def freed(status: Tree) -> Tree | None:
            if any(user.get("uid") != pod.uid for user in status.get("reservedFor") or ()):
                return None
            return {k: v for k, v in status.items() if k not in ("allocation", "reservedFor", "devices")}

        done = await self.change_status(claim.key, freed)
        self.unusable.discard(claim.uid)
        return done

    async def unreserve(self, claim: KnownClaim, group: str) -> None:
        """Take a claim from a group, so that it can be freed; meanwhile nobody comes to it."""

        def left(status: Tree) -> Tree | None:
            users = status.get("reservedFor") or []
            others = [user for user in users if not (is_group(user) and user["name"] == group)]
            return {**status, "reservedFor": others} if len(others) < len(users) else None

        broken = claim.uid in self.unusable
        self.unusable.add(claim.uid)
        await self.change_status(claim.key, left)
        if not broken:
            self.unusable.discard(claim.uid)

    async def change_status(self, key: ObjectKey, change: Callable[[Tree], Tree | None]) -> bool:
        """Write a claim's status anew unless ``change`` gives None; whether it was written."""
        known = self._ledger.known.get(key)
        if known is None:
            return False
        tree = known.tree
        for attempt in range(_RETRIES + 1):
            try:
                if attempt:
                    tree = await self._client.get(CLAIMS, key.name, key.namespace)
                status = change(tree.get("status") or {})
                if status is None or tree["metadata"].get("uid", "") != known.uid:
                    return False
                self._claims.noted(await self._client.update(CLAIMS, {**tree, "status": status}, subresource="status"))
                return True
            except StatusError as error:
                if error.code != 409:
                    return False
            except Unreachable:
                await self._clock.sleep(0.5)
        return False

    async def _delete(self, claim: KnownClaim) -> None:
        """Delete a claim that was made for extended resources and is not used; the finalizer goes first."""
        for _ in range(_RETRIES + 1):
            try:
                tree = await self._client.get(CLAIMS, claim.key.name, claim.key.namespace)
                metadata = tree["metadata"]
                if FINALIZER in (metadata.get("finalizers") or ()):
                    left = [name for name in metadata["finalizers"] if name != FINALIZER]
                    await self._client.update(CLAIMS, {**tree, "metadata": {**metadata, "finalizers": left}})
                await self._client.delete(CLAIMS, claim.key.name, claim.key.namespace, uid=claim.uid)
                return
            except StatusError as error:
                if error.code != 409:
                    return
            except Unreachable:
                await self._clock.sleep(0.5)


def _devices(allocation: Tree) -> list[Tree]:
    """Which devices an allocation names, and for what: where they are decides where the pod can run."""
    results = (allocation.get("devices") or {}).get("results") or ()
    return [
        {part: result.get(part) for part in ("request", "driver", "pool", "device", "shareID")} for result in results
    ]


def _placeholder(pod: WaitingPod) -> ObjectKey:
    """Under what the claim for extended resources is booked before it exists; no object can have this name."""
    return ObjectKey(pod.key.namespace, f"{pod.key.name}/{pod.uid}")
