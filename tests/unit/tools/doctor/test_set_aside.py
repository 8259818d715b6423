"""Claims that our scheduler set aside: nobody's, and a defect only where nobody takes them away."""

from __future__ import annotations

from tests.unit.tools.doctor.clinic import JUST_NOW, Cluster


def _aside(cluster: Cluster, name: str, *devices: str) -> None:
    cluster.claim(name, *devices)["metadata"]["labels"]["allotment.dev/contested"] = "true"


def test_while_another_claim_has_its_device_it_is_a_note_and_nothing_else() -> None:
    cluster = Cluster()
    _aside(cluster, "ours", "node-1/gpu-0")  # which web has
    (found,) = cluster.findings()
    assert (found.code, found.severity, found.subject) == ("D513", "note", "claim ml/ours")
    assert found.evidence == "claim ml/ours was set aside: its devices went to claim ml/web-gpu at the same time"


def test_several_are_told_together() -> None:
    cluster = Cluster()
    for name in ("a", "b"):
        _aside(cluster, name, "node-1/gpu-0")
    assert cluster.told("D513").subject == "2 claims"


def test_one_that_was_allocated_a_moment_ago_is_no_defect() -> None:
    cluster = Cluster()
    _aside(cluster, "ours", "node-2/gpu-0")
    cluster["ResourceClaim", "ours"]["status"]["allocation"]["allocationTimestamp"] = JUST_NOW
    assert cluster.findings() == ()


def test_one_that_goes_is_no_defect() -> None:
    cluster = Cluster()
    _aside(cluster, "ours", "node-2/gpu-0")
    cluster["ResourceClaim", "ours"]["metadata"]["deletionTimestamp"] = JUST_NOW
    assert cluster.findings() == ()
