"""Every check finds its defect, says what to do, and is silent where all is well or nobody can know."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from allotment.tools.doctor.checks import CHECKS
from allotment.tools.doctor.examination import confirmed, needs_confirmation, run_checks, skipped_checks
from allotment.tools.doctor.snapshot import ClusterSnapshot
from tests.unit.tools.doctor.clinic import JUST_NOW, Cluster
from tests.unit.tools.doctor.patients import PATIENTS, Patient

#: What a command of ours or of kubectl can be.
COMMAND = re.compile(
    r"\$ (kubectl (api-resources|create|get|describe|delete|edit|logs|label) |allot (explain|free|rbac) )"
)


def test_a_cluster_in_which_all_is_well_has_no_findings() -> None:
    assert Cluster().findings() == ()


def test_every_check_has_a_patient() -> None:
    assert [patient.code for patient in PATIENTS] == [check.code for check in CHECKS]


@pytest.mark.parametrize("patient", PATIENTS, ids=[patient.code for patient in PATIENTS])
def test_a_check_tells_its_defect(patient: Patient) -> None:
    cluster = Cluster()
    patient.break_(cluster)
    found = cluster.told(patient.code)
    assert found.subject == patient.subject
    assert patient.evidence in found.evidence
    assert patient.remedy in found.remedy


def test_a_taint_rule_without_a_selector_is_told_as_what_it_does() -> None:
    cluster = Cluster()
    taint = {"key": "a", "effect": "NoSchedule"}
    cluster.object("resource.k8s.io/v1beta2", "DeviceTaintRule", "repair", spec={"taint": taint})
    found = cluster.told("D306")
    assert "gives no device to anybody who does not tolerate its taint" in found.evidence
    assert "Give it a deviceSelector" in found.remedy


@pytest.mark.parametrize("patient", PATIENTS, ids=[patient.code for patient in PATIENTS])
def test_what_a_finding_asks_for_can_be_typed(patient: Patient) -> None:
    cluster = Cluster()
    patient.break_(cluster)
    for finding in cluster.findings():
        commands = [line for line in finding.remedy.splitlines() if line.startswith("$")]
        assert all(map(COMMAND.match, commands)), commands
        assert finding.severity == "note" or finding.remedy
        assert "  " not in finding.evidence
        assert "\n" not in finding.evidence


@pytest.mark.parametrize("check", CHECKS, ids=[check.code for check in CHECKS])
def test_a_check_is_silent_about_what_could_not_be_read(check: object) -> None:
    (one,) = (c for c in CHECKS if c is check)
    patient = next(p for p in PATIENTS if p.code == one.code)
    for kind in one.needs:
        cluster = Cluster()
        patient.break_(cluster)
        cluster.unread = {kind: "may not be read"}
        found = cluster.found()
        assert one.code not in {finding.code for finding in run_checks(found)}
        assert one in skipped_checks(found)


@pytest.mark.parametrize("check", CHECKS, ids=[check.code for check in CHECKS])
def test_an_empty_cluster_has_nothing_wrong(check: object) -> None:
    (one,) = (c for c in CHECKS if c is check)
    found = run_checks(ClusterSnapshot(Cluster().found().features), [one])
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


def test_the_worst_comes_first() -> None:
    cluster = Cluster()
    for patient in PATIENTS:
        if patient.code in ("D604", "D305", "D601"):
            patient.break_(cluster)
    assert [finding.severity for finding in cluster.findings()] == ["error", "warning", "note"]


def test_what_lists_of_two_moments_show_is_looked_at_twice() -> None:
    busy, idle, lasting = Cluster(), Cluster(), Cluster()
    busy.claim("passing", "node-2/gpu-0", pods=["ghost"])
    lasting.claim("stale", "node-2/gpu-0", pods=["ghost"])
    first = busy.findings()
    assert [finding.code for finding in first] == ["D505"]
    assert needs_confirmation(first)
    assert confirmed(first, idle.findings()) == ()
    assert confirmed(first, lasting.findings()) == (), "another claim, of which nobody knows whether it lasts"
    assert confirmed(first, first) == first
    assert not needs_confirmation(idle.findings())


def test_what_lasts_by_itself_is_looked_at_once() -> None:
    cluster = Cluster()
    next(patient for patient in PATIENTS if patient.code == "D501").break_(cluster)
    found = cluster.findings()
    assert not needs_confirmation(found)
    assert confirmed((), found) == found


def test_a_pci_address_is_the_same_however_long_its_domain_is_written() -> None:
    cluster = Cluster()
    next(patient for patient in PATIENTS if patient.code == "D207").break_(cluster)
    for device in cluster["ResourceSlice", "other"]["spec"]["devices"]:
        address = device["attributes"].pop("resource.kubernetes.io/pciBusID")["string"]
        device["attributes"] = {"pcieBusID": {"string": f"0000{address.upper()}"}}
    assert "2 pieces of hardware on 1 node published more than once" in cluster.told("D207").evidence


def test_partitions_of_one_gpu_are_not_the_same_gpu_twice() -> None:
    cluster = Cluster()
    first, second = cluster.devices()
    second["attributes"]["resource.kubernetes.io/pciBusID"] = first["attributes"]["resource.kubernetes.io/pciBusID"]
    assert "D207" not in {finding.code for finding in cluster.findings()}


def test_a_class_for_extended_resources_is_no_device_plugin() -> None:
    cluster = Cluster()
    assert cluster["DeviceClass", "gpu.nvidia.com"]["spec"]["extendedResourceName"] == "nvidia.com/gpu"
    assert "D206" not in {finding.code for finding in cluster.findings()}


def test_what_has_only_begun_is_no_defect() -> None:
    """Of each check that waits, the same a few seconds old."""
    for code, kind in (("D301", "ResourceSlice"), ("D504", "ResourceClaim"), ("D508", "ResourceClaim"),
                       ("D601", "Pod"), ("D605", "Pod"), ("D606", "Pod")):  # fmt: skip
        cluster = Cluster()
        next(patient for patient in PATIENTS if patient.code == code).break_(cluster)
        assert code in {finding.code for finding in cluster.findings()}
        for tree in cluster.all(kind):
            tree["metadata"]["creationTimestamp"] = JUST_NOW
        assert code not in {finding.code for finding in cluster.findings()}, code


def test_admin_access_and_shares_are_no_double_allocation() -> None:
    cluster = Cluster()
    watcher = cluster.claim("watcher", "node-1/gpu-0", pods=["web"])
    watcher["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
    assert "D501" not in {finding.code for finding in cluster.findings()}


def test_shares_beyond_the_capacity_are_told() -> None:
    cluster = Cluster()
    cluster.devices(1)[0]["allowMultipleAllocations"] = True
    for number in range(2):
        claim = cluster.claim(f"share-{number}", "node-2/gpu-0", pods=["web"])
        result = claim["status"]["allocation"]["devices"]["results"][0]
        result |= {"shareID": f"0000000{number}-0000-0000-0000-000000000000", "consumedCapacity": {"memory": "8Gi"}}
    assert "memory of node-2/gpu-0: 16Gi allocated of 15Gi" in cluster.told("D502").evidence
    assert "D501" not in {finding.code for finding in cluster.findings()}


def test_an_update_of_our_driver_is_no_second_driver() -> None:
    cluster = Cluster()
    next(patient for patient in PATIENTS if patient.code == "D208").break_(cluster)
    cluster.remove("Pod", "driver-node-1")
    successor = cluster.pod("successor", "allotment-drivers", node="node-1", owner=("DaemonSet", "ours"))
    successor["metadata"]["labels"] = cluster["Pod", "ours"]["metadata"]["labels"]
    assert "D208" not in {finding.code for finding in cluster.findings()}


def test_a_driver_of_ours_that_does_not_run_is_found() -> None:
    cluster = Cluster()
    next(patient for patient in PATIENTS if patient.code == "D208").break_(cluster)
    ours = cluster["Pod", "ours"]
    ours["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    assert "DaemonSet allotment-drivers/drivers-allotment-driver-nvidia not ready" in cluster.told("D202").evidence


@pytest.mark.parametrize(
    ("version", "served", "severity", "said"),
    [
        ("v1.31.4", (), "error", "Upgrade to 1.34 or newer"),
        ("v1.33.4", ("v1beta2", "v1beta1"), "warning", "Upgrade to 1.34 or newer"),
        ("v1.36.3", (), "error", "--runtime-config of kube-apiserver"),
        ("v1.36.3", ("v1beta1",), "warning", "--runtime-config of kube-apiserver"),
    ],
)
def test_nobody_is_told_to_upgrade_to_what_there_is(
    version: str, served: tuple[str, ...], severity: str, said: str
) -> None:
    cluster = Cluster()
    cluster.version, cluster.served = version, {"resourceclaims": served} if served else {}
    found = cluster.told("D101")
    assert found.severity == severity
    assert said in found.remedy


def test_nodes_that_are_not_ready_are_not_to_be_labelled() -> None:
    cluster = Cluster()
    for node in ("node-1", "node-2"):
        cluster["Node", node]["spec"] = {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}
    cluster.waiting("next")
    assert "See why the nodes are not ready" in cluster.told("D602").remedy


def test_a_pod_that_shuts_itself_out_of_the_nodes_with_the_devices_is_told_so() -> None:
    cluster = Cluster()
    cluster.object("v1", "Node", "bare", metadata={"name": "bare", "labels": {"kubernetes.io/hostname": "bare"}})
    cluster.waiting("next")["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "bare"}
    found = cluster.told("D602")
    assert "waits: node-not-eligible: the pod's nodeSelector" in found.evidence
    assert "keeps it off node-1, node-2 (node-1 has the devices)" in found.evidence
    assert "Change what the pod says of nodes" in found.remedy
