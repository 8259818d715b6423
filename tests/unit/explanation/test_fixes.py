"""Changes for pods that cannot be scheduled as they are: reported only if they help, and verified by applying them."""

from __future__ import annotations

import json

import pytest

from allotment.explanation import Answer, Explanation, explain, lines
from allotment.model.decoding import decode_all
from allotment.model.features import Features
from allotment.model.loading import load_text
from allotment.model.meta import Value
from tests.manifest_changes import apply_change

NAMESPACE = "\napiVersion: v1\nkind: Namespace\nmetadata: {name: ns}\n"
CLASS = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec:
  selectors:
  - cel: {expression: 'device.driver == "gpu.example.com"'}
"""
TEMPLATE = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one, namespace: ns}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}}
"""
SLICE = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: n1-gpus}
spec:
  driver: gpu.example.com
  nodeName: n1
  pool: {name: n1, generation: 1, resourceSliceCount: 1}
  devices: [{name: gpu-0, attributes: {model: {string: a}}, capacity: {memory: {value: 40Gi}}}]
"""
FIELD = "requiredDuringSchedulingIgnoredDuringExecution"
ZONED = "{nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: Exists}]}]}"
TEMPLATE_AT = "spec.spec.devices.requests[0]"


def node(more: str = "") -> str:
    return f"\napiVersion: v1\nkind: Node\nmetadata: {{name: n1, labels: {{disk: ssd, tier: gold}}}}\n{more}"


def pod(more: str = "") -> str:
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: p, namespace: ns}}
spec:
  resourceClaims: [{{name: gpu, resourceClaimTemplateName: one}}]
  containers: [{{name: main, image: pause, resources: {{claims: [{{name: gpu}}]}}}}]
{more}"""


def workload(kind: str, more: str = "") -> str:
    return f"""
apiVersion: apps/v1
kind: {kind}
metadata: {{name: w, namespace: ns}}
spec:
  selector: {{matchLabels: {{app: w}}}}
  template:
    metadata: {{labels: {{app: w}}}}
    spec:
      resourceClaims: [{{name: gpu, resourceClaimTemplateName: one}}]
      containers: [{{name: main, image: pause, resources: {{claims: [{{name: gpu}}]}}}}]
{more}"""


def answer(text: str) -> Answer:
    loaded = load_text(text)
    decoded = decode_all(loaded.documents)
    assert not [*loaded.problems, *decoded.problems]
    return explain([m.value for m in decoded.manifests if isinstance(m.value, Value)], Features("1.36")).answers[0]


def explained(*documents: str) -> list[tuple[str, str]]:
    """Object and path of the reported changes, after checking that the pod fits with them."""
    reasons = answer("---".join(documents)).reasons
    assert reasons is not None
    changes = reasons.headline.changes
    if changes:
        trees = [document.tree for document in load_text("---".join((*documents, NAMESPACE))).documents]
        for change in changes:
            assert apply_change(trees, change), change
        assert answer("---\n".join(json.dumps(tree) + "\n" for tree in trees)).fits
    return [(change.object, change.path) for change in changes]


@pytest.mark.parametrize(
    ("on_node", "in_pod", "wanted"),
    [
        ("", "  nodeName: n2\n", [("Pod ns/p", "spec.nodeName")]),
        ("", "  nodeSelector: {disk: hdd, tier: gold}\n", [("Pod ns/p", "spec.nodeSelector")]),
        ("", "  nodeSelector: {zone: b}\n", [("Pod ns/p", "spec.nodeSelector")]),
        ("", "  nodeSelector: {zone: b, tier: gold}\n", [("Pod ns/p", 'spec.nodeSelector["zone"]')]),
        ("spec: {unschedulable: true}\n", "", [("Node n1", "spec.unschedulable")]),
        ("spec: {taints: [{key: k, effect: NoSchedule}]}\n", "", [("Pod ns/p", "spec.tolerations")]),
        (
            "spec: {taints: [{key: k, effect: NoSchedule}, {key: l, value: v, effect: NoExecute}]}\n",
            "  nodeSelector: {disk: hdd}\n",
            [("Pod ns/p", "spec.nodeSelector"), ("Pod ns/p", "spec.tolerations"), ("Pod ns/p", "spec.tolerations")],
        ),
        ("spec: {taints: [{key: ToBeDeletedByClusterAutoscaler, effect: NoSchedule}]}\n", "", []),
        (
            "",
            f"  affinity: {{nodeAffinity: {{{FIELD}: {ZONED}}}}}\n",
            [("Pod ns/p", f"spec.affinity.nodeAffinity.{FIELD}")],
        ),
    ],
)
def test_changes_that_make_a_node_eligible(on_node: str, in_pod: str, wanted: list[tuple[str, str]]) -> None:
    assert explained(CLASS, TEMPLATE, SLICE, node(on_node), pod(in_pod)) == wanted


@pytest.mark.parametrize("state", ["not-ready", "unreachable", "disk-pressure", "out-of-service"])
def test_a_node_that_does_not_work_must_recover(state: str) -> None:
    on_node = f"spec: {{taints: [{{key: node.kubernetes.io/{state}, effect: NoSchedule}}]}}\n"
    reasons = answer("---".join((CLASS, TEMPLATE, SLICE, node(on_node), pod("")))).reasons
    assert reasons is not None
    [change] = reasons.headline.changes
    assert (change.remedy, change.object, change.node) == ("recover", "", "n1")


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet"])
def test_changes_of_a_pod_are_made_in_its_workload(kind: str) -> None:
    found = explained(CLASS, TEMPLATE, SLICE, node(), workload(kind, "      nodeSelector: {disk: hdd}\n"))
    assert found == [(f"{kind} ns/w", "spec.template.spec.nodeSelector")]
    tainted = "spec: {taints: [{key: k, effect: NoSchedule}]}\n"
    found = explained(CLASS, TEMPLATE, SLICE, node(tainted), workload(kind))
    assert found == [(f"{kind} ns/w", "spec.template.spec.tolerations")]


@pytest.mark.parametrize(
    ("condition", "fixed"),
    [
        ('device.capacity["gpu.example.com"].memory >= quantity("40Gi")', True),
        ("device.capacity['gpu.example.com'].memory >= '40Gi'", True),
        ('device.attributes["gpu.example.com"].model = "a"', True),
        ('device.driver == "gpu.example.com" and device.attributes["gpu.example.com"].model = "a"', True),
        ('device.attributes["gpu.example.com"].model === "a"', True),
        ('device.attributes["gpu.example.com"].model ~ "a"', False),
    ],
)
def test_an_expression_that_does_not_compile(condition: str, fixed: bool) -> None:
    in_class = CLASS.replace('device.driver == "gpu.example.com"', condition.replace("'", "''"))
    assert explained(in_class, TEMPLATE, SLICE, pod()) == (
        [("DeviceClass gpu", "spec.selectors[0].cel.expression")] if fixed else []
    )
    exactly = json.dumps({"deviceClassName": "gpu", "selectors": [{"cel": {"expression": condition}}]})
    in_template = TEMPLATE.replace("{deviceClassName: gpu}", exactly)
    path = f"{TEMPLATE_AT}.exactly.selectors[0].cel.expression"
    assert explained(CLASS, in_template, SLICE, pod()) == ([("ResourceClaimTemplate ns/one", path)] if fixed else [])


@pytest.mark.parametrize("value", ["ssd", "sssd"])
def test_a_misspelled_key_of_the_node_selector_is_corrected(value: str) -> None:
    """Also if the value is misspelled, too."""
    selector = f"  nodeSelector: {{dsik: {value}}}\n"
    found = explained(CLASS, TEMPLATE, SLICE, node(), workload("Deployment", f"    {selector}"))
    path = "spec.template.spec.nodeSelector"
    assert found == [("Deployment ns/w", path), ("Deployment ns/w", f'{path}["dsik"]')]


def test_the_corrected_expression_is_relaxed_if_no_device_matches_it() -> None:
    selector = json.dumps({"cel": {"expression": 'device.capacity["gpu.example.com"].memory >= quantity("80Gi")'}})
    template = TEMPLATE.replace("{deviceClassName: gpu}", f"{{deviceClassName: gpu, selectors: [{selector}]}}")
    path = f"{TEMPLATE_AT}.exactly.selectors[0].cel.expression"
    assert explained(CLASS, template, SLICE, pod()) == [("ResourceClaimTemplate ns/one", path)] * 2


def test_the_selector_of_a_class_is_not_dropped_because_no_device_matches_it() -> None:
    expression = 'device.capacity["gpu.example.com"].memory >= quantity("80Gi")'
    in_class = CLASS.replace('device.driver == "gpu.example.com"', expression)
    assert explained(in_class, TEMPLATE, SLICE, pod()) == []


@pytest.mark.parametrize(
    ("exactly", "path"),
    [
        ("exactly: {}", ".exactly.deviceClassName"),
        ("exactly: {deviceClassName: gpu, allocationMode: ExactCont}", ".exactly.allocationMode"),
        ("firstAvailable: []", ".exactly"),
        ("exactly: {deviceClassName: gpu, count: -1}", ""),
    ],
)
def test_a_template_that_the_api_server_rejects(exactly: str, path: str) -> None:
    template = TEMPLATE.replace("exactly: {deviceClassName: gpu}", exactly)
    wanted = [("ResourceClaimTemplate ns/one", f"{TEMPLATE_AT}{path}")] if path else []
    assert explained(CLASS, template, SLICE, pod()) == wanted


def test_a_claim_without_a_pod_is_fixed() -> None:
    claim = TEMPLATE.replace("ResourceClaimTemplate", "ResourceClaim").replace("{spec: {devices", "{devices")
    claim = claim.replace("]}}}", "]}}").replace("deviceClassName: gpu", "deviceClassName: gpu, adminAccess: true")
    assert explained(CLASS, claim, SLICE) == [("Namespace ns", "metadata.labels")]
    assert explained(CLASS.replace("==", "="), claim.replace(", adminAccess: true", ""), SLICE) == [
        ("DeviceClass gpu", "spec.selectors[0].cel.expression")
    ]


def test_a_claim_of_a_pod_is_fixed_in_the_claim() -> None:
    claim = TEMPLATE.replace("ResourceClaimTemplate", "ResourceClaim").replace("{spec: {devices", "{devices")
    claim = claim.replace("]}}}", "]}}").replace(
        "deviceClassName: gpu", "deviceClassName: gpu, allocationMode: ExactCont"
    )
    user = pod().replace("resourceClaimTemplateName", "resourceClaimName")
    path = "spec.devices.requests[0].exactly.allocationMode"
    assert explained(CLASS, claim, SLICE, user) == [("ResourceClaim ns/one", path)]


def test_two_removals_at_one_path_are_printed_twice() -> None:
    """The second constraint moves to the index of the first one."""
    constraints = "constraints: [{matchAttribute: a.example.org/zzz}, {matchAttribute: b.example.org/yyy}]"
    documents = (CLASS, TEMPLATE.replace("{devices: {", f"{{devices: {{{constraints}, "), SLICE, pod())
    assert explained(*documents) == [("ResourceClaimTemplate ns/one", "spec.spec.devices.constraints[0]")] * 2
    shown = lines(Explanation(answers=(answer("---".join(documents)),)))
    assert shown.count("    spec.spec.devices.constraints[0] (remove it)") == 2


def test_a_class_is_not_suggested_if_there_are_two() -> None:
    template = TEMPLATE.replace("exactly: {deviceClassName: gpu}", "exactly: {}")
    assert explained(CLASS, CLASS.replace("gpu}", "other}"), template, SLICE, pod()) == []


def test_a_trial_change_of_a_class_does_not_affect_the_next_pod() -> None:
    broken = CLASS.replace("==", "=")
    text = "---".join([broken, TEMPLATE, SLICE, pod(), pod().replace("name: p,", "name: q,")])
    decoded = decode_all(load_text(text).documents)
    answers = explain([m.value for m in decoded.manifests if isinstance(m.value, Value)], Features("1.36")).answers
    assert [a.reasons and a.reasons.headline.code for a in answers] == ["selector-invalid"] * 2


def test_a_daemon_pod_is_tried_on_its_own_node() -> None:
    found = answer("---".join([CLASS, TEMPLATE, node(), node().replace("n1", "n2"), workload("DaemonSet"), SLICE]))
    assert (found.node, found.fits) == ("n1", True)
    both = "---".join([CLASS, TEMPLATE, node().replace("n1", "n0"), workload("DaemonSet"), SLICE])
    reasons = answer(both).reasons
    assert reasons is not None
    assert [row.nodes for row in reasons.nodes] == [("n0",)]
