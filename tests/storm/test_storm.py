"""A short storm, and tests that the storm detects a faulty lab."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from allotment.model.trees import Tree
from tests.storm import checks
from tests.storm.checks import LabObjects
from tests.storm.ledger import Ledger
from tests.storm.mirror import Mirror
from tests.storm.storm import storm


def test_a_lab_keeps_acknowledged_writes_through_kills(tmp_path: Path) -> None:
    seed = random.getrandbits(32)
    outcome = asyncio.run(storm(tmp_path, cycles=4, seed=seed, longest=0.8, fleet="dgx-a100-40gb:2"))
    assert outcome.acknowledged + outcome.unanswered > 0


def test_the_ledger_reports_lost_writes() -> None:
    ledger = Ledger()
    for name in ("kept", "lost", "replaced", "gone", "counted", "unsure"):
        ledger.creating(("pods", name))
    for name in ("kept", "lost", "replaced", "gone", "counted"):
        ledger.created(("pods", name), f"uid-{name}")
    ledger.deleting(("pods", "gone"))
    ledger.deleted(("pods", "gone"))
    ledger.counting(("pods", "counted"), 3)
    ledger.counted(("pods", "counted"), 3)
    found = {
        ("pods", "kept"): ("uid-kept", 0),
        ("pods", "replaced"): ("uid-other", 0),
        ("pods", "gone"): ("uid-gone", 0),
        ("pods", "counted"): ("uid-counted", 2),
    }
    assert sorted(ledger.compare(found)) == [
        "pods counted: counts 2, acknowledged 3, sent 3",
        "pods gone: its deletion was acknowledged, but it exists",
        "pods lost: acknowledged, and lost",
        "pods replaced: created as uid-replaced, now another object",
    ]
    ledger.settle(found)
    assert list(ledger.compare(found)) == []
    assert ("pods", "unsure") not in ledger.known


def claim(device: str, *users: str, owner: str = "") -> Tree:
    results = [{"driver": "d", "pool": "p", "device": device}]
    owners = [{"uid": owner}] if owner else []
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": [{"uid": user} for user in users]}
    return {"metadata": {"uid": f"claim-{device}", "ownerReferences": owners}, "status": status}


def pod(uid: str, status: Tree, **spec: str) -> Tree:
    return {"metadata": {"uid": uid}, "spec": spec, "status": status}


def test_wrong_allocations_and_claims_are_found() -> None:
    refused = {"conditions": [{"type": "PodScheduled", "status": "False", "message": "no device"}]}
    pods = {
        "fine": pod("1", {"phase": "Running"}, nodeName="n"),
        "unschedulable": pod("2", {"phase": "Pending"} | refused),
        "unscheduled": pod("3", {"phase": "Pending"}),
        "stuck": pod("4", {"phase": "Pending"}, nodeName="n"),
    }
    claims = {
        "fine": claim("0", "1", owner="1"),
        "double": claim("0", "1"),
        "orphan": claim("1", "1", owner="9"),
        "dangling": claim("2", "9"),
        "idle": claim("3"),
    }
    objects = LabObjects(pods, claims, {})
    assert list(checks.doubly_allocated(objects)) == ["device d/p/0 is allocated to double, fine"]
    assert sorted(checks.pending_work(objects)) == [
        "claim dangling is reserved for a pod that is gone",
        "claim idle is allocated without a consumer",
        "claim orphan outlives its pod",
        "pod stuck has a node and does not run",
        "pod unscheduled has neither a node nor a reason",
    ]


def event(change: str, name: str, revision: int, uid: str = "1", **rest: object) -> Tree:
    return {
        "type": change,
        "object": {"metadata": {"name": name, "uid": uid, "resourceVersion": str(revision)}, **rest},
    }


def errors(*events: Tree) -> list[str]:
    """The errors of a watch with these events."""
    mirror = Mirror("pods", "/pods", lambda: None)
    for given in events:
        mirror.apply(given)
    return [error.removeprefix("watch of pods: ") for error in mirror.errors]


def test_events_that_were_lost_or_repeated_are_reported() -> None:
    added, deleted = event("ADDED", "a", 2), event("DELETED", "a", 4)
    assert errors(added, event("MODIFIED", "a", 3), deleted, event("ADDED", "a", 5)) == []
    assert errors(event("MODIFIED", "a", 3)) == ["a was modified, and it did not exist"]
    assert errors(deleted) == ["a was deleted, and it did not exist"]
    assert errors(added, event("ADDED", "a", 5, uid="2")) == ["a was added, and it existed"]
    assert errors(added, event("MODIFIED", "a", 5, uid="2")) == ["a was 1, now it is 2"]
    assert errors(added, event("MODIFIED", "a", 2)) == ["a has revision 2, after 2"]


def test_an_allocated_claim_without_a_finalizer_is_reported() -> None:
    allocated = event("ADDED", "c", 2, kind="ResourceClaim", status={"allocation": {}})
    assert errors(allocated) == ["c is allocated and has no finalizer"]
    allocated["object"]["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
    assert errors(allocated) == []
    assert errors(allocated, {**allocated, "type": "DELETED"})[-1] == "c was deleted while it was allocated"


def test_a_watch_that_is_too_old_lists_again() -> None:
    expired: Tree = {"type": "ERROR", "object": {"code": 410, "message": "too old resource version: 2 (9)"}}
    assert errors(event("ADDED", "a", 2), expired) == []
    assert errors({"type": "ERROR", "object": {"code": 500, "message": "x"}}) == ["the watch ended with x"]
