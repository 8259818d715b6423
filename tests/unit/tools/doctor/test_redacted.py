"""A redacted snapshot has the same findings as what it was made of."""

from __future__ import annotations

from collections import Counter

import pytest

from allotment.tools.redact import redacted
from tests.unit.tools.doctor.clinic import Cluster
from tests.unit.tools.doctor.patients import PATIENTS, Patient


@pytest.mark.parametrize("patient", PATIENTS, ids=[patient.code for patient in PATIENTS])
def test_under_pseudonyms_the_same_is_found(patient: Patient) -> None:
    cluster = Cluster()
    patient.break_(cluster)
    before = Counter((one.code, one.severity, len(one.objects)) for one in cluster.findings())
    cluster.trees = redacted(cluster.trees)
    assert Counter((one.code, one.severity, len(one.objects)) for one in cluster.findings()) == before


@pytest.mark.parametrize(
    "label", [("cloud.google.com/gke-accelerator", "nvidia-tesla-t4"), ("kubernetes.azure.com/accelerator", "nvidia")]
)
def test_hardware_is_known_by_the_labels_of_clouds(label: tuple[str, str]) -> None:
    cluster = Cluster()
    cluster.remove("ResourceSlice", "00000-gpu.nvidia.com-node-2")
    del cluster["Node", "node-2"]["metadata"]["labels"]["nvidia.com/gpu.present"]
    cluster["Node", "node-2"]["metadata"]["labels"].update([label])
    cluster.trees = redacted(cluster.trees)
    assert [one.code for one in cluster.findings()] == ["D201"]


def test_a_scheduler_is_known_by_its_lease() -> None:
    cluster = Cluster()
    cluster.waiting("a", message="", schedulerName="wotan")
    cluster.lease("wotan", renewed="2026-06-01T09:00:00Z")
    before = cluster.told("D605").evidence.partition(": ")[2]
    assert "its Lease was renewed 3h ago" in before
    cluster.trees = redacted(cluster.trees)
    assert cluster.told("D605").evidence.partition(": ")[2] == before
