"""The cluster in which both schedulers run the scenarios one after the other."""

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
from tests.cluster_actions import scheduled_condition
from tests.kube.allotment_programs import running_programs
from tests.kube.differential.binding_conditions import set_binding_conditions
from tests.kube.differential.comparison import compare_explanation, compare_schedulers
from tests.kube.differential.differences import Difference, outcomes_differ, overallocations
from tests.kube.differential.known_defects import is_known_defect
from tests.kube.differential.outcome import (
    EXTENDED,
    Outcome,
    allocations_text,
    annotations_of,
    claims_of,
    is_allocated,
    owner,
    owners,
    results,
)
from tests.kube.differential.restore import NotRestored, restore_pods
from tests.kube.differential.scenarios.scenario import NAMESPACE, PRIORITIES, PRIVILEGED, Scenario
from tests.kube.flows import FEATURES, control_plane

KUBE_SCHEDULER: Final = "default-scheduler"
ALLOTMENT_SCHEDULER: Final = "allotment"
#: The kinds that a scenario creates, in the order in which they are deleted.
_ORDER: Final = (
    PODS, POD_GROUPS, DISRUPTION_BUDGETS, CLAIMS, CLAIM_TEMPLATES, TAINT_RULES, SLICES, DEVICE_CLASSES, NODES,
)  # fmt: skip
_KINDS: Final = {item.kind: item for item in _ORDER}
_ADMIN: Final = {"resource.kubernetes.io/admin-access": "true"}
#: Seconds for a scheduler to report an outcome, and for it to correct the outcome when the other disagrees: it may have
#: received a device after the pod, and retries with backoff.
_TIMEOUT_SECONDS: Final = 30.0
_RETRY_SECONDS: Final = 10.0
#: kube-scheduler gives up a search after ten seconds; Allotment may succeed on such a pod.
_SEARCH_TIMEOUT: Final = "timed out trying to allocate devices"
_MEANWHILE: Final = "elsewhere in the meantime"


class NotReleased(Exception):
    """Raised when the resources of a pod are not released."""


class ScenarioRunner:
    """The cluster that the scenarios use one after the other."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.counts: Counter[str] = Counter()
        self._residents: list[Tree] = []
        self._readied = False

    async def create_namespaces(self) -> None:
        """Create the namespaces with their accounts."""
        for name, labels in ((NAMESPACE, {}), (PRIVILEGED, _ADMIN)):
            await self.client.create(NAMESPACES, {"metadata": {"name": name, "labels": labels}})
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                while not await self._exists(SERVICE_ACCOUNTS, "default", name):
                    await asyncio.sleep(0.02)

        for name, (value, policy) in PRIORITIES.items():
            tree = {"metadata": {"name": name}, "value": value, "preemptionPolicy": policy}
            await self.client.create(PRIORITY_CLASSES, tree)

    async def run(self, scenario: Scenario) -> list[Difference]:
        """Run a scenario, return all differences in it, and delete its objects."""
        self.counts["scenarios"] += 1
        try:
            self._readied = '"bindingConditions"' in json.dumps(scenario.cluster)
            await self._set_up(scenario.cluster)
            specs = [pod["spec"] for pod in scenario.pods]
            again = [spec in specs[:number] for number, spec in enumerate(specs)]
            found = [
                item
                for pod, equal in zip(scenario.pods, again, strict=True)
                for item in await self._compare_pod(pod, equal)
            ]
            return [*found, *await self._double_allocations()]
        except NotReleased as error:
            return [Difference("not deleted", "", str(error))]
        except NotRestored:
            self.counts["victims not created again"] += 1  # a failure of neither scheduler
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
        if kind == NODES:  # admission taints every new node as not ready
            await self.client.patch(
                NODES, tree["metadata"]["name"], {"spec": {"taints": tree["spec"]["taints"] or None}}
            )

    # --- one pod -----------------------------------------------------------------------------------------------------

    async def _compare_pod(self, pod: Tree, again: bool) -> list[Difference]:
        before = await self._state()
        self._residents = [pod for pod in (await self.client.list(PODS)).items if pod["spec"].get("nodeName")]
        names = {item["metadata"]["name"] for item in before if item["kind"].startswith("ResourceClaim")}
        expected = [
            e.get("resourceClaimName") or e.get("resourceClaimTemplateName") for e in pod["spec"]["resourceClaims"]
        ]
        if not names.issuperset(expected):
            return []  # the API server rejected the pod or its claims
        first, second = (
            (KUBE_SCHEDULER, ALLOTMENT_SCHEDULER)
            if pod["metadata"]["labels"]["stays"] == "allotment"
            else (ALLOTMENT_SCHEDULER, KUBE_SCHEDULER)
        )
        found = {first: await self._try(pod, first, before)}
        before = await self._undo(pod, before)
        found[second] = await self._try(pod, second, before)
        kube, allotment = found[KUBE_SCHEDULER], found[ALLOTMENT_SCHEDULER]
        self.counts["pods"] += 1
        self.counts["preempts"] += bool(kube.victims)
        self.counts["bound" if kube.node else kube.reason or "silent"] += 1
        if _SEARCH_TIMEOUT in kube.message or not (kube.node or kube.reason):
            self.counts["kube-scheduler searches for too long"] += 1
            return []
        # A scheduler that had not received every object yet corrects its outcome.
        late = outcomes_differ(kube, allotment) and not is_known_defect(pod, before, kube, allotment)
        if late and not found[second].node:
            found[second] = await self._wait_for_correction(pod, before, found[second])
        if late and outcomes_differ(found[KUBE_SCHEDULER], found[ALLOTMENT_SCHEDULER]) and not found[first].node:
            before = await self._undo(pod, before)
            found[first] = await self._wait_for_correction(pod, before, await self._try(pod, first, before))
            if found[first].node:
                before = await self._undo(pod, before)
                found[second] = await self._try(pod, second, before)
        if not found[second].node:  # a later object might help the pod, and it would disturb the next one
            await self._undo(pod, before)
        elif "priorityClassName" in pod["spec"]:
            await self._set_started(pod)
        kube, allotment = found[KUBE_SCHEDULER], found[ALLOTMENT_SCHEDULER]
        name = pod["metadata"]["name"]
        differences = [
            *compare_schedulers(self.counts, kube, allotment, again),
            *compare_explanation(self.counts, pod, before, kube),
        ]
        if differences and is_known_defect(pod, before, kube, allotment):
            self.counts["known defect"] += 1
            differences = [*compare_explanation(self.counts, pod, before, allotment)]
        return [Difference(kind, name, arguments) for kind, arguments in differences]

    async def _set_started(self, pod: Tree) -> None:
        """Set the start time, as a kubelet does: of pods of equal priority, the latest are preempted first."""
        since = f"2026-01-01T00:00:{len(self._residents):02d}Z"
        await self.client.patch(
            PODS, pod["metadata"]["name"], {"status": {"startTime": since}}, pod["metadata"]["namespace"],
            subresource="status",
        )  # fmt: skip
        await asyncio.sleep(0.02)

    async def _try(self, pod: Tree, by: str, before: Sequence[Tree]) -> Outcome:
        """The outcome of a pod with one of the schedulers."""
        tree = copy.deepcopy(pod)
        tree["spec"]["schedulerName"] = by
        await self.client.create(PODS, tree, pod["metadata"]["namespace"])
        return await self._wait_for_outcome(
            pod, before, _TIMEOUT_SECONDS, lambda made: bool(made["spec"].get("nodeName") or _is_unschedulable(made))
        )

    async def _wait_for_correction(self, pod: Tree, before: Sequence[Tree], found: Outcome) -> Outcome:
        """The outcome of a pending pod after a while."""

        def other(made: Tree) -> bool:
            return bool(made["spec"].get("nodeName")) or scheduled_condition(made).get("message", "") != found.message

        self.counts["waited again"] += 1
        return await self._wait_for_outcome(pod, before, _RETRY_SECONDS, other)

    async def _wait_for_outcome(
        self, pod: Tree, before: Sequence[Tree], timeout: float, done: Callable[[Tree], bool]
    ) -> Outcome:
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        created: Tree = {}
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while not done(created := await self.client.get(PODS, name, namespace)):
                    if self._readied:
                        await set_binding_conditions(self.client, namespace)
                    await asyncio.sleep(0.01)
        existing = {pod["metadata"]["uid"] for pod in (await self.client.list(PODS)).items}
        sent = tuple(
            resident["metadata"]["name"] for resident in self._residents if resident["metadata"]["uid"] not in existing
        )
        scheduled = scheduled_condition(created)
        if not created["spec"].get("nodeName"):
            return Outcome(reason=scheduled.get("reason", ""), message=scheduled.get("message", ""), victims=sent)
        claims = {tree["metadata"]["name"]: tree for tree in (await self.client.list(CLAIMS, namespace)).items}
        had = {tree["metadata"]["name"] for tree in before if is_allocated(tree)}
        names = claims_of(created)
        new = [claims[name] for name in names if name not in had]
        new += [claim for claim in claims.values() if EXTENDED in annotations_of(claim) and owner(claim) == name]
        return Outcome(created["spec"]["nodeName"], tuple(map(results, new)), allocations_text(new, created), sent)

    async def _undo(self, pod: Tree, before: list[Tree]) -> list[Tree]:
        """Restore the state before the pod: delete its own claims, release the others, and create its victims again."""
        metadata = pod["metadata"]
        await self._delete(PODS, metadata)
        existing = {pod["metadata"]["uid"] for pod in (await self.client.list(PODS)).items}
        sent = [resident for resident in self._residents if resident["metadata"]["uid"] not in existing]
        if sent:
            await restore_pods(
                self.client,
                sent,
                {item["metadata"]["name"]: item for item in before if item["kind"] == "ResourceClaim"},
            )
            self._residents = [pod for pod in (await self.client.list(PODS)).items if pod["spec"].get("nodeName")]
            await self._wait_for_orphans()
            return await self._state()
        names = {tree["metadata"]["name"]: is_allocated(tree) for tree in before if tree["kind"] == "ResourceClaim"}
        latest = time.monotonic() + _TIMEOUT_SECONDS
        while True:
            claims = (await self.client.list(CLAIMS, metadata["namespace"])).items
            new = [tree for tree in claims if tree["metadata"]["name"] not in names]
            other = [tree for tree in claims if is_allocated(tree) != names.get(tree["metadata"]["name"], False)]
            if not new and not other:
                break
            if time.monotonic() > latest:
                remaining = (
                    f"{item['metadata']['name']} for {item['status'].get('reservedFor')}" for item in [*new, *other]
                )
                raise NotReleased(f"{metadata['name']}: {', '.join(remaining)}")
            for tree in new:
                await self._delete(CLAIMS, tree["metadata"])
            for tree in (item for item in other if all(map(is_group, item["status"].get("reservedFor") or ()))):
                # The group's claim would stay for the group, and kube-scheduler leaves it for the next attempt after a
                # device failure.
                freed = {"status": {"allocation": None, "reservedFor": None, "devices": None}}
                with suppress(StatusError):
                    await self.client.patch(
                        CLAIMS, tree["metadata"]["name"], freed, metadata["namespace"], subresource="status"
                    )
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.02)
        return before

    async def _wait_for_orphans(self) -> None:
        """Wait until no claim is left whose pod is deleted."""
        async with asyncio.timeout(_TIMEOUT_SECONDS * 2):
            while True:
                existing = {pod["metadata"]["uid"] for pod in (await self.client.list(PODS)).items}
                claims = (await self.client.list(CLAIMS)).items
                remaining = [claim for claim in claims if not {ref["uid"] for ref in owners(claim)} <= existing]
                if not remaining:
                    return
                await asyncio.sleep(0.02)

    async def _state(self) -> list[Tree]:
        """All objects that influence scheduling."""
        kinds = (NODES, SLICES, DEVICE_CLASSES, TAINT_RULES, CLAIMS, CLAIM_TEMPLATES, NAMESPACES, POD_GROUPS)
        listed = await asyncio.gather(*(self.client.list(kind) for kind in kinds))
        return [
            {**tree, "kind": kind.kind, "apiVersion": f"{kind.group}/{kind.version}".lstrip("/")}
            for kind, listing in zip(kinds, listed, strict=True)
            for tree in listing.items
        ]

    async def _double_allocations(self) -> list[Difference]:
        """Errors in the final allocations."""
        return [
            Difference("given twice", "", detail)
            for detail in overallocations(read_objects(await self._state()).values)
        ]

    # --- the end of a scenario ----------------------------------------------------------------------------------------

    async def clear(self) -> None:
        """Delete everything except for the namespaces."""
        for kind in _ORDER:
            async with asyncio.timeout(_TIMEOUT_SECONDS * 2):
                while remaining := (await self.client.list(kind)).items:
                    await asyncio.gather(*(self._delete(kind, tree["metadata"]) for tree in remaining))

    async def _delete(self, kind: Resource, metadata: Tree) -> None:
        name, namespace = metadata["name"], metadata.get("namespace", "")
        with suppress(StatusError):
            await self.client.delete(kind, name, namespace, grace_seconds=0)
            if metadata.get("finalizers"):  # its protection controller may need a moment to see that it is not in use
                await self.client.patch(kind, name, {"metadata": {"finalizers": None}}, namespace)

    async def _exists(self, kind: Resource, name: str, namespace: str) -> bool:
        with suppress(StatusError):
            await self.client.get(kind, name, namespace)
            return True
        return False


def _is_unschedulable(pod: Tree) -> bool:
    """Whether a pod is reported as unschedulable and nothing is being freed for it; claims of victims are released by
    then."""
    scheduled = scheduled_condition(pod)
    return (
        bool(scheduled)
        and not pod["status"].get("nominatedNodeName")
        and _MEANWHILE not in scheduled.get("message", "")
    )


def cluster(paths: dict[str, str]) -> AbstractContextManager[ApiServer]:
    """Kubernetes without the controller that evicts pods from tainted nodes, because kube-scheduler may tolerate the
    taints."""
    return control_plane(paths, kubernetes_only=True, without=["device-taint-eviction-controller"])


@asynccontextmanager
async def scenario_runner(running: ApiServer) -> AsyncIterator[ScenarioRunner]:
    """Connect to the cluster and run both schedulers."""
    programs = {"scheduler": scheduler(SchedulerOptions(FEATURES, name=ALLOTMENT_SCHEDULER, settle=0.0))}
    async with running_programs(running, programs) as client:
        runner = ScenarioRunner(client)
        await runner.create_namespaces()
        yield runner
