"""For each check a defect in the sample cluster, and the expected finding."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Final, NamedTuple

from allotment.permissions.access_reviews import AccessRequest
from tests.unit.tools.doctor.sample_cluster import DRA, LONG_AGO, NVIDIA, Cluster


class Defect(NamedTuple):
    """A function that creates the defect, and the subject and parts of the evidence and remedy of the finding."""

    code: str
    create: Callable[[Cluster], object]
    subject: str
    evidence: str
    remedy: str


def _no_api(c: Cluster) -> None:
    c.served, c.version = {}, "v1.31.4"


def _gate(c: Cluster) -> None:
    c.gates["DRADeviceTaints"] = False
    c.devices()[0]["taints"] = [{"key": "a", "effect": "NoSchedule"}]


def _kubelet(c: Cluster) -> None:
    c["Node", "node-2"]["status"]["nodeInfo"]["kubeletVersion"] = "v1.37.0"


def _program(c: Cluster) -> None:
    c.kube_program("kube-scheduler", "v1.37.2")


def _other_gates(c: Cluster) -> None:
    c.kube_program(
        "kube-controller-manager", c.version, "--feature-gates=DRAPartitionableDevices=false,DRADeviceTaintRules=true"
    )


def _denied(c: Cluster) -> None:
    c.denied = [AccessRequest("list", "", "events", "", "", "", "", "what was said about pods")]


def _unknown_version(c: Cluster) -> None:
    c.served["devicetaintrules"] = ("v3", "v2")


def _undriven(c: Cluster) -> None:
    c.remove("ResourceSlice", "00000-gpu.nvidia.com-node-2")


def _crashing(c: Cluster) -> None:
    pod = c["Pod", "driver-node-2"]
    pod["status"]["conditions"][0]["status"] = "False"
    waiting = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "name": "gpus", "restartCount": 7, "ready": False}
    pod["status"]["containerStatuses"] = [waiting]


def _gone_node(c: Cluster) -> None:
    c.remove("Node", "node-2")


def _unready(c: Cluster) -> None:
    c["Node", "node-1"]["status"]["conditions"][0]["status"] = "Unknown"


def _unprepared(c: Cluster) -> None:
    for name in ("a", "b"):
        c.pod(name, claim=f"{name}-claim", node="node-2", phase="Pending")
        c.event(
            name,
            "FailedPrepareDynamicResources",
            "Failed to prepare dynamic resources: prepare dynamic resources: DRA driver gpu.nvidia.com is not"
            " registered",
        )


def _plugged(c: Cluster) -> None:
    c["Node", "node-1"]["status"]["allocatable"] = {"cpu": "8", "nvidia.com/gpu": "2"}


def _published_twice(c: Cluster) -> None:
    other = copy.deepcopy(c.all("ResourceSlice")[0])
    other["metadata"]["name"] = "other"
    other["spec"]["driver"] = "gpu.hami.io"
    c.trees.append(other)


def _both_drivers(cluster: Cluster) -> None:
    allotment_pod = cluster.pod(
        "ours", "allotment-drivers", node="node-1", owner=("DaemonSet", "drivers-allotment-driver-nvidia")
    )
    allotment_pod["metadata"]["labels"] = {
        "app.kubernetes.io/name": "allotment", "app.kubernetes.io/component": "driver-nvidia"
    }  # fmt: skip


def _simulated(cluster: Cluster) -> None:
    for slice_ in cluster.all("ResourceSlice"):
        if slice_["spec"]["nodeName"] == "node-1":
            slice_["metadata"]["labels"]["allotment.dev/simulated"] = "true"


def _incomplete(c: Cluster) -> None:
    c.all("ResourceSlice")[0]["spec"]["pool"]["resourceSliceCount"] = 2


def _old_generation(c: Cluster) -> None:
    old = copy.deepcopy(c.all("ResourceSlice")[0])
    old["metadata"]["name"] = "left-behind"
    c.all("ResourceSlice")[0]["spec"]["pool"]["generation"] += 1
    c.trees.append(old)


def _invalid(c: Cluster) -> None:
    c.devices().append(c.devices()[0])


def _nothing_published(c: Cluster) -> None:
    c.all("ResourceSlice")[1]["spec"]["devices"] = []


def _tainted(c: Cluster) -> None:
    c.devices(1)[1]["taints"] = [{"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoSchedule"}]


def _idle_rule(c: Cluster) -> None:
    spec = {"deviceSelector": {"driver": NVIDIA, "pool": "node-9"}, "taint": {"key": "a", "effect": "NoSchedule"}}
    c.object("resource.k8s.io/v1beta2", "DeviceTaintRule", "repair", spec=spec)


def _not_evicted(c: Cluster) -> None:
    c.devices()[0]["taints"] = [{"key": "broken", "effect": "NoExecute", "timeAdded": LONG_AGO}]


def _no_class(c: Cluster) -> None:
    c.remove("DeviceClass")
    c.remove("ResourceClaimTemplate")
    selector = {"cel": {"expression": 'device.driver == "none"'}}
    c.object(DRA, "DeviceClass", "mig.nvidia.com", spec={"selectors": [selector]})


def _empty_class(c: Cluster) -> None:
    selector = {
        "cel": {"expression": 'device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].brand == "H"'}
    }
    c.object(DRA, "DeviceClass", "hopper", spec={"selectors": [selector]})
    c.template("hopper", "hopper")


def _failing_class(c: Cluster) -> None:
    selector = {"cel": {"expression": 'device.attributes["gpu.nvidia.com"].speed > 3'}}
    c.object(DRA, "DeviceClass", "fast", spec={"selectors": [selector]})
    c.template("fast", "fast")


def _same_resource(c: Cluster) -> None:
    for name in ("a", "b"):
        selector = {"cel": {"expression": 'device.driver == "gpu.nvidia.com"'}}
        c.object(DRA, "DeviceClass", name, spec={"selectors": [selector], "extendedResourceName": "nvidia.com/gpu"})


def _class_missing(c: Cluster) -> None:
    c.template("two", "gpu.nvidia.con")


def _twice(c: Cluster) -> None:
    c.pod("second", claim="stolen", node="node-1")
    c.claim("stolen", "node-1/gpu-0", pods=["second"])


def _overcommitted(c: Cluster) -> None:
    published = c.all("ResourceSlice")[1]
    counters = copy.deepcopy(published)
    counters["metadata"]["name"] = "counters"
    for slice_ in (published, counters):
        slice_["spec"]["pool"]["resourceSliceCount"] = 2
    del counters["spec"]["devices"]
    counters["spec"]["sharedCounters"] = [{"name": "gpu-0", "counters": {"memory": {"value": "15Gi"}}}]
    for device in c.devices(1):
        device["consumesCounters"] = [{"counterSet": "gpu-0", "counters": {"memory": {"value": "10Gi"}}}]
    c.trees.append(counters)
    for number in (0, 1):
        c.running(f"half-{number}", "node-2", f"gpu-{number}")


def _device_gone(c: Cluster) -> None:
    del c.devices()[0]


def _unreserved(c: Cluster) -> None:
    c.claim("idle", "node-2/gpu-0")


def _stale_reservation(c: Cluster) -> None:
    c.claim("stale", "node-2/gpu-0", pods=["ghost"])


def _unknown_consumer(c: Cluster) -> None:
    claim = c.claim("strange", "node-2/gpu-0")
    entry = {"apiGroup": "batch.example.com", "resource": "trainings", "name": "t", "uid": "u"}
    claim["status"]["reservedFor"] = [entry]


def _deleting(c: Cluster) -> None:
    metadata = c["ResourceClaim", "web-gpu"]["metadata"]
    metadata["deletionTimestamp"] = LONG_AGO
    metadata["finalizers"] = ["resource.kubernetes.io/delete-protection"]


def _orphan(c: Cluster) -> None:
    claim = c.claim("left-gpu")
    claim["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Pod", "name": "left", "uid": "nobody", "controller": True}
    ]


def _crowded(c: Cluster) -> None:
    pods = [f"p{number}" for number in range(256)]
    for name in (*pods, "late"):
        c.pod(name, claim="shared", node="" if name == "late" else "node-2")
    c.claim("shared", "node-2/gpu-0", pods=pods)


def _not_ready(c: Cluster) -> None:
    condition = {"type": "Ready", "status": "False", "reason": "Xid79", "message": "fallen off the bus"}
    status = {"driver": NVIDIA, "pool": "node-1", "device": "gpu-0", "conditions": [condition]}
    c["ResourceClaim", "web-gpu"]["status"]["devices"] = [status]


def _not_bound(c: Cluster) -> None:
    result = c["ResourceClaim", "web-gpu"]["status"]["allocation"]["devices"]["results"][0]
    result["bindingConditions"] = ["attached"]
    result["bindingFailureConditions"] = ["failed"]


def _quota(c: Cluster) -> None:
    key = "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"
    c.object(
        "v1", "ResourceQuota", "team", "ml", status={"hard": {key: "1", "pods": "1"}, "used": {key: "1", "pods": "1"}}
    )


def _set_aside(c: Cluster) -> None:
    c.claim("ours", "node-2/gpu-0")["metadata"]["labels"]["allotment.dev/contested"] = "true"


def _bypassing(c: Cluster) -> None:
    c.claim("alone")
    c.pod("pinned", claim="alone", node="node-2", phase="Pending")


def _too_big(c: Cluster) -> None:
    c.template("three", count=3)
    for number in range(7):
        c.pending_pod(f"big-{number}", "three", owner=("Job", "train"))


def _misnamed(c: Cluster) -> None:
    c.pod("typo", template="onne")


def _gated(c: Cluster) -> None:
    c.pod("queued", claim="web-gpu", schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])


def _unserved(c: Cluster) -> None:
    c.pending_pod("odd", message="", schedulerName="volcano")


def _not_made(c: Cluster) -> None:
    c.pod("poor", template="one")
    c.event("poor", "FailedResourceClaimCreation", 'resourceclaims "poor-gpu-x" is forbidden: exceeded quota: team')


def _unhealthy(c: Cluster) -> None:
    health = {
        "name": "claim:gpu/gpu",
        "resources": [{"resourceID": "gpu-0", "health": "Unhealthy", "message": "XID 79"}],
    }
    c["Pod", "web"]["status"]["containerStatuses"] = [
        {"name": "main", "ready": True, "allocatedResourcesStatus": [health]}
    ]


def _unused(c: Cluster) -> None:
    del c["Pod", "web"]["spec"]["containers"][0]["resources"]


def _not_ending(c: Cluster) -> None:
    c["Pod", "web"]["metadata"]["deletionTimestamp"] = LONG_AGO


def _short_of_cpu(c: Cluster) -> None:
    c.pending_pod("hungry", message="0/2 nodes are available: 2 Insufficient cpu.")


DEFECTS: Final = (
    Defect("D101", _no_api, "server", "v1.31.4 serves no ResourceClaims", "Upgrade to 1.34"),
    Defect(
        "D102",
        _gate,
        "gate DRADeviceTaints",
        "is disabled in the API server, but used by slice 00000-",
        "=true in kube-apiserver",
    ),
    Defect(
        "D103",
        _kubelet,
        "node/node-2",
        "runs kubelet v1.37.0, which is newer than the API server (v1.36.2)",
        "Upgrade the API",
    ),
    Defect("D104", _denied, "you", "you are not allowed to list events.", "$ allot rbac reader"),
    Defect(
        "D105",
        _unknown_version,
        "devicetaintrules",
        "served only in v2 and v3; this release of Allotment reads v1, v1beta2 and v1alpha3",
        "Upgrade Allotment",
    ),
    Defect(
        "D106",
        _program,
        "pod kube-system/kube-scheduler-node-1",
        "kube-scheduler runs v1.37.2 and the API server v1.36.2, which is newer and therefore not supported",
        "Upgrade the API server",
    ),
    Defect(
        "D107",
        _other_gates,
        "pod kube-system/kube-controller-manager-node-1",
        "kube-controller-manager has DRAPartitionableDevices=false, unlike the API server",
        "Set the same feature gate in both programs",
    ),
    Defect(
        "D201",
        _undriven,
        "node/node-2",
        "node node-2 has NVIDIA GPUs (label nvidia.com/gpu.present=true)",
        "$ kubectl get pods -A",
    ),
    Defect(
        "D202",
        _crashing,
        "pod dra/driver-node-2",
        "container gpus is in CrashLoopBackOff, 7 restarts",
        "$ kubectl logs -n dra driver-node-2",
    ),
    Defect(
        "D203",
        _gone_node,
        "node/node-2",
        "1 ResourceSlice of gpu.nvidia.com still",
        "--field-selector spec.nodeName=node-2",
    ),
    Defect(
        "D204", _unready, "node/node-1", "is not Ready and has 2 devices, 1 in use", "$ kubectl describe node node-1"
    ),
    Defect(
        "D205",
        _unprepared,
        "2 pods",
        "on node node-2: DRA driver gpu.nvidia.com is not registered",
        "gpu.nvidia.com is not registered with the kubelet",
    ),
    Defect(
        "D206", _plugged, "node/node-1", "allocatable nvidia.com/gpu: 2 from a device plugin", "Let only one of the two"
    ),
    Defect(
        "D207",
        _published_twice,
        "node/node-1",
        "gpu-0 of gpu.nvidia.com (pool node-1), gpu-0 of gpu.hami.io",
        "Let only one of the drivers",
    ),
    Defect(
        "D208",
        _both_drivers,
        "node/node-1",
        "gpu.nvidia.com runs twice on node node-1, as pods dra/driver-node-1 and allotment-drivers/ours",
        "Run only one of them",
    ),
    Defect("D209", _simulated, "node/node-1", "2 devices of gpu.nvidia.com on node node-1 are simulated", "-l allot"),
    Defect("D301", _incomplete, "pool/node-1", "1 slice of generation 1 published, but 2 announced", "Check the log"),
    Defect(
        "D302",
        _old_generation,
        "slice/left-behind",
        "of an older generation",
        "$ kubectl delete resourceslice left-behind",
    ),
    Defect("D303", _invalid, "pool/node-1", "duplicate device name gpu-0", "-o yaml"),
    Defect("D304", _nothing_published, "node/node-2", "gpu.nvidia.com publishes no device there", "finds no devices"),
    Defect(
        "D305",
        _tainted,
        "1 device",
        "1 device on 1 node (node-2) has taint gpu.nvidia.com/xid=79:NoSchedule: gpu-1",
        "$ allot free -o wide",
    ),
    Defect(
        "D306", _idle_rule, "devicetaintrule/repair", "driver gpu.nvidia.com, pool node-9", "Correct its deviceSelector"
    ),
    Defect("D307", _not_evicted, "pod ml/web", "(broken on gpu-0)", "$ kubectl delete pod -n ml web"),
    Defect(
        "D401",
        _no_class,
        "driver gpu.nvidia.com",
        "4 devices are published, but no DeviceClass selects them",
        "device.driver ==",
    ),
    Defect(
        "D402",
        _empty_class,
        "class/hopper",
        "selects none of the cluster's 4 devices; claim or template ml/hopper requests hopper",
        "$ kubectl get deviceclass hopper",
    ),
    Defect("D403", _failing_class, "class/fast", "no such key: speed", "$ kubectl edit deviceclass fast"),
    Defect(
        "D404",
        _same_resource,
        "3 classes",
        "a, b and gpu.nvidia.com have the same extendedResourceName, nvidia.com/gpu; the newest, a,",
        "$ kubectl edit deviceclass b",
    ),
    Defect("D405", _class_missing, "class/gpu.nvidia.con", "ml/two", 'Did you mean "gpu.nvidia.com"?'),
    Defect(
        "D501",
        _twice,
        "device gpu-0",
        "allocated to claims ml/web-gpu, ml/stolen at the same time",
        "$ kubectl describe resourceclaim -n ml stolen",
    ),
    Defect(
        "D502", _overcommitted, "pool/node-2", "memory of counter set gpu-0: 20Gi of 15Gi allocated", "Delete the pods"
    ),
    Defect(
        "D503",
        _device_gone,
        "claim ml/web-gpu",
        "holds node-1/gpu-0: gpu.nvidia.com no longer publishes it",
        "allocated again",
    ),
    Defect(
        "D504",
        _unreserved,
        "claim ml/idle",
        "has been allocated for 4h without being reserved for any pod; it holds 1 device",
        "$ kubectl delete resourceclaim -n ml idle",
    ),
    Defect("D505", _stale_reservation, "claim ml/stale", "reserved for pod ghost (deleted)", "kube-controller-manager"),
    Defect(
        "D506",
        _unknown_consumer,
        "claim ml/strange",
        "reserved for trainings.batch.example.com",
        "$ kubectl get resourceclaim -n ml strange",
    ),
    Defect("D507", _deleting, "claim ml/web-gpu", "still in use by web (running)", "$ kubectl get pods -n ml web"),
    Defect(
        "D508",
        _orphan,
        "claim ml/left-gpu",
        "generated for deleted pod left",
        "$ kubectl delete resourceclaim -n ml left-gpu",
    ),
    Defect(
        "D509",
        _crowded,
        "claim ml/shared",
        "reserved for 256 consumers, which is the maximum; 1 more pod references it",
        "ResourceClaimTemplate",
    ),
    Defect(
        "D510",
        _not_ready,
        "claim ml/web-gpu",
        "not Ready: Xid79 (fallen off the bus)",
        "$ kubectl describe resourceclaim -n ml web-gpu",
    ),
    Defect(
        "D511",
        _not_bound,
        "claim ml/web-gpu",
        "is waiting for binding condition attached of gpu.nvidia.com, for up to 4h",
        "ten minutes",
    ),
    Defect(
        "D512",
        _quota,
        "quota ml/team",
        "used up for gpu.nvidia.com.deviceclass.resource.k8s.io/devices (1 of 1).",
        "$ kubectl describe resourcequota -n ml team",
    ),
    Defect(
        "D513",
        _set_aside,
        "claim ml/ours",
        "was set aside and still exists, although no other claim holds node-2/gpu-0",
        "$ kubectl delete resourceclaim -n ml ours",
    ),
    Defect(
        "D601",
        _bypassing,
        "pod ml/pinned",
        "is assigned to a node (node-2), but has a claim that is not allocated",
        "nodeSelector kubernetes.io/hostname",
    ),
    Defect(
        "D602",
        _too_big,
        "7 pods",
        "7 pods of Job ml/train are pending: too-few-devices",
        "$ allot explain pod/big-0 -n ml",
    ),
    Defect(
        "D603",
        _misnamed,
        "pod ml/typo",
        'ResourceClaimTemplate "onne" does not exist in namespace ml. Did you mean "one"?',
        "Change Pod ml/typo: use one. Also make the same change in the manifest",
    ),
    Defect("D604", _gated, "pod ml/queued", "blocked by scheduling gate kueue.x-k8s.io/admission", "such as Kueue"),
    Defect(
        "D605",
        _unserved,
        "pod ml/odd",
        "is waiting for scheduler volcano, which has not processed it: there is no Lease volcano",
        "Start volcano",
    ),
    Defect("D606", _not_made, "pod ml/poor", "is forbidden: exceeded quota: team", "$ kubectl describe pod -n ml poor"),
    Defect(
        "D607",
        _unhealthy,
        "pod ml/web",
        "unhealthy devices: gpu-0 on node-1. The driver reports: XID 79",
        "delete the pod (its work is lost)",
    ),
    Defect(
        "D608",
        _unused,
        "pod ml/web",
        "no container lists it under resources.claims; 1 device is allocated",
        "{claims: [{name: gpu}]}",
    ),
    Defect(
        "D609",
        _not_ending,
        "pod ml/web",
        "is still Terminating on node node-1 after the grace period, and holds 1 device",
        "force-delete",
    ),
    Defect(
        "D610",
        _short_of_cpu,
        "pod ml/hungry",
        "The scheduler reports: 0/2 nodes are available: 2 Insufficient cpu.",
        "Devices are not the cause",
    ),
)
