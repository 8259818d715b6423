"""Every cause of refusal, of pods that Kubernetes' own scheduler is to place: our annotator tells it in an event.

The cluster is kube-apiserver, kube-controller-manager and kube-scheduler; of ours only the annotator runs. The
scenarios are those of ``tests/corpus``, and what the annotator says first is what ``allot explain`` says of the same
manifests.
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
from tests.acting import Acting, condition
from tests.corpus.test_corpus import Scenario, code
from tests.kube.ours import at_work
from tests.lab.test_causes import POD, WAITING, headline, namespace_of, same_names, trees_of

#: Scenarios that need gates which are off as Kubernetes comes.
GATED: Final = tuple(name for name in WAITING if Scenario(name).features.gates)
SILENCE: Final = "The scheduler has not reported a reason."
#: Kinds without a namespace that scenarios bring.
OF_CLUSTERS: Final = (SLICES, DEVICE_CLASSES, TAINT_RULES, NODES)
PATIENCE: Final = 300.0


class OnKubernetes(Acting):
    """A cluster that is used by one scenario after the other."""

    def __init__(self, client: Any, discovery: Discovery) -> None:
        super().__init__(client, lambda version, kind: _resource(discovery, version, kind))
        self.discovery = discovery

    async def create(self, tree: Tree) -> Tree:
        """One object; pods of a new namespace wait for its account."""
        if tree["kind"] == "Pod":
            async with asyncio.timeout(PATIENCE):
                while not await self._account(tree["metadata"].get("namespace") or "default"):
                    await asyncio.sleep(0.02)
        return await super().create(tree)

    async def _account(self, namespace: str) -> bool:
        await self.have(Resource("", "v1", "namespaces", "Namespace", False), {"metadata": {"name": namespace}})
        with suppress(StatusError):
            await self.client.get(SERVICE_ACCOUNTS, "default", namespace)
            return True
        return False

    async def clear(self) -> None:
        """Take away what a scenario has brought, pods first; what the namespaces are labelled with stays."""
        for kind in (PODS, CLAIMS, CLAIM_TEMPLATES, *OF_CLUSTERS):
            await asyncio.gather(*(self._gone(kind, tree) for tree in await self._all(kind)))

    async def _gone(self, kind: Resource, tree: Tree) -> None:
        metadata = tree["metadata"]
        namespace = metadata.get("namespace", "")
        with suppress(StatusError):
            await self.client.delete(kind, metadata["name"], namespace, grace_seconds=0)
            if metadata.get("finalizers"):  # whoever would free it may think that it is in use
                await self.client.patch(kind, metadata["name"], {"metadata": {"finalizers": None}}, namespace)

    async def _all(self, kind: Resource) -> Sequence[Tree]:
        try:
            return (await self.client.list(kind)).items
        except StatusError as error:
            if error.code == 404:  # a gate is off
                return ()
            raise

    async def told(self, pod: Tree) -> list[str]:
        """What the annotator said of a pod, oldest first."""
        fields = f"involvedObject.uid={pod['metadata']['uid']},reportingComponent={NAME}"
        items = (await self.client.list(EVENTS, pod["metadata"]["namespace"], fields=fields)).items
        return [item["message"] for item in sorted(items, key=lambda item: int(item["metadata"]["resourceVersion"]))]


def _resource(discovery: Discovery, version: str, kind: str) -> Resource:
    found = discovery.by_type(version, kind)
    assert found is not None, f"the cluster serves no {version} {kind}"
    return found.resource


@asynccontextmanager
async def annotated(kube: ApiServer, features: Features) -> AsyncIterator[OnKubernetes]:
    """The cluster with the annotator, empty at the end."""
    program = annotator(Options(features, patience=0.5, every=0.2))
    async with at_work(kube, {NAME: program}) as client:
        on = OnKubernetes(client, await discover(client))
        await on.clear()
        try:
            yield on
        finally:
            await on.clear()


def check(name: str, kube: ApiServer) -> None:
    """A scenario's pod is told its cause, and what its scheduler said last."""
    scenario = Scenario(name)
    explained = scenario.explain()
    assert code(explained) == scenario.code

    async def story() -> list[str]:
        async with annotated(kube, scenario.features) as on:
            trees = trees_of(scenario)
            await on.set_up(trees)
            told: list[str] = []
            said = ""
            try:
                async with asyncio.timeout(PATIENCE):
                    while not told or f"({scenario.code})" not in told[-1] or said not in told[-1]:
                        await asyncio.sleep(0.05)
                        pod = await on.pod(POD, namespace_of(trees))
                        assert not pod["spec"].get("nodeName"), "kube-scheduler has placed it"
                        # It may count nodes differently a moment later.
                        said = "The scheduler says: " if condition(pod).get("message") else SILENCE
                        told = await on.told(pod)
            except TimeoutError:
                raise AssertionError(f"wanted ({scenario.code}) and {said!r}, found {told}") from None
            return told[-1].splitlines()

    first, *_, last = asyncio.run(story())
    assert same_names(first) == same_names(headline(explained))
    assert last.startswith("The scheduler ")


@pytest.mark.parametrize("name", [name for name in WAITING if name not in GATED])
def test_a_pod_of_kube_scheduler_is_told_the_cause(name: str, kube: ApiServer) -> None:
    check(name, kube)


@pytest.fixture(scope="module")
def gated(paths: dict[str, str]) -> Iterator[ApiServer]:
    """A control plane with the gates that some scenarios need."""
    gates = {gate: on for name in GATED for gate, on in Scenario(name).features.gates.items()}
    if pod_groups.GATE in gates:
        gates["GenericWorkload"] = True  # we take it to be on with the other, Kubernetes wants it said
    with plane(paths, gates=gates, runtime_config="api/all=true") as running:
        yield running


@pytest.mark.parametrize("name", GATED)
def test_a_cause_that_needs_a_gate_is_told_where_it_is_on(name: str, gated: ApiServer) -> None:
    check(name, gated)
