"""Every check finds its defect, has a remedy, and reports nothing in a healthy or unreadable cluster."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from allotment.model.features import GATES, with_stages
from allotment.tools.doctor.checks import CHECKS
from allotment.tools.doctor.examination import confirmed, needs_confirmation, run_checks, skipped_checks
from allotment.tools.doctor.snapshot import ClusterSnapshot
from tests.unit.tools.doctor.defects import DEFECTS, Defect
from tests.unit.tools.doctor.sample_cluster import JUST_NOW, LONG_AGO, Cluster

#: Valid commands of Allotment and kubectl in remedies.
COMMAND = re.compile(
    r"\$ (kubectl (api-resources|create|get|describe|delete|edit|logs|label) |allot (explain|free|rbac) )"
)


def test_a_healthy_cluster_has_no_findings() -> None:
    assert Cluster().findings() == ()


def test_every_check_has_a_defect() -> None:
    assert [defect.code for defect in DEFECTS] == [check.code for check in CHECKS]


@pytest.mark.parametrize("defect", DEFECTS, ids=[defect.code for defect in DEFECTS])
def test_a_check_finds_its_defect(defect: Defect) -> None:
    cluster = Cluster()
    defect.create(cluster)
    found = cluster.finding(defect.code)
    assert found.subject == defect.subject
    assert defect.evidence in found.evidence
    assert defect.remedy in found.remedy


def test_a_taint_rule_without_a_selector_is_explained() -> None:
    cluster = Cluster()
    taint = {"key": "a", "effect": "NoSchedule"}
    cluster.object("resource.k8s.io/v1beta2", "DeviceTaintRule", "repair", spec={"taint": taint})
    found = cluster.finding("D306")
    assert "kube-scheduler treats all devices as tainted, although no pod is evicted" in found.evidence
    assert "Add a deviceSelector" in found.remedy


@pytest.mark.parametrize("defect", DEFECTS, ids=[defect.code for defect in DEFECTS])
def test_commands_of_remedies_are_valid(defect: Defect) -> None:
    cluster = Cluster()
    defect.create(cluster)
    for finding in cluster.findings():
        commands = [line for line in finding.remedy.splitlines() if line.startswith("$")]
        assert all(map(COMMAND.match, commands)), commands
        assert finding.severity == "note" or finding.remedy
        assert "  " not in finding.evidence
        assert "\n" not in finding.evidence


@pytest.mark.parametrize("check", CHECKS, ids=[check.code for check in CHECKS])
def test_a_check_is_skipped_if_required_objects_are_unreadable(check: object) -> None:
    (selected,) = (c for c in CHECKS if c is check)
    defect = next(p for p in DEFECTS if p.code == selected.code)
    for kind in selected.needs:
        cluster = Cluster()
        defect.create(cluster)
        cluster.unread = {kind: "may not be read"}
        found = cluster.snapshot()
        assert selected.code not in {finding.code for finding in run_checks(found)}
        assert selected in skipped_checks(found)


@pytest.mark.parametrize("check", CHECKS, ids=[check.code for check in CHECKS])
def test_an_empty_cluster_has_no_findings(check: object) -> None:
    (selected,) = (c for c in CHECKS if c is check)
    found = run_checks(ClusterSnapshot(Cluster().snapshot().features), [selected])
    assert found == ()


def test_codes_are_unique_and_in_order() -> None:
    codes = [check.code for check in CHECKS]
    assert codes == sorted(codes)
    assert max(Counter(codes).values()) == 1


def test_summaries_fit_a_line() -> None:
    for check in CHECKS:
        assert len(check.summary) <= 80
        assert not check.summary.endswith(".")
        assert check.why.endswith(".")
        assert "  " not in check.why


def test_findings_are_sorted_by_severity() -> None:
    cluster = Cluster()
    for defect in DEFECTS:
        if defect.code in ("D604", "D305", "D601"):
            defect.create(cluster)
    assert [finding.severity for finding in cluster.findings()] == ["error", "warning", "note"]


def test_transient_findings_need_confirmation() -> None:
    busy, idle, lasting = Cluster(), Cluster(), Cluster()
    busy.claim("passing", "node-2/gpu-0", pods=["ghost"])
    lasting.claim("stale", "node-2/gpu-0", pods=["ghost"])
    first = busy.findings()
    assert [finding.code for finding in first] == ["D505"]
    assert needs_confirmation(first)
    assert confirmed(first, idle.findings()) == ()
    assert confirmed(first, lasting.findings()) == (), "another claim, which may be transient"
    assert confirmed(first, first) == first
    assert not needs_confirmation(idle.findings())


def test_persistent_findings_need_no_confirmation() -> None:
    cluster = Cluster()
    next(defect for defect in DEFECTS if defect.code == "D501").create(cluster)
    found = cluster.findings()
    assert not needs_confirmation(found)
    assert confirmed((), found) == found


def test_pci_addresses_are_equal_with_short_and_long_domains() -> None:
    cluster = Cluster()
    next(defect for defect in DEFECTS if defect.code == "D207").create(cluster)
    for device in cluster["ResourceSlice", "other"]["spec"]["devices"]:
        address = device["attributes"].pop("resource.kubernetes.io/pciBusID")["string"]
        device["attributes"] = {"pcieBusID": {"string": f"0000{address.upper()}"}}
    assert "2 pieces of hardware on 1 node are published more than once" in cluster.finding("D207").evidence


def test_partitions_of_one_gpu_are_not_the_same_gpu_twice() -> None:
    cluster = Cluster()
    first, second = cluster.devices()
    second["attributes"]["resource.kubernetes.io/pciBusID"] = first["attributes"]["resource.kubernetes.io/pciBusID"]
    assert "D207" not in {finding.code for finding in cluster.findings()}


def test_a_class_with_an_extended_resource_is_not_a_device_plugin() -> None:
    cluster = Cluster()
    assert cluster["DeviceClass", "gpu.nvidia.com"]["spec"]["extendedResourceName"] == "nvidia.com/gpu"
    assert "D206" not in {finding.code for finding in cluster.findings()}


def test_recent_states_are_not_reported() -> None:
    """Checks with a grace period ignore defects that are a few seconds old."""
    for code, kind in (("D301", "ResourceSlice"), ("D504", "ResourceClaim"), ("D508", "ResourceClaim"),
                       ("D601", "Pod"), ("D605", "Pod"), ("D606", "Pod")):  # fmt: skip
        cluster = Cluster()
        next(defect for defect in DEFECTS if defect.code == code).create(cluster)
        assert code in {finding.code for finding in cluster.findings()}
        for tree in cluster.all(kind):
            tree["metadata"]["creationTimestamp"] = JUST_NOW
        assert code not in {finding.code for finding in cluster.findings()}, code


def test_admin_access_and_shares_are_not_double_allocations() -> None:
    cluster = Cluster()
    watcher = cluster.claim("watcher", "node-1/gpu-0", pods=["web"])
    watcher["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
    assert "D501" not in {finding.code for finding in cluster.findings()}


def test_shares_beyond_the_capacity_are_reported() -> None:
    cluster = Cluster()
    cluster.devices(1)[0]["allowMultipleAllocations"] = True
    for number in range(2):
        claim = cluster.claim(f"share-{number}", "node-2/gpu-0", pods=["web"])
        result = claim["status"]["allocation"]["devices"]["results"][0]
        result |= {"shareID": f"0000000{number}-0000-0000-0000-000000000000", "consumedCapacity": {"memory": "8Gi"}}
    assert "memory of node-2/gpu-0: 16Gi of 15Gi allocated" in cluster.finding("D502").evidence
    assert "D501" not in {finding.code for finding in cluster.findings()}


def test_an_update_of_the_driver_is_not_a_second_driver() -> None:
    cluster = Cluster()
    next(defect for defect in DEFECTS if defect.code == "D208").create(cluster)
    cluster.remove("Pod", "driver-node-1")
    successor = cluster.pod("successor", "allotment-drivers", node="node-1", owner=("DaemonSet", "ours"))
    successor["metadata"]["labels"] = cluster["Pod", "ours"]["metadata"]["labels"]
    assert "D208" not in {finding.code for finding in cluster.findings()}


def test_a_driver_of_allotment_that_is_not_ready_is_found() -> None:
    cluster = Cluster()
    next(defect for defect in DEFECTS if defect.code == "D208").create(cluster)
    pod = cluster["Pod", "ours"]
    pod["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    assert (
        "DaemonSet allotment-drivers/drivers-allotment-driver-nvidia is not ready" in cluster.finding("D202").evidence
    )


@pytest.mark.parametrize(
    ("version", "served", "severity", "remedy"),
    [
        ("v1.31.4", (), "error", "Upgrade to 1.34 or newer"),
        ("v1.33.4", ("v1beta2", "v1beta1"), "warning", "Upgrade to 1.34 or newer"),
        ("v1.36.3", (), "error", "--runtime-config of kube-apiserver"),
        ("v1.36.3", ("v1beta1",), "warning", "--runtime-config of kube-apiserver"),
    ],
)
def test_an_upgrade_is_suggested_only_for_old_releases(
    version: str, served: tuple[str, ...], severity: str, remedy: str
) -> None:
    cluster = Cluster()
    cluster.version, cluster.served = version, {"resourceclaims": served} if served else {}
    found = cluster.finding("D101")
    assert found.severity == severity
    assert remedy in found.remedy


def test_unready_nodes_have_other_advice_than_excluded_ones() -> None:
    cluster = Cluster()
    for node in ("node-1", "node-2"):
        cluster["Node", node]["spec"] = {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}
    cluster.pending_pod("next")
    assert cluster.finding("D602").remedy.startswith("Repair node-1, or wait until it is ready again.\n")


def test_a_pod_that_excludes_the_nodes_with_the_devices_is_reported() -> None:
    cluster = Cluster()
    cluster.object("v1", "Node", "bare", metadata={"name": "bare", "labels": {"kubernetes.io/hostname": "bare"}})
    cluster.pending_pod("next")["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "bare"}
    found = cluster.finding("D602")
    assert "is pending: node-not-eligible: the pod's nodeSelector" in found.evidence
    assert "excludes node-1, node-2 (node-1 has the devices)" in found.evidence
    assert found.remedy.startswith("Set nodeSelector kubernetes.io/hostname=node-1. Also make the same change in the")
    assert "\n$ allot explain pod/next -n ml -o manifests | kubectl replace --force -f -\n" in found.remedy


def test_the_first_remedy_of_explain_is_advised_with_its_command() -> None:
    cluster = Cluster()
    for node in ("node-1", "node-2"):
        cluster["Node", node]["spec"] = {"unschedulable": True}
    cluster.pending_pod("next")
    assert cluster.finding("D602").remedy.startswith("Uncordon node-1.\n$ kubectl uncordon node-1\n$ allot explain")


@pytest.mark.parametrize(
    ("key", "commands"),
    [
        ("example.com/maintenance", "$ kubectl describe node node-1\n$ allot explain"),
        ("dedicated", '--type=json -p \'[{"op":"add","path":"/spec/tolerations",'),
    ],
)
def test_cordoned_nodes_with_another_taint_have_the_commands_of_explain(key: str, commands: str) -> None:
    cluster = Cluster()
    for node in ("node-1", "node-2"):
        taint = {"key": key, "value": "yes", "effect": "NoSchedule"}
        cluster["Node", node]["spec"] = {"unschedulable": True, "taints": [taint]}
    cluster.pending_pod("next")
    advice = cluster.finding("D602").remedy
    assert commands in advice
    assert "\n$ kubectl uncordon" not in advice
    assert (" && kubectl uncordon node-1\n" in advice) is (key == "dedicated")


def test_a_missing_template_beside_cordoned_nodes_is_advised_with_both_changes() -> None:
    cluster = Cluster()
    for node in ("node-1", "node-2"):
        cluster["Node", node]["spec"] = {"unschedulable": True}
    cluster.pod("typo", template="onne")
    advice = cluster.finding("D603").remedy
    assert advice.startswith(
        "Change Pod ml/typo: use one, and uncordon node-1. Also make the same change in the manifest, or the next "
        "kubectl apply reverts it or fails: resourceClaimTemplateName: one in Pod typo.\n"
        "$ kubectl uncordon node-1 && allot explain pod/typo -n ml -o manifests | kubectl replace --force -f -\n"
        "$ allot explain pod/typo -n ml"
    )


@pytest.mark.parametrize(
    ("server", "scheduler", "severity"),
    [("v1.37.2", "v1.36.3", "note"), ("v1.36.3", "v1.37.2", "error"), ("v1.37.2", "v1.35.1", "error")],
)
def test_a_scheduler_of_another_release_is_reported(server: str, scheduler: str, severity: str) -> None:
    cluster = Cluster()
    cluster.version = server
    cluster.kube_program("kube-scheduler", scheduler, "--feature-gates=DRADeviceTaintRules=true")
    cluster.kube_program("kube-controller-manager", server)
    found = cluster.finding("D106")
    assert (found.severity, found.objects) == (severity, ("kube-system/kube-scheduler-node-1",))


def test_an_old_scheduler_ignores_taint_rules() -> None:
    cluster = Cluster()
    cluster.version, cluster.served["devicetaintrules"] = "v1.37.2", ("v1",)
    cluster.kube_program("kube-scheduler", "v1.36.3")
    spec = {"taint": {"key": "example.com/repair", "effect": "NoSchedule"}, "deviceSelector": {"pool": "node-1"}}
    cluster.object("resource.k8s.io/v1", "DeviceTaintRule", "repair", spec=spec)
    found = cluster.finding("D106")
    assert found.severity == "warning"
    assert "its gate DRADeviceTaintRules is off, and the cluster has DeviceTaintRules" in found.evidence
    assert "DRADeviceTaintRules=false" in cluster.finding("D107").evidence


def test_a_kubelet_that_does_not_declare_a_feature_is_reported() -> None:
    cluster = Cluster()
    cluster.version, cluster.gates["DRAOptionalNodeOperations"] = "v1.37.2", True
    for name in ("node-1", "node-2"):
        cluster["Node", name]["status"]["nodeInfo"]["kubeletVersion"] = "v1.37.2"
    cluster["Node", "node-1"]["status"]["declaredFeatures"] = ["DRAOptionalNodeOperations"]
    found = cluster.finding("D107")
    assert (found.subject, found.severity) == ("node/node-2", "warning")
    assert "DRAOptionalNodeOperations is enabled in the API server, but node node-2 does not declare" in found.evidence


def test_programs_of_the_servers_release_and_gates_are_fine() -> None:
    cluster = Cluster()
    gates = ",".join(f"{name}={str(on).lower()}" for name, on in cluster.gates.items())
    for name in ("kube-apiserver", "kube-scheduler", "kube-controller-manager"):
        cluster.kube_program(name, cluster.version, "--feature-gates", gates)
    assert {"D106", "D107"}.isdisjoint(finding.code for finding in cluster.findings())


def test_gates_of_a_stage_are_compared_one_by_one() -> None:
    cluster = Cluster()
    cluster.version = "v1.37.2"
    everything = with_stages({"AllAlpha": True, "AllBeta": True}, "1.37")
    cluster.gates = {name: on for name, on in everything.items() if name in GATES}
    gates = "--feature-gates=AllAlpha=true,AllBeta=true,DRADeviceCompatibilityGroups=false"
    cluster.kube_program("kube-scheduler", cluster.version, gates)
    found = cluster.finding("D107")
    assert "kube-scheduler has DRADeviceCompatibilityGroups=false, unlike the API server" in found.evidence


def test_a_pod_that_its_corrected_stateful_set_keeps_is_to_be_deleted() -> None:
    cluster = Cluster()
    cluster.pod("infer-0", template="onne", owner=("StatefulSet", "infer"))
    spec = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]}
    workload = cluster.object("apps/v1", "StatefulSet", "infer", "ml", spec={"template": {"spec": spec}})
    assert cluster.finding("D603").remedy == (
        "Delete pod infer-0: StatefulSet infer has the change already, but keeps the pod.\n"
        "$ kubectl delete pod infer-0 -n ml\n"
        "$ allot explain pod/infer-0 -n ml"
    )
    workload["spec"]["template"]["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] = "onne"
    assert " && kubectl delete pod infer-0 -n ml\n" in cluster.finding("D603").remedy


def test_pods_with_different_remedies_are_reported_separately() -> None:
    """Each of two nodes has the devices of one pod: one node is cordoned, the other one is tainted."""
    cluster = Cluster()
    cluster["Node", "node-1"]["spec"] = {"unschedulable": True}
    cluster["Node", "node-2"]["spec"] = {"taints": [{"key": "dedicated", "value": "yes", "effect": "NoSchedule"}]}
    for number in (1, 2):
        pod = cluster.pending_pod(f"p{number}")
        pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": f"node-{number}"}
    first, second = (finding for finding in run_checks(cluster.snapshot()) if finding.code == "D602")
    assert first.remedy.startswith("Uncordon node-1.")
    assert second.remedy.startswith("Tolerate the node's taint dedicated.")


def test_replicas_that_share_a_claim_are_advised_to_use_a_template() -> None:
    cluster = Cluster()
    cluster.claim("shared", "node-2/gpu-0", pods=["other"])
    for name in ("api-x-1", "api-x-2"):
        pod = cluster.pod(name, owner=("ReplicaSet", "api-x"))
        pod["metadata"]["labels"] = {"pod-template-hash": "x"}
        pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "shared"}]
        message = f"claim shared is elsewhere\n  next: allot explain pod/{name} -n ml\n0/2 nodes are available"
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        pod["status"]["conditions"] = [condition | {"lastTransitionTime": LONG_AGO}]
    found = cluster.finding("D610")
    assert found.objects == ("ml/api-x-1", "ml/api-x-2")
    assert found.evidence.endswith("The scheduler reports: claim shared is elsewhere")
    assert found.remedy.startswith("The pods of Deployment ml/api share claim ml/shared and can run only where")
