"""For every cause of refusal, the annotator writes an event for the pods of Kubernetes' own scheduler.

The cluster is kube-apiserver, kube-controller-manager and kube-scheduler; of Allotment only the annotator runs. The
scenarios are those of ``tests/corpus``. The annotator's first event has the message that ``allot explain`` prints for
the same manifests.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import pytest

from allotment.annotator.program import NAME, Options, annotator
from allotment.cluster.client import Resource
from allotment.cluster.errors import StatusError
from allotment.cluster.inspection.discovery import Discovery, discover
from allotment.cluster.resources import (
    CLAIM_TEMPLATES,
    CLAIMS,
    DEVICE_CLASSES,
    EVENTS,
    NODES,
    PODS,
    SERVICE_ACCOUNTS,
    SLICES,
    TAINT_RULES,
)
from allotment.model import pod_groups
from allotment.model.features import Features
from allotment.model.trees import Tree
from bench.real_kube import ApiServer, plane
from tests.cluster_actions import ClusterActions, scheduled_condition
from tests.corpus.test_corpus import Scenario, code, head
from tests.kube.allotment_programs import running_programs
from tests.lab.test_causes import POD, WAITING, for_tenant, headline, namespace_of, trees_of, without_generated_names

#: Scenarios that need feature gates which are off by default.
GATED: Final = tuple(name for name in WAITING if Scenario(name).features.gates)
SCHEDULER_MESSAGE: Final = "Last message of the scheduler: "
SILENCE: Final = "The scheduler has not reported a reason."
#: Cluster-scoped kinds that scenarios create.
CLUSTER_SCOPED: Final = (SLICES, DEVICE_CLASSES, TAINT_RULES, NODES)
TIMEOUT_SECONDS: Final = 300.0


class ClusterScenarios(ClusterActions):
    """A cluster that the scenarios use one after the other."""

    def __init__(self, client: Any, discovery: Discovery) -> None:
        super().__init__(client, lambda version, kind: _resource(discovery, version, kind))
        self.discovery = discovery

    async def create(self, tree: Tree) -> Tree:
        """Create an object; a pod of a new namespace first waits for its service account."""
        if tree["kind"] == "Pod":
            async with asyncio.timeout(TIMEOUT_SECONDS):
                while not await self._account(tree["metadata"].get("namespace") or "default"):
                    await asyncio.sleep(0.02)
        return await super().create(tree)

    async def _account(self, namespace: str) -> bool:
        await self.ensure(Resource("", "v1", "namespaces", "Namespace", False), {"metadata": {"name": namespace}})
        with suppress(StatusError):
            await self.client.get(SERVICE_ACCOUNTS, "default", namespace)
            return True
        return False

    async def clear(self) -> None:
        """Delete the objects of a scenario, pods first; the labels of namespaces stay."""
        for kind in (PODS, CLAIMS, CLAIM_TEMPLATES, *CLUSTER_SCOPED):
            await asyncio.gather(*(self._delete(kind, tree) for tree in await self._all(kind)))

    async def _delete(self, kind: Resource, tree: Tree) -> None:
        metadata = tree["metadata"]
        namespace = metadata.get("namespace", "")
        with suppress(StatusError):
            await self.client.delete(kind, metadata["name"], namespace, grace_seconds=0)
            if metadata.get("finalizers"):  # its protection controller may believe that it is in use
                await self.client.patch(kind, metadata["name"], {"metadata": {"finalizers": None}}, namespace)

    async def _all(self, kind: Resource) -> Sequence[Tree]:
        try:
            return (await self.client.list(kind)).items
        except StatusError as error:
            if error.code == 404:  # the feature gate is off
                return ()
            raise

    async def annotator_messages(self, pod: Tree) -> list[str]:
        """The annotator's events for a pod, oldest first."""
        fields = f"involvedObject.uid={pod['metadata']['uid']},reportingComponent={NAME}"
        items = (await self.client.list(EVENTS, pod["metadata"]["namespace"], fields=fields)).items
        return [item["message"] for item in sorted(items, key=lambda item: int(item["metadata"]["resourceVersion"]))]


def _resource(discovery: Discovery, version: str, kind: str) -> Resource:
    found = discovery.by_type(version, kind)
    assert found is not None, f"the cluster serves no {version} {kind}"
    return found.resource


@asynccontextmanager
async def annotated_cluster(kube: ApiServer, features: Features) -> AsyncIterator[ClusterScenarios]:
    """The cluster with the annotator; it is cleared at the end."""
    program = annotator(Options(features, delay=0.5, every=0.2))
    async with running_programs(kube, {NAME: program}) as client:
        cluster = ClusterScenarios(client, await discover(client))
        await cluster.clear()
        try:
            yield cluster
        finally:
            await cluster.clear()


def check(name: str, kube: ApiServer) -> None:
    """The annotator reports the cause of a scenario's pod, and the last message of its scheduler."""
    scenario = Scenario(name)
    explained, expected = for_tenant(scenario), head(name).get("event", scenario.code)
    assert code(explained) == expected

    async def scenario_run() -> list[str]:
        async with annotated_cluster(kube, scenario.features) as cluster:
            trees = trees_of(scenario)
            await cluster.set_up(trees)
            messages: list[str] = []
            last_message = ""
            try:
                async with asyncio.timeout(TIMEOUT_SECONDS):
                    while not messages or f"({expected})" not in messages[-1] or last_message not in messages[-1]:
                        await asyncio.sleep(0.05)
                        pod = await cluster.pod(POD, namespace_of(trees))
                        assert not pod["spec"].get("nodeName"), "kube-scheduler has placed it"
                        # kube-scheduler may count nodes differently a moment later.
                        last_message = SCHEDULER_MESSAGE if scheduled_condition(pod).get("message") else SILENCE
                        messages = await cluster.annotator_messages(pod)
            except TimeoutError:
                raise AssertionError(f"expected ({expected}) and {last_message!r}, found {messages}") from None
            return messages[-1].splitlines()

    first, *_, last = asyncio.run(scenario_run())
    assert without_generated_names(first) == without_generated_names(headline(explained))
    assert last.startswith((SCHEDULER_MESSAGE, SILENCE))


@pytest.mark.parametrize("name", [name for name in WAITING if name not in GATED])
def test_the_annotator_reports_the_cause_of_a_pod_of_kube_scheduler(name: str, kube: ApiServer) -> None:
    check(name, kube)


@pytest.fixture(scope="module")
def gated(paths: dict[str, str]) -> Iterator[ApiServer]:
    """A control plane with the feature gates that some scenarios need."""
    gates = {gate: cluster for name in GATED for gate, cluster in Scenario(name).features.gates.items()}
    if pod_groups.GATE in gates:
        # Allotment enables it together with the other gate; Kubernetes requires it explicitly
        gates["GenericWorkload"] = True
    with plane(paths, gates=gates, runtime_config="api/all=true") as running:
        yield running


@pytest.mark.parametrize("name", GATED)
def test_the_annotator_reports_a_cause_that_needs_a_feature_gate(name: str, gated: ApiServer) -> None:
    check(name, gated)
