"""``allot describe`` on a lab has kubectl's output, and the devices."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

import allotment
from allotment.cli.describe.nodes import node
from allotment.cli.describe.page import Page, ago
from allotment.model.trees import Tree
from tests.polling import wait_until
from tests.unit.cli.conftest import Allot
from tests.unit.cli.test_wait import GREEDY

TRAINING = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one-gpu}
spec:
  spec:
    devices:
      requests:
      - name: gpu
        exactly:
          deviceClassName: gpu.nvidia.com
          selectors: [{cel: {expression: 'device.driver == "gpu.nvidia.com"'}}]
---
apiVersion: v1
kind: Pod
metadata: {name: train, labels: {app: train}, annotations: {note: "two\\nlines"}}
spec:
  resourceClaims: [{name: gpu, resourceClaimTemplateName: one-gpu}]
  containers:
  - name: main
    image: busybox
    command: [sleep, infinity]
    env: [{name: A, value: "1"}, {name: SECRET, valueFrom: {secretKeyRef: {name: s, key: k, optional: true}}}]
    resources: {claims: [{name: gpu}], limits: {cpu: "1"}}
"""


def fields(text: str) -> dict[str, str]:
    """The labels of a page, each with its first value."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        label, colon, value = line.strip().partition(":")
        if colon:
            found.setdefault(label, value.strip())
    return found


@pytest.fixture
def pod(lab: allotment.Lab, namespace: str) -> str:
    """A running pod with a device."""
    lab.apply(TRAINING, namespace=namespace)
    lab.wait("pod/train", namespace=namespace)
    return "train"


def test_a_pod_shows_its_containers_its_claims_and_its_events(live: Allot, pod: str, namespace: str) -> None:
    looks = (live("describe", "pod", pod).out for _ in range(100))
    text = next(text for text in looks if "Container started" in text)  # the last of its events
    found = fields(text)
    assert found["Name"] == "train"
    assert found["Namespace"] == namespace
    assert found["Labels"] == "app=train"
    assert found["Node"].startswith("t4-4x-pcie-1/")
    assert found["Status"] == "Running"
    assert found["A"] == "1"
    assert found["SECRET"] == "<set to the key 'k' of secret 's'>"
    assert found["Template"] == "one-gpu"
    assert found["Devices"] == "gpu-0 (t4-4x-pcie-1, gpu.nvidia.com)"
    assert f"Successfully assigned {namespace}/train to t4-4x-pcie-1" in text
    others = (live("describe", f"pod/{pod}").out, live("describe", "po", "-l", "app=train").out)
    assert {ageless(text)} == {ageless(other) for other in others}


def ageless(text: str) -> str:
    """The output without the ages of events, which change."""
    return re.sub(r" +\d+s +", " ", text)


def test_scheduling_failure_keeps_all_lines(live: Allot) -> None:
    live("apply", "-f", "-", stdin=GREEDY)
    live("wait", "pod/greedy", "--for=jsonpath={.status.conditions[0].message}")

    def description() -> str:
        text = live("describe", "pod", "greedy").out
        return text if "FailedScheduling" in text else ""

    text = wait_until(description)  # the event is written a moment after the status
    assert fields(text)["Claim"] == "nine"
    assert fields(text)["Devices"] == "not allocated"
    events = text.partition("Events:")[2]
    assert "FailedScheduling" in events
    assert "nearest miss" in events or "to make it fit" in events


def test_claim_shows_requests_and_allocation(live: Allot, pod: str) -> None:
    text = live("describe", "resourceclaims").out
    found = fields(text)
    assert found["State"] == "allocated, reserved"
    assert found["Controlled By"] == "Pod/train"
    assert found["Device Class"] == "gpu.nvidia.com"
    assert found["Selectors"] == 'device.driver == "gpu.nvidia.com"'
    assert found["Node"] == "t4-4x-pcie-1"
    assert found["Reserved For"] == "pods/train"
    rows = [line.split() for line in text.splitlines() if " gpu-0 " in line]
    assert rows[0] == ["gpu", "gpu-0", "gpu.nvidia.com", "t4-4x-pcie-1"]
    # The driver publishes the device status shortly after the pod starts.
    assert all(row[:4] == ["gpu-0", "of", "gpu.nvidia.com:", "Ready=True"] for row in rows[1:])
    template = live("describe", "resourceclaimtemplate", "one-gpu").out
    assert fields(template)["Device Class"] == "gpu.nvidia.com"


def test_a_node_shows_its_pods_and_its_devices(live: Allot, pod: str, namespace: str) -> None:
    text = live("describe", "node", "t4-4x-pcie-1").out
    assert fields(text)["Unschedulable"] == "false"
    assert fields(text)["Devices"].endswith("of 4 free)")
    held = next(line.split() for line in text.splitlines() if f"{namespace}/train-gpu-" in line)
    assert held[0].startswith("gpu-")
    assert held[-1] == "train"
    assert any(line.split()[:2] == [namespace, "train"] for line in text.splitlines())


def test_slices_and_classes_have_their_own_layout(live: Allot) -> None:
    slices = live("describe", "resourceslices").out
    assert fields(slices)["Driver"] == "gpu.nvidia.com"
    assert fields(slices)["productName"] == "Tesla T4"
    assert slices.count("productName") == 1  # common attributes are printed once
    assert fields(slices)["resource.kubernetes.io/pciBusID"]
    device_class = fields(live("describe", "deviceclass", "gpu.nvidia.com").out)
    assert device_class["Extended Resource"] == "nvidia.com/gpu"
    assert device_class["Selectors"].startswith("device.driver")


def test_other_kinds_are_shown_field_by_field(live: Allot, namespace: str) -> None:
    found = fields(live("describe", "namespace", namespace).out)
    assert found["Kind"] == "Namespace"
    assert found["API Version"] == "v1"
    assert found["Phase"] == "Active"
    assert "Creation Timestamp" in found
    assert "Managed Fields" not in found


def test_objects_are_found_by_name_prefix(live: Allot, pod: str) -> None:
    assert fields(live("describe", "pod", "tra").out)["Name"] == "train"
    ran = live("describe", "pod", "missing")
    assert ran == (1, "", 'Error from server (NotFound): pods "missing" not found\n')


def test_tables_are_aligned_separately() -> None:
    page = Page(datetime.now(UTC))
    page.field(0, "A", "b")
    page.table(1, ["A long header", "B"], [["a", "b"]])
    page.field(0, "C", "two\nlines")
    assert page.text() == "A:  b\n  A long header  B\n  -------------  -\n  a              b\nC:\n    two\n    lines\n"


SIDECAR: Tree = {"name": "proxy", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}}
INIT: Tree = {"name": "init", "resources": {"requests": {"cpu": "500m"}}}
MAIN: Tree = {"name": "main", "resources": {"requests": {"cpu": "200m"}}}
PARTS: Tree = {"initContainers": [SIDECAR, INIT], "containers": [MAIN], "overhead": {"cpu": "50m"}}
RESIZED: Tree = {"name": "main", "resources": {"requests": {"cpu": "900m"}}, "allocatedResources": {"cpu": "900m"}}


@pytest.mark.parametrize(
    ("spec", "status", "cpu"),
    [
        (PARTS, {}, "650m (16%)"),
        ({**PARTS, "resources": {"requests": {"cpu": "2"}}}, {}, "2050m (51%)"),
        (PARTS, {"containerStatuses": [RESIZED]}, "1050m (26%)"),
    ],
    ids=["sidecar", "pod as a whole", "resized"],
)
def test_a_node_counts_its_pods_as_the_scheduler_does(spec: Tree, status: Tree, cpu: str) -> None:
    page = Page(datetime(2026, 1, 1, tzinfo=UTC))
    on_it = {"metadata": {"name": "p", "namespace": "ns"}, "spec": spec, "status": status}
    tree = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}}
    node(page, tree, [on_it], None)
    text = page.text()
    assert re.search(rf"^  ns +p +{re.escape(cpu)} +0 \(0%\) +0 \(0%\)", text, re.MULTILINE), text
    assert re.search(rf"^  cpu +{re.escape(cpu)} +0 \(0%\)$", text, re.MULTILINE), text


def test_ages_are_those_of_kubectl() -> None:
    lengths = {
        0: "0s", 119: "119s", 120: "2m", 125: "2m5s", 600: "10m", 10799: "179m", 10800: "3h", 11000: "3h3m",
        28800: "8h", 172799: "47h", 172800: "2d", 180000: "2d2h", 691200: "8d", 63072000: "2y", 2.6e8: "8y",
    }  # fmt: skip
    assert {seconds: ago(seconds) for seconds in lengths} == lengths
    now = datetime.now(UTC)
    assert Page(now).age((now - timedelta(minutes=3)).isoformat()) == "3m"
    assert Page(now).age(None) == "<unknown>"
