"""A redacted snapshot has the same findings as the original."""

from __future__ import annotations

from collections import Counter

import pytest

from allotment.tools.redact import redacted
from tests.unit.tools.doctor.defects import DEFECTS, Defect
from tests.unit.tools.doctor.sample_cluster import Cluster


@pytest.mark.parametrize("defect", DEFECTS, ids=[defect.code for defect in DEFECTS])
def test_a_redacted_snapshot_has_the_same_findings(defect: Defect) -> None:
    cluster = Cluster()
    defect.create(cluster)
    before = Counter((finding.code, finding.severity, len(finding.objects)) for finding in cluster.findings())
    cluster.trees = redacted(cluster.trees)
    assert Counter((finding.code, finding.severity, len(finding.objects)) for finding in cluster.findings()) == before


@pytest.mark.parametrize(
    "label", [("cloud.google.com/gke-accelerator", "nvidia-tesla-t4"), ("kubernetes.azure.com/accelerator", "nvidia")]
)
def test_hardware_is_recognized_by_labels_of_clouds(label: tuple[str, str]) -> None:
    cluster = Cluster()
    cluster.remove("ResourceSlice", "00000-gpu.nvidia.com-node-2")
    del cluster["Node", "node-2"]["metadata"]["labels"]["nvidia.com/gpu.present"]
    cluster["Node", "node-2"]["metadata"]["labels"].update([label])
    cluster.trees = redacted(cluster.trees)
    assert [finding.code for finding in cluster.findings()] == ["D201"]


def test_a_scheduler_is_recognized_by_its_lease() -> None:
    cluster = Cluster()
    cluster.pending_pod("a", message="", schedulerName="wotan")
    cluster.lease("wotan", renewed="2026-06-01T09:00:00Z")
    before = cluster.finding("D605").evidence.partition(": ")[2]
    assert "its Lease was last renewed 3h ago" in before
    cluster.trees = redacted(cluster.trees)
    assert cluster.finding("D605").evidence.partition(": ")[2] == before
