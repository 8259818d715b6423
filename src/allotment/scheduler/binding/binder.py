"""Carrying out a decision: write the claims, wait until devices are ready, bind the pod. Or take it all back.

The order makes every moment safe for a crash: first the finalizer, so that an allocated claim cannot vanish; then
allocation and reservation in one write; then the binding. A scheduler that starts again finds a claim that is allocated
and reserved for its pod, and goes on from there. So one that is to stop leaves a pod that would only wait.

Against a second scheduler that gives one device to another claim it is not enough that every write names the state that
it was decided on. So before binding the claims must settle (see `beside.settling`), and we step back if anybody else
holds our devices. That goes for claims, too, that a scheduler before this one wrote for the pod.
"""

from __future__ import annotations

from allotment.cluster.cached_item import numbered
from allotment.cluster.client import Client
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.recorder import Recorder
from allotment.cluster.resources import PODS
from allotment.model.meta import ObjectKey
from allotment.model.pod_groups import is_group
from allotment.model.resource import AllocationResult, ResourceClaim
from allotment.scheduler import extended_resources
from allotment.scheduler.attempt import Chosen
from allotment.scheduler.binding.binding_conditions import Readying
from allotment.scheduler.binding.claim_writer import Claims
from allotment.scheduler.binding.errors import PRE_BIND, Contested, NotBound
from allotment.scheduler.claim_ledger import KnownClaim, Ledger
from allotment.scheduler.coexistence.contested_claims import Guards
from allotment.scheduler.coexistence.stabilization import Settling
from allotment.scheduler.pod_groups import Grouping
from allotment.scheduler.pods import WaitingPod


class Binder:
    """Writes decisions."""

    def __init__(
        self, client: Client, ledger: Ledger, groups: Grouping, clock: Clock, recorder: Recorder, claims: Claims,
        settling: Settling, guards: Guards, readying: Readying,
    ) -> None:  # fmt: skip
        self._client = client
        self._ledger = ledger
        self._groups = groups
        self._clock = clock
        self._recorder = recorder
        self._claims = claims
        self._settling = settling
        self._guards = guards
        self._readying = readying

    # --- planning: synchronous, in the same step as the decision ---------------------------------------------------

    def plan(self, pod: WaitingPod, chosen: Chosen) -> None:
        """Book what was decided, so that the next decision sees it."""
        for claim, allocation in chosen.allocations:
            self._ledger.plan(claim.key, pod.uid, allocation)
            self._ledger.unusable.discard(claim.uid)
        if chosen.extended is not None:
            self._ledger.plan(_placeholder(pod), pod.uid, chosen.extended[1])

    def cancel(self, pod: WaitingPod, chosen: Chosen) -> None:
        """Give back what is booked and not written."""
        for claim, _ in chosen.allocations:
            self._ledger.settle(claim.key)
        self._ledger.settle(_placeholder(pod))

    # --- carrying out ----------------------------------------------------------------------------------------------

    async def bind(self, pod: WaitingPod, chosen: Chosen) -> None:
        """Write claims and binding.

        Raises `NotBound` after everything written was taken back, and `Left` where the claims are written and the
        binding is left to whoever comes next.
        """
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
                    if known is not None and self._is_contested(known, error) and self._guards.can_replace(known, pod):
                        await self._guards.replace(known, pod)
                    else:
                        await self._claims.take_back(key, pod, ours)
            raise NotBound(str(error)) from error
        key = pod.key
        self._recorder.event(
            pod.tree, "Normal", "Scheduled", f"Successfully assigned {key} to {chosen.node}", "Binding"
        )

    def _is_contested(self, claim: KnownClaim, error: Exception) -> bool:
        return (isinstance(error, Contested) and error.claim == claim.key) or self._guards.is_contested(claim)

    async def _write_claims(self, pod: WaitingPod, chosen: Chosen, written: list[tuple[ObjectKey, bool]]) -> None:
        """All claims of a pod; ``written`` grows with each, and whether it was allocated here."""
        before, revision = self._claims.revision, ""
        for claim, _ in chosen.allocations:
            revision = await self._claims.write(claim, pod, self._ledger.planned(claim.key))
            written.append((claim.key, True))
            self._ledger.settle(claim.key)
        if chosen.extended is not None:
            key, revision = await self._make_extended(pod, *chosen.extended)
            written.append((key, True))
        if revision and numbered(revision) < before:
            raise NotBound(f"{PRE_BIND}the cluster was restored from a backup, and its claims are not read yet")
        await self._settle(pod, chosen, written, revision)
        for claim in chosen.allocated:
            if not claim.is_reserved_for(pod.uid, self._groups.of(pod.tree)):
                await self._claims.write(claim, pod, None)
                written.append((claim.key, False))
        await self._readying.wait(pod, chosen)

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
            self._ledger.unusable.add(known.uid)  # others of the group must not come to it before it is freed
        text = f"device {contest.device} of claim {key} was given to claim {contest.holder} meanwhile"
        raise Contested(key, f"{PRE_BIND}{text}")

    async def _make_extended(
        self, pod: WaitingPod, claim: ResourceClaim, allocation: AllocationResult
    ) -> tuple[ObjectKey, str]:
        """The claim for extended resources: made, allocated, and named in the pod's status."""
        try:
            made = await self._claims.create(extended_resources.claim_tree(pod.tree, claim), pod.key.namespace)
        except StatusError as error:
            raise NotBound(f"{PRE_BIND}create claim for extended resources {pod.key}: {error}") from error
        self._ledger.settle(_placeholder(pod))
        planned = self._ledger.plan(made.key, pod.uid, allocation)
        try:
            revision = await self._claims.write(made, pod, planned)
            status = {
                "extendedResourceClaimStatus": {
                    "requestMappings": extended_resources.mappings(pod.tree, claim), "resourceClaimName": made.key.name,
                }
            }  # fmt: skip
            patch = {"metadata": {"uid": pod.uid}, "status": status}
            await self._client.patch(PODS, pod.key.name, patch, pod.key.namespace, subresource="status")
        except (NotBound, StatusError, Unreachable) as error:
            self._ledger.settle(made.key)
            await self._claims.delete(made)
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
        """The node that a pod has; whatever else the server says, that it has none is told by the pod alone."""
        while True:
            try:
                tree = await self._client.get(PODS, pod.key.name, pod.key.namespace)
                break
            except StatusError as error:
                if error.code == 404:
                    return ""
            except Unreachable:
                pass
            await self._clock.sleep(0.5)
        return str(tree["spec"].get("nodeName") or "") if tree["metadata"].get("uid") == pod.uid else ""


def _placeholder(pod: WaitingPod) -> ObjectKey:
    """Under what the claim for extended resources is booked before it exists; no object can have this name."""
    return ObjectKey(pod.key.namespace, f"{pod.key.name}/{pod.uid}")
