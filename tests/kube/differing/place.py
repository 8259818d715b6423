"""The cluster in which worlds are played, one after the other, by both schedulers."""

from __future__ import annotations

import asyncio
import copy
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from typing import Final

from allotment.cluster.client import Client, Resource
from allotment.cluster.errors import StatusError
from allotment.cluster.resources import (
    CLAIM_TEMPLATES,
    CLAIMS,
    DEVICE_CLASSES,
    DISRUPTION_BUDGETS,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    SERVICE_ACCOUNTS,
    SLICES,
    TAINT_RULES,
)
from allotment.model.pod_groups import is_group
from allotment.model.trees import Tree
from allotment.scheduler.program import SchedulerOptions, scheduler
from allotment.tools.doctor.reading import read_objects
from bench.real_kube import ApiServer
from tests.acting import condition
from tests.kube.differing.comparing import compared, explained
from tests.kube.differing.judging import Difference, disagree, overdrawn
from tests.kube.differing.known import known
from tests.kube.differing.outcome import EXTENDED, Outcome, allocated, claims_of, notes, owner, owners, results, whole
from tests.kube.differing.readying import made_ready
from tests.kube.differing.restoring import NotRestored, restored
from tests.kube.differing.worlds.world import NAMESPACE, PRIORITIES, PRIVILEGED, World
from tests.kube.flows import FEATURES, prepared
from tests.kube.ours import at_work

THEIRS: Final = "default-scheduler"
OURS: Final = "allotment"
#: Of what a world leaves behind, in the order in which it goes.
_ORDER: Final = (
    PODS, POD_GROUPS, DISRUPTION_BUDGETS, CLAIMS, CLAIM_TEMPLATES, TAINT_RULES, SLICES, DEVICE_CLASSES, NODES,
)  # fmt: skip
_KINDS: Final = {one.kind: one for one in _ORDER}
_ADMIN: Final = {"resource.kubernetes.io/admin-access": "true"}
#: Seconds for a scheduler to say something, and for what it said at first to be put right when the other disagrees: it
#: may have been told of a device after the pod, and tries again after a while.
_PATIENCE: Final = 30.0
_AGAIN: Final = 10.0
#: kube-scheduler gives up a search after ten seconds; where it has to look for long, ours need not.
_LONG: Final = "timed out trying to allocate devices"
_MEANWHILE: Final = "elsewhere in the meantime"


class Stuck(Exception):
    """What a pod had is not given back."""


class Place:
    """The cluster that is used by one world after the other."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.counts: Counter[str] = Counter()
        self._residents: list[Tree] = []
        self._readied = False

    async def begin(self) -> None:
        """The namespaces, with their accounts."""
        for name, labels in ((NAMESPACE, {}), (PRIVILEGED, _ADMIN)):
            await self.client.create(NAMESPACES, {"metadata": {"name": name, "labels": labels}})
            async with asyncio.timeout(_PATIENCE):
                while not await self._there(SERVICE_ACCOUNTS, "default", name):
                    await asyncio.sleep(0.02)

        for name, (value, policy) in PRIORITIES.items():
            tree = {"metadata": {"name": name}, "value": value, "preemptionPolicy": policy}
            await self.client.create(PRIORITY_CLASSES, tree)

    async def played(self, world: World) -> list[Difference]:
        """All differences in one world, which is gone afterwards."""
        self.counts["worlds"] += 1
        try:
            self._readied = '"bindingConditions"' in json.dumps(world.cluster)
            await self._set_up(world.cluster)
            specs = [pod["spec"] for pod in world.pods]
            again = [spec in specs[:number] for number, spec in enumerate(specs)]
            found = [one for pod, equal in zip(world.pods, again, strict=True) for one in await self._pod(pod, equal)]
            return [*found, *await self._given_twice()]
        except Stuck as error:
            return [Difference("left behind", "", str(error))]
        except NotRestored:
            self.counts["victims did not come back"] += 1  # which says nothing of either scheduler
            return []
        finally:
            await self.clear()

    async def _set_up(self, cluster: Sequence[Tree]) -> None:
        for kinds in (
            ("Node", "DeviceClass", "DeviceTaintRule"),
            ("ResourceSlice",),
            ("ResourceClaim", "ResourceClaimTemplate", "PodDisruptionBudget", "PodGroup"),
        ):
            await asyncio.gather(*(self._create(tree) for tree in cluster if tree["kind"] in kinds))
        await asyncio.sleep(0.02)

    async def _create(self, tree: Tree) -> None:
        kind = _KINDS[tree["kind"]]
        try:
            await self.client.create(kind, tree, tree["metadata"].get("namespace", ""))
        except StatusError as error:
            self.counts[f"refused: {tree['kind']}: {error}"[:240]] += 1
            return
        if kind == NODES:  # admission holds every new node back until somebody has seen it ready
            await self.client.patch(
                NODES, tree["metadata"]["name"], {"spec": {"taints": tree["spec"]["taints"] or None}}
            )

    # --- one pod -----------------------------------------------------------------------------------------------------

    async def _pod(self, pod: Tree, again: bool) -> list[Difference]:
        before = await self._state()
        self._residents = [one for one in (await self.client.list(PODS)).items if one["spec"].get("nodeName")]
        names = {one["metadata"]["name"] for one in before if one["kind"].startswith("ResourceClaim")}
        wanted = [
            e.get("resourceClaimName") or e.get("resourceClaimTemplateName") for e in pod["spec"]["resourceClaims"]
        ]
        if not names.issuperset(wanted):
            return []  # the API server did not want them
        first, second = (THEIRS, OURS) if pod["metadata"]["labels"]["stays"] == "ours" else (OURS, THEIRS)
        found = {first: await self._tried(pod, first, before)}
        before = await self._undone(pod, before)
        found[second] = await self._tried(pod, second, before)
        theirs, ours = found[THEIRS], found[OURS]
        self.counts["pods"] += 1
        self.counts["preempts"] += bool(theirs.victims)
        self.counts["bound" if theirs.node else theirs.reason or "silent"] += 1
        if _LONG in theirs.message or not (theirs.node or theirs.reason):
            self.counts["kube-scheduler searches for too long"] += 1
            return []
        # A scheduler that had not heard of everything comes to its senses.
        late = disagree(theirs, ours) and not known(pod, before, theirs, ours)
        if late and not found[second].node:
            found[second] = await self._again(pod, before, found[second])
        if late and disagree(found[THEIRS], found[OURS]) and not found[first].node:
            before = await self._undone(pod, before)
            found[first] = await self._again(pod, before, await self._tried(pod, first, before))
            if found[first].node:
                before = await self._undone(pod, before)
                found[second] = await self._tried(pod, second, before)
        if not found[second].node:  # else what comes may help it, and it would be in the way
            await self._undone(pod, before)
        elif "priorityClassName" in pod["spec"]:
            await self._started(pod)
        theirs, ours = found[THEIRS], found[OURS]
        name = pod["metadata"]["name"]
        told = [*compared(self.counts, theirs, ours, again), *explained(self.counts, pod, before, theirs)]
        if told and known(pod, before, theirs, ours):
            self.counts["known defect"] += 1
            told = [*explained(self.counts, pod, before, ours)]
        return [Difference(kind, name, words) for kind, words in told]

    async def _started(self, pod: Tree) -> None:
        """As its kubelet would tell: of pods of one priority, those who began last are sent away first."""
        since = f"2026-01-01T00:00:{len(self._residents):02d}Z"
        await self.client.patch(
            PODS, pod["metadata"]["name"], {"status": {"startTime": since}}, pod["metadata"]["namespace"],
            subresource="status",
        )  # fmt: skip
        await asyncio.sleep(0.02)

    async def _tried(self, pod: Tree, by: str, before: Sequence[Tree]) -> Outcome:
        """What a scheduler makes of a pod."""
        tree = copy.deepcopy(pod)
        tree["spec"]["schedulerName"] = by
        await self.client.create(PODS, tree, pod["metadata"]["namespace"])
        return await self._settled(
            pod, before, _PATIENCE, lambda made: bool(made["spec"].get("nodeName") or _refused(made))
        )

    async def _again(self, pod: Tree, before: Sequence[Tree], found: Outcome) -> Outcome:
        """What becomes of a pending pod, in a while."""

        def other(made: Tree) -> bool:
            return bool(made["spec"].get("nodeName")) or condition(made).get("message", "") != found.message

        self.counts["waited again"] += 1
        return await self._settled(pod, before, _AGAIN, other)

    async def _settled(
        self, pod: Tree, before: Sequence[Tree], patience: float, done: Callable[[Tree], bool]
    ) -> Outcome:
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        made: Tree = {}
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                while not done(made := await self.client.get(PODS, name, namespace)):
                    if self._readied:
                        await made_ready(self.client, namespace)
                    await asyncio.sleep(0.01)
        there = {one["metadata"]["uid"] for one in (await self.client.list(PODS)).items}
        sent = tuple(one["metadata"]["name"] for one in self._residents if one["metadata"]["uid"] not in there)
        told = condition(made)
        if not made["spec"].get("nodeName"):
            return Outcome(reason=told.get("reason", ""), message=told.get("message", ""), victims=sent)
        claims = {tree["metadata"]["name"]: tree for tree in (await self.client.list(CLAIMS, namespace)).items}
        had = {tree["metadata"]["name"] for tree in before if allocated(tree)}
        names = claims_of(made)
        new = [claims[one] for one in names if one not in had]
        new += [one for one in claims.values() if EXTENDED in notes(one) and owner(one) == name]
        return Outcome(made["spec"]["nodeName"], tuple(map(results, new)), whole(new, made), sent)

    async def _undone(self, pod: Tree, before: list[Tree]) -> list[Tree]:
        """As it was before the pod: claims of its own are gone, others are free again, and its victims are back."""
        metadata = pod["metadata"]
        await self._gone(PODS, metadata)
        there = {one["metadata"]["uid"] for one in (await self.client.list(PODS)).items}
        sent = [one for one in self._residents if one["metadata"]["uid"] not in there]
        if sent:
            await restored(
                self.client, sent, {one["metadata"]["name"]: one for one in before if one["kind"] == "ResourceClaim"}
            )
            self._residents = [one for one in (await self.client.list(PODS)).items if one["spec"].get("nodeName")]
            await self._orphans_gone()
            return await self._state()
        names = {tree["metadata"]["name"]: allocated(tree) for tree in before if tree["kind"] == "ResourceClaim"}
        latest = time.monotonic() + _PATIENCE
        while True:
            claims = (await self.client.list(CLAIMS, metadata["namespace"])).items
            new = [tree for tree in claims if tree["metadata"]["name"] not in names]
            other = [tree for tree in claims if allocated(tree) != names.get(tree["metadata"]["name"], False)]
            if not new and not other:
                break
            if time.monotonic() > latest:
                left = (f"{one['metadata']['name']} for {one['status'].get('reservedFor')}" for one in [*new, *other])
                raise Stuck(f"{metadata['name']}: {', '.join(left)}")
            for tree in new:
                await self._gone(CLAIMS, tree["metadata"])
            for tree in (one for one in other if all(map(is_group, one["status"].get("reservedFor") or ()))):
                # A group would keep it, and kube-scheduler leaves it for the next attempt when devices have failed.
                freed = {"status": {"allocation": None, "reservedFor": None, "devices": None}}
                with suppress(StatusError):
                    await self.client.patch(
                        CLAIMS, tree["metadata"]["name"], freed, metadata["namespace"], subresource="status"
                    )
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.02)
        return before

    async def _orphans_gone(self) -> None:
        """No claim is left whose pod is not there."""
        async with asyncio.timeout(_PATIENCE * 2):
            while True:
                there = {one["metadata"]["uid"] for one in (await self.client.list(PODS)).items}
                claims = (await self.client.list(CLAIMS)).items
                left = [one for one in claims if not {ref["uid"] for ref in owners(one)} <= there]
                if not left:
                    return
                await asyncio.sleep(0.02)

    async def _state(self) -> list[Tree]:
        """Everything that decides over pods."""
        kinds = (NODES, SLICES, DEVICE_CLASSES, TAINT_RULES, CLAIMS, CLAIM_TEMPLATES, NAMESPACES, POD_GROUPS)
        listed = await asyncio.gather(*(self.client.list(kind) for kind in kinds))
        return [
            {**tree, "kind": kind.kind, "apiVersion": f"{kind.group}/{kind.version}".lstrip("/")}
            for kind, listing in zip(kinds, listed, strict=True)
            for tree in listing.items
        ]

    async def _given_twice(self) -> list[Difference]:
        """What is wrong with all that has been given in the end."""
        return [Difference("given twice", "", told) for told in overdrawn(read_objects(await self._state()).values)]

    # --- the end of a world ------------------------------------------------------------------------------------------

    async def clear(self) -> None:
        """Nothing is left but the namespaces."""
        for kind in _ORDER:
            async with asyncio.timeout(_PATIENCE * 2):
                while left := (await self.client.list(kind)).items:
                    await asyncio.gather(*(self._gone(kind, tree["metadata"]) for tree in left))

    async def _gone(self, kind: Resource, metadata: Tree) -> None:
        name, namespace = metadata["name"], metadata.get("namespace", "")
        with suppress(StatusError):
            await self.client.delete(kind, name, namespace, grace_seconds=0)
            if metadata.get("finalizers"):  # it is not in use, and whoever would free it may need a moment to see that
                await self.client.patch(kind, name, {"metadata": {"finalizers": None}}, namespace)

    async def _there(self, kind: Resource, name: str, namespace: str) -> bool:
        with suppress(StatusError):
            await self.client.get(kind, name, namespace)
            return True
        return False


def _refused(pod: Tree) -> bool:
    """Whether a pod has been told that there is no place, and none is made for it; victims let their claims go."""
    told = condition(pod)
    return bool(told) and not pod["status"].get("nominatedNodeName") and _MEANWHILE not in told.get("message", "")


def cluster(paths: dict[str, str]) -> AbstractContextManager[ApiServer]:
    """Kubernetes, where pods stay that tolerate too little: kube-scheduler may place them all the same."""
    return prepared(paths, theirs=True, without=["device-taint-eviction-controller"])


@asynccontextmanager
async def place_on(running: ApiServer) -> AsyncIterator[Place]:
    """The cluster with both schedulers."""
    ours = {"scheduler": scheduler(SchedulerOptions(FEATURES, name=OURS, settle=0.0))}
    async with at_work(running, ours) as client:
        place = Place(client)
        await place.begin()
        yield place
