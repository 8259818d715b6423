"""Carries out one decision: writes the claims, waits until devices are ready, binds the pod; reverts everything on an
error.

The order is crash-safe: first the finalizer, so that an allocated claim cannot be deleted; then allocation and
reservation in one write; then the binding. A restarted scheduler finds a claim that is allocated and reserved for its
pod and continues from there, so a scheduler that shuts down does not finish long waits.

Optimistic locking does not protect against a second scheduler that allocates the same device to another claim. Claims
therefore settle before binding (see `coexistence.stabilization`), and the decision is reverted if another claim holds
the devices. That also applies to claims that an earlier scheduler wrote for the pod.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import replace

from allotment.cluster.cached_item import revision_number
from allotment.cluster.client import Client
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.recorder import Recorder
from allotment.cluster.resources import PODS
from allotment.model.meta import ObjectKey
from allotment.model.pod_groups import is_group
from allotment.model.resource import AllocationResult, ResourceClaim
from allotment.model.trees import Tree
from allotment.scheduler import extended_resources
from allotment.scheduler.attempt import NodeAssignment
from allotment.scheduler.binding.binding_conditions import BindingConditionWaiter
from allotment.scheduler.binding.claim_writer import ClaimWriter
from allotment.scheduler.binding.errors import PRE_BIND, BindError, ContestedError, DeviceBindingError
from allotment.scheduler.binding.volume_binding import VolumeBinding
from allotment.scheduler.claim_ledger import CachedClaim, ClaimLedger
from allotment.scheduler.coexistence.contention import contest_text
from allotment.scheduler.coexistence.contested_claims import ContestedClaims
from allotment.scheduler.coexistence.stabilization import SettlingPeriod
from allotment.scheduler.pod_groups import PodGroups
from allotment.scheduler.pods import QueuedPod


class Binder:
    def __init__(
        self,
        client: Client,
        ledger: ClaimLedger,
        pod_groups: PodGroups,
        clock: Clock,
        recorder: Recorder,
        claims: ClaimWriter,
        settling: SettlingPeriod,
        contested: ContestedClaims,
        readiness: BindingConditionWaiter,
        volumes: VolumeBinding,
    ) -> None:
        self._client = client
        self._ledger = ledger
        self._pod_groups = pod_groups
        self._clock = clock
        self._recorder = recorder
        self._claims = claims
        self._settling = settling
        self._contested = contested
        self._readiness = readiness
        self._volumes = volumes
        self._plan_ends: dict[ObjectKey, asyncio.Event] = {}
        """Set when the plan for a claim ends, for pods that share it."""

    # --- planning: synchronous, together with the decision ---------------------------------------------------------

    def plan(self, pod: QueuedPod, chosen: NodeAssignment) -> None:
        """Book a decision, so that the next one sees it."""
        self._volumes.plan(chosen)
        for claim, allocation in chosen.allocations:
            self._ledger.plan(claim.key, pod.uid, allocation)
            self._ledger.unusable.discard(claim.uid)
        if chosen.extended is not None:
            self._ledger.plan(_placeholder(pod), pod.uid, chosen.extended[1])

    def cancel(self, pod: QueuedPod, chosen: NodeAssignment) -> None:
        """Free what is booked and not written."""
        self._volumes.end_plan(chosen)
        for claim, _ in chosen.allocations:
            self._end_plan(claim.key)
        self._ledger.end_plan(_placeholder(pod))

    # --- writing ---------------------------------------------------------------------------------------------------

    async def bind(self, pod: QueuedPod, chosen: NodeAssignment) -> None:
        """Write claims and binding.

        Raises `BindError` after everything written was reverted, and `Left` if the claims are written and the binding
        is left to the next scheduler.
        """
        written: list[tuple[ObjectKey, bool]] = []
        try:
            await self._volumes.bind(pod, chosen)
            await self._write_claims(pod, chosen, written)
            await self._bind(pod, chosen.node)
            self._volumes.end_plan(chosen)
        except (BindError, StatusError, Unreachable) as error:
            self.cancel(pod, chosen)
            # Another scheduler may have bound it: then it runs with these claims.
            if written and not await self._node_of(pod):
                if chosen.claim_statuses:
                    await self._clear_claim_statuses(pod)
                for key, allocated_here in written:
                    known = self._ledger.known.get(key)
                    if (
                        known is not None
                        and self._is_contested(known, error)
                        and self._contested.can_replace(known, pod)
                    ):
                        await self._contested.replace(known, pod)
                    else:
                        keeps = isinstance(error, DeviceBindingError)
                        await self._claims.revert(key, pod, allocated_here and not keeps)
            raise BindError(str(error)) from error
        key = pod.key
        self._recorder.event(
            pod.tree, "Normal", "Scheduled", f"Successfully assigned {key} to {chosen.node}", "Binding"
        )

    def _is_contested(self, claim: CachedClaim, error: Exception) -> bool:
        return (isinstance(error, ContestedError) and error.claim == claim.key) or self._contested.is_contested(claim)

    async def _write_claims(
        self, pod: QueuedPod, chosen: NodeAssignment, written: list[tuple[ObjectKey, bool]]
    ) -> None:
        """Write all claims of a pod; append each to ``written``, with whether it was allocated here."""
        before, revision = self._claims.revision, ""
        for claim, _ in chosen.allocations:
            revision = await self._claims.write(claim, pod, self._ledger.planned_allocation(claim.key))
            written.append((claim.key, True))
            self._end_plan(claim.key)
        if chosen.extended is not None:
            key, revision = await self._make_extended(pod, *chosen.extended)
            written.append((key, True))
        if revision and revision_number(revision) < before:
            raise BindError(f"{PRE_BIND}the cluster was restored from a backup; its claims have not been read yet")
        shared = [await self._written(claim) for claim in chosen.already_allocated]
        chosen = replace(chosen, already_allocated=tuple(shared))
        await self._settle(pod, chosen, written, revision)
        for claim in chosen.already_allocated:
            if not claim.is_reserved_for(pod.uid, self._pod_groups.of(pod.tree)):
                await self._claims.write(claim, pod, None)
                written.append((claim.key, False))
        if chosen.claim_statuses:
            await self._write_claim_statuses(pod, chosen.claim_statuses)
        await self._readiness.wait(pod, chosen)

    async def _written(self, claim: CachedClaim) -> CachedClaim:
        """Wait until the allocation of a claim, which a pod of the same group shares, is written; return the claim."""
        if claim.key not in self._ledger.in_flight:
            return claim
        ended = self._plan_ends.setdefault(claim.key, asyncio.Event())
        await ended.wait()
        return self._ledger.known.get(claim.key, claim)

    def _end_plan(self, key: ObjectKey) -> None:
        self._ledger.end_plan(key)
        if (ended := self._plan_ends.pop(key, None)) is not None:
            ended.set()

    async def _write_claim_statuses(self, pod: QueuedPod, statuses: Sequence[Tree]) -> None:
        """Publish what the pod's devices use of the node, so that its kubelet counts the same."""
        try:
            await self._patch_claim_statuses(pod, statuses)
        except (StatusError, Unreachable) as error:
            key = pod.key
            raise BindError(f"{PRE_BIND}updating pod {key} NodeAllocatableResourceClaimStatuses: {error}") from error

    async def _clear_claim_statuses(self, pod: QueuedPod) -> None:
        with contextlib.suppress(StatusError, Unreachable):
            await self._patch_claim_statuses(pod, ())

    async def _patch_claim_statuses(self, pod: QueuedPod, statuses: Sequence[Tree]) -> None:
        status = {"nodeAllocatableResourceClaimStatuses": list(statuses)}
        patch = {"metadata": {"uid": pod.uid}, "status": status}
        await self._client.patch(PODS, pod.key.name, patch, pod.key.namespace, subresource="status")

    async def _settle(
        self, pod: QueuedPod, chosen: NodeAssignment, written: list[tuple[ObjectKey, bool]], revision: str
    ) -> None:
        """Raise ContestedError if another claim got one of these devices.

        A claim with other consumers has already settled; one without may come from a scheduler that stopped too early.
        """
        found = [
            claim.key for claim in chosen.already_allocated if all(user.get("uid") == pod.uid for user in claim.users)
        ]
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
            self._ledger.unusable.add(known.uid)  # keeps other pods of the group off it until it is freed
        text = f"{contest_text(contest.device, key, contest.holder)} in the meantime"
        raise ContestedError(key, f"{PRE_BIND}{text}")

    async def _make_extended(
        self, pod: QueuedPod, claim: ResourceClaim, allocation: AllocationResult
    ) -> tuple[ObjectKey, str]:
        """Create the claim for extended resources, allocate it, and reference it in the pod's status."""
        try:
            made = await self._claims.create(extended_resources.claim_tree(pod.tree, claim), pod.key.namespace)
        except StatusError as error:
            raise BindError(f"{PRE_BIND}create claim for extended resources {pod.key}: {error}") from error
        self._ledger.end_plan(_placeholder(pod))
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
        except (BindError, StatusError, Unreachable) as error:
            self._ledger.end_plan(made.key)
            await self._claims.delete(made)
            raise BindError(str(error)) from error
        self._ledger.end_plan(made.key)
        return made.key, revision

    async def _bind(self, pod: QueuedPod, node: str) -> None:
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
                # An earlier request whose response was lost may have succeeded.
                if error.code == 409 and await self._node_of(pod) == node:
                    return
                raise BindError(f"binding rejected: {error}") from error
            except Unreachable:
                await self._clock.sleep(0.5)

    async def _node_of(self, pod: QueuedPod) -> str:
        """Return the pod's node, or an empty string; retry until the API server gives a definite answer."""
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


def _placeholder(pod: QueuedPod) -> ObjectKey:
    """Return the key under which the claim for extended resources is booked before it exists; no object can have it."""
    return ObjectKey(pod.key.namespace, f"{pod.key.name}/{pod.uid}")
