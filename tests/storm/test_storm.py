"""A short storm, and tests that the storm detects a faulty lab."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from allotment.model.trees import Tree
from tests.storm import checks
from tests.storm.checks import LabObjects
from tests.storm.ledger import Ledger
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
