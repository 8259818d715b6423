"""The chart and the kustomize folders on Kubernetes' own control plane, under their documented pod security level."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.real_kube import ApiServer
from tests.packaging import helm as program
from tests.packaging.helm import CHART, PIECES, ROOT, everything, only, settings
from tests.packaging.installed_chart import Cluster, install_kinds
from tests.polling import wait_until

pytestmark = pytest.mark.every_release

NAMESPACE, DRIVERS_HOME = "allotment", "allotment-drivers"
#: A warning, such as of pod security, is a failure.
STRICT = ("--dry-run=server", "--validate=strict", "--warnings-as-errors")
DEPLOYED = [piece for piece in PIECES if not piece.startswith("driver")]
DRIVERS = [piece for piece in PIECES if piece.startswith("driver")]
OVERLAYS = sorted(path.name for path in (ROOT / "deploy" / "kustomize" / "overlays").iterdir())


@pytest.fixture(scope="module")
def cluster(kube: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    home = tmp_path_factory.mktemp("home")
    return Cluster(program.required_program("helm"), program.required_program("kubectl"), kube.kubeconfig, home)


def namespace_of(cluster: Cluster, name: str, level: str) -> None:
    labels = {f"pod-security.kubernetes.io/{mode}": level for mode in ("enforce", "warn")}
    tree = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    cluster.run("kubectl", "apply", "-f", "-", input=json.dumps(tree))
    account = ("kubectl", "-n", name, "get", "serviceaccounts", "-o", "name")
    wait_until(lambda: "default" in cluster.run(*account), f"{name} has no default account")
    roots = ("kubectl", "-n", name, "get", "configmaps", "-o", "name")
    wait_until(lambda: "kube-root-ca.crt" in cluster.run(*roots), f"{name} has no root certificate")


@pytest.fixture(scope="module")
def restricted(cluster: Cluster) -> str:
    """A namespace that enforces the pod security level "restricted"."""
    namespace_of(cluster, NAMESPACE, "restricted")
    return NAMESPACE


@pytest.fixture(scope="module")
def privileged(cluster: Cluster) -> str:
    """A namespace for drivers, and two nodes with the hardware labels."""
    namespace_of(cluster, DRIVERS_HOME, "privileged")
    for name in ("one", "two"):
        labels = {f"feature.node.kubernetes.io/pci-{vendor}.present": "true" for vendor in ("10de", "1002")}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
        cluster.run("kubectl", "create", "-f", "-", input=json.dumps(node))
        amounts = {"cpu": "8", "memory": "32Gi", "pods": "110"}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
        status = {"status": {"allocatable": amounts, "capacity": amounts, "conditions": [ready]}}
        cluster.run("kubectl", "patch", "node", name, "--subresource=status", "-p", json.dumps(status))
    return DRIVERS_HOME


def test_the_server_accepts_each_component(
    cluster: Cluster, restricted: str, privileged: str, tmp_path: Path
) -> None:  # fmt: skip
    more = settings(**{"reader.create": True, "deviceClasses.nvidia": True, "deviceClasses.amd": True})
    for home, pieces in ((restricted, DEPLOYED), (privileged, DRIVERS)):
        folder = tmp_path / home
        folder.mkdir()
        for piece in pieces:
            text = program.run(cluster.helm, "template", "allotment", CHART, "-n", home, *only(piece), *more)
            (folder / f"{piece}.yaml").write_text(text)
        accepted(cluster, folder, {piece.replace(".", "-") for piece in pieces})


def test_the_server_accepts_each_overlay(
    cluster: Cluster, restricted: str, privileged: str, tmp_path: Path
) -> None:  # fmt: skip
    for overlay in OVERLAYS:
        built = cluster.run("kubectl", "kustomize", ROOT / "deploy" / "kustomize" / "overlays" / overlay)
        (tmp_path / f"{overlay}.yaml").write_text(built)
    # The simulated driver replaces the driver, on other nodes.
    accepted(cluster, tmp_path, {overlay.removesuffix("-simulated") for overlay in OVERLAYS})


def accepted(cluster: Cluster, folder: Path, names: set[str]) -> None:
    """All manifests of a folder are accepted, and contain each of these components: one request for an object, one
    start of kubectl for all, which names each object that the server refuses."""
    output = cluster.run("kubectl", "apply", *STRICT, "-f", folder)
    assert [name for name in sorted(names) if f"allotment-{name} created" not in output] == []


def test_install_and_uninstall_under_restricted_pod_security(cluster: Cluster, restricted: str) -> None:
    before = cluster.objects()
    release = ("allotment", CHART, "-n", NAMESPACE)
    assert "STATUS: deployed" in cluster.run("helm", "install", *release, *only(*DEPLOYED))
    # No kubelet runs here: that the pods exist shows that admission accepted them.
    pods = ("kubectl", "-n", NAMESPACE, "get", "pods", "-o", "name")
    wait_until(lambda: len(cluster.run(*pods).split()) == 1 + 6 * 2, "not all pods were admitted")
    assert "REVISION: 2" in cluster.run("helm", "upgrade", *release, *only("annotator"))
    wait_until(lambda: len(cluster.run(*pods).split()) == 2, "not all pods were deleted")
    assert "Rollback was a success" in cluster.run("helm", "rollback", "allotment", "1", "-n", NAMESPACE)
    cluster.run("helm", "uninstall", "allotment", "-n", NAMESPACE, "--wait", "--timeout", "200s")
    cluster.wait_until_only(before)


def test_third_party_kinds_match_their_definitions(cluster: Cluster, privileged: str) -> None:
    install_kinds(cluster)
    before = cluster.objects()
    text = program.run(cluster.helm, "template", "whole", CHART, "-n", privileged, *everything())
    output = cluster.run("kubectl", "apply", *STRICT, "-f", "-", input=text)
    for kind in ("servicemonitor", "prometheusrule"):
        assert f"{kind}.monitoring.coreos.com/whole-allotment created" in output
    assert "certificate.cert-manager.io/whole-allotment-metrics-tls created" in output
    wrong = cluster.run("kubectl", "apply", *STRICT, "-f", "-", input=text.replace("jobLabel", "jobLable"), fails=True)
    assert 'unknown field "spec.jobLable"' in wrong
    release: list[str | Path] = ["whole", CHART, "-n", privileged, *everything()]
    assert "STATUS: deployed" in cluster.run("helm", "install", *release)
    interval = "monitoring.serviceMonitor.interval"
    assert "REVISION: 2" in cluster.run("helm", "upgrade", *release, *settings(**{interval: "15s"}))
    output = cluster.run(
        "kubectl", "-n", privileged, "get", "servicemonitors", "-o", "jsonpath={.items[*].spec.endpoints}"
    )
    assert json.loads(output)[0]["interval"] == "15s"
    cluster.run("helm", "uninstall", "whole", "-n", privileged)
    cluster.run("kubectl", "delete", "pods", "--all", "-n", privileged, "--force")  # their nodes have no kubelets
    cluster.wait_until_only(before)


def test_a_driver_publishes_for_its_own_node_only(cluster: Cluster, privileged: str, kube: ApiServer) -> None:
    before = cluster.objects()
    cluster.run("helm", "install", "allotment", CHART, "-n", privileged, *only(*DRIVERS))
    placed = "jsonpath={range .items[*]}{.metadata.name} {.spec.nodeName}{'\\n'}{end}"
    nvidia = "app.kubernetes.io/component=driver-nvidia"

    def pods() -> dict[str, str]:
        """The pods of NVIDIA's driver, by node."""
        answer = cluster.run("kubectl", "-n", privileged, "get", "pods", "-l", nvidia, "-o", placed)
        arguments = (line.split() for line in answer.splitlines())
        return {found[1]: found[0] for found in arguments if len(found) == 2}

    wait_until(lambda: pods().keys() == {"one", "two"}, "the driver is not on each node")
    bound = ("--bound-object-kind=Pod", f"--bound-object-name={pods()['one']}")
    token = cluster.token("allotment-driver-nvidia", privileged, *bound)

    def publish(node: str, token: str) -> tuple[int, str]:
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "gpu.nvidia.com", "nodeName": node, "pool": pool, "devices": [{"name": "gpu-0"}]}
        path = "/apis/resource.k8s.io/v1/resourceslices"
        body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": node}, "spec": spec}
        code, answer = kube.send_request("POST", path, body, token=token)
        return code, answer.get("message", "")

    # A new admission policy takes effect with a short delay.
    wait_until(lambda: publish("two", token)[0] == 422, "a slice of another node is not refused")
    assert "the driver on node one may write only slices of that node, not of node two" in publish("two", token)[1]
    assert publish("one", token)[0] == 201
    loose = cluster.token("allotment-driver-nvidia", privileged)
    assert "the token does not belong to a pod on a node" in publish("two", loose)[1]
    cluster.run("kubectl", "delete", "resourceslice", "--all")
    cluster.run("helm", "uninstall", "allotment", "-n", privileged)
    cluster.run("kubectl", "delete", "pods", "--all", "-n", privileged, "--force")
    cluster.wait_until_only(before)
