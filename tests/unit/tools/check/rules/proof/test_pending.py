"""P501 and P502: objects that stay pending in the simulation, and objects that were not simulated."""

from __future__ import annotations

from functools import partial

import pytest

from allotment.engine.allocator import Allocator
from allotment.tools.check.rules.proof import not_tried, pending
from allotment.tools.check.rules.static_rules import STATIC_RULES
from allotment.tools.check.run import check
from allotment.tools.check.simulation.result import simulation_report
from tests.unit.tools.check.bundles import bundle_of
from tests.unit.tools.check.rules.meaning.manifests import (
    by_claim,
    by_template,
    claim,
    gpu_request,
    levels_and_paths,
    matches_of,
    pod,
    request_with_selector,
    template,
    workload,
)

PENDING, NOT_TRIED = pending.RULE, not_tried.RULE

FLAT = """\
apiVersion: resource.k8s.io/{version}
kind: ResourceClaimTemplate
metadata: {{name: gpu}}
spec: {{spec: {{devices: {{requests: [{{name: gpu, deviceClassName: gpu.nvidia.com, count: {count}}}]}}}}}}
"""
PROFILE = 'device.attributes["gpu.nvidia.com"].profile == "1g.5gb"'
CLASS_OF_UNKNOWN_DRIVER = """\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: mine}
spec: {selectors: [{cel: {expression: device.driver == "gpu.acme.io"}}]}
"""
EXTENDED = """\
apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  containers:
  - {name: c, image: i, resources: {limits: {deviceclass.resource.kubernetes.io/gpu.acme.io: 1}}}
"""
COUNT = "spec.devices.requests[0].exactly.count"


def test_fitting_objects_are_not_reported() -> None:
    texts = (template(), workload(replicas=4))
    assert levels_and_paths(PENDING, *texts, fleet="t4-4x-pcie") == []
    report = simulation_report(bundle_of("---\n".join(texts), fleet="t4-4x-pcie"), STATIC_RULES)
    assert report is not None
    assert report.outcome.fitting == 4


def test_no_simulation_without_devices() -> None:
    assert levels_and_paths(PENDING, template(gpu_request(count=9)), workload()) == []
    assert levels_and_paths(NOT_TRIED, template(gpu_request(count=9)), workload()) == []


def test_location_is_the_smallest_change() -> None:
    (match,) = matches_of(PENDING, template(gpu_request(count=8)), pod(), fleet="t4-4x-pcie")
    assert (match.document.kind, match.path[-1]) == ("ResourceClaimTemplate", "count")
    assert match.message == "Pod default/app stays pending: 8 devices requested; the node has 4"
    assert match.fix is not None
    assert (match.fix.text, match.fix.safe) == ("request 4 devices instead of 8", False)
    assert match.help == ""


def test_smallest_change_accounts_for_other_pods() -> None:
    """Another pod of the files holds two of four GPUs. Waiting for it is the first remedy, as `explain` says."""
    few = template(gpu_request(count=2), name="few")
    many = template(gpu_request(count=3), name="many")
    first = pod(name="first", resourceClaims=by_template("few"))
    second = pod(name="second", resourceClaims=by_template("many"))
    (match,) = matches_of(PENDING, few, many, first, second, fleet="t4-4x-pcie")
    assert match.document.name == "many"
    assert match.path[-1] == "count"
    assert match.help == (
        "to make it fit: wait for pod first to finish (claim default/first-gpu-0); or: request 2 devices instead of 3"
    )
    assert match.fix is None


def test_nodes_without_matching_devices_are_an_error_despite_labels() -> None:
    """Unknown labels could exclude other nodes, but the allowed machine has no matching device."""
    ampere = template(request_with_selector('device.attributes["gpu.nvidia.com"].architecture == "Ampere"'))
    t4_pod = pod(nodeSelector={"node.kubernetes.io/instance-type": "t4-4x-pcie"})
    (match,) = matches_of(PENDING, ampere, t4_pod, fleet="t4-4x-pcie,dgx-a100-40gb")
    assert "excludes dgx-a100-40gb" in match.message
    assert match.level is None


def test_pods_of_a_workload_are_grouped() -> None:
    (match,) = matches_of(PENDING, template(), workload(replicas=6), fleet="t4-4x-pcie")
    assert match.message.startswith(
        "2 of 6 pods of Deployment default/app stay pending: every matching device is in use"
    )
    assert "release claim" not in match.help
    (all_,) = matches_of(PENDING, template(gpu_request(count=5)), workload(replicas=2), fleet="t4-4x-pcie")
    assert all_.message.startswith("all 2 pods of Deployment default/app stay pending")
    (single,) = matches_of(PENDING, template(gpu_request(count=5)), workload("Job"), fleet="t4-4x-pcie")
    assert single.message.startswith("the pod of Job default/app stays pending")


def test_claims_and_templates_without_pods_are_simulated() -> None:
    assert levels_and_paths(PENDING, claim(gpu_request(count=2)), fleet="t4") == [("error", f"ResourceClaim {COUNT}")]
    (match,) = matches_of(PENDING, template(gpu_request(count=2)), fleet="t4")
    assert match.message.startswith("a pod with template gpu stays pending")


def test_location_in_an_older_version() -> None:
    flat = FLAT.format(version="v1beta1", count=2)
    assert levels_and_paths(PENDING, flat, fleet="t4") == [
        ("error", "ResourceClaimTemplate spec.spec.devices.requests[0].count")
    ]


def test_node_labels_of_a_fleet_are_unknown() -> None:
    texts = (template(), pod(nodeSelector={"pool": "gpu"}))
    assert [level for level, _ in levels_and_paths(PENDING, *texts, fleet="t4")] == ["note"]


def test_errors_of_other_rules_are_not_repeated() -> None:
    texts = (template(gpu_request(deviceClassName="no-such-class")), pod())
    assert levels_and_paths(PENDING, *texts, fleet="t4") == []
    report = simulation_report(bundle_of("---\n".join(texts), fleet="t4"), STATIC_RULES)
    assert report is not None
    assert [
        pending_object.answers[0].reasons.headline.code
        for pending_object in report.outcome.pending
        if pending_object.answers[0].reasons
    ] == ["class-missing"]


# --- allocated devices -----------------------------------------------------------------------------------------------


def test_allocated_devices_are_unavailable() -> None:
    allocated = """\
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: other, namespace: default, uid: a}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com, count: 1}}]}}
status:
  allocation: {devices: {results: [{request: gpu, driver: gpu.nvidia.com, pool: t4, device: gpu-0}]}}
  reservedFor: [{resource: pods, name: other, uid: b}]
"""
    (match,) = matches_of(PENDING, template(), pod(), fleet="t4=t4", cluster=allocated)
    assert "in use by claim default/other" in match.message
    assert levels_and_paths(PENDING, template(), pod(), fleet="t4=2xt4", cluster=allocated) == []


# --- not simulated ---------------------------------------------------------------------------------------------------

ENTRY = "spec.resourceClaims[0].resourceClaimTemplateName"


def test_invalid_objects_and_their_users_are_skipped() -> None:
    flat = FLAT.format(version="v1", count=1)
    assert levels_and_paths(NOT_TRIED, flat, pod(), fleet="t4") == [("note", f"Pod {ENTRY}")]
    assert levels_and_paths(NOT_TRIED, flat, fleet="t4") == [("note", "ResourceClaimTemplate metadata.name")]
    assert levels_and_paths(NOT_TRIED, template(), pod(surprise=1), fleet="t4") == [("note", "Pod metadata.name")]


def test_invalid_class_is_the_reason() -> None:
    device_class = """\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: large}
spec: {selectors: [{cel: {expression: device.driver =}}]}
"""
    (match,) = matches_of(NOT_TRIED, device_class, template(gpu_request(deviceClassName="large")), pod(), fleet="t4")
    assert match.message.endswith(": DeviceClass large, which ResourceClaimTemplate gpu requests, has errors")


def test_rejected_admin_access_is_skipped() -> None:
    observing = template(gpu_request(adminAccess=True), namespace="ops")
    assert levels_and_paths(NOT_TRIED, observing, pod(namespace="ops"), fleet="t4") == [("note", "Pod metadata.name")]
    assert levels_and_paths(PENDING, observing, pod(namespace="ops"), fleet="t4") == []


def test_missing_references_are_left_to_other_rules() -> None:
    assert levels_and_paths(NOT_TRIED, pod(), fleet="t4") == []
    assert levels_and_paths(PENDING, pod(resourceClaims=by_claim()), fleet="t4") == []
    domain = """\
apiVersion: resource.nvidia.com/v1beta1
kind: ComputeDomain
metadata: {name: domain}
spec: {numNodes: 1, channel: {resourceClaimTemplate: {name: channel}}}
"""
    (match,) = matches_of(NOT_TRIED, domain, pod(resourceClaims=by_template("channel")), fleet="t4")
    assert "template channel does not exist until the ComputeDomain controller creates it" in match.message


@pytest.mark.parametrize("fleet", ["t4", "mi300x", "example"])
def test_selector_without_matches_is_simulated(fleet: str) -> None:
    texts = (template(request_with_selector('device.driver == "gpu.example"')), pod())
    assert levels_and_paths(NOT_TRIED, *texts, fleet=fleet) == []


@pytest.mark.parametrize(
    ("fleet", "texts"),
    [
        ("t4", [template(request_with_selector('device.attributes["gpu.nvidia.com"].index == 0')), pod()]),
        (
            "h100",
            [
                template(
                    request_with_selector('device.capacity["gpu.nvidia.com"].memory.isGreaterThan(quantity("80Gi"))')
                ),
                pod(),
            ],
        ),
        ("t4", [CLASS_OF_UNKNOWN_DRIVER, template(gpu_request(deviceClassName="mine")), pod()]),
        ("t4", [EXTENDED]),
    ],
    ids=["name", "amount", "driver", "class"],
)
def test_each_mistake_is_reported_once(fleet: str, texts: list[str]) -> None:
    findings = check(bundle_of("---\n".join(texts), fleet=fleet))
    assert [finding.level for finding in findings] == ["error"], findings
    assert findings[0].code != "P501"


def test_missing_devices_are_reported_once() -> None:
    request = gpu_request(deviceClassName="mig.nvidia.com", selectors=[{"cel": {"expression": PROFILE}}])
    findings = check(bundle_of("---\n".join([template(request), pod()]), fleet="a100-40gb"))
    assert [(finding.code, finding.level) for finding in findings] == [("V315", "error")]


def test_undecided_search_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("explanation.cluster_devices", "engine.diagnosis.trial_cache"):
        monkeypatch.setattr(f"allotment.{module}.Allocator", partial(Allocator, step_limit=1))
    (finding,) = matches_of(PENDING, template(gpu_request(count=2)), workload(replicas=3), fleet="t4-4x-pcie")
    assert finding.level == "warning"
    assert finding.message == (
        "all 3 pods of Deployment default/app may stay pending: the search for devices stopped after 1 steps "
        "without a result"
    )


def test_template_of_an_invalid_class_is_skipped() -> None:
    device_class = CLASS_OF_UNKNOWN_DRIVER.replace("==", "=")
    assert (
        levels_and_paths(PENDING, device_class, template(gpu_request(deviceClassName="mine")), pod(), fleet="t4") == []
    )


def test_later_duplicate_is_simulated() -> None:
    texts = (template(), workload(replicas=9), workload(replicas=4))
    assert levels_and_paths(PENDING, *texts, fleet="t4-4x-pcie") == []


def test_excluded_nodes_are_reported_once() -> None:
    texts = (template(), workload("DaemonSet", nodeSelector={"gpu": "yes"}))
    assert [level for level, _ in levels_and_paths(PENDING, *texts, fleet="t4:3")] == ["note"]
