"""``allot run`` on the real control plane, as its own service account: beside kube-scheduler, watched, killed."""

from __future__ import annotations

import re
import ssl
from pathlib import Path
from typing import Any

import pytest

from allotment.components.table import SCHEDULER_NAME
from allotment.tools.permissions.parts import PARTS, lease_of
from allotment.tools.permissions.roles import manifests
from bench.real_kube import ApiServer
from tests.components.process import LED, Component, get, running, until, value

Tree = dict[str, Any]

NAMESPACE = "kube-system"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{lease_of('scheduler')}"
_PLACES = {
    "ServiceAccount": f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles",
    "RoleBinding": f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/rolebindings",
    "Node": "/api/v1/nodes",
    "DeviceClass": "/apis/resource.k8s.io/v1/deviceclasses",
    "ResourceSlice": "/apis/resource.k8s.io/v1/resourceslices",
    "ResourceClaimTemplate": "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates",
    "Pod": "/api/v1/namespaces/default/pods",
}


def create(kube: ApiServer, tree: Tree) -> None:
    code, answer = kube.ask("POST", _PLACES[tree["kind"]], tree)
    assert code == 201, answer


def pod(name: str, scheduler: str) -> Tree:
    return {
        "kind": "Pod", "apiVersion": "v1", "metadata": {"name": name},
        "spec": {
            "schedulerName": scheduler, "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
            "containers": [{"name": "main", "image": "busybox", "resources": {"claims": [{"name": "gpu"}]}}],
        },
    }  # fmt: skip


def bound(kube: ApiServer, name: str) -> None:
    until(
        lambda: kube.ask("GET", f"{_PLACES['Pod']}/{name}")[1]["spec"].get("nodeName"),
        why=lambda: str(kube.ask("GET", f"{_PLACES['Pod']}/{name}")[1].get("status")),
    )


@pytest.fixture(scope="module")
def cluster(kube: ApiServer) -> ApiServer:
    """A node with four devices, and what they are asked by."""
    create(kube, {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "one"},
                  "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}})  # fmt: skip
    kube.ask("PATCH", "/api/v1/nodes/one", {"spec": {"taints": []}})
    devices = {"driver": "gpu.example.com", "nodeName": "one", "pool": {"name": "one", "resourceSliceCount": 1}}
    create(kube, {"kind": "ResourceSlice", "apiVersion": "resource.k8s.io/v1", "metadata": {"name": "one"},
                  "spec": {**devices, "devices": [{"name": f"gpu-{number}"} for number in range(4)]}})  # fmt: skip
    chosen = {"selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]}
    create(kube, {"kind": "DeviceClass", "apiVersion": "resource.k8s.io/v1", "metadata": {"name": "gpu"},
                  "spec": chosen})  # fmt: skip
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
    create(kube, {"kind": "ResourceClaimTemplate", "apiVersion": "resource.k8s.io/v1", "metadata": {"name": "gpu"},
                  "spec": {"spec": {"devices": {"requests": [request]}}}})  # fmt: skip
    for tree in (*manifests(PARTS["scheduler"], namespace=NAMESPACE), *manifests(PARTS["exporter"])):
        create(kube, tree)
    return kube


@pytest.fixture(scope="module")
def kubeconfig(cluster: ApiServer) -> Path:
    """Of the scheduler's own account, which may do what it needs and nothing else."""
    return cluster.kubeconfig_of("scheduler", cluster.token_of("allotment-scheduler", NAMESPACE))


def words(kubeconfig: Path, *more: str) -> tuple[str, ...]:
    return ("scheduler", f"--kubeconfig={kubeconfig}", f"--lease-namespace={NAMESPACE}", *LED, *more)


def test_beside_kube_scheduler_and_the_next_copy_goes_on_when_the_leader_is_killed(
    cluster: ApiServer, kubeconfig: Path
) -> None:
    with running(*words(kubeconfig)) as first:
        first.leads()
        create(cluster, pod("ours", SCHEDULER_NAME))
        create(cluster, pod("theirs", "default-scheduler"))
        bound(cluster, "ours")
        bound(cluster, "theirs")
        with running(*words(kubeconfig)) as second:
            until(lambda: second.health("/readyz") == (200, "ok"), why=lambda: second.log)
            first.kill()
            create(cluster, pod("after", SCHEDULER_NAME))
            bound(cluster, "after")
            assert second.stop() == 0
    assert cluster.ask("GET", LEASE)[1]["spec"]["holderIdentity"] == ""
    claims = cluster.ask("GET", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims")[1]["items"]
    devices = [claim["status"]["allocation"]["devices"]["results"][0]["device"] for claim in claims]
    assert len(set(devices)) == len(devices) == 3


def test_metrics_are_for_whom_the_cluster_lets(cluster: ApiServer, kubeconfig: Path) -> None:
    pki = cluster.folder / "pki"
    files = (f"--tls-cert-file={pki}/server.crt", f"--tls-private-key-file={pki}/server.key")
    with running(*words(kubeconfig, "--metrics-bind-address=0.0.0.0:0", *files)) as scheduler:
        scheduler.leads()
        port = scheduler.says(r"metrics: https://0\.0\.0\.0:(\d+)/metrics")[1]
        url, trusts = f"https://127.0.0.1:{port}/metrics", ssl.create_default_context(cafile=str(cluster.authority))
        assert get(url, context=trusts) == (401, "a bearer token is wanted\n")
        assert get(url, "made-up", trusts) == (401, "the cluster does not know this token\n")
        stranger = cluster.token_of("allotment-exporter", NAMESPACE)
        assert get(url, stranger, trusts) == (403, "this user may not get /metrics\n")
        _let(cluster, "allotment-exporter")
        until(lambda: get(url, stranger, trusts)[0] == 200)
        metrics = get(url, stranger, trusts)[1]
        assert value(metrics, 'allotment_leader{lease="allotment-scheduler"}') == 1
        assert re.search(r'allotment_client_requests_total\{code="201",method="POST"\}', metrics)
        assert stranger not in scheduler.log


def _let(kube: ApiServer, account: str) -> None:
    metadata = {"name": "reads-metrics"}
    create(kube, {"kind": "ClusterRole", "apiVersion": "rbac.authorization.k8s.io/v1", "metadata": metadata,
                  "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]})  # fmt: skip
    create(kube, {
        "kind": "ClusterRoleBinding", "apiVersion": "rbac.authorization.k8s.io/v1", "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reads-metrics"},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}],
    })  # fmt: skip


def test_who_is_not_let_in_ends_with_one_line(cluster: ApiServer) -> None:
    stranger = cluster.kubeconfig_of("stranger", "made-up")
    scheduler = Component(*words(stranger))
    assert scheduler.ends() == 1
    assert "does not let us in: Unauthorized" in scheduler.said[-1]
    assert "Traceback" not in scheduler.log
