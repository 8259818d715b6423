"""The metrics of a snapshot of Kubernetes' own cluster equal those that a running exporter serves."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from bench.real_kube import ApiServer
from tests.kube.test_reading import allot, connection_options, snapshot, used

pytestmark = pytest.mark.every_release

__all__ = ["snapshot", "used"]  # fixtures

SECONDS = 300.0
#: Metrics of the exporter itself, and counters that start with it.
OWN = (
    "allotment_exporter_",
    "allotment_claim_allocation_seconds",
    "allotment_work_",
    "allotment_client_",
    "allotment_b",
)


def of_the_cluster(text: str) -> list[str]:
    lines = (line for line in text.splitlines() if line.startswith("allotment_"))
    return sorted(line for line in lines if not line.startswith(OWN))


def test_metrics_are_those_of_a_snapshot_and_of_a_running_exporter(
    used: ApiServer, snapshot: Path, tmp_path: Path
) -> None:
    live = allot("metrics", *connection_options(used)).out
    assert 'allotment_pending_pods{cause="too-few-devices",namespace="default"} 1.0' in live
    assert 'allotment_pending_pods{cause="template-missing",namespace="default"} 1.0' in live
    assert live == allot("metrics", "--cluster", str(snapshot)).out
    log = tmp_path / "exporter.log"
    command = ["run", "exporter", *connection_options(used), "--metrics-bind-address", "127.0.0.1:0"]
    with log.open("wb") as output:
        process = subprocess.Popen([sys.executable, "-m", "allotment.cli.main", *command], stderr=output, stdout=output)
    try:
        until = time.monotonic() + SECONDS
        while (served := of_the_cluster(_scraped(log))) != of_the_cluster(live):
            assert time.monotonic() < until, f"{set(served) ^ set(of_the_cluster(live))}\n{log.read_text()}"
            time.sleep(0.5)
    finally:
        process.terminate()
        assert process.wait(120) == 0


def _scraped(log: Path) -> str:
    """The metrics served at the address in the log."""
    for line in log.read_text().splitlines():
        if "metrics: " in line:
            with urllib.request.urlopen(line.partition("metrics: ")[2], timeout=60) as answer:
                text: str = answer.read().decode()
                return text
    return ""
