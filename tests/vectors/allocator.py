"""Scores answers of the real allocator, recorded in the format of ``shared/vectors/allocator`` (see its README).

A case passes if Allotment's answer is upstream's, or one that upstream gives with one of its listed defects repaired. A
case that lists any also passes with the answer of the plain `reference` with *all* of them repaired: where two defects
interact, repairing one of them gives an answer that is still wrong, and no other was recorded. The reference is tested
with the same recordings, in answers and in steps, with its defects and with each of them repaired
(``test_reference.py``).
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from allotment.engine import Aborted, Allocated, Allocator, Inventory, Outcome, Unfit
from allotment.engine.cluster.node_selection import NodeFacts
from allotment.model.features import Features
from allotment.model.meta import ObjectKey
from allotment.model.quantity import Quantity
from allotment.model.resource import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceClass,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceSlice,
)
from tests.vectors import reference
from tests.vectors.result import Result

#: The vectors' feature names and the corresponding gates. Recordings of 1.37 and later have all of them.
GATES = {
    "adminAccess": "DRAAdminAccess",
    "compatibilityGroups": "DRADeviceCompatibilityGroups",
    "consumableCapacity": "DRAConsumableCapacity",
    "derivedAttributes": "DRADerivedAttributes",
    "deviceBindingAndStatus": "DRADeviceBindingConditions",
    "deviceTaints": "DRADeviceTaints",
    "fractionalCapacityRange": "DRAFractionalCapacityRange",
    "listTypeAttributes": "DRAListTypeAttributes",
    "optionalNodeOperations": "DRAOptionalNodeOperations",
    "partitionableDevices": "DRAPartitionableDevices",
    "prioritizedList": "DRAPrioritizedList",
}

#: The answers of Kubernetes 1.37.2 to the random cases that it answers differently from 1.36.2.
ANSWERS_1_37 = Path(__file__).parent / "data" / "allocator-random-1.37.2.jsonl.gz"

#: Limit of the reference's steps for a case; where two defects interact, Allotment needs some hundred.
REPAIRED_STEPS = 200_000

Json = dict[str, Any]


def cases(path: Path) -> Iterator[Json]:
    """The cases of a file, compressed or not."""
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


def score(path: Path, kube: str = "") -> Iterator[Result]:
    """Compare Allotment's answers with the recorded ones, by default those of the recorded release.

    A case that cannot be evaluated fails with the reason.

    Where a case lists upstream's answers with a defect repaired, the answer with all of them repaired counts, too: that
    of Kubernetes 1.37.2, which has none of them, and that of the reference. For ``kube="1.37"`` the answers of 1.37.2
    count where they differ.
    """
    later = {record["name"]: record for record in cases(ANSWERS_1_37)}
    for case in cases(path):
        name = case["name"]
        try:
            problem = _problem(case, kube or release_of(case), later.get(name))
        except Exception as error:  # noqa: BLE001 - whatever a foreign case raises, the others are scored
            problem = f"cannot be evaluated: {type(error).__name__}: {error}"
        yield Result(name, not problem, problem)


def release_of(case: Json) -> str:
    """The release in which a case was recorded."""
    return "1.37" if "compatibilityGroups" in case["features"] else "1.36"


def _problem(case: Json, kube: str, later: Json | None) -> str:
    """The difference from the expected answer; ``later`` is that of 1.37 to a case recorded in 1.36."""
    found = answer(case, kube)
    if kube != "1.36":
        return difference(found, later or recorded(case))
    problems = [difference(found, expected) for expected in (recorded(case), *case["quirks"])]
    if later is not None and case["quirks"]:
        # The entries of a claim's configuration are not compared: 1.37 writes them differently.
        problems.append(difference(found, later, parts=("results", "nodeSelector")))
    if "" not in problems and case["quirks"] and found == _repaired(case, kube):
        problems.append("")
    return "" if "" in problems else problems[0]


def answer(case: Json, kube: str = "") -> Outcome:
    """Allotment's answer to a case, by default that of the recorded release."""
    allocator = Allocator(inventory(case, kube), share_id=lambda: reference.SHARE_ID)
    return allocator.allocate(case["node"]["metadata"]["name"], claims(case))


def recorded(case: Json) -> Json:
    """The recorded answer."""
    return {
        "outcome": case["outcome"],
        "results": case["expectedResults"],
        "error": case["expectErrorSubstring"],
        "fatal": case["expectErrorFatal"],
    }


def _repaired(case: Json, kube: str) -> Outcome | None:
    """The answer without any of upstream's defects, ``None`` if the search takes too long."""
    try:
        node = case["node"]["metadata"]["name"]
        return reference.allocate(inventory(case, kube), node, claims(case), limit=REPAIRED_STEPS).outcome
    except reference.TooLong:
        return None


def claims(case: Json) -> tuple[ResourceClaim, ...]:
    """The claims to allocate."""
    found: tuple[ResourceClaim, ...] = _read(case["claimsToAllocate"], tuple[ResourceClaim, ...])
    return found


def inventory(case: Json, kube: str = "") -> Inventory:
    """The cluster state of the case, by default in the recorded release."""
    gates = {GATES[name]: on for name, on in case["features"].items()}
    metadata, status = case["node"]["metadata"], case["node"].get("status") or {}
    declared = frozenset(status.get("declaredFeatures") or ())
    created = Inventory.of(
        Features(kube or release_of(case), gates),
        nodes=[NodeFacts(metadata["name"], metadata.get("labels") or {}, declared)],
        slices=_read(_uniquely_named(case["slices"]), tuple[ResourceSlice, ...]),
        classes=_read(case["classes"], tuple[DeviceClass, ...]),
        claims=_read(case["allocatedClaims"], tuple[ResourceClaim, ...]),
    )
    if not case["allocatedClaims"]:
        for number, result in enumerate(_given_state(case)):
            allocation = AllocationResult(devices=DeviceAllocationResult(results=(result,)))
            created.allocate(ObjectKey("", f"given-{number}"), allocation)
    return created


def _given_state(case: Json) -> Iterator[DeviceRequestAllocationResult]:
    """Allocation results for the state of a case that lists allocated devices and no claims."""
    for device in case["allocatedDevices"]:
        yield _read(device, DeviceRequestAllocationResult)
    for share in case["allocatedSharedDeviceIDs"]:
        yield _read(share, DeviceRequestAllocationResult)
    for consumed in case["allocatedCapacity"]:
        yield _read({**consumed, "shareID": "sum"}, DeviceRequestAllocationResult)


def _uniquely_named(slices: list[Json]) -> list[Json]:
    """Upstream's table repeats slice names, which is impossible in a cluster; number them in the same order."""
    names = [s["metadata"].get("name", "") for s in slices]
    if len(set(names)) == len(names):
        return slices
    return [
        {**s, "metadata": {**s["metadata"], "name": f"{name}~{number:03}"}}
        for number, (s, name) in enumerate(zip(slices, names, strict=True))
    ]


def _read(data: Any, type_: Any) -> Any:
    def quantity(wanted: type, value: Any) -> Any:
        return Quantity.parse(value) if wanted is Quantity else value

    return msgspec.convert(data, type_, dec_hook=quantity)


# --- comparing -------------------------------------------------------------------------------------------------------


def difference(found: Outcome, wanted: Json, parts: tuple[str, ...] = ("results", "config", "nodeSelector")) -> str:
    """The first error in an answer, in one line; empty if there is none."""
    outcome = wanted["outcome"]
    text = _text(found)
    if outcome == "error":
        if not isinstance(found, Aborted):
            return f"expected error {wanted['error']!r}, found {text}"
        fatal = wanted.get("fatal", True)
        if found.fatal != fatal:
            return f"expected fatal={fatal}, found {text}"
        known = _without_lister(wanted["error"] or "") in _without_lister(found.text)
        return "" if known else f"expected error {wanted['error']!r}, found {text}"
    if outcome == "unschedulable":
        return "" if isinstance(found, Unfit) else f"expected unschedulable, found {text}"
    if outcome != "allocated" or not isinstance(found, Allocated):
        return f"expected {outcome} {_named(wanted['results'] or [])}, found {text}"
    actual = [_comparable(json.loads(msgspec.json.encode(r, enc_hook=str))) for r in found.results]
    expected = [_comparable(r) for r in wanted["results"]]
    for number, (our, their) in enumerate(zip(actual, expected, strict=True)):
        for part in parts:
            if our[part] != their[part]:
                return f"claim {number}: {part}: expected {their[part]}, found {our[part]}"
    return ""


def _without_lister(error: str) -> str:
    """An error without the words of the program that looks up classes, which differ between schedulers and tests."""
    return re.sub(r"(could not retrieve device class [^:]*): .*", r"\1", error)


def _text(outcome: Outcome) -> str:
    if isinstance(outcome, Allocated):
        return f"allocated {_named([json.loads(msgspec.json.encode(r, enc_hook=str)) for r in outcome.results])}"
    if isinstance(outcome, Unfit):
        return "unschedulable"
    return f"{'fatal' if outcome.fatal else 'node'} error {outcome.text!r}"


def _named(results: list[Json]) -> list[list[str]]:
    return [[r["device"] for r in result.get("devices", {}).get("results", [])] for result in results]


def _comparable(result: Json) -> Json:
    """A result with share IDs reduced to their presence, quantities to values, selectors to sets."""
    devices = []
    for device in result.get("devices", {}).get("results", []):
        device = {k: v for k, v in device.items() if v not in ({}, [], None)}
        if "shareID" in device:
            device["shareID"] = True
        if "consumedCapacity" in device:
            device["consumedCapacity"] = {n: Quantity.parse(q).nano for n, q in device["consumedCapacity"].items()}
        devices.append(device)
    selector = result.get("nodeSelector")
    terms = selector and {
        frozenset(
            (kind, r["key"], r["operator"], frozenset(r.get("values", [])))
            for kind in ("matchExpressions", "matchFields")
            for r in term.get(kind, [])
        )
        for term in selector["nodeSelectorTerms"]
    }
    return {"results": devices, "config": result.get("devices", {}).get("config", []), "nodeSelector": terms}
