"""Explanation of pods in order: allocated devices, refused pods, and the text output."""

from __future__ import annotations

import msgspec
import pytest

from allotment.engine.refusal import CODES
from allotment.explanation import Explanation, explain, lines
from allotment.model.decoding import decode_all
from allotment.model.features import Features
from allotment.model.loading import load_text
from allotment.model.meta import Value

FEATURES = Features(kube="1.36")
CLASS = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec:
  selectors:
  - cel: {expression: device.driver == "gpu.example.com"}
"""
TEMPLATE = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one, namespace: ns}
spec:
  spec:
    devices:
      requests:
      - name: gpu
        exactly: {deviceClassName: gpu}
"""


NOT_IN_A = "{nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: NotIn, values: [a]}]}]}"


def slice_(node: str, devices: int, model: str = "a") -> str:
    listed = "".join(f"  - name: gpu-{i}\n    attributes: {{model: {{string: {model}}}}}\n" for i in range(devices))
    return f"""
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {{name: {node}-gpus}}
spec:
  driver: gpu.example.com
  nodeName: {node}
  pool: {{name: {node}, generation: 1, resourceSliceCount: 1}}
  devices:
{listed}"""


def pod(name: str, reference: str = "resourceClaimTemplateName: one", more: str = "") -> str:
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: ns}}
spec:
  resourceClaims:
  - name: gpu
    {reference}
  containers:
  - name: main
    image: pause
    resources: {{claims: [{{name: gpu}}]}}
{more}"""


def node(name: str, more: str = "") -> str:
    return f"\napiVersion: v1\nkind: Node\nmetadata:\n  name: {name}\n{more}"


def claim(name: str, more: str = "") -> str:
    return f"""
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: {name}, namespace: ns}}
spec:
  devices:
    requests:
    - name: gpu
      exactly: {{deviceClassName: gpu}}
{more}"""


def explained(*documents: str) -> Explanation:
    loaded = load_text("---".join(documents))
    decoded = decode_all(loaded.documents)
    assert not [*loaded.problems, *decoded.problems]
    return explain([m.value for m in decoded.manifests if isinstance(m.value, Value)], FEATURES)


def codes(explanation: Explanation) -> list[str]:
    return [a.reasons.headline.code if a.reasons is not None else a.outcome for a in explanation.answers]


def test_pods_take_devices_in_the_order_given() -> None:
    explanation = explained(CLASS, TEMPLATE, slice_("n1", 1), slice_("n2", 1), pod("b"), pod("a"), pod("c"))
    assert [(a.name, a.node) for a in explanation.answers] == [("ns/b", "n1"), ("ns/a", "n2"), ("ns/c", "")]
    assert codes(explanation) == ["fits", "fits", "devices-in-use"]
    assert not explanation.fits


def test_a_shared_claim_is_allocated_once_and_restricts_the_second_pod_to_its_node() -> None:
    explanation = explained(
        CLASS, slice_("n1", 2), slice_("n2", 2), claim("shared"),
        pod("a", "resourceClaimName: shared"), pod("b", "resourceClaimName: shared"),
    )  # fmt: skip
    first, second = explanation.answers
    assert first.node == second.node == "n1"
    assert first.claims[0].devices == second.claims[0].devices
    assert (first.claims[0].before, second.claims[0].before) == (False, True)


def test_a_claim_tried_alone_holds_nothing() -> None:
    explanation = explained(CLASS, slice_("n1", 1), claim("c1"), claim("c2"))
    assert codes(explanation) == ["fits", "fits"]


def test_a_claim_named_by_a_refused_pod_is_not_tried_again() -> None:
    explanation = explained(CLASS, claim("c1"), pod("p", "resourceClaimName: c2"), claim("c2"))
    assert [a.name for a in explanation.answers] == ["ns/p", "ns/c1"]


def test_pods_without_claims_fit_anywhere() -> None:
    text = "\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}]}\n"
    explanation = explained(text)
    assert explanation.fits
    assert explanation.answers[0].node == ""


@pytest.mark.parametrize(
    ("labels", "spec", "code"),
    [
        ("  labels: {zone: a}\n", "  nodeSelector: {zone: a}\n", "fits"),
        ("  labels: {zone: a}\n", "  nodeSelector: {zone: b}\n", "node-not-eligible"),
        ("", "  nodeName: n1\n", "fits"),
        ("", "  nodeName: n2\n", "node-not-eligible"),
        ("", "  nodeSelector: {kubernetes.io/hostname: n1}\n", "fits"),
        ("spec: {unschedulable: true}\n", "", "node-not-eligible"),
        ("spec: {taints: [{key: k, value: v, effect: NoSchedule}]}\n", "", "node-not-eligible"),
        (
            "spec: {taints: [{key: k, value: v, effect: NoSchedule}]}\n",
            "  tolerations: [{key: k, operator: Equal, value: v}]\n",
            "fits",
        ),
        ("spec: {taints: [{key: k, effect: PreferNoSchedule}]}\n", "", "fits"),
        (
            "  labels: {zone: a}\n",
            f"  affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {NOT_IN_A}}}}}\n",
            "node-not-eligible",
        ),
    ],
)
def test_node_rules_of_the_pod(labels: str, spec: str, code: str) -> None:
    explanation = explained(CLASS, TEMPLATE, node("n1", labels), slice_("n1", 1), pod("p", more=spec))
    assert codes(explanation) == [code]


def test_an_excluded_node_with_the_devices_is_reported() -> None:
    explanation = explained(
        CLASS, TEMPLATE, node("n1", "  labels: {zone: a}\n"), node("n2", "  labels: {zone: b}\n"), slice_("n1", 1),
        pod("p", more="  nodeSelector: {zone: b}\n"),
    )  # fmt: skip
    text = "\n".join(lines(explanation))
    assert codes(explanation) == ["node-not-eligible"]
    assert "the pod's nodeSelector zone=b excludes n1, which has the devices" in " ".join(text.split())


def test_a_node_with_accelerators_that_the_pod_selects_lacks_its_driver() -> None:
    """The pod's rule is right: it does not select the other node by mistake."""
    labels = "  labels: {zone: b, cloud.google.com/gke-accelerator: nvidia-l4}\n"
    explanation = explained(
        CLASS, TEMPLATE, node("n1", "  labels: {zone: a}\n"), node("n2", labels), slice_("n1", 1),
        pod("p", more="  nodeSelector: {zone: b}\n"),
    )  # fmt: skip
    text = " ".join(" ".join(lines(explanation)).split())
    assert codes(explanation) == ["driver-missing"]
    assert "n2 has label cloud.google.com/gke-accelerator=nvidia-l4: is its driver running?" in text
    assert "to make it fit on n1: set nodeSelector zone=a" in text


def test_tainted_devices_of_the_node_that_the_pod_selects_are_the_cause() -> None:
    tainted = slice_("n2", 1).replace("{string: a}}", "{string: a}}\n    taints: [{key: ecc, effect: NoSchedule}]")
    explanation = explained(
        CLASS, TEMPLATE, node("n1", "  labels: {zone: a}\n"), node("n2", "  labels: {zone: b}\n"), slice_("n1", 1),
        tainted, pod("p", more="  nodeSelector: {zone: b}\n"),
    )  # fmt: skip
    text = " ".join(" ".join(lines(explanation)).split())
    assert codes(explanation) == ["devices-tainted"]
    assert "to make it fit on n1: set nodeSelector zone=a" in text
    assert "or, on n2: tolerate ecc:NoSchedule" in text


def test_a_slice_that_the_api_server_rejects_is_ignored_and_named() -> None:
    bad = slice_("n1", 1).replace("resourceSliceCount: 1", "resourceSliceCount: 0")
    explanation = explained(CLASS, TEMPLATE, bad, pod("p"))
    assert codes(explanation) == ["driver-missing"]
    assert "ResourceSlice n1-gpus is ignored" in explanation.notes[0]
    assert "resourceSliceCount" in explanation.notes[0]


def test_replicas_with_one_reason_are_one_block() -> None:
    replicas = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web, namespace: ns}
spec:
  replicas: 5
  selector: {matchLabels: {app: web}}
  serviceName: web
  template:
    metadata: {labels: {app: web}}
    spec:
      resourceClaims: [{name: gpu, resourceClaimTemplateName: one}]
      containers: [{name: main, image: pause, resources: {claims: [{name: gpu}]}}]
"""
    explanation = explained(CLASS, TEMPLATE, slice_("n1", 2), replicas)
    assert codes(explanation) == ["fits", "fits", *["devices-in-use"] * 3]
    text = lines(explanation)
    assert text[0] == "2 of 5 pods fit; Pod ns/web-2 does not (devices-in-use)"
    assert "  the same for 2 more pods of StatefulSet ns/web" in text


def test_a_change_of_a_generated_claim_names_its_template() -> None:
    explanation = explained(
        CLASS, TEMPLATE.replace("deviceClassName: gpu", "deviceClassName: gpuu"), slice_("n1", 1), pod("p")
    )
    reasons = explanation.answers[0].reasons
    assert reasons is not None
    change = reasons.headline.changes[0]
    assert change.object == "ResourceClaimTemplate ns/one"
    assert change.path == "spec.spec.devices.requests[0].exactly.deviceClassName"
    assert change.becomes == "gpu"


def test_json_round_trip() -> None:
    explanation = explained(CLASS, TEMPLATE, slice_("n1", 1), slice_("n2", 1, "b"), pod("a"), pod("b"), pod("c"))
    assert msgspec.json.decode(msgspec.json.encode(explanation), type=Explanation) == explanation


@pytest.mark.parametrize("width", [40, 80, 200])
def test_lines_are_folded_to_the_width(width: int) -> None:
    explanation = explained(CLASS, TEMPLATE, slice_("n1", 1), pod("a"), pod("b"))
    for line in lines(explanation, width):
        assert len(line) <= width or " " not in line.strip()


def test_the_same_input_gives_the_same_bytes() -> None:
    documents = (CLASS, TEMPLATE, slice_("n1", 2), slice_("n2", 1, "b"), pod("a"), pod("b"), pod("c"), pod("d"))
    assert lines(explained(*documents)) == lines(explained(*documents))


@pytest.mark.parametrize(
    ("reference", "code", "field"),
    [
        ("resourceClaimTemplateName: onee", "template-missing", "resourceClaimTemplateName"),
        ("resourceClaimName: share", "claim-missing", "resourceClaimName"),
    ],
)
def test_a_misspelled_reference_is_corrected_in_the_pod(reference: str, code: str, field: str) -> None:
    explanation = explained(CLASS, TEMPLATE, slice_("n1", 1), claim("shared"), pod("p", reference))
    reasons = explanation.answers[0].reasons
    assert reasons is not None
    assert reasons.headline.code == code
    (change,) = reasons.headline.changes
    assert (change.object, change.path) == ("Pod ns/p", f"spec.resourceClaims[0].{field}")
    assert change.becomes in ("one", "shared")


ALLOCATED = """
status:
  allocation:
    devices: {results: [{request: gpu, driver: gpu.example.com, pool: n1, device: gpu-0}]}
"""


def test_a_claim_that_is_allocated_on_an_unknown_node_is_on_another_node() -> None:
    """A snapshot is used unchanged, even with an invalid selector."""
    where = "    nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: Is, values: [a]}]}]}\n"
    explanation = explained(
        CLASS, slice_("n1", 1), claim("shared", ALLOCATED + where), pod("p", "resourceClaimName: shared")
    )
    assert codes(explanation) == ["claim-on-other-node"]
    assert any("allocated on an unknown node" in line for line in lines(explanation, 200))


ELSEWHERE = (
    "    nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [n2]}]}]}\n"
)


@pytest.mark.parametrize(
    ("reference", "more"),
    [
        ("resourceClaimName: shared\n  - {name: d, resourceClaimName: lost}", ""),
        ("resourceClaimName: lost", "  nodeSelector: {zone: nowhere}\n"),
    ],
    ids=["a claim on another node", "a pod that excludes all nodes"],
)
def test_a_missing_class_takes_precedence_over_excluded_nodes(reference: str, more: str) -> None:
    """Kubernetes checks the class first and then examines no node."""
    lost = claim("lost").replace("deviceClassName: gpu", "deviceClassName: gone")
    explanation = explained(
        CLASS, slice_("n1", 1), claim("shared", ALLOCATED + ELSEWHERE), lost, pod("p", reference, more)
    )
    assert codes(explanation) == ["class-missing"]


def test_an_error_on_a_node_outside_of_another_claim_ends_the_attempt() -> None:
    """Kubernetes tries to allocate on every eligible node, independent of the pod's allocated claims."""
    all_ = claim("all").replace("deviceClassName: gpu", "deviceClassName: gpu, allocationMode: All")
    broken = slice_("n1", 1).replace("resourceSliceCount: 1", "resourceSliceCount: 2")
    both = pod("p", "resourceClaimName: shared\n  - {name: d, resourceClaimName: all}")
    shared = claim("shared", ALLOCATED.replace("n1", "n2") + ELSEWHERE)
    assert codes(explained(CLASS, slice_("n1", 1), slice_("n2", 2), shared, all_, both)) != ["all-pool-updating"]
    assert codes(explained(CLASS, broken, slice_("n2", 2), shared, all_, both)) == ["all-pool-updating"]


@pytest.mark.parametrize(("count", "code"), [(255, "fits"), (256, "claim-in-use")])
def test_a_claim_has_at_most_256_consumers(count: int, code: str) -> None:
    reserved = "".join(f"  - {{resource: pods, name: p{i}, uid: u{i}}}\n" for i in range(count))
    explanation = explained(
        CLASS,
        slice_("n1", 1),
        claim("shared", f"{ALLOCATED}  reservedFor:\n{reserved}"),
        pod("p", "resourceClaimName: shared"),
    )
    assert codes(explanation) == [code]


def test_excluded_nodes_are_reported_once() -> None:
    n1 = node("n1", "  labels: {zone: b}\nspec:\n  taints: [{key: busy, effect: NoSchedule}]\n")
    n2 = node("n2", "  labels: {zone: a}\n")
    explanation = explained(
        CLASS, TEMPLATE, n1, n2, slice_("n1", 1), slice_("n2", 1), pod("p", more="  nodeSelector: {zone: b}\n")
    )
    text = " ".join(" ".join(lines(explanation)).split())
    assert codes(explanation) == ["node-not-eligible"]
    assert text.count("nodeSelector zone=b") == 1
    assert text.count("has taint busy:NoSchedule") == 1


def test_general_advice_is_printed_if_no_change_helps() -> None:
    text = "\n".join(lines(explained(TEMPLATE, node("a"), slice_("a", 1), pod("p")), 200))
    assert 'DeviceClass "gpu" does not exist. No DeviceClass exists. (class-missing)' in text
    advice = CODES["class-missing"].advice
    assert f"  what to do: {advice}" in text


def test_no_advice_without_nodes() -> None:
    text = "\n".join(lines(explained(CLASS, TEMPLATE, pod("p"))))
    assert "what to do" not in text
    assert "Kubernetes says: no nodes available to schedule pods" in text


def test_a_reason_for_all_nodes_is_not_repeated_per_node() -> None:
    nodes = [part for name in "ab" for part in (node(name), slice_(name, 1, name))]
    text = "\n".join(lines(explained(TEMPLATE, *nodes, pod("p"))))
    assert "(class-missing)" in text
    assert "the same reason" not in text
