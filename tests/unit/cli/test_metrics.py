"""``allot metrics``: the metrics of a cluster as text, the table of metrics, dashboards and alerts."""

from __future__ import annotations

import json
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from allotment.cli.metrics import alert_files, dashboard_files
from tests.unit.cli.conftest import Allot

POD = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: many}
spec: {spec: {devices: {requests: [{name: g, exactly: {deviceClassName: gpu.nvidia.com, count: 5}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: train}
spec:
  containers: [{name: c, image: i}]
  resourceClaims: [{name: g, resourceClaimTemplateName: many}]
"""


def test_metrics_of_hardware_and_pending_pods(allot: Allot, tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(POD)
    ran = allot("metrics", "--fleet", "2xt4:2", "-f", str(file))
    assert ran.code == 0, ran.err
    values = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(ran.out)
        for sample in family.samples
    }
    assert values["allotment_devices", "2xt4-1", "Tesla T4", "free", "gpu.nvidia.com"] == 2
    assert values["allotment_pending_pods", "default", "too-few-devices"] == 1


def test_catalog_and_series_limit_are_applied(allot: Allot) -> None:
    assert allot("metrics", "--fleet", "t4", "--max-series", "0").code == 2
    ran = allot("metrics", "--fleet", "t4", "--catalog", "aqs")
    assert (ran.code, "aws" in ran.err) == (2, True)
    cut = allot("metrics", "--fleet", "t4:9", "--max-series", "3")
    assert 'allotment_series_dropped{metric="allotment_devices"} 15.0' in cut.out


def test_metrics_are_listed(allot: Allot) -> None:
    assert "allotment_devices" in allot("metrics", "list").out
    data = json.loads(allot("metrics", "list", "-o", "json").out)
    (devices,) = (metric for metric in data["metrics"] if metric["name"] == "allotment_devices")
    assert devices["labels"] == ["node", "driver", "product", "state"]
    wide = allot("metrics", "list", "-o", "wide").out
    assert max(len(line) for line in wide.splitlines() if line.startswith(" ")) <= 80


def test_dashboards_and_alerts_are_written(allot: Allot, tmp_path: Path) -> None:
    assert allot("metrics", "dashboards", "-d", str(tmp_path / "d")).code == 0
    assert {path.name: path.read_text() for path in (tmp_path / "d").iterdir()} == dashboard_files()
    url = "https://example.com/runbooks"
    assert allot("metrics", "alerts", "-d", str(tmp_path / "a"), "--runbook-url", url).code == 0
    written = {path.name: path.read_text() for path in (tmp_path / "a").iterdir()}
    assert written == alert_files(url)
    assert f"{url}#allotmentpodspending" in written["allotment.rules.yaml"]
