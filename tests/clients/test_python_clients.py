"""The Python clients, used as in applications: ``kubernetes`` (generated, with streams and watches) and ``kr8s``."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from typing import Any

import kr8s
import pytest
from kr8s.objects import Pod, new_class
from kubernetes import client, config, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.stream import portforward, stream

from tests.clients.conftest import Lab
from tests.polling import wait_until

CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "gpu"},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}},
}

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "train"},
    "spec": {
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}],
        "containers": [{"name": "main", "image": "cuda", "resources": {"claims": [{"name": "gpu"}]}}],
    },
}


#: The clients leave sockets to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Collect garbage after each test, so that warnings appear in the test that caused them."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture
def api(lab: Lab) -> Iterator[Any]:
    with config.new_client_from_config(str(lab.kubeconfig)) as connection:
        yield connection


@pytest.fixture
def namespace(api: Any, request: pytest.FixtureRequest) -> Iterator[str]:
    core: Any = client.CoreV1Api(api)
    name = request.node.name.removeprefix("test_").replace("_", "-")[:50].strip("-")
    core.create_namespace({"metadata": {"name": name}})
    yield name
    core.delete_namespace(name)


def test_kubernetes_creates_watches_and_deletes(api: Any, namespace: str) -> None:
    core: Any = client.CoreV1Api(api)
    dra: Any = client.ResourceV1Api(api)
    dra.create_namespaced_resource_claim(namespace, CLAIM)
    core.create_namespaced_pod(namespace, POD)
    for event in watch.Watch().stream(core.list_namespaced_pod, namespace, timeout_seconds=200):
        if event["object"].status.phase == "Running":
            break
    else:
        pytest.fail("the pod did not run")
    claim = dra.read_namespaced_resource_claim("gpu", namespace)
    assert claim.status.allocation.devices.results[0].driver == "gpu.nvidia.com"
    assert claim.status.reserved_for[0].name == "train"
    core.patch_namespaced_pod("train", namespace, {"metadata": {"labels": {"a": "b"}}})
    assert core.list_namespaced_pod(namespace, label_selector="a=b").items[0].metadata.name == "train"
    with pytest.raises(ApiException) as refused:
        core.create_namespaced_pod(namespace, POD)
    assert refused.value.status == 409
    core.delete_namespaced_pod("train", namespace)
    wait_until(lambda: not core.list_namespaced_pod(namespace).items)


def test_kubernetes_runs_commands_and_forwards_ports(api: Any, namespace: str) -> None:
    core: Any = client.CoreV1Api(api)
    dra: Any = client.ResourceV1Api(api)
    dra.create_namespaced_resource_claim(namespace, CLAIM)
    core.create_namespaced_pod(namespace, POD)
    wait_until(lambda: core.read_namespaced_pod("train", namespace).status.phase == "Running")
    output = stream(
        core.connect_get_namespaced_pod_exec, "train", namespace, command=["nvidia-smi", "-L"], stderr=True,
        stdin=False, stdout=True, tty=False,
    )  # fmt: skip
    assert "GPU 0" in output
    forward = portforward(core.connect_get_namespaced_pod_portforward, "train", namespace, ports="80")
    socket = forward.socket(80)
    socket.setblocking(True)
    socket.sendall(b"GET / HTTP/1.1\r\nHost: train\r\nConnection: close\r\n\r\n")
    answer = b""
    while data := socket.recv(4096):
        answer += data
    assert answer.startswith(b"HTTP/1.1 200")
    assert "train" in answer.decode()
    assert core.read_namespaced_pod_log("train", namespace)


# kr8s supports Kubernetes up to 1.35 and warns about it; these calls work.
@pytest.mark.filterwarnings("ignore:Kubernetes version")
def test_kr8s_reads_objects(lab: Lab, namespace: str) -> None:
    api: Any = kr8s.api(kubeconfig=str(lab.kubeconfig))
    claims = new_class("ResourceClaim", version="resource.k8s.io/v1", namespaced=True, asyncio=False)
    claims({**CLAIM, "metadata": {"name": "gpu", "namespace": namespace}}, api=api).create()
    pod = Pod({**POD, "metadata": {"name": "train", "namespace": namespace}}, api=api)
    pod.create()
    pod.wait("condition=Ready", timeout=200)
    pod.label(team="ml")
    found: list[Any] = list(api.get("pods", namespace=namespace, label_selector={"team": "ml"}))
    assert [each.name for each in found] == ["train"]
    assert "simulated" in "\n".join(pod.logs())
    done = pod.exec(["echo", "hello"])
    assert done.stdout == b"hello\n"
    pod.delete()
