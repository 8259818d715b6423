"""helm with a running lab: a chart with a workload that claims a GPU, from install to uninstall."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.clients.conftest import Run

CHART = """
apiVersion: v2
name: trainer
version: 0.1.0
"""

VALUES = "replicas: 1\n"

TEMPLATES = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: {{ .Release.Name }}-gpu}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: {{ .Release.Name }}}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}}}
    spec:
      resourceClaims: [{name: gpu, resourceClaimTemplateName: {{ .Release.Name }}-gpu}]
      containers:
      - {name: main, image: trainer, resources: {claims: [{name: gpu}]}}
---
apiVersion: v1
kind: Service
metadata: {name: {{ .Release.Name }}}
spec: {selector: {app: {{ .Release.Name }}}, ports: [{port: 80}]}
"""


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    folder = tmp_path / "trainer"
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text(CHART)
    (folder / "values.yaml").write_text(VALUES)
    (folder / "templates" / "all.yaml").write_text(TEMPLATES)
    return folder


def test_a_release_from_install_to_uninstall(helm: Run, kubectl: Run, namespace: str, chart: Path) -> None:
    ns = ("-n", namespace)
    output = helm("install", "run", str(chart), *ns, "--wait", "--timeout", "30s", timeout=60).out
    assert "STATUS: deployed" in output
    assert kubectl(*ns, "get", "deployment", "run", "-o", "jsonpath={.status.availableReplicas}").out == "1"
    assert json.loads(helm("list", *ns, "-o", "json").out)[0]["status"] == "deployed"
    upgraded = helm("upgrade", "run", str(chart), *ns, "--set", "replicas=2", "--wait", "--timeout", "30s", timeout=60)
    assert "REVISION: 2" in upgraded.out
    assert kubectl(*ns, "get", "deployment", "run", "-o", "jsonpath={.spec.replicas}").out == "2"
    helm("rollback", "run", "1", *ns, "--wait", "--timeout", "30s", timeout=60)
    assert kubectl(*ns, "get", "deployment", "run", "-o", "jsonpath={.spec.replicas}").out == "1"
    assert len(json.loads(helm("history", "run", *ns, "-o", "json").out)) == 3
    assert "kind: Deployment" in helm("get", "manifest", "run", *ns).out
    assert "uninstalled" in helm("uninstall", "run", *ns, "--wait", "--timeout", "30s", timeout=60).out
    assert kubectl(*ns, "get", "deployments,services,resourceclaimtemplates", "-o", "name").out == ""


def test_an_invalid_manifest_fails_the_install(helm: Run, namespace: str, chart: Path) -> None:
    templates = chart / "templates" / "all.yaml"
    templates.write_text(TEMPLATES.replace("exactly: {deviceClassName", "exactlyy: {deviceClassName"))
    refused = helm("install", "wrong", str(chart), "-n", namespace, fails=True)
    assert refused.code == 1
    assert "exactlyy" in refused.err
