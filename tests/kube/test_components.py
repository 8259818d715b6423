"""``allot run`` on the real control plane, as its own service account: beside kube-scheduler, watched, killed."""

from __future__ import annotations

import re
import ssl
from pathlib import Path

import pytest

from allotment.components.registry import SCHEDULER_NAME
from allotment.model.contested_claims import is_contested_tree
from allotment.tools.permissions.components import lease_of
from bench.real_kube import ApiServer
from tests.components.process import LED, Component, get, running, value
from tests.kube.world import CLAIMS, NAMESPACE, PODS, account, create, device_class, items, node, pod, template
from tests.waiting import wait_until

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{lease_of('scheduler')}"


def bound(kube: ApiServer, name: str) -> None:
    wait_until(
        lambda: kube.ask("GET", f"{PODS}/{name}")[1]["spec"].get("nodeName"),
        told=lambda: str(kube.ask("GET", f"{PODS}/{name}")[1].get("status")),
    )


@pytest.fixture(scope="module")
def cluster(kube: ApiServer) -> ApiServer:
    """A node with four devices, and what they are asked by."""
    node(kube, "one", 4)
    device_class(kube)
    template(kube)
    for part in ("scheduler", "exporter"):
        account(kube, part)
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
    patient = words(kubeconfig, "--bind-delay=10s")  # kube-scheduler may decide on what it saw so long ago
    with running(*patient) as first:
        first.leads()
        create(cluster, pod("ours", SCHEDULER_NAME))
        create(cluster, pod("theirs", "default-scheduler"))
        bound(cluster, "ours")
        bound(cluster, "theirs")
        with running(*patient) as second:
            wait_until(lambda: second.health("/readyz") == (200, "ok"), told=lambda: second.log)
            first.kill()
            create(cluster, pod("after", SCHEDULER_NAME))
            bound(cluster, "after")
            assert second.stop() == 0
    assert cluster.ask("GET", LEASE)[1]["spec"]["holderIdentity"] == ""
    # Where both schedulers took one device, ours has stepped back; the claim that it set aside is no pod's.
    allocations = [claim["status"]["allocation"] for claim in items(cluster, CLAIMS) if not is_contested_tree(claim)]
    devices = [allocation["devices"]["results"][0]["device"] for allocation in allocations]
    assert len(set(devices)) == len(devices) == 3


def test_metrics_are_for_whom_the_cluster_lets(cluster: ApiServer, kubeconfig: Path) -> None:
    pki = cluster.folder / "pki"
    files = (f"--tls-cert-file={pki}/server.crt", f"--tls-private-key-file={pki}/server.key")
    with running(*words(kubeconfig, "--metrics-bind-address=0.0.0.0:0", *files)) as scheduler:
        scheduler.leads()
        port = scheduler.says(r"metrics: https://0\.0\.0\.0:(\d+)/metrics")[1]
        url, trusts = f"https://127.0.0.1:{port}/metrics", ssl.create_default_context(cafile=str(cluster.authority))
        assert get(url, context=trusts) == (401, "a bearer token is required\n")
        assert get(url, "made-up", trusts) == (401, "the cluster does not know this token\n")
        stranger = cluster.token_of("allotment-exporter", NAMESPACE)
        assert get(url, stranger, trusts) == (403, "this user may not get /metrics\n")
        _let(cluster, "allotment-exporter")
        wait_until(lambda: get(url, stranger, trusts)[0] == 200)
        metrics = get(url, stranger, trusts)[1]
        assert value(metrics, 'allotment_leader{lease="allotment-scheduler"}') == 1
        assert re.search(r'allotment_client_requests_total\{code="201",method="POST"\}', metrics)
        assert stranger not in scheduler.log
        elsewhere = "/api/v1/namespaces/kube-system/serviceaccounts/allotment-exporter"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": ["a-vault"]}}
        other = cluster.ask("POST", f"{elsewhere}/token", request)[1]["status"]["token"]
        assert get(url, other, trusts) == (401, "the cluster does not know this token\n"), "it is for somebody else"
        cluster.ask("DELETE", elsewhere)  # its tokens end with it; what the cluster said of them is kept for 10 s
        wait_until(lambda: get(url, stranger, trusts)[0] == 401)


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
    assert "denied access: Unauthorized" in scheduler.said[-1]
    assert "Traceback" not in scheduler.log
