"""An operator that runs as a process of this machine, with the manifests of its chart on a lab.

The chart's Deployment is simulated like any other; the process does its work instead: it uses the Deployment's service
account and configuration, and the Services of its webhooks lead to the process. What a kubelet would mount, the
certificate in a Secret, is written to the path that the operator expects.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import pytest
import yaml

import allotment
from allotment.apiserver.access.bootstrap import MACHINE
from allotment.model.trees import Tree
from tests.clients.tools import FOLDER
from tests.operators.programs import operator_program, source_folder
from tests.polling import wait_until

#: Where operators built with controller-runtime look for the certificate of their webhooks.
_CERTIFICATES: Final = Path("/tmp/k8s-webhook-server/serving-certs")
#: Where the operator serves its probes.
_PROBES: Final = "127.0.0.1:18081"
_SECONDS: Final = 90.0


class Chart(NamedTuple):
    """A chart in a module, and the names of what it installs into the namespace ``NAME-system``.

    ``configuration``: a ConfigMap; ``secret``: with the certificate of the webhooks; ``services``: the Services that
    the operator serves, and its ports.
    """

    name: str
    account: str
    configuration: str
    secret: str
    services: Mapping[str, int]

    @property
    def namespace(self) -> str:
        """The namespace of the release."""
        return f"{self.name}-system"


class LocalOperator(NamedTuple):
    """A running operator. ``log``: the file with its output."""

    lab: allotment.Lab
    chart: Chart
    log: Path

    def kubectl(self, *words: str, stdin: str = "") -> str:
        """Run kubectl as the administrator and return its output; it must succeed."""
        return run_client(self.lab, "kubectl", *words, stdin=stdin)


def run_client(lab: allotment.Lab, name: str, *words: str, stdin: str = "") -> str:
    """Run kubectl or helm as the administrator of a lab and return the output; it must succeed."""
    program = FOLDER / name
    if not program.is_file():
        pytest.skip(f"NOT TESTED: {name} not found: `python -m tests.clients.tools` downloads it")
    environment = {**os.environ, "KUBECONFIG": str(lab.kubeconfig)}
    done = subprocess.run(
        [program, *words], env=environment, input=stdin, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextmanager
def local_operator(lab: allotment.Lab, chart: Chart, folder: Path) -> Iterator[LocalOperator]:
    """Install a chart, wait for it, and run its operator; at the end, uninstall it. ``folder``: for files."""
    place = source_folder(chart.name) / "charts" / chart.name
    run_client(
        lab, "helm", "install", chart.name, str(place), "--namespace", chart.namespace, "--create-namespace",
        "--wait", "--timeout", "120s",
    )  # fmt: skip
    operator = LocalOperator(lab, chart, folder / "operator.log")
    for service, port in chart.services.items():
        _lead_to_process(operator, service, port)
    configuration = folder / "configuration.yaml"
    configuration.write_text(_configuration(operator))
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(_kubeconfig(operator))
    with operator.log.open("wb") as output:
        command = [str(operator_program(chart.name)), f"--config={configuration}"]
        environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    try:
        wait_until(lambda: process.poll() is not None or _is_ready(operator), operator.log.read_text, _SECONDS)
        assert process.poll() is None, operator.log.read_text()[-3000:]
        yield operator
    finally:
        process.terminate()
        process.wait(60)
    run_client(lab, "helm", "uninstall", chart.name, "--namespace", chart.namespace, "--wait")


def _is_ready(operator: LocalOperator) -> bool:
    """Whether the operator reports that it is ready; mounts the certificate as soon as it has created one."""
    secret = _named(operator, "secret", operator.chart.secret).get("data") or {}
    if not secret.get("tls.crt"):
        return False
    _CERTIFICATES.mkdir(parents=True, exist_ok=True)
    for name, value in secret.items():
        content = base64.b64decode(value)
        path = _CERTIFICATES / name
        if not path.is_file() or path.read_bytes() != content:
            path.write_bytes(content)
    try:
        # Some operators are ready before their webhooks are served.
        socket.create_connection(("127.0.0.1", next(iter(operator.chart.services.values()))), timeout=10).close()
        with urllib.request.urlopen(f"http://{_PROBES}/readyz", timeout=10) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _configuration(operator: LocalOperator) -> str:
    """The configuration of the chart, without what requires a pod: one instance, probes on this machine."""
    data = _named(operator, "configmap", operator.chart.configuration)["data"]
    tree: Tree = yaml.safe_load(data["controller_manager_config.yaml"])
    tree["leaderElection"] = {**tree["leaderElection"], "leaderElect": False}
    tree["health"] = {"healthProbeBindAddress": _PROBES}
    tree["metrics"] = {"bindAddress": "0"}
    return yaml.safe_dump(tree)


def _lead_to_process(operator: LocalOperator, name: str, port: int) -> None:
    """Let a Service lead to a port of this machine instead of the simulated pod."""
    where = ("--namespace", operator.chart.namespace)
    service = _named(operator, "service", name)
    operator.kubectl("patch", "service", name, *where, "--type=merge", "-p", '{"spec": {"selector": null}}')
    # Endpoints of a Service without a selector would be mirrored.
    operator.kubectl("delete", "endpoints", name, *where)
    selector = ("-l", f"kubernetes.io/service-name={name}")

    def is_empty() -> bool:
        operator.kubectl("delete", "endpointslices", *where, *selector)
        return not json.loads(operator.kubectl("get", "endpointslices", *where, *selector, "-o", "json"))["items"]

    wait_until(is_empty, "the endpoints of the simulated pod are gone")
    endpoints = {
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {
            "name": f"{name}-process", "namespace": operator.chart.namespace,
            "labels": {"kubernetes.io/service-name": name},
        },
        "ports": [{"name": declared.get("name", ""), "port": port} for declared in service["spec"]["ports"]],
        "endpoints": [{"addresses": [MACHINE]}],
    }  # fmt: skip
    operator.kubectl("apply", "-f", "-", stdin=json.dumps(endpoints))


def _kubeconfig(operator: LocalOperator) -> str:
    """A kubeconfig with a token of the operator's service account."""
    chart = operator.chart
    token = operator.kubectl("create", "token", chart.account, "--namespace", chart.namespace).strip()
    config = json.loads(operator.kubectl("config", "view", "--raw", "-o", "json"))
    config["users"][0]["user"] = {"token": token}
    return json.dumps(config)


def _named(operator: LocalOperator, kind: str, name: str) -> Tree:
    where: Sequence[str] = ("--namespace", operator.chart.namespace)
    found: Tree = json.loads(operator.kubectl("get", kind, name, *where, "-o", "json"))
    return found
