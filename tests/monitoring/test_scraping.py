"""A real Prometheus scrapes the exporter and the scheduler: dashboards have data, and no alert fires."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from allotment import Lab
from allotment.exporter.dashboards import DASHBOARDS
from tests.monitoring.programs import program
from tests.monitoring.test_dashboards import ALERTS

SECONDS = 200.0
#: Panels about errors, or about features that this cluster does not use, have no data.
EMPTY_PANELS = (
    "allotment_tainted_devices",
    'state!="usable"',
    'generation="old"',
    "allotment_series_dropped",
    "[1d:1m]",
)
WORK = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: nine}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com, count: 9}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: runs-%(number)s}
spec:
  resourceClaims: [{name: gpu, resourceClaimTemplateName: one}]
  containers: [{name: main, image: busybox}]
---
apiVersion: v1
kind: Pod
metadata: {name: waits-%(number)s}
spec:
  resourceClaims: [{name: gpu, resourceClaimTemplateName: nine}]
  containers: [{name: main, image: busybox}]
"""


class Prometheus:
    """Queries a running Prometheus."""

    def __init__(self, address: str) -> None:
        self._address = address

    def get(self, path: str, **words: str) -> Any:
        url = f"http://{self._address}/api/v1/{path}?{urllib.parse.urlencode(words)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]

    def values(self, expression: str) -> list[Any]:
        for placeholder, value in (("$__rate_interval", "1m"), ("$namespace", ".*"), ("$node", ".*")):
            expression = expression.replace(placeholder, value)
        found: list[Any] = self.get("query", query=expression)["result"]
        return found


@contextmanager
def running(command: list[str], log: Path, says: str) -> Iterator[str]:
    """A program, from when its log contains a text; yields the rest of that line."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    try:
        until = time.monotonic() + SECONDS
        while not (lines := [line for line in log.read_text().splitlines() if says in line]):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.05)
        yield lines[0].partition(says)[2]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(120)


def component(name: str, *arguments: str, kubeconfig: Path) -> list[str]:
    return [
        sys.executable, "-m", "allotment.cli.main", "run", name, "--kubeconfig", str(kubeconfig),
        "--metrics-bind-address", "127.0.0.1:0", *arguments,
    ]  # fmt: skip


def configuration(targets: dict[str, str]) -> str:
    jobs = [
        {"job_name": name, "honor_labels": True, "static_configs": [{"targets": [target]}]}
        for name, target in targets.items()
    ]
    return json.dumps(
        {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(ALERTS / "allotment.rules.yaml")],
            "scrape_configs": jobs,
        }
    )


def test_every_panel_except_the_expected_ones_has_data(tmp_path: Path) -> None:
    prometheus = program("prometheus")
    if prometheus is None:
        pytest.skip("prometheus not found (python -m tests.monitoring.programs): scraping is not tested")
    with ExitStack() as stack:
        lab = stack.enter_context(Lab(fleet="a=4xt4,b=1xh100/shared,c=1xa100-40gb/dynamic-mig", without=("scheduler",)))
        for node, type_name in (("a", "g4dn.12xlarge"), ("b", "p5.4xlarge")):
            labels = {"node.kubernetes.io/instance-type": type_name}
            lab.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "labels": labels}})
        targets = {}
        for name, arguments in (("scheduler", ("--leader-elect", "--scheduler-name", "default-scheduler")),
                            ("exporter", ("--catalog", "aws"))):  # fmt: skip
            command = component(name, *arguments, kubeconfig=lab.kubeconfig)
            url = stack.enter_context(running(command, tmp_path / f"{name}.log", "metrics: http://"))
            targets[name] = url.partition("/")[0]
        (tmp_path / "prometheus.json").write_text(configuration(targets))
        port = stack.enter_context(_port())
        command = [
            prometheus, f"--config.file={tmp_path}/prometheus.json", f"--storage.tsdb.path={tmp_path}/data",
            f"--web.listen-address=127.0.0.1:{port}",
        ]  # fmt: skip
        stack.enter_context(running(command, tmp_path / "prometheus.log", "Server is ready to receive web requests"))
        prometheus_ = Prometheus(f"127.0.0.1:{port}")
        until = time.monotonic() + SECONDS
        for number in range(3):
            lab.apply(WORK % {"number": number})
            time.sleep(1)
        waiting = 'sum(allotment_pending_pods{cause="too-few-devices"}) == 3'
        while (empty := _empty(prometheus_)) or not prometheus_.values(waiting):
            assert time.monotonic() < until, empty
            time.sleep(1)
        assert prometheus_.values("allotment_leader")[0]["value"][1] == "1"
        assert not [alert for alert in prometheus_.get("alerts")["alerts"] if alert["state"] == "firing"]
        assert all(target["health"] == "up" for target in prometheus_.get("targets")["activeTargets"])
        assert all(rule["health"] == "ok" for group in prometheus_.get("rules")["groups"] for rule in group["rules"])


def _empty(prometheus_: Prometheus) -> list[str]:
    """The dashboards' queries without data."""
    queries = [query.expression for dashboard in DASHBOARDS.values() for query in dashboard.queries()]
    shown = [text for text in queries if not any(part in text for part in EMPTY_PANELS)]
    return [text for text in shown if not prometheus_.values(text)]


@contextmanager
def _port() -> Iterator[int]:
    """A port to listen on, which stays reserved meanwhile."""
    with socket.socket() as kept:
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))
        yield kept.getsockname()[1]
