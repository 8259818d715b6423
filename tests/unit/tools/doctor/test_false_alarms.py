"""Situations that resemble a defect and must not be reported, or only as a note."""

from __future__ import annotations

import pytest

from tests.unit.tools.doctor.sample_cluster import DRA, JUST_NOW, LONG_AGO, NVIDIA, Cluster, claim_spec


def severities(cluster: Cluster) -> dict[str, str]:
    """The severities of findings by code."""
    return {finding.code: finding.severity for finding in cluster.findings()}


def down(cluster: Cluster, node: str, since: str = LONG_AGO) -> None:
    """Simulate a node whose kubelet does not report; the node controller marks its pods as not ready."""
    cluster["Node", node]["status"]["conditions"] = [
        {"type": "Ready", "status": "Unknown", "lastTransitionTime": since}
    ]
    cluster["Pod", f"driver-{node}"]["status"]["conditions"][0]["status"] = "False"


def test_a_driver_on_an_unready_node_is_reported_with_the_node() -> None:
    cluster = Cluster()
    down(cluster, "node-2")
    assert severities(cluster) == {"D204": "warning"}


def test_a_new_or_restarting_node_is_not_reported() -> None:
    cluster = Cluster()
    down(cluster, "node-2", since=JUST_NOW)
    assert severities(cluster) == {}


@pytest.mark.parametrize("state", ["deleted", "evicted"])
def test_a_terminating_driver_pod_is_not_reported(state: str) -> None:
    cluster = Cluster()
    pod = cluster["Pod", "driver-node-2"]
    pod["status"]["conditions"][0]["status"] = "False"
    assert "D202" in severities(cluster)
    if state == "deleted":
        pod["metadata"]["deletionTimestamp"] = LONG_AGO
    else:
        pod["status"]["phase"] = "Failed"
    assert "D202" not in severities(cluster)


@pytest.mark.parametrize(
    ("folders", "expected"),
    [
        (("/var/lib/kubelet/plugins_registry", "/var/run/cdi"), True),
        (("/data/kubelet/plugins_registry/", "/etc/cdi"), True),
        (("/var/lib/kubelet/plugins_registry", "/var/run/nri"), True),
        (("/var/lib/kubelet/plugins_registry", "/var/lib/kubelet/plugins/csi.example.com"), False),
        (("/var/lib/kubelet/device-plugins", "/var/run/cdi"), False),
    ],
)
def test_a_driver_is_recognized_by_host_paths(folders: tuple[str, ...], expected: bool) -> None:
    cluster = Cluster()
    volumes = [{"name": f"v{number}", "hostPath": {"path": path}} for number, path in enumerate(folders)]
    pod = cluster.pod("nics-x", "kube-system", node="node-1", owner=("DaemonSet", "dranet"), volumes=volumes)
    pod["status"]["conditions"][0]["status"] = "False"
    assert ("D202" in severities(cluster)) is expected


def test_a_class_that_is_one_of_several_alternatives_may_select_nothing() -> None:
    cluster = Cluster()
    selector = {"cel": {"expression": f"device.driver == '{NVIDIA}' && device.attributes['{NVIDIA}'].type == 'none'"}}
    cluster.object(DRA, "DeviceClass", "big", spec={"selectors": [selector]})
    either = [{"name": "big", "deviceClassName": "big"}, {"name": "any", "deviceClassName": NVIDIA}]
    spec = {"devices": {"requests": [{"name": "gpu", "firstAvailable": either}]}}
    cluster.object(DRA, "ResourceClaim", "flexible", "ml", spec=spec)
    assert severities(cluster) == {"D402": "note"}
    cluster.template("waits-for-hardware", "big")
    assert severities(cluster) == {"D402": "note"}
    cluster.object(DRA, "ResourceClaim", "inflexible", "ml", spec=claim_spec("big"))
    assert severities(cluster)["D402"] == "warning"


def test_a_missing_class_of_a_template_is_a_warning() -> None:
    cluster = Cluster()
    cluster.template("old", "gone.example.com")
    assert severities(cluster) == {"D405": "warning"}
    cluster.object(DRA, "ResourceClaim", "now", "ml", spec=claim_spec("gone.example.com"))
    assert severities(cluster)["D405"] == "error"


@pytest.mark.parametrize("defect", ["incomplete", "invalid"])
def test_classes_are_not_reported_for_unusable_pools(defect: str) -> None:
    cluster = Cluster()
    for slice_ in cluster.all("ResourceSlice"):
        if defect == "incomplete":
            slice_["spec"]["pool"]["resourceSliceCount"] = 2
        else:
            slice_["spec"]["devices"].append(slice_["spec"]["devices"][0])
    cluster.pending_pod("next")
    reported = severities(cluster)
    assert {"D301", "D303"} & set(reported)
    assert not {"D401", "D402"} & set(reported)


def test_a_used_up_quota_is_a_note_until_a_claim_is_rejected() -> None:
    cluster = Cluster()
    full = {"gpu.nvidia.com.deviceclass.resource.k8s.io/devices": "1"}
    cluster.object("v1", "ResourceQuota", "team", "ml", status={"hard": full, "used": full})
    assert severities(cluster) == {"D512": "note"}
    cluster.pod("refused", template="one")
    assert severities(cluster)["D512"] == "warning"


def test_an_old_preparation_failure_is_not_reported() -> None:
    cluster = Cluster()
    cluster["Pod", "web"]["status"]["phase"] = "Pending"
    event = cluster.event("web", "FailedPrepareDynamicResources", "Failed to prepare dynamic resources: busy")
    assert severities(cluster) == {"D205": "error"}
    event["lastTimestamp"] = "2026-06-01T11:45:00Z"
    assert severities(cluster) == {}
