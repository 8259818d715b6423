"""The storm, shortened; and that it would tell a lab that lies."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from allotment.model.trees import Tree
from tests.storm import checks
from tests.storm.checks import World
from tests.storm.ledger import Ledger
from tests.storm.storm import storm


def test_a_lab_keeps_its_word_through_kills(tmp_path: Path) -> None:
    seed = random.getrandbits(32)
    outcome = asyncio.run(storm(tmp_path, cycles=4, seed=seed, longest=0.8, fleet="dgx-a100-40gb:2"))
    assert outcome.acknowledged + outcome.unanswered > 0


def test_the_ledger_tells_what_a_lab_broke() -> None:
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
    assert sorted(ledger.compared(found)) == [
        "pods counted: counts 2, acknowledged 3, sent 3",
        "pods gone: its deletion was acknowledged, and it is there",
        "pods lost: acknowledged, and lost",
        "pods replaced: created as uid-replaced, now another object",
    ]
    ledger.settle(found)
    assert list(ledger.compared(found)) == []
    assert ("pods", "unsure") not in ledger.known


def a_claim(device: str, *users: str, owner: str = "") -> Tree:
    results = [{"driver": "d", "pool": "p", "device": device}]
    owners = [{"uid": owner}] if owner else []
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": [{"uid": user} for user in users]}
    return {"metadata": {"uid": f"claim-{device}", "ownerReferences": owners}, "status": status}


def a_pod(uid: str, status: Tree, **spec: str) -> Tree:
    return {"metadata": {"uid": uid}, "spec": spec, "status": status}


def test_devices_and_claims_that_went_wrong_are_found() -> None:
    refused = {"conditions": [{"type": "PodScheduled", "status": "False", "message": "no device"}]}
    pods = {
        "fine": a_pod("1", {"phase": "Running"}, nodeName="n"),
        "told": a_pod("2", {"phase": "Pending"} | refused),
        "untold": a_pod("3", {"phase": "Pending"}),
        "stuck": a_pod("4", {"phase": "Pending"}, nodeName="n"),
    }
    claims = {
        "fine": a_claim("0", "1", owner="1"),
        "double": a_claim("0", "1"),
        "orphan": a_claim("1", "1", owner="9"),
        "dangling": a_claim("2", "9"),
        "idle": a_claim("3"),
    }
    world = World(pods, claims, {})
    assert list(checks.doubly_allocated(world)) == ["device d/p/0 is allocated to double, fine"]
    assert sorted(checks.unsettled(world)) == [
        "claim dangling is reserved for a pod that is gone",
        "claim idle is allocated for nobody",
        "claim orphan outlives its pod",
        "pod stuck has a node and does not run",
        "pod untold has neither a node nor a reason",
    ]
