"""Claims that Allotment's scheduler set aside: a defect only if they are not deleted."""

from __future__ import annotations

from tests.unit.tools.doctor.sample_cluster import JUST_NOW, Cluster


def _set_aside(cluster: Cluster, name: str, *devices: str) -> None:
    cluster.claim(name, *devices)["metadata"]["labels"]["allotment.dev/contested"] = "true"


def test_a_claim_set_aside_is_a_note_while_another_claim_holds_its_device() -> None:
    cluster = Cluster()
    _set_aside(cluster, "ours", "node-1/gpu-0")  # which web has
    (found,) = cluster.findings()
    assert (found.code, found.severity, found.subject) == ("D513", "note", "claim ml/ours")
    assert found.evidence == "claim ml/ours was set aside: its devices were also allocated to claim ml/web-gpu"


def test_several_claims_are_one_finding() -> None:
    cluster = Cluster()
    for name in ("a", "b"):
        _set_aside(cluster, name, "node-1/gpu-0")
    assert cluster.finding("D513").subject == "2 claims"


def test_a_recent_allocation_is_not_reported() -> None:
    cluster = Cluster()
    _set_aside(cluster, "ours", "node-2/gpu-0")
    cluster["ResourceClaim", "ours"]["status"]["allocation"]["allocationTimestamp"] = JUST_NOW
    assert cluster.findings() == ()


def test_a_claim_that_is_being_deleted_is_not_reported() -> None:
    cluster = Cluster()
    _set_aside(cluster, "ours", "node-2/gpu-0")
    cluster["ResourceClaim", "ours"]["metadata"]["deletionTimestamp"] = JUST_NOW
    assert cluster.findings() == ()
