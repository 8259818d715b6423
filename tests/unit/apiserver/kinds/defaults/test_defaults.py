"""Defaults as in responses of the real server, and invariants of defaulting."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from allotment.apiserver.kinds.defaults import TYPES, defaults_for
from allotment.apiserver.kinds.defaults.pods import pull_policy
from allotment.model.fields import kinds_of, shape_of
from allotment.model.normal_form import normalize
from allotment.model.trees import Tree


def filled(api_version: str, kind: str, tree: Tree) -> Tree:
    """The object with defaults, normalized; checks that defaulting is idempotent and does not modify its argument."""
    before = copy.deepcopy(tree)
    fill = defaults_for(api_version, kind)
    once = fill(tree, None)
    assert tree == before
    assert fill(once, None) is once
    assert fill(once, once) is once
    return normalize(once, shape_of(api_version, kind))


def pod(spec: Tree, **rest: Any) -> Tree:
    result: Tree = filled("v1", "Pod", {"metadata": {"name": "p"}, "spec": spec, **rest})["spec"]
    return result


def test_a_minimal_pod() -> None:
    assert pod({"containers": [{"name": "c", "image": "busybox"}]}) == {
        "containers": [
            {
                "name": "c",
                "image": "busybox",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "imagePullPolicy": "Always",
            }
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
    }


def test_probes_ports_and_references() -> None:
    container = pod(
        {
            "containers": [
                {
                    "name": "c",
                    "ports": [{"containerPort": 80}],
                    "env": [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
                    "livenessProbe": {"httpGet": {"port": 80}, "timeoutSeconds": 0},
                    "readinessProbe": {"grpc": {"port": 80}},
                }
            ],
            "hostNetwork": True,
        }
    )["containers"][0]
    assert container["ports"] == [{"hostPort": 80, "containerPort": 80, "protocol": "TCP"}]
    assert container["env"][0]["valueFrom"]["fieldRef"]["apiVersion"] == "v1"
    assert container["livenessProbe"] == {
        "httpGet": {"path": "/", "port": 80, "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    assert container["readinessProbe"]["grpc"] == {"port": 80, "service": ""}


def test_volumes() -> None:
    volumes = pod(
        {
            "containers": [],
            "volumes": [
                {"name": "bare"},
                {"name": "path", "hostPath": {"path": "/x"}},
                {"name": "secret", "secret": {"secretName": "s"}},
                {"name": "all", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
            ],
        }
    )["volumes"]
    assert volumes == [
        {"name": "bare", "emptyDir": {}},
        {"name": "path", "hostPath": {"path": "/x", "type": ""}},
        {"name": "secret", "secret": {"secretName": "s", "defaultMode": 420}},
        {
            "name": "all",
            "projected": {
                "sources": [{"serviceAccountToken": {"expirationSeconds": 3600, "path": "t"}}],
                "defaultMode": 420,
            },
        },
    ]


def test_requests_follow_limits_in_pods_but_not_in_templates() -> None:
    limited = {"containers": [{"name": "c", "resources": {"limits": {"cpu": "100u", "memory": "1Gi"}}}]}
    resources = pod(limited)["containers"][0]["resources"]
    assert resources == {"limits": {"cpu": "1m", "memory": "1Gi"}, "requests": {"cpu": "1m", "memory": "1Gi"}}
    deployment = filled("apps/v1", "Deployment", {"spec": {"template": {"spec": limited}}})
    template = deployment["spec"]["template"]["spec"]
    assert template["containers"][0]["resources"] == {"limits": {"cpu": "1m", "memory": "1Gi"}}
    assert "enableServiceLinks" not in template


def test_pod_level_requests_default_to_the_containers_requests_or_the_limit() -> None:
    spec = pod(
        {
            "containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}],
            "initContainers": [
                {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
                {"name": "once", "resources": {"requests": {"cpu": "3"}}},
            ],
            "resources": {"limits": {"cpu": "8", "memory": "1Gi"}},
        }
    )
    assert spec["resources"] == {"limits": {"cpu": "8", "memory": "1Gi"}, "requests": {"cpu": "4", "memory": "1Gi"}}


def test_the_deprecated_service_account_field_follows_the_new_one() -> None:
    for given in (
        {"serviceAccount": "a"},
        {"serviceAccountName": "a"},
        {"serviceAccountName": "a", "serviceAccount": "b"},
    ):
        spec = pod({"containers": [], **given})
        assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("a", "a")


def test_an_empty_deployment_has_a_template() -> None:
    spec = filled("apps/v1", "Deployment", {"metadata": {"name": "d"}})["spec"]
    assert spec == {
        "replicas": 1,
        "selector": None,
        "template": {
            "metadata": {},
            "spec": {
                "containers": None,
                "restartPolicy": "Always",
                "terminationGracePeriodSeconds": 30,
                "dnsPolicy": "ClusterFirst",
                "securityContext": {},
                "schedulerName": "default-scheduler",
            },
        },
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
    }


def test_jobs_get_the_labels_of_their_pod_template() -> None:
    job = filled("batch/v1", "Job", {"spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {}}}})
    assert job["metadata"]["labels"] == {"a": "b"}
    assert {name: job["spec"][name] for name in ("completions", "parallelism", "backoffLimit", "completionMode")} == {
        "completions": 1,
        "parallelism": 1,
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
    }
    parallel = filled("batch/v1", "Job", {"spec": {"parallelism": 3, "backoffLimitPerIndex": 1}})["spec"]
    assert "completions" not in parallel
    assert parallel["backoffLimit"] == 2**31 - 1


def test_services() -> None:
    spec = filled("v1", "Service", {"spec": {"ports": [{"port": 80}], "sessionAffinity": "ClientIP"}})["spec"]
    assert spec == {
        "ports": [{"protocol": "TCP", "port": 80, "targetPort": 80}],
        "type": "ClusterIP",
        "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}},
        "internalTrafficPolicy": "Cluster",
    }
    outside = filled("v1", "Service", {"spec": {"type": "LoadBalancer"}})["spec"]
    assert (outside["externalTrafficPolicy"], outside["allocateLoadBalancerNodePorts"]) == ("Cluster", True)


def test_string_data_of_secrets_is_merged_into_data() -> None:
    secret = filled(
        "v1", "Secret", {"metadata": {"name": "s"}, "stringData": {"a": "é"}, "data": {"a": "eA==", "b": "Yg=="}}
    )
    assert secret["data"] == {"a": "w6k=", "b": "Yg=="}
    assert secret["type"] == "Opaque"
    assert "stringData" not in secret


def test_namespaces_are_labelled_with_their_name() -> None:
    assert filled("v1", "Namespace", {"metadata": {"name": "n"}})["metadata"]["labels"] == {
        "kubernetes.io/metadata.name": "n"
    }
    assert filled("v1", "Namespace", {"metadata": {"generateName": "n-"}})["metadata"] == {"generateName": "n-"}


def test_claims_are_not_defaulted_here() -> None:
    tree: Tree = {"metadata": {}, "spec": {"devices": {"requests": [{"name": "r"}]}}}
    assert defaults_for("resource.k8s.io/v1", "ResourceClaim")(tree, None) is tree


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("busybox", "Always"),
        ("busybox:latest", "Always"),
        ("busybox:1.36", "IfNotPresent"),
        ("registry.k8s.io/pause:3.10", "IfNotPresent"),
        ("localhost:5000/team/app", "Always"),
        ("localhost:5000/team/app:latest", "Always"),
        ("busybox@sha256:" + "a" * 64, "IfNotPresent"),
        ("busybox:latest@sha256:" + "a" * 64, "Always"),
        ("Not A Reference", "IfNotPresent"),
        ("UpperCase", "IfNotPresent"),
        ("", "IfNotPresent"),
        ("a" * 64, "IfNotPresent"),
    ],
)
def test_pull_policy(image: str, policy: str) -> None:
    assert pull_policy(image) == policy


def all_structs() -> set[str]:
    """Every struct of the field table, by the names that the default tables use."""
    versions: tuple[str, ...] = (
        "v1",
        "apps/v1",
        "batch/v1",
        "autoscaling/v1",
        "autoscaling/v2",
        "authentication.k8s.io/v1",
    )
    versions += tuple(
        f"{group}.k8s.io/v1"
        for group in (
            "admissionregistration", "apiextensions", "apiregistration", "discovery", "networking",
            "rbac.authorization", "scheduling", "storage",
        )
    )  # fmt: skip
    pending = [shape_of(version, kind) for version in versions for kind in kinds_of(version)]
    names: set[str] = set()
    seen: set[int] = set()
    while pending:
        shape = pending.pop()
        if shape is None or id(shape) in seen:
            continue
        seen.add(id(shape))
        if shape.form == "struct":
            names.add(f"{'/'.join(shape.package.split('/')[-2:])}.{shape.bare_name}")
        pending += [field.shape for field in shape.fields.values()]
        pending.append(shape.element)
    return names


def test_every_type_with_defaults_is_used_by_a_kind() -> None:
    assert set(TYPES) <= all_structs()


def test_daemon_set_defaults() -> None:
    daemon_set = filled("apps/v1", "DaemonSet", {"spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": {}}}})
    assert daemon_set["metadata"]["annotations"] == {"deprecated.daemonset.template.generation": "0"}
    assert daemon_set["spec"]["updateStrategy"] == {
        "type": "OnDelete",
        "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 0},
    }


def test_volume_claim_templates_of_stateful_sets() -> None:
    spec = filled("apps/v1", "StatefulSet", {"spec": {"volumeClaimTemplates": [{"metadata": {"name": "c"}}]}})["spec"]
    assert spec["volumeClaimTemplates"] == [
        {
            "kind": "PersistentVolumeClaim",
            "apiVersion": "v1",
            "metadata": {"name": "c"},
            "spec": {"resources": {}, "volumeMode": "Filesystem"},
            "status": {"phase": "Pending"},
        }
    ]
