"""The chart in a lab: installed, upgraded and uninstalled without leftovers; its pods run Allotment's program."""

from __future__ import annotations

import base64
import json
import re
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPSConnection
from pathlib import Path

import pytest

from tests.packaging.helm import CHART, PIECES, ROOT, everything, only, settings
from tests.packaging.installed_chart import Cluster, install_kinds, lab
from tests.polling import wait_until

NAMESPACE = "allotment"
IMAGES = """
[[image]]
pattern = "localhost/allotment"
command = ["{{python}}", "-m", "tests.packaging.in_container"]
directory = {directory}
"""


@pytest.fixture(scope="module")
def living(helm: str, kubectl: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("living")
    images = folder / "images.toml"
    images.write_text(IMAGES.format(directory=json.dumps(str(ROOT))))
    arguments = ("--fleet", "t4-4x-pcie:2", "--runtime", "process", "--images", str(images))
    with lab(folder, *arguments) as kubeconfig:
        cluster = Cluster(helm, kubectl, kubeconfig, folder)
        cluster.run("kubectl", "create", "namespace", NAMESPACE)
        yield cluster


@pytest.fixture(scope="module")
def simulated(helm: str, kubectl: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("simulated")
    with lab(folder, "--fleet", "t4-4x-pcie:2", "--speed", "10") as kubeconfig:
        yield Cluster(helm, kubectl, kubeconfig, folder)


def test_install_upgrade_and_uninstall_leave_nothing(simulated: Cluster) -> None:
    simulated.run("kubectl", "create", "namespace", NAMESPACE)
    simulated.run("kubectl", "label", "node", "--all", "feature.node.kubernetes.io/pci-10de.present=true")
    simulated.run("kubectl", "label", "node", "--all", "feature.node.kubernetes.io/pci-1002.present=true")
    before = simulated.objects()
    release = ("allotment", CHART, "-n", NAMESPACE, "--wait", "--timeout", "200s")
    output = simulated.run("helm", "install", *release, *only(*PIECES), *settings(**{"reader.create": True}))
    assert "STATUS: deployed" in output
    assert "--controllers=*,-resourceclaim-controller" in output
    pods = json.loads(simulated.run("kubectl", "-n", NAMESPACE, "get", "pods", "-o", "json"))["items"]
    assert len(pods) == 1 + 6 * 2 + 2 * 2
    assert {pod["status"]["phase"] for pod in pods} == {"Running"}
    secret = ("kubectl", "-n", NAMESPACE, "get", "secret", "allotment-metrics-tls", "-o", "jsonpath={.data}")
    created = simulated.run(*secret)
    upgraded = simulated.run("helm", "upgrade", *release, *only("exporter", "scheduler"))
    assert "REVISION: 2" in upgraded
    assert simulated.run(*secret) == created, "an upgrade keeps the certificate"
    names = simulated.run("kubectl", "-n", NAMESPACE, "get", "deployments", "-o", "name").split()
    assert names == ["deployment.apps/allotment-exporter", "deployment.apps/allotment-scheduler"]
    simulated.run("helm", "uninstall", "allotment", "-n", NAMESPACE, "--wait", "--timeout", "200s")
    simulated.wait_until_only(before)
    simulated.run("kubectl", "delete", "namespace", NAMESPACE, "--wait=false")


def test_third_party_kinds_match_their_definitions(simulated: Cluster) -> None:
    simulated.run("kubectl", "create", "namespace", "whole")
    install_kinds(simulated)
    before = simulated.objects()
    classes = settings(**{"deviceClasses.nvidia": False, "deviceClasses.amd": False})  # the lab has them
    release: list[str | Path] = ["whole", CHART, "-n", "whole", *everything(), *classes]
    text = simulated.run("helm", "template", *release)
    strict = ("kubectl", "apply", "--dry-run=server", "--validate=strict", "-f", "-")
    simulated.run(*strict, input=text)
    wrong = simulated.run(*strict, input=text.replace("jobLabel", "jobLable"), fails=True)
    assert 'unknown field "spec.jobLable"' in wrong
    assert "STATUS: deployed" in simulated.run("helm", "install", *release)
    names = simulated.run("kubectl", "-n", "whole", "get", "servicemonitors,prometheusrules,certificates", "-o", "name")
    assert names.split() == [
        "servicemonitor.monitoring.coreos.com/whole-allotment", "prometheusrule.monitoring.coreos.com/whole-allotment",
        "certificate.cert-manager.io/whole-allotment-metrics-tls",
    ]  # fmt: skip
    assert "REVISION: 2" in simulated.run("helm", "upgrade", *release)
    simulated.run("helm", "uninstall", "whole", "-n", "whole", "--wait", "--timeout", "200s")
    simulated.wait_until_only(before)


@contextmanager
def forwarded(living: Cluster, what: str, port: int) -> Iterator[int]:
    """Forward a port of a pod."""
    command = [living.kubectl, "-n", NAMESPACE, "port-forward", what, f":{port}"]
    environment = {"HOME": str(living.home), "KUBECONFIG": str(living.kubeconfig), "PATH": "/usr/bin"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    output = process.stdout
    assert output is not None
    try:
        found = re.search(rb"Forwarding from 127\.0\.0\.1:(\d+)", output.readline())
        assert found is not None
        yield int(found[1])
    finally:
        process.terminate()
        process.wait(120)
        output.close()


def test_pods_run_allotment_with_their_own_service_account(living: Cluster) -> None:
    before = living.objects()
    running = ("annotator", "exporter", "scheduler")
    # One copy of each, because they are real processes; the test above waits for two copies.
    copies = settings(**{f"components.{name}.replicas": 1 for name in ("annotator", "scheduler")})
    living.run("helm", "install", "allotment", CHART, "-n", NAMESPACE, *only(*running), *copies)
    for name in running:
        living.run("kubectl", "-n", NAMESPACE, "rollout", "status", f"deployment/allotment-{name}", "--timeout=200s")

    holder = "jsonpath={.spec.holderIdentity}"
    for name in ("annotator", "scheduler"):
        assert living.run("kubectl", "-n", NAMESPACE, "get", "lease", f"allotment-{name}", "-o", holder), name

    claim_that_nothing_fits(living)
    events = ("kubectl", "get", "events", "-o", "jsonpath={.items[*].reportingComponent}")
    wait_until(lambda: "allotment-annotator" in living.run(*events), "the annotator has written no event")
    events = ("kubectl", "get", "events", "-o", "jsonpath={.items[*].message}")
    assert "missing-class" in living.run(*events)

    scraped(living, "exporter", wanted="allotment_device")
    living.run("helm", "uninstall", "allotment", "-n", NAMESPACE, "--wait", "--timeout", "200s")
    living.run("kubectl", "delete", "pod", "waits", "--force")
    living.run("kubectl", "delete", "resourceclaim", "waits")
    living.wait_until_only(before)


def claim_that_nothing_fits(living: Cluster) -> None:
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "missing-class"}}]
    claim = {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "waits"},
        "spec": {"devices": {"requests": requests}},
    }  # fmt: skip
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "waits"},
        "spec": {
            "containers": [{"name": "main", "image": "any"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "waits"}],
        },
    }  # fmt: skip
    living.run("kubectl", "apply", "-f", "-", input="\n---\n".join(map(json.dumps, (claim, pod))))


def scraped(living: Cluster, name: str, wanted: str) -> None:
    """Metrics as Prometheus gets them: the certificate and the token's user are checked."""
    data = living.run("kubectl", "-n", NAMESPACE, "get", "secret", "allotment-metrics-tls", "-o", "jsonpath={.data}")
    authority = base64.b64decode(json.loads(data)["ca.crt"]).decode()
    context = ssl.create_default_context(cadata=authority)
    living.run("kubectl", "create", "clusterrole", "scrapes", "--verb=get", "--non-resource-url=/metrics")
    living.run("kubectl", "create", "clusterrolebinding", "scrapes", "--clusterrole=scrapes",
               "--serviceaccount=default:default")  # fmt: skip
    anonymous = living.token(f"allotment-{name}", NAMESPACE)
    authorized = living.token("default", "default")
    with forwarded(living, f"deployment/allotment-{name}", 8443) as port:
        for token, code in ((anonymous, 403), (authorized, 200)):
            # Its name is verified as Prometheus does, though the connection uses a forwarded port.
            plain = socket.create_connection(("127.0.0.1", port), timeout=120)
            secure = context.wrap_socket(plain, server_hostname=f"allotment-{name}.{NAMESPACE}.svc")
            connection = HTTPSConnection("127.0.0.1", port)
            connection.sock = secure
            connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            text = answer.read().decode()
            connection.close()
            assert answer.status == code, text
    assert wanted in text
    living.run("kubectl", "delete", "clusterrolebinding,clusterrole", "scrapes")
