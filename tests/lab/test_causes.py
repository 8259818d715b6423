"""For every cause of refusal in a running lab, ``kubectl describe pod`` shows enough to fix the manifest.

Describe prints the messages of events, and only the status of conditions, so everything must be in the FailedScheduling
event. The test proves that it is enough: it reads the change from the event, as a user would, applies it to the
manifests, and the pod then runs.
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
from allotment.engine.diagnosis.reader import Reader
from allotment.engine.refusal import CODES, SuggestedChange
from allotment.explanation import Explanation, explain, lines
from allotment.explanation.messages import EVENT_BYTES
from allotment.lab.programs import programs
from allotment.model.features import Features
from allotment.model.trees import Tree
from tests.cluster_actions import scheduled_condition
from tests.corpus.test_corpus import SCENARIOS, Scenario, code, head
from tests.lab.harness import LabHarness, lab_harness
from tests.manifest_changes import apply_change

pytestmark = pytest.mark.usefixtures("short_searches")

POD, NAMESPACE = "trainer", "ml"

#: Scenarios that an API server rejects, so that no pod waits for them, and the message.
REFUSED = {
    "admin-access-not-allowed": "admin access to devices requires the `resource.kubernetes.io/admin-access: true` "
    "label on the containing namespace",
    "invalid-manifest": "exactly one of `exactly` or `firstAvailable` is required",
    "selector-invalid": "found no matching overload for '_>=_'",
    "node-selector-unusable": "not a valid selector operator",  # stored ones are tested below
}
_ERROR = "the scheduler writes only Kubernetes' error (tests/unit/scheduler/test_node_allocatable.py)"
_OF_GROUPS = "the scheduler writes Kubernetes' message about the group, without a cause"
#: Scenarios that differ in a live cluster, each with its own test below.
DIFFERENT_LIVE = {
    "claim-not-owned": "the pod's status must be written after the pod is created",
    "replicas-take-devices": "the pods of a Deployment are created by its controller",
    "replicas-beside-cordoned-node": "as before; test_first_remedy",
    "replicas-beside-tainted-node": "as before; test_first_remedy",
    "without-slices": "a cluster without nodes",
    "basic-group-fits-partly": "the message may be written before the claim of the other pod is reserved",
    "device-use-unknown": _ERROR,
    "gang-one-device-short": _OF_GROUPS,
    "gang-misses-pods": _OF_GROUPS,
    "gang-fits-on-no-rack": _OF_GROUPS,
    "group-topology-missing": _OF_GROUPS,
}
WAITING = [name for name in SCENARIOS if head(name)["code"] != "fits" and name not in {*REFUSED, *DIFFERENT_LIVE}]
FITTING = [name for name in SCENARIOS if head(name)["code"] == "fits" and name != "fits-claim-alone"]
#: Where a pod excludes nodes, the scheduler's message is about the nodes and not about the devices.
SCHEDULER_MESSAGES = {
    "node-not-eligible": "nodeSelector zone=b matches none of node-a; node-a has zone=a (node-not-eligible)",
    "node-selector-of-product": "nodeSelector nvidia.com/gpu.product=NVIDIA-A100-80GB matches none of node-a, node-b; "
    "node-b has nvidia.com/gpu.product=NVIDIA-A100-SXM4-80GB (node-not-eligible)",
    "node-taint-boolean-word": "taint dedicated=yes:NoSchedule on node-a is not tolerated (node-not-eligible)",
    "node-taint-not-tolerated": "taint nvidia.com/gpu=present:NoSchedule on node-a is not tolerated "
    "(node-not-eligible)",
}
#: Codes that no scenario in a live cluster can show.
IMPOSSIBLE = {
    "not-explained": "by definition no known state leads to it",
    "wrong-namespace": "an event must not name another namespace, so the object is missing",
    "device-use-unknown": _ERROR,
    "gang-incomplete": _OF_GROUPS,
    "group-topology-missing": _OF_GROUPS,
}


# --- helpers ----------------------------------------------------------------------------------------------------------


def trees_of(scenario: Scenario) -> list[Tree]:
    return [copy.deepcopy(document.tree) for document in scenario.documents]


def namespace_of(trees: Sequence[Tree]) -> str:
    return next(str(tree["metadata"]["namespace"]) for tree in trees if tree["kind"] == "Pod")


def headline(explanation: Explanation) -> str:
    """The first line of ``allot explain`` without the name of the pod."""
    message = (re.search(" (does not fit|may or may not fit): ", line) for line in lines(explanation, width=1_000_000))
    found = next(found for found in message if found is not None)
    return found.string[found.end() :]


def without_generated_names(text: str) -> str:
    """Replace the random suffix of generated names; explain numbers its generated names instead."""
    return re.sub(rf"({POD}-[a-z-]+)-([a-z0-9]{{5}}|\d)\b", r"\1-*", text)


def changes_in(message: str) -> list[SuggestedChange]:
    """The changes in a message: objects, fields and values under "to make it fit", and nodes to uncordon."""
    nodes = re.findall(r"^  (?:  |next: )kubectl uncordon (\S+)$", message, re.MULTILINE)
    uncordoned = [SuggestedChange(text="", object=f"Node {node}", path="spec.unschedulable") for node in nodes]
    return [*_changes(message.splitlines()), *uncordoned]


def _changes(message: list[str]) -> Iterator[SuggestedChange]:
    signs = ("  to make it fit", "  what to do: ")
    start = next((n for n, line in enumerate(message) if line.startswith(signs)), len(message))
    block = []
    for line in message[start + 1 :]:
        if not line.startswith("    "):
            break
        block.append(line)
    rest = iter(block)
    for line in rest:
        if line.startswith("    kubectl uncordon "):
            continue
        path, removed = next(rest).strip(), None
        if path.endswith(" (remove it)"):
            yield SuggestedChange(text="", object=line.strip(), path=path.removesuffix(" (remove it)"), becomes=removed)
        else:
            value = next(rest).strip()
            becomes = value if path.endswith("expression:") else yaml.safe_load(value)
            yield SuggestedChange(text="", object=line.strip(), path=path.removesuffix(":"), becomes=becomes)


def for_tenant(scenario: Scenario) -> Explanation:
    """The explanation that names only objects of each pod's own namespace, as events do."""
    return explain(scenario.values, scenario.features, readers=Reader.of)


def names_of_other_namespaces(scenario: Scenario, namespace: str) -> set[str]:
    """``namespace/name`` of all objects outside of a namespace."""
    return {str(value.key) for value in scenario.values if value.key.namespace not in ("", namespace)}


def words_of(message: str, pod: Tree) -> set[str]:
    """The words of an event and of the pod's condition."""
    return set(re.findall(r"[\w./-]+", f"{message} {scheduled_condition(pod).get('message', '')}"))


# --- the scenarios ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WAITING)
def test_describe_shows_the_cause_and_enough_to_fix_the_manifest(name: str) -> None:
    scenario = Scenario(name)
    explained = for_tenant(scenario)
    expected = head(name).get("event", scenario.code)
    assert code(explained) == expected
    reasons = next(a.reasons for a in explained.answers if a.reasons is not None)

    async def shown() -> tuple[str, Tree]:
        async with lab_harness(scenario.features) as lab:
            trees = trees_of(scenario)
            await lab.set_up(trees)
            namespace = namespace_of(trees)
            event = await lab.failed_scheduling(POD, namespace, f"({expected})")

            def same(pod: Tree) -> bool:
                """Earlier events, from while the claim was being created, are not compared."""
                return (
                    not scheduled_condition(pod)
                    or scheduled_condition(pod)["message"].splitlines()[0] == event.splitlines()[0]
                )

            return event, await lab.wait_for_pod(same, POD, namespace)

    message, pod = asyncio.run(shown())
    first, *more = message.splitlines()
    assert without_generated_names(first) == SCHEDULER_MESSAGES.get(name, without_generated_names(headline(explained)))
    assert first.endswith(f"({expected})")
    assert not names_of_other_namespaces(scenario, namespace_of(trees_of(scenario))) & words_of(message, pod)
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
    if scheduled_condition(pod):  # Kubernetes writes none for pods that it does not try to schedule
        assert scheduled_condition(pod)["message"].splitlines()[0] == first
        assert more[-1] == scheduled_condition(pod)["message"].splitlines()[-1]

    changes = changes_in(message)
    trees = trees_of(scenario)
    if not changes:
        assert all(not change.object or change.path.startswith("status.") for change in refused.changes)
        return
    for change in changes:
        assert apply_change(trees, change), change

    async def fixed() -> Tree:
        async with lab_harness(scenario.features) as lab:
            await lab.set_up(trees)
            return await lab.wait_for_pod(lambda pod: pod["spec"].get("nodeName"), POD, namespace_of(trees))

    assert asyncio.run(fixed())


@pytest.mark.parametrize("name", FITTING)
def test_a_pod_that_explain_calls_fitting_gets_the_same_node_and_devices(name: str) -> None:
    scenario = Scenario(name)
    answers = {answer.name: answer for answer in scenario.explain().answers if answer.kind == "Pod"}

    async def placed() -> list[tuple[str, str, list[str]]]:
        async with lab_harness(scenario.features) as lab:
            await lab.set_up(trees_of(scenario))
            found = []
            for full in answers:
                namespace, _, pod_name = full.partition("/")
                pod = await lab.wait_for_pod(lambda pod: pod["spec"].get("nodeName"), pod_name, namespace)
                found.append((full, pod["spec"]["nodeName"], await lab.devices(pod)))
            return found

    for full, node, given in asyncio.run(placed()):
        answer = answers[full]
        assert node == answer.node
        assert sorted(given) == sorted(device.device for claim in answer.claims for device in claim.devices)


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_objects_are_rejected_with_the_recorded_message(name: str) -> None:
    async def tried() -> str:
        async with lab_harness(Scenario(name).features) as lab:
            with pytest.raises(StatusError) as refusal:
                await lab.set_up(trees_of(Scenario(name)))
            assert refusal.value.code == 422
            return str(refusal.value)

    assert REFUSED[name] in asyncio.run(tried())


# --- scenarios that need more than manifests --------------------------------------------------------------------------


def test_a_claim_that_was_created_for_another_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller would fix it immediately, so it must be stopped, as it is when users see this state."""
    scenario = Scenario("claim-not-owned")

    def all_but_one(*arguments: Any) -> dict[str, Any]:
        return {name: program for name, program in programs(*arguments).items() if name != "resource-claims"}

    monkeypatch.setattr("allotment.lab.control_plane.programs", all_but_one)

    async def shown() -> str:
        async with lab_harness(scenario.features) as lab:
            trees = trees_of(scenario)
            pod = next(tree for tree in trees if tree["kind"] == "Pod")
            # The earlier pod still exists; otherwise its claim would be deleted.
            earlier = {**pod, "metadata": {**pod["metadata"], "name": "earlier"}}
            owner = (await lab.create({key: value for key, value in earlier.items() if key != "status"}))["metadata"]
            foreign = next(tree for tree in trees if tree["kind"] == "ResourceClaim")
            foreign["metadata"]["ownerReferences"][0] |= {"name": owner["name"], "uid": owner["uid"]}
            await lab.set_up(trees)
            await lab.client.patch(PODS, POD, {"status": pod["status"]}, NAMESPACE, subresource="status")
            return await lab.failed_scheduling(POD, NAMESPACE, "(claim-not-owned)")

    first, *more = asyncio.run(shown()).splitlines()
    assert first.startswith("ResourceClaim ml/trainer-gpu-x7x2z was not created for Pod ml/trainer")
    assert first.endswith("(claim-not-owned)")
    assert f"  what to do: {CODES['claim-not-owned'].advice}" in more


def test_the_third_replica_of_two_devices() -> None:
    scenario = Scenario("replicas-take-devices")

    async def shown() -> str:
        async with lab_harness(scenario.features) as lab:
            await lab.set_up(trees_of(scenario))
            async with asyncio.timeout(120):
                while True:
                    await asyncio.sleep(0.01)
                    pods = (await lab.client.list(PODS, NAMESPACE)).items
                    remaining = [
                        pod["metadata"]["name"] for pod in pods if scheduled_condition(pod).get("status") == "False"
                    ]
                    if len(pods) == 3 and len(remaining) == 1:
                        return await lab.failed_scheduling(remaining[0], NAMESPACE, "(devices-in-use)")

    first = asyncio.run(shown()).splitlines()[0]
    assert first.startswith("every matching device is in use by claim ml/server-")
    assert first.endswith("(devices-in-use)")


@pytest.mark.parametrize("name", [name for name, why in DIFFERENT_LIVE.items() if why == _OF_GROUPS])
def test_the_first_pod_of_a_group_that_does_not_fit_has_the_message_that_explain_quotes(name: str) -> None:
    scenario = Scenario(name)
    answer = scenario.explain().answers[0]
    assert answer.reasons is not None
    text, (namespace, _, pod_name) = answer.reasons.headline.kubernetes, answer.name.partition("/")

    async def check() -> None:
        async with lab_harness(scenario.features) as lab:
            await lab.set_up(trees_of(scenario))
            if "without an event" in text:
                assert not scheduled_condition(await lab.pod(pod_name, namespace))
                return
            wanted = text.removeprefix("pod group is unschedulable, ")
            await lab.wait_for_pod(
                lambda pod: wanted in scheduled_condition(pod).get("message", ""), pod_name, namespace
            )

    asyncio.run(check())


def test_a_cluster_without_nodes_gets_only_kubernetes_message() -> None:
    scenario = Scenario("without-slices")

    async def shown() -> str:
        async with lab_harness(scenario.features) as lab:
            await lab.set_up(trees_of(scenario))
            return await lab.failed_scheduling(POD, NAMESPACE, "no nodes")

    assert asyncio.run(shown()) == "no nodes available to schedule pods"


def test_a_stored_slice_that_is_no_longer_valid() -> None:
    """Validation of node selectors in slices was added later: stored slices stay as they are."""
    scenario = Scenario("node-selector-unusable")

    async def shown() -> str:
        async with lab_harness(scenario.features) as lab:
            trees = trees_of(scenario)
            pod = next(tree for tree in trees if tree["kind"] == "Pod")
            wrong = next(tree for tree in trees if tree["kind"] == "ResourceSlice")
            expression = wrong["spec"]["devices"][1]["nodeSelector"]["nodeSelectorTerms"][0]["matchExpressions"][0]
            operator, expression["operator"] = expression["operator"], "In"
            await lab.set_up(tree for tree in trees if tree is not pod)
            change_stored(lab, "resourceslices.resource.k8s.io", "", "racks", f'"operator":"{operator}"')
            await lab.create(pod)
            return await lab.failed_scheduling(POD, NAMESPACE, "(node-selector-unusable)")

    first = asyncio.run(shown()).splitlines()[0]
    assert first == headline(scenario.explain())
    assert first.endswith("(node-selector-unusable)")


def change_stored(lab: LabHarness, bucket: str, namespace: str, name: str, operator: str) -> None:
    """Write to the store directly, as an earlier release would have accepted it."""
    entry = lab.plane.store.get(bucket, namespace, name)
    assert entry is not None
    text = entry.json.decode().replace('"operator":"In"', operator)
    lab.plane.store.put(bucket, namespace, name, json.loads(text))


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


def test_a_claim_with_the_maximum_number_of_consumers() -> None:
    scenario = Scenario("fits-single")
    claim, pod = yaml.safe_load_all(CLAIM)

    async def shown() -> str:
        async with lab_harness(scenario.features) as lab:
            await lab.set_up([tree for tree in trees_of(scenario) if not tree["metadata"].get("namespace")])
            await lab.create(claim)
            await lab.create(pod)
            await lab.wait_for_pod(lambda pod: pod["spec"].get("nodeName"), POD, NAMESPACE)
            created = await lab.client.get(CLAIMS, "gpu", NAMESPACE)
            node = (await lab.pod(POD, NAMESPACE))["spec"]["nodeName"]
            # Enough resources for all of them, or the node's pod limit would be a cause, too.
            await lab.client.patch(NODES, node, {"status": {"allocatable": {"pods": "500"}}}, subresource="status")
            users = list(created["status"]["reservedFor"])
            for number in range(256 - len(users)):
                user = await lab.create_user(f"user-{number}", NAMESPACE, "gpu", node)
                users.append({"resource": "pods", "name": f"user-{number}", "uid": user["metadata"]["uid"]})
            # A patch, because the controller that reserves claims for bound pods may write between reading and writing.
            await lab.client.patch(CLAIMS, "gpu", {"status": {"reservedFor": users}}, NAMESPACE, subresource="status")
            await lab.create({**pod, "metadata": {"name": "one-more", "namespace": NAMESPACE}})
            return await lab.failed_scheduling("one-more", NAMESPACE, "(claim-in-use)")

    message = asyncio.run(shown()).splitlines()
    assert message[0] == "claim ml/gpu is reserved for 256 consumers, which is the maximum (claim-in-use)"
    assert message[1] == f"  what to do: {CODES['claim-in-use'].advice}"
    assert message[-1].startswith("0/1 nodes are available: resourceclaim in use.")


def test_a_claim_that_was_created_with_a_feature_enabled() -> None:
    scenario = Scenario("fits-single")
    claim, pod = yaml.safe_load_all(CLAIM)

    async def shown() -> str:
        async with lab_harness(Features("1.36", {"DRAConsumableCapacity": False})) as lab:
            await lab.set_up([tree for tree in trees_of(scenario) if not tree["metadata"].get("namespace")])
            created = copy.deepcopy(await lab.create(claim))
            created["spec"]["devices"]["requests"][0]["exactly"]["capacity"] = {"requests": {"memory": "10Gi"}}
            lab.plane.store.put("resourceclaims.resource.k8s.io", NAMESPACE, "gpu", created)
            await lab.create(pod)
            return await lab.failed_scheduling(POD, NAMESPACE, "(feature-off)")

    message = asyncio.run(shown()).splitlines()
    assert message[0].endswith("the DRAConsumableCapacity feature is disabled (feature-off)")
    assert message[1] == f"  what to do: {CODES['feature-off'].advice}"


def test_every_code_is_shown_or_known_to_be_impossible() -> None:
    shown = (
        {head(name).get("event", head(name)["code"]) for name in WAITING}
        | set(REFUSED)
        | {"claim-not-owned", "claim-in-use", "feature-off"}
    )
    assert set(CODES) == shown | set(IMPOSSIBLE)
    assert not shown & set(IMPOSSIBLE)
