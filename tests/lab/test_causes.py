"""Every cause of refusal, in a running lab: what ``kubectl describe pod`` shows is enough to fix the manifest.

Describe prints the messages of events and no more of conditions than their status, so everything must be in the
FailedScheduling event. That it is enough is proven: the test reads the change off the event, as a person would, makes
it in the manifests, and the pod then runs.
"""

from __future__ import annotations

import asyncio
import copy
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import yaml

from allotment.cluster.errors import StatusError
from allotment.cluster.resources import CLAIMS, NODES, PODS
from allotment.engine.refusal import CODES, SuggestedChange
from allotment.lab.programs import programs
from allotment.model.features import Features
from allotment.model.trees import Tree
from allotment.tools.explain import Explanation, lines
from allotment.tools.explain.messages import EVENT_BYTES
from tests.changing import changed
from tests.corpus.test_corpus import SCENARIOS, Scenario, code, head
from tests.lab.stage import Stage, condition, stage

POD, NAMESPACE = "trainer", "ml"

#: What an API server refuses, so that no pod ever waits for it; and with which words.
REFUSED = {
    "admin-access-not-allowed": "admin access to devices requires the `resource.kubernetes.io/admin-access: true` "
    "label on the containing namespace",
    "invalid-manifest": "exactly one of `exactly` or `firstAvailable` is required",
    "selector-invalid": "found no matching overload for '_>=_'",
    "node-selector-unusable": "not a valid selector operator",  # stored ones are below
}
#: Scenarios that stand for something else in a live cluster, each with its own test below.
OTHERWISE = {
    "claim-not-owned": "a pod's status is its own business: it must be written after the pod is made",
    "replicas-take-devices": "the pods of a Deployment are made by its controller",
    "without-slices": "a cluster without any node",
}
WAITING = [name for name in SCENARIOS if head(name)["code"] != "fits" and name not in {*REFUSED, *OTHERWISE}]
FITTING = [name for name in SCENARIOS if head(name)["code"] == "fits" and name != "fits-claim-alone"]
#: The scheduler knows the nodes better than the devices where the pod keeps itself away from them.
OWN_WORDS = {
    "node-not-eligible": "nodeSelector zone=b matches none of node-a; node-a has zone=a (node-not-eligible)",
    "node-taint-not-tolerated": "taint nvidia.com/gpu=present:NoSchedule on node-a is not tolerated "
    "(node-not-eligible)",
}
#: Codes without a scenario that a live cluster can show.
IMPOSSIBLE = {"not-explained": "by definition there is no known way to it"}


# --- what is shown ---------------------------------------------------------------------------------------------------


def trees_of(scenario: Scenario) -> list[Tree]:
    return [copy.deepcopy(document.tree) for document in scenario.documents]


def namespace_of(trees: Sequence[Tree]) -> str:
    return next(str(tree["metadata"]["namespace"]) for tree in trees if tree["kind"] == "Pod")


def headline(explanation: Explanation) -> str:
    """The first line of ``allot explain``, less the name of the pod."""
    told = (re.search(" (does not fit|is undecided): ", line) for line in lines(explanation, width=1_000_000))
    found = next(found for found in told if found is not None)
    return found.string[found.end() :]


def same_names(text: str) -> str:
    """Generated names end in five characters by chance; explain counts instead."""
    return re.sub(rf"({POD}-[a-z-]+)-([a-z0-9]{{5}}|\d)\b", r"\1-*", text)


def read_off(message: str) -> list[SuggestedChange]:
    """The changes that a message tells: objects, places and values under "to make it fit"."""
    return list(_changes(message.splitlines()))


def _changes(told: list[str]) -> Iterator[SuggestedChange]:
    signs = ("  to make it fit", "  what to do: ")
    start = next((n for n, line in enumerate(told) if line.startswith(signs)), len(told))
    block = []
    for line in told[start + 1 :]:
        if not line.startswith("    "):
            break
        block.append(line)
    rest = iter(block)
    for line in rest:
        path, removed = next(rest).strip(), None
        if path.endswith(" (remove it)"):
            yield SuggestedChange(text="", object=line.strip(), path=path.removesuffix(" (remove it)"), becomes=removed)
        else:
            value = next(rest).strip()
            becomes = value if path.endswith("expression:") else yaml.safe_load(value)
            yield SuggestedChange(text="", object=line.strip(), path=path.removesuffix(":"), becomes=becomes)


# --- the scenarios ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WAITING)
def test_describe_says_the_cause_and_enough_to_fix_the_manifest(name: str) -> None:
    scenario = Scenario(name)
    explained = scenario.explain()
    assert code(explained) == scenario.code
    reasons = next(a.reasons for a in explained.answers if a.reasons is not None)

    async def shown() -> tuple[str, Tree]:
        async with stage(scenario.features) as on:
            trees = trees_of(scenario)
            await on.set_up(trees)
            namespace = namespace_of(trees)
            told = await on.told(POD, namespace, f"({scenario.code})")

            def same(pod: Tree) -> bool:
                """What the pod has heard before, while its claim was being made, is another matter."""
                return not condition(pod) or condition(pod)["message"].splitlines()[0] == told.splitlines()[0]

            return told, await on.until(same, POD, namespace)

    message, pod = asyncio.run(shown())
    first, *more = message.splitlines()
    assert same_names(first) == OWN_WORDS.get(name, same_names(headline(explained)))
    assert first.endswith(f"({scenario.code})")
    assert len(message.encode()) <= EVENT_BYTES
    refused = reasons.headline
    for funnel in refused.funnels[:1]:
        assert f"request {funnel.request}: " in message
    if refused.nearest is not None:
        assert f"nearest miss: {refused.nearest}" in message
    for change in refused.changes:
        assert change.text.partition(" ml/")[0] in message
    if not refused.changes:
        assert any(line.startswith("  what to do: ") for line in more)
    if condition(pod):  # Kubernetes writes none for pods that it does not even try
        assert condition(pod)["message"].splitlines()[0] == first
        assert more[-1] == condition(pod)["message"].splitlines()[-1]

    changes = read_off(message)
    trees = trees_of(scenario)
    if not changes:
        assert all(not change.object or change.path.startswith("status.") for change in refused.changes)
        return
    for change in changes:
        assert changed(trees, change), change

    async def fixed() -> Tree:
        async with stage(scenario.features) as on:
            await on.set_up(trees)
            return await on.until(lambda pod: pod["spec"].get("nodeName"), POD, namespace_of(trees))

    assert asyncio.run(fixed())


@pytest.mark.parametrize("name", FITTING)
def test_what_explain_says_fits_gets_the_same_node_and_devices(name: str) -> None:
    scenario = Scenario(name)
    answers = {answer.name: answer for answer in scenario.explain().answers if answer.kind == "Pod"}

    async def placed() -> list[tuple[str, str, list[str]]]:
        async with stage(scenario.features) as on:
            await on.set_up(trees_of(scenario))
            found = []
            for full in answers:
                namespace, _, pod_name = full.partition("/")
                pod = await on.until(lambda pod: pod["spec"].get("nodeName"), pod_name, namespace)
                found.append((full, pod["spec"]["nodeName"], await on.devices(pod)))
            return found

    for full, node, given in asyncio.run(placed()):
        answer = answers[full]
        assert node == answer.node
        assert sorted(given) == sorted(device.device for claim in answer.claims for device in claim.devices)


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_work_is_refused_with_its_own_words(name: str) -> None:
    async def tried() -> str:
        async with stage(Scenario(name).features) as on:
            with pytest.raises(StatusError) as refusal:
                await on.set_up(trees_of(Scenario(name)))
            assert refusal.value.code == 422
            return str(refusal.value)

    assert REFUSED[name] in asyncio.run(tried())


# --- what needs more than manifests ----------------------------------------------------------------------------------


def test_a_claim_that_was_made_for_another_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller would mend it at once; so it must be down, as it is when people get to see this."""
    scenario = Scenario("claim-not-owned")

    def all_but_one(*arguments: Any) -> dict[str, Any]:
        return {name: program for name, program in programs(*arguments).items() if name != "resource-claims"}

    monkeypatch.setattr("allotment.lab.control_plane.programs", all_but_one)

    async def shown() -> str:
        async with stage(scenario.features) as on:
            trees = trees_of(scenario)
            pod = next(tree for tree in trees if tree["kind"] == "Pod")
            # The earlier pod is still there: else its claim would be garbage.
            earlier = {**pod, "metadata": {**pod["metadata"], "name": "earlier"}}
            owner = (await on.create({key: value for key, value in earlier.items() if key != "status"}))["metadata"]
            foreign = next(tree for tree in trees if tree["kind"] == "ResourceClaim")
            foreign["metadata"]["ownerReferences"][0] |= {"name": owner["name"], "uid": owner["uid"]}
            await on.set_up(trees)
            await on.client.patch(PODS, POD, {"status": pod["status"]}, NAMESPACE, subresource="status")
            return await on.told(POD, NAMESPACE, "(claim-not-owned)")

    first, *more = asyncio.run(shown()).splitlines()
    assert first.startswith("ResourceClaim ml/trainer-gpu-x7x2z was not created for Pod ml/trainer")
    assert first.endswith("(claim-not-owned)")
    assert f"  what to do: {CODES['claim-not-owned'].advice}" in more


def test_the_third_replica_of_two_devices() -> None:
    scenario = Scenario("replicas-take-devices")

    async def shown() -> str:
        async with stage(scenario.features) as on:
            await on.set_up(trees_of(scenario))
            async with asyncio.timeout(120):
                while True:
                    await asyncio.sleep(0.01)
                    pods = (await on.client.list(PODS, NAMESPACE)).items
                    left = [pod["metadata"]["name"] for pod in pods if condition(pod).get("status") == "False"]
                    if len(pods) == 3 and len(left) == 1:
                        return await on.told(left[0], NAMESPACE, "(devices-in-use)")

    first = asyncio.run(shown()).splitlines()[0]
    assert first.startswith("every matching device is in use by claim ml/server-")
    assert first.endswith("(devices-in-use)")


def test_a_cluster_without_nodes_has_kubernetes_words_only() -> None:
    scenario = Scenario("without-slices")

    async def shown() -> str:
        async with stage(scenario.features) as on:
            await on.set_up(trees_of(scenario))
            return await on.told(POD, NAMESPACE, "no nodes")

    assert asyncio.run(shown()) == "no nodes available to schedule pods"


def test_a_slice_that_was_let_in_once() -> None:
    """Validation of node selectors in slices is newer than slices: what is stored stays."""
    scenario = Scenario("node-selector-unusable")

    async def shown() -> str:
        async with stage(scenario.features) as on:
            trees = trees_of(scenario)
            pod = next(tree for tree in trees if tree["kind"] == "Pod")
            wrong = next(tree for tree in trees if tree["kind"] == "ResourceSlice")
            expression = wrong["spec"]["devices"][1]["nodeSelector"]["nodeSelectorTerms"][0]["matchExpressions"][0]
            operator, expression["operator"] = expression["operator"], "In"
            await on.set_up(tree for tree in trees if tree is not pod)
            change_stored(on, "resourceslices.resource.k8s.io", "", "racks", f'"operator":"{operator}"')
            await on.create(pod)
            return await on.told(POD, NAMESPACE, "(node-selector-unusable)")

    first = asyncio.run(shown()).splitlines()[0]
    assert first == headline(scenario.explain())
    assert first.endswith("(node-selector-unusable)")


def change_stored(on: Stage, bucket: str, namespace: str, name: str, operator: str) -> None:
    """Write past the API, as an earlier release would have let it through."""
    entry = on.plane.store.get(bucket, namespace, name)
    assert entry is not None
    text = entry.json.decode().replace('"operator":"In"', operator)
    on.plane.store.put(bucket, namespace, name, json.loads(text))


CLAIM = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: gpu, namespace: ml}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: trainer, namespace: ml}
spec:
  resourceClaims: [{name: gpu, resourceClaimName: gpu}]
  containers:
  - {name: main, image: registry.k8s.io/pause:3.10, resources: {claims: [{name: gpu}]}}
"""


def test_a_claim_with_all_the_users_that_it_may_have() -> None:
    scenario = Scenario("fits-single")
    claim, pod = yaml.safe_load_all(CLAIM)

    async def shown() -> str:
        async with stage(scenario.features) as on:
            await on.set_up([tree for tree in trees_of(scenario) if not tree["metadata"].get("namespace")])
            await on.create(claim)
            await on.create(pod)
            await on.until(lambda pod: pod["spec"].get("nodeName"), POD, NAMESPACE)
            made = await on.client.get(CLAIMS, "gpu", NAMESPACE)
            node = (await on.pod(POD, NAMESPACE))["spec"]["nodeName"]
            # Room for all of them, or the node's number of pods would be a cause, too.
            await on.client.patch(NODES, node, {"status": {"allocatable": {"pods": "500"}}}, subresource="status")
            users = list(made["status"]["reservedFor"])
            for number in range(256 - len(users)):
                user = await on.user(f"user-{number}", NAMESPACE, "gpu", node)
                users.append({"resource": "pods", "name": f"user-{number}", "uid": user["metadata"]["uid"]})
            # A patch, for the controller that reserves claims for bound pods may write between reading and writing.
            await on.client.patch(CLAIMS, "gpu", {"status": {"reservedFor": users}}, NAMESPACE, subresource="status")
            await on.create({**pod, "metadata": {"name": "one-more", "namespace": NAMESPACE}})
            return await on.told("one-more", NAMESPACE, "(claim-in-use)")

    told = asyncio.run(shown()).splitlines()
    assert told[0] == "claim ml/gpu is reserved for 256 consumers, the maximum (claim-in-use)"
    assert told[1] == f"  what to do: {CODES['claim-in-use'].advice}"
    assert told[-1].startswith("0/1 nodes are available: resourceclaim in use.")


def test_a_claim_from_when_a_feature_was_on() -> None:
    scenario = Scenario("fits-single")
    claim, pod = yaml.safe_load_all(CLAIM)

    async def shown() -> str:
        async with stage(Features("1.36", {"DRAConsumableCapacity": False})) as on:
            await on.set_up([tree for tree in trees_of(scenario) if not tree["metadata"].get("namespace")])
            made = copy.deepcopy(await on.create(claim))
            made["spec"]["devices"]["requests"][0]["exactly"]["capacity"] = {"requests": {"memory": "10Gi"}}
            on.plane.store.put("resourceclaims.resource.k8s.io", NAMESPACE, "gpu", made)
            await on.create(pod)
            return await on.told(POD, NAMESPACE, "(feature-off)")

    told = asyncio.run(shown()).splitlines()
    assert told[0].endswith("the DRAConsumableCapacity feature is disabled (feature-off)")
    assert told[1] == f"  what to do: {CODES['feature-off'].advice}"


def test_every_code_is_shown_or_known_to_be_impossible() -> None:
    shown = {head(name)["code"] for name in WAITING} | set(REFUSED) | {"claim-not-owned", "claim-in-use", "feature-off"}
    assert set(CODES) == shown | set(IMPOSSIBLE)
    assert not shown & set(IMPOSSIBLE)
