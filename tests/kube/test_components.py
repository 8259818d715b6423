"""``allot run`` on a real control plane with its own service account: alongside kube-scheduler, scraped, killed."""

from __future__ import annotations

import re
import ssl
from pathlib import Path

import pytest

from allotment.components.registry import SCHEDULER_NAME
from allotment.model.contested_claims import is_contested_tree
from allotment.permissions.components import lease_of
from bench.real_kube import ApiServer
from tests.components.process import LEASE_FLAGS, Component, get, running, value
from tests.kube.objects import CLAIMS, NAMESPACE, PODS, account, create, device_class, items, node, pod, template
from tests.polling import wait_until

pytestmark = pytest.mark.every_release

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{lease_of('scheduler')}"


def bound(kube: ApiServer, name: str) -> None:
    wait_until(
        lambda: kube.send_request("GET", f"{PODS}/{name}")[1]["spec"].get("nodeName"),
        state=lambda: str(kube.send_request("GET", f"{PODS}/{name}")[1].get("status")),
    )


@pytest.fixture(scope="module")
def cluster(kube: ApiServer) -> ApiServer:
    """A node with four devices, and a pod template that requests them."""
    node(kube, "one", 4)
    device_class(kube)
    template(kube)
    for component in ("scheduler", "exporter"):
        account(kube, component)
    return kube


@pytest.fixture(scope="module")
def kubeconfig(cluster: ApiServer) -> Path:
    """The kubeconfig of the scheduler's service account, which has only the permissions that it needs."""
    return cluster.kubeconfig_of("scheduler", cluster.token_of("allotment-scheduler", NAMESPACE))


def words(kubeconfig: Path, *more: str) -> tuple[str, ...]:
    return ("scheduler", f"--kubeconfig={kubeconfig}", f"--lease-namespace={NAMESPACE}", *LEASE_FLAGS, *more)


def test_another_copy_takes_over_alongside_kube_scheduler_when_the_leader_is_killed(
    cluster: ApiServer, kubeconfig: Path
) -> None:
    lease_options = words(kubeconfig, "--bind-delay=10s")  # kube-scheduler may decide on state that is this old
    with running(*lease_options) as first:
        first.wait_for_lease()
        create(cluster, pod("own", SCHEDULER_NAME))
        create(cluster, pod("other", "default-scheduler"))
        bound(cluster, "own")
        bound(cluster, "other")
        with running(*lease_options) as second:
            wait_until(lambda: second.health("/readyz") == (200, "ok"), state=lambda: second.log)
            first.kill()
            create(cluster, pod("after", SCHEDULER_NAME))
            bound(cluster, "after")
            assert second.stop() == 0
    assert cluster.send_request("GET", LEASE)[1]["spec"]["holderIdentity"] == ""
    # Where both schedulers allocated one device, Allotment's scheduler gave it up; the claim it set aside belongs to no
    # pod.
    allocations = [claim["status"]["allocation"] for claim in items(cluster, CLAIMS) if not is_contested_tree(claim)]
    devices = [allocation["devices"]["results"][0]["device"] for allocation in allocations]
    assert len(set(devices)) == len(devices) == 3


def test_metrics_require_an_authorized_token(cluster: ApiServer, kubeconfig: Path) -> None:
    pki = cluster.folder / "pki"
    files = (f"--tls-cert-file={pki}/server.crt", f"--tls-private-key-file={pki}/server.key")
    with running(*words(kubeconfig, "--metrics-bind-address=0.0.0.0:0", *files)) as scheduler:
        scheduler.wait_for_lease()
        port = scheduler.wait_for_log(r"metrics: https://0\.0\.0\.0:(\d+)/metrics")[1]
        url, trusts = f"https://127.0.0.1:{port}/metrics", ssl.create_default_context(cafile=str(cluster.authority))
        assert get(url, context=trusts) == (401, "a bearer token is required\n")
        assert get(url, "made-up", trusts) == (401, "the cluster does not accept this token\n")
        stranger = cluster.token_of("allotment-exporter", NAMESPACE)
        assert get(url, stranger, trusts) == (403, "this user is not allowed to get /metrics\n")
        _grant_metrics(cluster, "allotment-exporter")
        wait_until(lambda: get(url, stranger, trusts)[0] == 200)
        metrics = get(url, stranger, trusts)[1]
        assert value(metrics, 'allotment_leader{lease="allotment-scheduler"}') == 1
        assert re.search(r'allotment_client_requests_total\{code="201",method="POST"\}', metrics)
        assert stranger not in scheduler.log
        elsewhere = "/api/v1/namespaces/kube-system/serviceaccounts/allotment-exporter"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": ["a-vault"]}}
        other = cluster.send_request("POST", f"{elsewhere}/token", request)[1]["status"]["token"]
        assert get(url, other, trusts) == (401, "the cluster does not accept this token\n"), "another audience"
        # deleting the account ends its tokens; the result of a token review is cached for 10 s
        cluster.send_request("DELETE", elsewhere)
        wait_until(lambda: get(url, stranger, trusts)[0] == 401)


def _grant_metrics(kube: ApiServer, account: str) -> None:
    metadata = {"name": "reads-metrics"}
    create(kube, {"kind": "ClusterRole", "apiVersion": "rbac.authorization.k8s.io/v1", "metadata": metadata,
                  "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]})  # fmt: skip
    create(kube, {
        "kind": "ClusterRoleBinding", "apiVersion": "rbac.authorization.k8s.io/v1", "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reads-metrics"},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}],
    })  # fmt: skip


def test_a_component_without_access_ends_with_a_one_line_error(cluster: ApiServer) -> None:
    stranger = cluster.kubeconfig_of("stranger", "made-up")
    scheduler = Component(*words(stranger))
    assert scheduler.wait_exit() == 1
    assert "denied access: Unauthorized" in scheduler.lines[-1]
    assert "Traceback" not in scheduler.log
