"""What looks like a defect and is none, and what is told of it only as a note."""

from __future__ import annotations

import pytest

from tests.unit.tools.doctor.clinic import DRA, JUST_NOW, LONG_AGO, NVIDIA, Cluster, asking


def severities(cluster: Cluster) -> dict[str, str]:
    """The findings' severities by code."""
    return {finding.code: finding.severity for finding in cluster.findings()}


def down(cluster: Cluster, node: str, since: str = LONG_AGO) -> None:
    """A node whose kubelet has fallen silent; the node controller says of its pods that they are not ready."""
    cluster["Node", node]["status"]["conditions"] = [
        {"type": "Ready", "status": "Unknown", "lastTransitionTime": since}
    ]
    cluster["Pod", f"driver-{node}"]["status"]["conditions"][0]["status"] = "False"


def test_a_driver_on_a_dead_node_is_told_with_the_node() -> None:
    cluster = Cluster()
    down(cluster, "node-2")
    assert severities(cluster) == {"D204": "warning"}


def test_a_node_that_has_just_come_or_restarts_is_not_told() -> None:
    cluster = Cluster()
    down(cluster, "node-2", since=JUST_NOW)
    assert severities(cluster) == {}


@pytest.mark.parametrize("state", ["deleted", "evicted"])
def test_a_drivers_pod_that_makes_room_for_another_is_not_told(state: str) -> None:
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
def test_a_driver_is_known_by_the_folders_of_its_node(folders: tuple[str, ...], expected: bool) -> None:
    cluster = Cluster()
    volumes = [{"name": f"v{number}", "hostPath": {"path": path}} for number, path in enumerate(folders)]
    pod = cluster.pod("nics-x", "kube-system", node="node-1", owner=("DaemonSet", "dranet"), volumes=volumes)
    pod["status"]["conditions"][0]["status"] = "False"
    assert ("D202" in severities(cluster)) is expected


def test_a_class_that_is_one_of_several_that_will_do_may_select_nothing() -> None:
    cluster = Cluster()
    selector = {"cel": {"expression": f"device.driver == '{NVIDIA}' && device.attributes['{NVIDIA}'].type == 'none'"}}
    cluster.object(DRA, "DeviceClass", "big", spec={"selectors": [selector]})
    either = [{"name": "big", "deviceClassName": "big"}, {"name": "any", "deviceClassName": NVIDIA}]
    spec = {"devices": {"requests": [{"name": "gpu", "firstAvailable": either}]}}
    cluster.object(DRA, "ResourceClaim", "flexible", "ml", spec=spec)
    assert severities(cluster) == {"D402": "note"}
    cluster.template("waits-for-hardware", "big")
    assert severities(cluster) == {"D402": "note"}
    cluster.object(DRA, "ResourceClaim", "inflexible", "ml", spec=asking("big"))
    assert severities(cluster)["D402"] == "warning"


def test_nobody_waits_for_what_only_a_template_asks() -> None:
    cluster = Cluster()
    cluster.template("old", "gone.example.com")
    assert severities(cluster) == {"D405": "warning"}
    cluster.object(DRA, "ResourceClaim", "now", "ml", spec=asking("gone.example.com"))
    assert severities(cluster)["D405"] == "error"


@pytest.mark.parametrize("defect", ["incomplete", "invalid"])
def test_of_a_pool_that_nobody_uses_the_classes_are_not_blamed(defect: str) -> None:
    cluster = Cluster()
    for one in cluster.all("ResourceSlice"):
        if defect == "incomplete":
            one["spec"]["pool"]["resourceSliceCount"] = 2
        else:
            one["spec"]["devices"].append(one["spec"]["devices"][0])
    cluster.waiting("next")
    told = severities(cluster)
    assert {"D301", "D303"} & set(told)
    assert not {"D401", "D402"} & set(told)


def test_a_quota_that_is_used_up_is_no_trouble_until_somebody_is_refused() -> None:
    cluster = Cluster()
    full = {"gpu.nvidia.com.deviceclass.resource.k8s.io/devices": "1"}
    cluster.object("v1", "ResourceQuota", "team", "ml", status={"hard": full, "used": full})
    assert severities(cluster) == {"D512": "note"}
    cluster.pod("refused", template="one")
    assert severities(cluster)["D512"] == "warning"


def test_a_preparation_that_failed_once_is_over() -> None:
    cluster = Cluster()
    cluster["Pod", "web"]["status"]["phase"] = "Pending"
    event = cluster.event("web", "FailedPrepareDynamicResources", "Failed to prepare dynamic resources: busy")
    assert severities(cluster) == {"D205": "error"}
    event["lastTimestamp"] = "2026-06-01T11:45:00Z"
    assert severities(cluster) == {}
