"""Pods of PodGroups, tried in order: the first gets the group's claim, the others use it."""

from __future__ import annotations

import msgspec

from allotment.explanation import Explanation, explain, lines
from allotment.model.decoding import decode_all
from allotment.model.features import Features
from allotment.model.loading import load_text
from allotment.model.meta import Value
from allotment.model.pod_groups import GATE
from tests.unit.explanation.test_explain import CLASS, TEMPLATE, slice_

ON = Features("1.36", {GATE: True})


def group(name: str, status: str = "{}", uid: str = "") -> str:
    return f"""
apiVersion: scheduling.k8s.io/v1alpha2
kind: PodGroup
metadata: {{name: {name}, namespace: ns, uid: "{uid}"}}
spec:
  schedulingPolicy: {{basic: {{}}}}
  resourceClaims:
  - {{name: gpu, resourceClaimTemplateName: one}}
status: {status}
"""


def member(name: str, of: str = "g", entry: str = "gpu", status: str = "{}") -> str:
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: ns, uid: uid-{name}}}
spec:
  schedulingGroup: {{podGroupName: {of}}}
  resourceClaims:
  - {{name: {entry}, resourceClaimTemplateName: one}}
  containers:
  - {{name: main, image: pause, resources: {{claims: [{{name: {entry}}}]}}}}
status: {status}
"""


def made(name: str, owner: str, uid: str) -> str:
    return f"""
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  name: {name}
  namespace: ns
  uid: u
  ownerReferences:
  - {{apiVersion: scheduling.k8s.io/v1alpha2, kind: PodGroup, name: {owner}, uid: {uid}, controller: true}}
spec:
  devices:
    requests:
    - {{name: gpu, exactly: {{deviceClassName: gpu, allocationMode: ExactCount, count: 1}}}}
"""


def explained(*documents: str, features: Features = ON) -> Explanation:
    loaded = load_text("---".join(documents))
    decoded = decode_all(loaded.documents)
    assert not [*loaded.problems, *decoded.problems]
    return explain([m.value for m in decoded.manifests if isinstance(m.value, Value)], features)


def given(explanation: Explanation) -> list[tuple[str, str, list[str]]]:
    """Pod, node and claims of each answer."""
    return [(a.name, a.node, [claim.name for claim in a.claims]) for a in explanation.answers]


def test_pods_of_a_group_share_its_claim() -> None:
    explanation = explained(
        CLASS, TEMPLATE, slice_("n1", 1), slice_("n2", 1), group("g"), group("h"),
        member("a"), member("b"), member("c", "h"), member("d", "h"), member("e"),
    )  # fmt: skip
    assert explanation.fits
    found = given(explanation)
    assert [node for _, node, _ in found] == ["n1", "n1", "n2", "n2", "n1"]
    names = [claims for _, _, claims in found]
    assert names[0] == names[1] == names[4] != names[2] == names[3]
    assert all(name.startswith("ns/g-gpu-") for name in names[0])


def test_an_entry_with_another_name_is_a_claim_of_the_pod() -> None:
    found = given(explained(CLASS, TEMPLATE, slice_("n1", 2), group("g"), member("a"), member("b", entry="mine")))
    assert [claims[0].rpartition("-")[0] for _, _, claims in found] == ["ns/g-gpu", "ns/b-mine"]


def test_the_generated_claim_of_the_group_is_used() -> None:
    status = "{resourceClaimStatuses: [{name: gpu, resourceClaimName: was-made}]}"
    documents = (CLASS, TEMPLATE, slice_("n1", 1), group("g", status, "uid-g"), made("was-made", "g", "uid-g"))
    found = given(explained(*documents, member("a"), member("b", status=status)))
    assert found == [("ns/a", "n1", ["ns/was-made"]), ("ns/b", "n1", ["ns/was-made"])]


def test_a_claim_of_another_group_is_not_used() -> None:
    status = "{resourceClaimStatuses: [{name: gpu, resourceClaimName: theirs}]}"
    documents = (CLASS, TEMPLATE, slice_("n1", 1), group("g"), group("h"), made("theirs", "h", "uid-h"))
    text = "\n".join(lines(explained(*documents, member("a", status=status)), width=400))
    assert "(neither Pod nor PodGroup g is the owner)" in text


def test_a_missing_group_is_reported_with_a_similar_name() -> None:
    [answer] = explained(CLASS, TEMPLATE, slice_("n1", 1), group("trainers"), member("a", "trainer")).answers
    assert answer.reasons is not None
    assert answer.reasons.headline.code == "group-missing"
    assert answer.reasons.headline.summary == (
        'PodGroup "trainer" does not exist in namespace ns. Did you mean "trainers"?'
    )
    assert msgspec.json.encode(answer)


def test_a_reason_names_the_group_that_holds_the_devices() -> None:
    text = lines(
        explained(CLASS, TEMPLATE, slice_("n1", 1), group("g"), group("h"), member("a"), member("b", "h")), width=400
    )
    assert any("claim ns/g-gpu-0 (PodGroup g)" in line for line in text), text


def test_without_the_gate_every_pod_has_a_separate_claim() -> None:
    documents = (CLASS, TEMPLATE, slice_("n1", 2), group("g"), member("a"), member("b"), member("c", "absent"))
    explanation = explained(*documents, features=Features("1.36"))
    assert [a.outcome for a in explanation.answers] == ["fits", "fits", "refused"]
    assert [claims[0].rpartition("-")[0] for _, _, claims in given(explanation)[:2]] == ["ns/a-gpu", "ns/b-gpu"]
