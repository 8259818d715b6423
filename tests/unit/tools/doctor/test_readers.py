"""``allot doctor`` names only what its user may list: for an administrator, the objects of all tenants."""

from __future__ import annotations

import json
import re

import pytest

from tests.unit.tools.doctor.defects import DEFECTS, Defect
from tests.unit.tools.doctor.sample_cluster import Cluster

PLURALS = {"Pod": "pods", "ResourceClaim": "resourceclaims", "ResourceClaimTemplate": "resourceclaimtemplates"}


def test_an_administrator_reads_which_tenant_holds_the_devices() -> None:
    cluster = Cluster()
    for node, device in (("node-1", "gpu-1"), ("node-2", "gpu-0"), ("node-2", "gpu-1")):
        cluster.running(f"{node}-{device}", node, device)
    pending = cluster.pending_pod("next")
    for tree in (pending, cluster["ResourceClaim", "next-gpu"], cluster.template("one")):
        tree["metadata"]["namespace"] = "other"
    found = cluster.finding("D602")
    assert "claim ml/web-gpu (pod web)" in found.evidence
    assert "pod web" in found.remedy


@pytest.mark.parametrize("kind", PLURALS)
@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.code)
def test_objects_that_could_not_be_listed_are_not_named(defect: Defect, kind: str) -> None:
    cluster = Cluster()
    defect.create(cluster)
    hidden = {tree["metadata"]["name"] for tree in cluster.all(kind)}
    cluster.remove(kind)
    cluster.unread[PLURALS[kind]] = "forbidden"
    # The objects that were listed may contain such names.
    listed = json.dumps(cluster.trees)
    unseen = {name for name in hidden if not re.search(rf'"{re.escape(name)}"', listed)}
    for finding in cluster.findings():
        words = set(re.findall(r"[a-z0-9.-]+", f"{finding.subject} {finding.evidence} {finding.remedy}"))
        assert unseen.isdisjoint(words - {"one"}), finding
