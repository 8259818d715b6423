"""Redaction removes private data, keeps the data that tools need, and does not change their results."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.explanation import explain
from allotment.fleet import cluster_of, parse_fleet
from allotment.model.decoding import decode_all
from allotment.model.features import Features
from allotment.model.loading import load_text
from allotment.model.meta import Object
from allotment.model.trees import Tree
from allotment.tools.doctor.objects import Pod
from allotment.tools.doctor.reading import read_objects
from allotment.tools.doctor.vendors import is_driver
from allotment.tools.redact import redacted
from allotment.tools.redact.pseudonyms import Pseudonyms

POD: Tree = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "wotan-0", "namespace": "valhalla", "uid": "u1", "generateName": "wotan-",
        "labels": {"app": "freia", "big": "true", "count": "12"}, "annotations": {"owner": "alberich@example.com"},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "wotan-rs", "uid": "u2"}],
        "managedFields": [{"manager": "mime"}],
    },
    "spec": {
        "nodeName": "rheingold", "nodeSelector": {"zone": "nibelheim", "kubernetes.io/os": "linux"},
        "priorityClassName": "hagen", "serviceAccountName": "fafner", "hostname": "fasolt",
        "imagePullSecrets": [{"name": "tarnhelm"}],
        "tolerations": [{"key": "team", "operator": "Equal", "value": "gods", "effect": "NoSchedule"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": "zone", "operator": "In", "values": ["nibelheim", "riesenheim"]}
                            ],
                            "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["rheingold"]}],
                        }
                    ]
                }
            },
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "topologyKey": "zone",
                        "namespaces": ["valhalla"],
                        "labelSelector": {"matchLabels": {"app": "freia"}},
                    }
                ]
            },
        },
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "ring-claim"}],
        "containers": [
            {
                "name": "siegfried", "image": "registry.example/brünnhilde:1",
                "command": ["nothung"], "args": ["--grane"],
                "env": [{"name": "LOGE", "value": "feuer"}], "volumeMounts": [{"name": "v", "mountPath": "/hort"}],
                "resources": {"claims": [{"name": "gpu"}], "limits": {"cpu": "2"}},
                "livenessProbe": {"exec": {"command": ["erda"]}},
            }
        ],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "hort"}}],
    },
    "status": {
        "phase": "Pending", "message": "von walküre", "podIP": "10.9.8.7",
        "conditions": [
            {
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "message": 'claim valhalla/ring-claim: no device on rheingold; persistentvolumeclaim "hort"',
            },
            {"type": "Ready", "status": "False", "message": "waltraute"},
        ],
        "containerStatuses": [{"name": "siegfried", "state": {"terminated": {"message": "grimgerde"}}}],
    },
}  # fmt: skip
CLAIM: Tree = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "ring-claim", "namespace": "valhalla", "uid": "u3"},
    "spec": {
        "devices": {
            "requests": [
                {
                    "name": "gpu",
                    "exactly": {
                        "deviceClassName": "gpu.nvidia.com",
                        "selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}],
                    },
                }
            ]
        }
    },
    "status": {
        "allocation": {
            "devices": {
                "results": [{"request": "gpu", "driver": "gpu.nvidia.com", "pool": "rheingold", "device": "gpu-0"}]
            },
            "nodeSelector": {
                "nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["rheingold"]}]}
                ]
            },
        },
        "reservedFor": [{"resource": "pods", "name": "wotan-0", "uid": "u1"}],
        "devices": [
            {
                "driver": "gpu.nvidia.com", "pool": "rheingold", "device": "gpu-0",
                "networkData": {"ips": ["10.9.8.7"]},
                "conditions": [{"type": "Ready", "status": "True", "message": "gutrune"}],
            }
        ],
    },
}  # fmt: skip
NODE: Tree = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "rheingold", "labels": {"kubernetes.io/hostname": "rheingold", "zone": "nibelheim"}},
    "spec": {"providerID": "cloud://walhall", "taints": [{"key": "team", "value": "gods", "effect": "NoSchedule"}]},
    "status": {"addresses": [{"type": "InternalIP", "address": "10.1.2.3"}], "allocatable": {"cpu": "8"},
               "images": [{"names": ["registry.example/brünnhilde:1"]}]},
}  # fmt: skip
EVENT: Tree = {
    "apiVersion": "v1", "kind": "Event", "metadata": {"name": "wotan-0.1", "namespace": "valhalla"},
    "involvedObject": {"kind": "Pod", "name": "wotan-0", "namespace": "valhalla"}, "reason": "FailedScheduling",
    "message": "nodeSelector zone=nibelheim matches none of rheingold: make pod valhalla/wotan-0 fit",
}  # fmt: skip
SECRET: Tree = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "tarnhelm"}, "data": {"a": "YQ=="}}
PRIVATE = (
    "wotan", "valhalla", "freia", "ring-claim", "alberich", "mime", "rheingold", "nibelheim", "riesenheim",
    "hagen", "fafner", "fasolt", "tarnhelm", "gods", "siegfried", "brünnhilde", "nothung", "grane", "LOGE",
    "feuer", "hort", "erda", "walküre", "10.9.8.7", "10.1.2.3", "waltraute", "grimgerde", "gutrune", "walhall",
)  # fmt: skip


def test_private_data_is_removed() -> None:
    text = json.dumps(redacted([POD, CLAIM, NODE, EVENT, SECRET]), ensure_ascii=False)
    assert [word for word in PRIVATE if word in text] == []
    assert "Secret" not in text


def test_the_input_is_not_modified() -> None:
    given = copy.deepcopy([POD, CLAIM, NODE, EVENT])
    redacted(given)
    assert given == [POD, CLAIM, NODE, EVENT]


def test_an_object_has_one_pseudonym_everywhere() -> None:
    pod, claim, node, event = redacted([POD, CLAIM, NODE, EVENT])
    assert pod["metadata"]["name"] == claim["status"]["reservedFor"][0]["name"] == event["involvedObject"]["name"]
    assert pod["spec"]["resourceClaims"][0]["resourceClaimName"] == claim["metadata"]["name"]
    name = node["metadata"]["name"]
    assert pod["spec"]["nodeName"] == name == node["metadata"]["labels"]["kubernetes.io/hostname"]
    assert claim["status"]["allocation"]["devices"]["results"][0]["pool"] == name
    assert pod["spec"]["nodeSelector"]["zone"] == node["metadata"]["labels"]["zone"]
    assert pod["spec"]["tolerations"][0]["value"] == node["spec"]["taints"][0]["value"]
    anti = pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]
    assert anti["labelSelector"]["matchLabels"]["app"] == pod["metadata"]["labels"]["app"]
    assert anti["namespaces"] == [pod["metadata"]["namespace"]]


def test_fields_that_affect_results_are_kept() -> None:
    pod, claim, node, _ = redacted([POD, CLAIM, NODE, EVENT])
    assert claim["spec"] == CLAIM["spec"]
    assert node["status"]["allocatable"] == NODE["status"]["allocatable"]
    assert pod["metadata"]["labels"]["big"] == "true"
    assert pod["metadata"]["labels"]["count"] == "12"
    assert pod["spec"]["nodeSelector"]["kubernetes.io/os"] == "linux"
    assert pod["spec"]["containers"][0]["resources"] == POD["spec"]["containers"][0]["resources"]
    assert pod["metadata"]["uid"] == "u1"


def test_messages_of_the_scheduler_contain_pseudonyms() -> None:
    pod, claim, node, event = redacted([POD, CLAIM, NODE, EVENT])
    space, name = pod["metadata"]["namespace"], node["metadata"]["name"]
    assert event["message"] == (
        f"nodeSelector zone={node['metadata']['labels']['zone']} matches none of {name}: "
        f"make pod {space}/{pod['metadata']['name']} fit"
    )
    message = pod["status"]["conditions"][0]["message"]
    assert message.startswith(f"claim {space}/{claim['metadata']['name']}: no device on {name};")
    assert "message" not in pod["status"]["conditions"][1]


#: Messages with names of missing objects, and the expected redacted messages.
GONE = {
    "0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 2 node(s) had untolerated taint {team: gods}. "
    "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.":
        "0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 2 node(s) had untolerated taint {team: value-1}. "
        "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
    "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 80Gi requested "
    "(not-enough-capacity) of spec.devices.requests[0].exactly.":
        "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 80Gi requested "
        "(not-enough-capacity) of spec.devices.requests[0].exactly.",
    "0/1 nodes are available: 1 node(s) had untolerated taint {wotan.io/team: froh}.":
        "0/1 nodes are available: 1 node(s) had untolerated taint {word-3/team: word-1}.",
    "see status.rhine.example and spec.rhine": "see word-2 and word-1",
    'persistentvolumeclaim "fricka" not found': 'persistentvolumeclaim "word-1" not found',
    "waiting for ephemeral volume controller to create the persistentvolumeclaim \"alt-0-scratch\"":
        'waiting for ephemeral volume controller to create the persistentvolumeclaim "word-1"',
    "Successfully assigned donner/froh to erda": "Successfully assigned word-1/word-3 to word-2",
    "Preempted by pod alt-0 on node erda": "Preempted by pod word-1 on node word-2",
    'claims "alt-0-x" is forbidden: exceeded quota: erda, requested: count/resourceclaims.resource.k8s.io=1':
        'claims "word-1" is forbidden: exceeded quota: word-3, requested: count/resourceclaims.resource.k8s.io=1',
    'admission webhook "no.rhine.example" denied the request: contact Floßhilde\nor Woglinde':
        'admission webhook "word-1" denied the request',
    "ValidatingAdmissionPolicy 'ortlinde' with binding 'gerhilde' denied request: by order of Fricka":
        "ValidatingAdmissionPolicy 'word-2' with binding 'word-1' denied request",
    "node flosshilde-7.rhine.example is gone, registry.example/a/b:1 too":
        "node word-3 is gone, word-4/word-1/word-2:1 too",
}  # fmt: skip


@pytest.mark.parametrize("message", GONE)
def test_names_outside_of_the_snapshot_are_redacted(message: str) -> None:
    requested = {"requests": {"nvidia.com/gpu": "1"}}
    taint = {"key": "team", "value": "gods", "effect": "NoSchedule"}
    trees: list[Tree] = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "walhall"}, "spec": {"taints": [taint]}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "loge", "namespace": "default"},
         "spec": {"containers": [{"name": "c", "resources": requested}]}},
        {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"},
         "involvedObject": {"kind": "Pod", "name": "loge"}, "reason": "FailedScheduling", "message": message},
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "rhine", "namespace": "default"},
         "status": {"hard": {"count/resourceclaims.resource.k8s.io": "4"}}},
    ]  # fmt: skip
    assert redacted(trees)[2]["message"] == GONE[message]


def test_messages_of_allotment_about_selectors_are_kept() -> None:
    cel = "device.attributes['gpu.nvidia.com'].productName.startsWith('H100')"
    claim, pod = copy.deepcopy([CLAIM, POD])
    claim["spec"]["devices"]["requests"][0]["exactly"] |= {"selectors": [{"cel": {"expression": cel}}]}
    message = f"no device satisfies {cel} (selector-matches-nothing)\n  spec.devices.requests[0].exactly.count: 8"
    pod["status"]["conditions"][0]["message"] = message
    assert redacted([claim, pod])[1]["status"]["conditions"][0]["message"] == message


def test_groups_stay_together() -> None:
    entry = {"name": "gpu", "resourceClaimTemplateName": "ring"}
    group: Tree = {
        "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
        "metadata": {"name": "nornen", "namespace": "valhalla"}, "spec": {"resourceClaims": [entry]},
        "status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "ring-claim"}]},
    }  # fmt: skip
    pod, claim = copy.deepcopy([POD, CLAIM])
    pod["spec"]["schedulingGroup"] = {"podGroupName": "nornen"}
    claim["status"]["reservedFor"] = [{"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "nornen"}]
    group, pod, claim = redacted([group, pod, claim])
    name = group["metadata"]["name"]
    assert (
        name == pod["spec"]["schedulingGroup"]["podGroupName"] == claim["status"]["reservedFor"][0]["name"] != "nornen"
    )
    assert group["status"]["resourceClaimStatuses"][0]["resourceClaimName"] == claim["metadata"]["name"]


def test_the_tree_of_groups_is_kept() -> None:
    version = "scheduling.k8s.io/v1beta1"
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}, "workloadRef": {"workloadName": "odin", "templateName": "t"}}
    condition = {"type": "PodGroupInitiallyScheduled", "status": "False", "reason": "Unschedulable", "message": "odin"}
    group: Tree = {
        "apiVersion": version, "kind": "PodGroup", "metadata": {"name": "nornen", "namespace": "valhalla"},
        "spec": {**spec, "parentCompositePodGroupName": "asgard"}, "status": {"conditions": [condition]},
    }  # fmt: skip
    parent = {**group, "apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "CompositePodGroup"}
    parent |= {"metadata": {"name": "asgard", "namespace": "valhalla"}, "spec": {"schedulingPolicy": {"basic": {}}}}
    group, parent = redacted([group, parent])
    assert group["spec"]["parentCompositePodGroupName"] == parent["metadata"]["name"] != "asgard"
    assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 2}}
    assert group["status"]["conditions"][0]["reason"] == "Unschedulable"
    assert "odin" not in json.dumps(group)


def test_booleans_in_annotations_are_kept() -> None:
    pod = copy.deepcopy(POD)
    pod["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "true", "owner": "mime"}
    (found,) = redacted([pod])
    assert found["metadata"]["annotations"] == {"karpenter.sh/do-not-disrupt": "true", "owner": "annotation-1"}


@given(st.sets(st.text(alphabet="abc-019", min_size=1, max_size=6), min_size=1, max_size=30))
def test_pseudonyms_sort_like_the_names(originals: set[str]) -> None:
    names = Pseudonyms()
    for name in originals:
        names.of("pod", name)
    names.assign()
    given_ = [names.of("pod", name) for name in sorted(originals)]
    assert given_ == sorted(set(given_))


@pytest.mark.parametrize("fleet", ["dgx-a100-40gb:2", "t4-4x-pcie:1,2xa100-80gb/dynamic-mig"])
@pytest.mark.parametrize("count", [1, 3, 9])
def test_explanations_are_the_same(fleet: str, count: int) -> None:
    template = copy.deepcopy(CLAIM)
    del template["status"]
    template["spec"]["devices"]["requests"][0]["exactly"]["count"] = count
    pods = []
    for number in range(3):
        claim = copy.deepcopy(template)
        claim["metadata"] |= {"name": f"ring-{number}"}
        pod: Tree = {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"wotan-{number}", "namespace": "valhalla"},
            "spec": {
                "resourceClaims": [{"name": "gpu", "resourceClaimName": f"ring-{number}"}],
                "containers": [{"name": "c", "image": "i"}],
            },
        }  # fmt: skip
        pods += [claim, pod]
    known = Features(kube="1.36")
    cluster = cluster_of(parse_fleet([fleet]), "1.36")

    def answers(trees: list[Tree]) -> list[tuple[Any, ...]]:
        documents = [document for tree in trees for document in load_text(json.dumps(tree)).documents]
        values = [manifest.value for manifest in decode_all(documents).manifests]
        objects = [value for value in values if isinstance(value, Object)]
        explanation = explain([*cluster.nodes, *cluster.slices, *cluster.classes, *objects], known)
        return [
            (
                answer.outcome, answer.node, answer.reasons and answer.reasons.headline.code,
                [device.device for claim in answer.claims for device in claim.devices],
            )
            for answer in explanation.answers
        ]  # fmt: skip

    assert answers(pods) == answers(redacted(pods))


def test_fields_for_doctor_are_kept_without_names() -> None:
    health = {
        "name": "claim:ring/gold",
        "resources": [{"resourceID": "gpu-0", "health": "Unhealthy", "message": "loge"}],
    }
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off of mime"}}
    pod = copy.deepcopy(POD)
    pod["status"]["containerStatuses"] = [
        {"name": "siegfried", "ready": False, "restartCount": 3, "image": "fafner", "state": waiting,
         "allocatedResourcesStatus": [health]},
    ]  # fmt: skip
    amounts = {"gpu.nvidia.com.deviceclass.resource.k8s.io/devices": "2", "hort.storageclass.storage.k8s.io/pvcs": "1"}
    quota: Tree = {
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "gnome", "namespace": "valhalla"},
        "spec": {"hard": amounts}, "status": {"hard": amounts, "used": amounts},
    }  # fmt: skip
    leases: list[Tree] = [
        {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
         "metadata": {"name": name, "namespace": "kube-system"},
         "spec": {"holderIdentity": "host-of-hagen", "renewTime": "2026-01-01T00:00:00Z", "leaseDurationSeconds": 15}}
        for name in ("kube-scheduler", "waltraute")
    ]  # fmt: skip
    found = redacted([pod, quota, *leases])
    assert found[0]["status"]["containerStatuses"] == [
        {"name": "container-1", "ready": False, "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
         "allocatedResourcesStatus": [{"resources": [{"health": "Unhealthy"}]}]},
    ]  # fmt: skip
    devices = {"gpu.nvidia.com.deviceclass.resource.k8s.io/devices": "2"}
    assert found[1]["status"] == {"hard": devices, "used": devices}
    assert [lease["metadata"]["name"] for lease in found[2:]] == ["kube-scheduler", "lease-1"]
    text = json.dumps(found)
    private = ("siegfried", "fafner", "mime", "loge", "ring-claim", "hort", "gnome", "hagen", "waltraute", "valhalla")
    assert [word for word in private if word in text.replace("string", "")] == []


def test_a_driver_is_recognized_by_its_host_paths() -> None:
    paths = ("/srv/acme/kubelet/plugins_registry", "/var/run/cdi", "/srv/acme/models")
    volumes = [{"name": f"v{number}", "hostPath": {"path": path}} for number, path in enumerate(paths)]
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "nics", "namespace": "net"},
        "spec": {"containers": [{"name": "main", "image": "acme/nics:1"}], "volumes": volumes},
    }  # fmt: skip
    (found,) = redacted([pod])
    assert "acme" not in json.dumps(found)
    (read_again,) = read_objects([found]).values
    assert isinstance(read_again, Pod)
    assert is_driver(read_again, "pseudonym")
