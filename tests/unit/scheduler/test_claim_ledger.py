"""The bookings of the claim ledger while writes are in flight and the cluster changes."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from allotment.engine.cluster.inventory import Inventory
from allotment.model.contested_claims import LABEL
from allotment.model.meta import ObjectKey
from allotment.model.resource import AllocationResult
from allotment.model.trees import Tree, to_value
from allotment.scheduler.claim_ledger import ClaimLedger
from tests.unit.scheduler.world import FEATURES, claim


def _allocation(device: str) -> Tree:
    return {"devices": {"results": [{"request": "gpu", "driver": "d", "pool": "p", "device": device}]}}


def _claim(name: str, device: str = "", *users: str, **more: Any) -> Tree:
    status: Tree = {"allocation": _allocation(device)} if device else {}
    if users:
        status["reservedFor"] = [{"resource": "pods", "name": u, "uid": u} for u in users]
    return claim(name, status=status, **more)[1]


def _key(name: str) -> ObjectKey:
    return ObjectKey("ns", name)


def _held(ledger: ClaimLedger, inventory: Inventory) -> dict[str, list[str]]:
    return {d.device: [k.name for k in keys] for d, keys in inventory.usage.exclusive.items()}


def _ledger() -> tuple[ClaimLedger, Inventory]:
    inventory = Inventory(FEATURES)
    return ClaimLedger(inventory), inventory


def test_planned_allocation_stays_booked_after_its_write() -> None:
    ledger, inventory = _ledger()
    ledger.put(_claim("c"))
    ledger.plan(_key("c"), "pod", to_value(_allocation("x"), AllocationResult))
    assert _held(ledger, inventory) == {"x": ["c"]}
    assert ledger.put(_claim("c", finalizers=["f"])) == "same"
    assert _held(ledger, inventory) == {"x": ["c"]}
    ledger.put(_claim("c", "x", "pod"))
    ledger.end_plan(_key("c"))
    assert _held(ledger, inventory) == {"x": ["c"]}
    assert ledger.put(_claim("c")) == "freed"
    assert _held(ledger, inventory) == {}


def test_cancelled_plan_frees_its_devices() -> None:
    ledger, inventory = _ledger()
    ledger.put(_claim("c"))
    ledger.plan(_key("c"), "pod", to_value(_allocation("x"), AllocationResult))
    ledger.end_plan(_key("c"))
    assert _held(ledger, inventory) == {}


def test_allocation_by_another_client_replaces_the_plan() -> None:
    ledger, inventory = _ledger()
    ledger.put(_claim("c"))
    ledger.plan(_key("c"), "pod", to_value(_allocation("x"), AllocationResult))
    assert ledger.put(_claim("c", "y", "other")) == "freed"
    ledger.end_plan(_key("c"))
    assert _held(ledger, inventory) == {"y": ["c"]}


_STEPS = st.lists(
    st.tuples(st.sampled_from(["plan", "settle", "write", "clear", "remove"]), st.integers(0, 2), st.integers(0, 2)),
    max_size=25,
)


@given(_STEPS)
def test_bookings_finally_equal_the_cluster_state(steps: list[tuple[str, int, int]]) -> None:
    ledger, inventory = _ledger()
    cluster: dict[str, str] = {}
    for action, number, device in steps:
        name = f"c{number}"
        match action:
            case "plan" if cluster.get(name) == "" and _key(name) not in ledger.in_flight:
                ledger.plan(_key(name), "pod", to_value(_allocation(f"d{device}"), AllocationResult))
            case "settle":
                ledger.end_plan(_key(name))
            case "write":
                cluster[name] = f"d{device}"
                ledger.put(_claim(name, f"d{device}"))
            case "clear":
                cluster[name] = ""
                ledger.put(_claim(name))
            case "remove":
                cluster.pop(name, None)
                ledger.remove(_key(name))
    for name in ("c0", "c1", "c2"):
        ledger.end_plan(_key(name))
    wanted: dict[str, list[str]] = {}
    for name, held in sorted(cluster.items()):
        if held:
            wanted.setdefault(held, []).append(name)
    assert {d: sorted(names) for d, names in _held(ledger, inventory).items()} == wanted


def test_detached_claims_are_known_and_hold_nothing() -> None:
    ledger, inventory = _ledger()
    ledger.put(_claim("c", "x", labels={LABEL: "true"}))
    assert (list(ledger.detached), ledger.known[_key("c")].allocation) == ([_key("c")], None)
    assert _held(ledger, inventory) == {}
    ledger.put(_claim("c", "x"))
    assert (list(ledger.detached), _held(ledger, inventory)) == ([], {"x": ["c"]})
    ledger.put(_claim("c", "x", labels={LABEL: "true"}))
    ledger.remove(_key("c"))
    assert not ledger.detached
