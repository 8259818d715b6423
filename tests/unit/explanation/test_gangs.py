"""Pods that Kubernetes 1.37 schedules together (gate GenericWorkload) are explained as a whole."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from allotment.engine.refusal import AllocationRefusal
from allotment.explanation import Explanation, explain, fits, lines
from allotment.explanation.subjects import objects_to_explain, other_pods
from allotment.model.core import Pod
from allotment.model.decoding import decode_all
from allotment.model.features import Features
from allotment.model.loading import load_text
from allotment.model.meta import Object
from tests.unit.explanation.test_explain import CLASS, TEMPLATE, slice_

GANGS = Features("1.37", {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True})
RACK = "schedulingConstraints: {topology: [{key: rack}]}"


def gang(minimum: int, name: str = "train", more: str = "") -> str:
    return group(f"{{gang: {{minCount: {minimum}}}}}", name, more)


def group(policy: str = "{basic: {}}", name: str = "train", more: str = "") -> str:
    return f"""
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {{name: {name}, namespace: ns}}
spec:
  schedulingPolicy: {policy}
  {more}
"""


def member(name: str, *, of: str = "train", node: str = "", more: str = "", template: str = "one") -> str:
    """A pod of a group that needs one device; ``node``: where it is already."""
    where = f"nodeName: {node}" if node else ""
    reference = "resourceClaimName: claim-" + name if node else f"resourceClaimTemplateName: {template}"
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: ns, uid: uid-{name}}}
spec:
  schedulingGroup: {{podGroupName: {of}}}
  {where}
  {more}
  resourceClaims: [{{name: gpu, {reference}}}]
  containers: [{{name: main, image: pause, resources: {{claims: [{{name: gpu}}]}}}}]
"""


def members(count: int, first: int = 0, **options: str) -> list[str]:
    return [member(f"p{number}", **options) for number in range(first, first + count)]


def holding(claim: str, node: str, device: str, pod: str) -> str:
    """A claim of a running pod."""
    return f"""
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: {claim}, namespace: ns, uid: uid-{claim}}}
spec: {{devices: {{requests: [{{name: gpu, exactly: {{deviceClassName: gpu, count: 1}}}}]}}}}
status:
  allocation: {{devices: {{results: [{{request: gpu, driver: gpu.example.com, pool: {node}, device: {device}}}]}}}}
  reservedFor: [{{resource: pods, name: {pod}, uid: uid-{pod}}}]
"""


def node(name: str, labels: str = "{}", more: str = "") -> str:
    return f"""
apiVersion: v1
kind: Node
metadata: {{name: {name}, labels: {labels}, uid: uid-{name}}}
spec: {{{more}}}
"""


def objects(*documents: str) -> list[Object]:
    loaded = load_text("---".join((CLASS, TEMPLATE, *documents)))
    decoded = decode_all(loaded.documents)
    assert not [*loaded.problems, *decoded.problems]
    return [manifest.value for manifest in decoded.manifests if isinstance(manifest.value, Object)]


def explained(*documents: str, features: Features = GANGS) -> Explanation:
    """The explanation of a cluster's pending pods; its other pods count as members."""
    cluster = objects(*documents)
    pending = objects_to_explain(cluster, ())
    return explain(pending, features, others=other_pods(cluster, pending))


def headlines(explanation: Explanation) -> list[AllocationRefusal]:
    return [answer.reasons.headline for answer in explanation.answers if answer.reasons is not None]


def outcomes(explanation: Explanation) -> dict[str, str]:
    """The node or the code of each pod."""
    return {
        answer.name.removeprefix("ns/"): answer.node if answer.reasons is None else answer.reasons.headline.code
        for answer in explanation.answers
    }


def changes(refused: AllocationRefusal) -> list[Sequence[str]]:
    return [[change.text for change in way] for way in (refused.changes, refused.otherwise) if way]


# --- too few devices -------------------------------------------------------------------------------------------------


def test_no_pod_of_a_gang_fits_if_one_lacks_a_device() -> None:
    explanation = explained(slice_("n1", 2), gang(3), *members(3))
    assert outcomes(explanation) == dict.fromkeys(("p0", "p1", "p2"), "gang-incomplete")
    first, _, last = headlines(explanation)
    assert first.summary == last.summary
    assert first.summary.startswith(
        "2 of the 3 pods that gang ns/train requires fit; ns/p2 does not (devices-in-use): "
    )
    assert first.kubernetes == "pod group is unschedulable, minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"
    assert last.kubernetes == "cannot allocate all claims"


def test_pods_that_fit_are_advised_to_lower_min_count() -> None:
    first, _, last = headlines(explained(slice_("n1", 2), gang(3), *members(3)))
    (change,) = first.changes
    assert (change.object, change.path) == ("PodGroup ns/train", "spec.schedulingPolicy.gang")
    assert change.becomes == {"minCount": 2}
    assert last.changes == ()  # its devices would still be missing
    assert outcomes(explained(slice_("n1", 2), gang(2), *members(3))) == {
        "p0": "n1", "p1": "n1", "p2": "devices-in-use",
    }  # fmt: skip


def test_devices_of_a_gang_that_does_not_fit_are_free_for_other_pods() -> None:
    explanation = explained(slice_("n1", 2), gang(3), group(name="other"), *members(3), member("q", of="other"))
    assert outcomes(explanation)["q"] == "n1"
    assert explanation.answers[-1].claims[0].devices[0].device == "gpu-0"


def test_a_gang_that_fits_gets_its_devices() -> None:
    explanation = explained(slice_("n1", 2), slice_("n2", 1), gang(3), *members(3))
    assert outcomes(explanation) == {"p0": "n1", "p1": "n1", "p2": "n2"}
    assert {answer.group for answer in explanation.answers} == {"PodGroup ns/train"}
    devices = [(answer.node, answer.claims[0].devices[0].device) for answer in explanation.answers]
    assert len(set(devices)) == 3


def test_pods_of_a_gang_above_its_minimum_may_stay_pending() -> None:
    assert outcomes(explained(slice_("n1", 2), gang(2), *members(3))) == {
        "p0": "n1", "p1": "n1", "p2": "devices-in-use",
    }  # fmt: skip


def test_without_a_gang_policy_the_pods_that_fit_do_not_wait_for_the_others() -> None:
    assert outcomes(explained(slice_("n1", 1), group(), *members(2))) == {"p0": "n1", "p1": "devices-in-use"}


def test_if_no_pod_fits_each_has_its_own_reason() -> None:
    explanation = explained(slice_("n1", 2).replace("model: {string: a}", "x: {int: 1}"), gang(2), *members(2),
                            holding("a", "n1", "gpu-0", "x"), holding("b", "n1", "gpu-1", "z"))  # fmt: skip
    assert outcomes(explanation) == {"p0": "devices-in-use", "p1": "devices-in-use"}
    assert explanation.answers[0].notes == ("PodGroup ns/train is scheduled only if 2 of its pods fit together",)
    wait = ["wait for pods x, z to finish (claims ns/a, ns/b)"]  # one device is not enough for the gang
    assert [changes(refused) for refused in headlines(explanation)] == [[wait], [wait]]


def test_releasing_a_claim_of_another_user_is_suggested_if_the_whole_gang_then_fits() -> None:
    theirs = holding("theirs", "n1", "gpu-2", "x")
    first, _, last = headlines(explained(slice_("n1", 3), theirs, gang(3), *members(3)))
    assert changes(first) == [
        ["wait for pod x to finish (claim ns/theirs)"], ["lower minCount of PodGroup ns/train to 2"],
    ]  # fmt: skip
    assert changes(last) == [["wait for pod x to finish (claim ns/theirs)"]]


def test_a_gang_waits_for_as_many_pods_as_it_needs() -> None:
    """Four of six devices are in use; a third pod of the gang needs one of them, and a fourth another."""
    theirs = [holding(f"theirs-{number}", "n1", f"gpu-{number}", f"x{number}") for number in range(4)]
    first, *_ = headlines(explained(slice_("n1", 6), *theirs, gang(4), *members(4)))
    assert changes(first) == [
        ["wait for pods x0, x1 to finish (claims ns/theirs-0, ns/theirs-1)"],
        ["lower minCount of PodGroup ns/train to 2"],
    ]


def test_a_change_that_helps_one_pod_only_is_not_suggested() -> None:
    first, *_ = headlines(explained(slice_("n1", 3), holding("theirs", "n1", "gpu-2", "x"), gang(4), *members(4)))
    assert changes(first) == [["lower minCount of PodGroup ns/train to 2"]]


def test_the_node_that_a_member_excludes_is_suggested_for_the_gang() -> None:
    away = member("p1", more="nodeSelector: {zone: b}")
    explanation = explained(node("n1", "{zone: a}"), slice_("n1", 2), gang(2), member("p0"), away)
    first = headlines(explanation)[0]
    assert first.summary.startswith("1 of the 2 pods that gang ns/train requires fits; ns/p1 does not (node-not-elig")
    assert changes(first) == [["set nodeSelector zone=a"], ["lower minCount of PodGroup ns/train to 1"]]


def test_uncordoning_a_node_is_verified_for_the_gang() -> None:
    documents = (node("n1"), node("n2", more="unschedulable: true"), slice_("n1", 1), slice_("n2", 1))
    first = headlines(explained(*documents, gang(2), *members(2)))[0]
    assert changes(first)[0] in (["uncordon n2"], ["lower minCount of PodGroup ns/train to 1"])


# --- members that exist, and members that do not ---------------------------------------------------------------------


def test_a_gang_with_missing_pods_waits_for_them() -> None:
    explanation = explained(slice_("n1", 4), gang(4), *members(3))
    for refused in headlines(explanation):
        assert refused.summary == "gang ns/train requires 4 pods, 3 exist"
        assert refused.kubernetes.startswith("waiting for minCount pods from a gang to appear in scheduling queue")
        assert changes(refused) == [
            ["create 1 more pod of PodGroup ns/train"], ["lower minCount of PodGroup ns/train to 3"],
        ]  # fmt: skip


def test_creating_pods_is_not_suggested_if_they_would_not_fit() -> None:
    (refused, *_) = headlines(explained(slice_("n1", 3), gang(4), *members(3)))
    assert changes(refused) == [["lower minCount of PodGroup ns/train to 3"]]


def test_missing_pods_and_one_that_does_not_fit_are_both_named() -> None:
    (refused, *_) = headlines(explained(slice_("n1", 1), gang(3), *members(2)))
    assert refused.summary.startswith("gang ns/train requires 3 pods, 2 exist, and 1 fits; ns/p1 does not (devices-in-")


def test_pods_that_have_a_node_count() -> None:
    running = (member("p0", node="n1"), holding("claim-p0", "n1", "gpu-0", "p0"))
    assert outcomes(explained(slice_("n1", 2), gang(2), *running, member("p1"))) == {"p1": "n1"}
    alone = explained(slice_("n1", 2), gang(3), *running, member("p1"))
    assert headlines(alone)[0].summary == "gang ns/train requires 3 pods, 2 exist"


def test_pods_that_have_ended_do_not_count() -> None:
    ended = member("p0", node="n1") + "status: {phase: Succeeded}\n"
    (refused,) = headlines(explained(slice_("n1", 2), gang(2), ended, member("p1")))
    assert refused.summary == "gang ns/train requires 2 pods, 1 exists"


def test_a_pod_from_a_file_is_tried_with_the_pending_members_of_the_cluster() -> None:
    """The devices are for two of three pods."""
    cluster = objects(slice_("n1", 2), gang(3), *members(2))
    asked = objects(member("p2"))[2:]
    values = objects_to_explain(cluster, asked)
    explanation = explain(values, GANGS, others=other_pods(cluster, values))
    assert outcomes(explanation) == {"p2": "gang-incomplete"}
    assert headlines(explanation)[0].summary.startswith("2 of the 3 pods that gang ns/train requires fit; ns/p2 does")


def test_pods_of_a_workload_are_members() -> None:
    job = """
apiVersion: batch/v1
kind: Job
metadata: {name: work, namespace: ns}
spec:
  parallelism: 3
  completions: 3
  template:
    spec:
      schedulingGroup: {podGroupName: train}
      resourceClaims: [{name: gpu, resourceClaimTemplateName: one}]
      containers: [{name: main, image: pause, resources: {claims: [{name: gpu}]}}]
"""
    values = objects(slice_("n1", 2), gang(3), job)
    text = "\n".join(lines(explain(values, GANGS), width=400))
    assert "the same for 2 more pods of Job ns/work" in text
    assert fits(objects(slice_("n1", 3), gang(3), job), GANGS)
    assert not fits(values, GANGS)


def test_a_group_that_does_not_exist_is_awaited() -> None:
    (refused,) = headlines(explained(slice_("n1", 1), gang(1, "trainers"), member("p0", of="trainer")))
    assert refused.code == "group-missing"
    assert refused.summary.endswith('Did you mean "trainers"?')
    assert refused.kubernetes.startswith('waiting for pods\'s pod group "trainer" to appear in scheduling queue')


def test_a_scheduling_gate_of_one_pod_holds_all_pods_of_its_group() -> None:
    gated = member("p1", more="schedulingGates: [{name: example.com/quota}]")
    held, own = explained(slice_("n1", 2), gang(2), member("p0"), gated).answers
    assert held.waits == (
        "pod ns/p1 of PodGroup ns/train has scheduling gate example.com/quota, and the pods of a group are scheduled "
        "together"
    )
    assert own.waits.startswith("scheduling gate example.com/quota prevents scheduling")


# --- topology --------------------------------------------------------------------------------------------------------

RACKS = (
    node("n1", "{rack: a}"), node("n2", "{rack: b}"), node("n3", "{rack: b}"),
    slice_("n1", 1), slice_("n2", 1), slice_("n3", 1),
)  # fmt: skip


def test_a_gang_gets_nodes_that_share_a_label() -> None:
    assert outcomes(explained(*RACKS, gang(2, more=RACK), *members(2))) == {"p0": "n2", "p1": "n3"}
    without = explained(*RACKS, gang(2, more=RACK), *members(2), features=Features("1.37", {"GenericWorkload": True}))
    assert outcomes(without) == {"p0": "n1", "p1": "n2"}


def test_a_gang_that_fits_on_no_rack_is_explained_for_the_best_one() -> None:
    refused, *_ = headlines(explained(*RACKS, gang(3, more=RACK), *members(3)))
    assert refused.code == "gang-incomplete"
    assert refused.summary.startswith("2 of the 3 pods that gang ns/train requires fit on nodes with rack=b; ns/p2 do")
    assert refused.kubernetes == "pod group is unschedulable, 0/2 placements are available"


def test_a_gang_stays_in_the_rack_of_its_pods_that_have_a_node() -> None:
    running = (member("p0", node="n1"), holding("claim-p0", "n1", "gpu-0", "p0"))
    (refused,) = headlines(explained(*RACKS, gang(2, more=RACK), *running, member("p1")))
    assert refused.summary.startswith("1 of the 2 pods that gang ns/train requires fits on nodes with rack=a; ns/p1")


@pytest.mark.parametrize(
    ("where", "text", "kubernetes"),
    [
        ((), "no node has label zone, whose value", "no feasible placements found"),
        (("n1",), "pod ns/q0 of PodGroup ns/train is on a node without label zone", "no topology domain found for pod"),
    ],
)
def test_a_topology_that_no_node_has(where: tuple[str, ...], text: str, kubernetes: str) -> None:
    running = [member(f"q{number}", node=name) for number, name in enumerate(where)]
    zone = RACK.replace("rack", "zone")
    refused, *_ = headlines(explained(*RACKS, gang(2, more=zone), *running, *members(2)))
    assert refused.code == "group-topology-missing"
    assert text in refused.summary
    assert kubernetes in refused.kubernetes


def test_pods_that_run_on_different_racks_have_no_common_topology() -> None:
    running = [member("q0", node="n1"), member("q1", node="n2")]
    (refused,) = headlines(explained(*RACKS, gang(3, more=RACK), *running, member("p0")))
    assert refused.summary.endswith("different values of label rack: a, b")
    assert refused.kubernetes.endswith("more than 1 domain found for pod group: a, b")


# --- releases --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("features", [Features("1.37"), Features("1.36", {"GenericWorkload": True})])
def test_pods_are_explained_one_by_one_where_kubernetes_schedules_them_so(features: Features) -> None:
    explanation = explained(slice_("n1", 1), gang(2), *members(2), features=features)
    assert outcomes(explanation) == {"p0": "n1", "p1": "devices-in-use"}
    assert not any(answer.group for answer in explanation.answers)


def test_the_text_names_a_gang_once() -> None:
    text = lines(explained(slice_("n1", 2), gang(3), *members(3)), width=400)
    assert text[0] == "0 of 3 pods fit; Pod ns/p0 does not (gang-incomplete)"
    assert text[3] == "  the same for 2 more pods of PodGroup ns/train"
    assert sum("gang-incomplete" in line for line in text) == 2


def test_pods_that_are_not_explained_have_no_answer() -> None:
    pods = [value for value in objects(member("p0"), member("p1")) if isinstance(value, Pod)]
    values = [*objects(slice_("n1", 2), gang(2)), pods[1]]
    assert outcomes(explain(values, GANGS, others=pods[:1])) == {"p1": "n1"}


def test_a_group_of_a_composite_group_has_a_note() -> None:
    (answer,) = explained(slice_("n1", 1), gang(1, more="parentCompositePodGroupName: top"), member("p0")).answers
    assert answer.notes == (
        "PodGroup ns/train is scheduled together with CompositePodGroup top, which is not considered",
    )  # fmt: skip
