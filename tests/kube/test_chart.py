"""The chart and the kustomize folders on Kubernetes' own control plane, under the pod security that they promise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.real_kube import ApiServer
from tests.packaging import helm as program
from tests.packaging.helm import CHART, ROOT, everything, only, settings
from tests.packaging.living import Cluster, defined
from tests.packaging.made_files import PIECES
from tests.waiting import wait_until

NAMESPACE, DRIVERS_HOME = "allotment", "allotment-drivers"
#: A warning, such as of pod security, is a failure.
STRICT = ("--dry-run=server", "--validate=strict", "--warnings-as-errors")
DEPLOYED = [piece for piece in PIECES if not piece.startswith("driver")]
DRIVERS = [piece for piece in PIECES if piece.startswith("driver")]
OVERLAYS = sorted(path.name for path in (ROOT / "deploy" / "kustomize" / "overlays").iterdir())


@pytest.fixture(scope="module")
def cluster(kube: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    home = tmp_path_factory.mktemp("home")
    return Cluster(program.wanted("helm"), program.wanted("kubectl"), kube.kubeconfig, home)


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
    """A namespace that lets only restricted pods in."""
    namespace_of(cluster, NAMESPACE, "restricted")
    return NAMESPACE


@pytest.fixture(scope="module")
def privileged(cluster: Cluster) -> str:
    """A namespace for drivers, and two nodes with the hardware."""
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


@pytest.mark.parametrize("piece", PIECES)
def test_each_component_is_valid_to_the_server(cluster: Cluster, restricted: str, privileged: str, piece: str) -> None:
    home = privileged if piece in DRIVERS else restricted
    more = settings(**{"reader.create": True, "deviceClasses.nvidia": True, "deviceClasses.amd": True})
    text = program.run(cluster.helm, "template", "allotment", CHART, "-n", home, *only(piece), *more)
    told = cluster.run("kubectl", "apply", *STRICT, "-f", "-", input=text)
    assert f"allotment-{piece.replace('.', '-')} created" in told


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_each_overlay_is_valid_to_the_server(
    cluster: Cluster, restricted: str, privileged: str, overlay: str
) -> None:  # fmt: skip
    built = cluster.run("kubectl", "kustomize", ROOT / "deploy" / "kustomize" / "overlays" / overlay)
    told = cluster.run("kubectl", "apply", *STRICT, "-f", "-", input=built)
    # The simulated driver is the driver, on other nodes.
    assert f"allotment-{overlay.removesuffix('-simulated')} created" in told


def test_all_that_is_deployed_comes_and_goes_restricted(cluster: Cluster, restricted: str) -> None:
    before = cluster.objects()
    release = ("allotment", CHART, "-n", NAMESPACE)
    assert "STATUS: deployed" in cluster.run("helm", "install", *release, *only(*DEPLOYED))
    # No kubelets run here: that pods are there at all, is the admission's word.
    pods = ("kubectl", "-n", NAMESPACE, "get", "pods", "-o", "name")
    wait_until(lambda: len(cluster.run(*pods).split()) == 1 + 5 * 2, "not all pods were let in")
    assert "REVISION: 2" in cluster.run("helm", "upgrade", *release, *only("annotator"))
    wait_until(lambda: len(cluster.run(*pods).split()) == 2, "not all pods have gone")
    assert "Rollback was a success" in cluster.run("helm", "rollback", "allotment", "1", "-n", NAMESPACE)
    cluster.run("helm", "uninstall", "allotment", "-n", NAMESPACE, "--wait", "--timeout", "200s")
    wait_until(lambda: cluster.objects() <= before, f"there is still {cluster.objects() - before}")


def test_kinds_of_others_are_as_these_define_them(cluster: Cluster, privileged: str) -> None:
    defined(cluster)
    before = cluster.objects()
    text = program.run(cluster.helm, "template", "whole", CHART, "-n", privileged, *everything())
    told = cluster.run("kubectl", "apply", *STRICT, "-f", "-", input=text)
    for kind in ("servicemonitor", "prometheusrule"):
        assert f"{kind}.monitoring.coreos.com/whole-allotment created" in told
    assert "certificate.cert-manager.io/whole-allotment-metrics-tls created" in told
    wrong = cluster.run("kubectl", "apply", *STRICT, "-f", "-", input=text.replace("jobLabel", "jobLable"), fails=True)
    assert 'unknown field "spec.jobLable"' in wrong
    release: list[str | Path] = ["whole", CHART, "-n", privileged, *everything()]
    assert "STATUS: deployed" in cluster.run("helm", "install", *release)
    interval = "monitoring.serviceMonitor.interval"
    assert "REVISION: 2" in cluster.run("helm", "upgrade", *release, *settings(**{interval: "15s"}))
    told = cluster.run(
        "kubectl", "-n", privileged, "get", "servicemonitors", "-o", "jsonpath={.items[*].spec.endpoints}"
    )
    assert json.loads(told)[0]["interval"] == "15s"
    cluster.run("helm", "uninstall", "whole", "-n", privileged)
    cluster.run("kubectl", "delete", "pods", "--all", "-n", privileged, "--force")  # their nodes have no kubelets
    wait_until(lambda: cluster.objects() <= before, f"there is still {cluster.objects() - before}")


def test_a_driver_publishes_for_its_own_node_only(cluster: Cluster, privileged: str, kube: ApiServer) -> None:
    before = cluster.objects()
    cluster.run("helm", "install", "allotment", CHART, "-n", privileged, *only(*DRIVERS))
    placed = "jsonpath={range .items[*]}{.metadata.name} {.spec.nodeName}{'\\n'}{end}"
    nvidia = "app.kubernetes.io/component=driver-nvidia"

    def pods() -> dict[str, str]:
        """Of NVIDIA's driver, by node."""
        told = cluster.run("kubectl", "-n", privileged, "get", "pods", "-l", nvidia, "-o", placed)
        words = (line.split() for line in told.splitlines())
        return {found[1]: found[0] for found in words if len(found) == 2}

    wait_until(lambda: pods().keys() == {"one", "two"}, "the driver is not on each node")
    bound = ("--bound-object-kind=Pod", f"--bound-object-name={pods()['one']}")
    token = cluster.token("allotment-driver-nvidia", privileged, *bound)

    def publish(node: str, token: str) -> tuple[int, str]:
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "gpu.nvidia.com", "nodeName": node, "pool": pool, "devices": [{"name": "gpu-0"}]}
        path = "/apis/resource.k8s.io/v1/resourceslices"
        body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": node}, "spec": spec}
        code, told = kube.ask("POST", path, body, token=token)
        return code, told.get("message", "")

    # A policy is heard of a moment after it was made.
    wait_until(lambda: publish("two", token)[0] == 422, "a slice of another node is not refused")
    assert "the driver on node one may write only slices of that node, not of node two" in publish("two", token)[1]
    assert publish("one", token)[0] == 201
    loose = cluster.token("allotment-driver-nvidia", privileged)
    assert "the token does not belong to a pod on a node" in publish("two", loose)[1]
    cluster.run("kubectl", "delete", "resourceslice", "--all")
    cluster.run("helm", "uninstall", "allotment", "-n", privileged)
    cluster.run("kubectl", "delete", "pods", "--all", "-n", privileged, "--force")
    wait_until(lambda: cluster.objects() <= before, f"there is still {cluster.objects() - before}")
