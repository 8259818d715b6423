"""Score answers of the real allocator, recorded in the format of ``shared/vectors/allocator`` (its README is the rule).

A case passes if our answer is upstream's, or one that upstream gives with one of its listed defects repaired.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from allotment.engine import Aborted, Allocated, Allocator, Inventory, Outcome, Unfit
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
from tests.vectors.result import Result

#: The vectors' feature names and the gates that stand for them.
GATES = {
    "adminAccess": "DRAAdminAccess",
    "consumableCapacity": "DRAConsumableCapacity",
    "deviceBindingAndStatus": "DRADeviceBindingConditions",
    "deviceTaints": "DRADeviceTaints",
    "listTypeAttributes": "DRAListTypeAttributes",
    "partitionableDevices": "DRAPartitionableDevices",
    "prioritizedList": "DRAPrioritizedList",
}

#: The answers of Kubernetes 1.37.2 to the random cases to which it answers differently than 1.36.2.
LATER = Path(__file__).parent / "data" / "allocator-random-1.37.2.jsonl.gz"

Json = dict[str, Any]


def cases(path: Path) -> Iterator[Json]:
    """The cases of a file, packed or not."""
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


def score(path: Path, kube: str = "1.36") -> Iterator[Result]:
    """Compare our answers with the recorded ones.

    Where a case lists what upstream answers with a defect repaired, its answer with all of them repaired counts, too:
    Kubernetes 1.37.2 has none of them left. For ``kube="1.37"`` its answers count, where they differ.
    """
    later = {record["name"]: record for record in cases(LATER)}
    for case in cases(path):
        recorded = {
            "outcome": case["outcome"],
            "results": case["expectedResults"],
            "error": case["expectErrorSubstring"],
            "fatal": case["expectErrorFatal"],
        }
        known = later.get(case["name"])
        found = answer(case, kube)
        if kube == "1.37":
            problems = [_difference(found, known or recorded)]
        else:
            problems = [_difference(found, wanted) for wanted in (recorded, *case["quirks"])]
            if known is not None and case["quirks"]:
                # The entries of a claim's configuration are another matter: 1.37 writes them differently.
                problems.append(_difference(found, known, parts=("results", "nodeSelector")))
        yield Result(case["name"], "" in problems, "" if "" in problems else problems[0])


def answer(case: Json, kube: str = "1.36") -> Outcome:
    """Our answer to a case."""
    return Allocator(inventory(case, kube)).allocate(case["node"]["metadata"]["name"], claims(case))


def claims(case: Json) -> tuple[ResourceClaim, ...]:
    """The claims to allocate."""
    found: tuple[ResourceClaim, ...] = _read(case["claimsToAllocate"], tuple[ResourceClaim, ...])
    return found


def inventory(case: Json, kube: str = "1.36") -> Inventory:
    """The state in which the case is set."""
    gates = {GATES[name]: on for name, on in case["features"].items()}
    metadata = case["node"]["metadata"]
    made = Inventory.of(
        Features(kube, gates),
        nodes=[(metadata["name"], metadata.get("labels", {}))],
        slices=_read(_uniquely_named(case["slices"]), tuple[ResourceSlice, ...]),
        classes=_read(case["classes"], tuple[DeviceClass, ...]),
        claims=_read(case["allocatedClaims"], tuple[ResourceClaim, ...]),
    )
    if not case["allocatedClaims"]:
        for number, result in enumerate(_given_state(case)):
            allocation = AllocationResult(devices=DeviceAllocationResult(results=(result,)))
            made.allocate(ObjectKey("", f"given-{number}"), allocation)
    return made


def _given_state(case: Json) -> Iterator[DeviceRequestAllocationResult]:
    """Results that make up the state of a case that gives no claims but what they hold."""
    for device in case["allocatedDevices"]:
        yield _read(device, DeviceRequestAllocationResult)
    for share in case["allocatedSharedDeviceIDs"]:
        yield _read(share, DeviceRequestAllocationResult)
    for consumed in case["allocatedCapacity"]:
        yield _read({**consumed, "shareID": "sum"}, DeviceRequestAllocationResult)


def _uniquely_named(slices: list[Json]) -> list[Json]:
    """Upstream's table repeats slice names, which no cluster can have; number them without changing their order."""
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


def _difference(found: Outcome, wanted: Json, parts: tuple[str, ...] = ("results", "config", "nodeSelector")) -> str:
    """What is wrong with an answer, in one line; empty if nothing is."""
    outcome = wanted["outcome"]
    said = _said(found)
    if outcome == "error":
        if not isinstance(found, Aborted):
            return f"expected error {wanted['error']!r}, found {said}"
        if found.fatal != wanted.get("fatal", True):
            return f"expected fatal={wanted['fatal']}, found {said}"
        return "" if (wanted["error"] or "") in found.text else f"expected error {wanted['error']!r}, found {said}"
    if outcome == "unschedulable":
        return "" if isinstance(found, Unfit) else f"expected unschedulable, found {said}"
    if outcome != "allocated" or not isinstance(found, Allocated):
        return f"expected {outcome} {_named(wanted['results'] or [])}, found {said}"
    ours = [_comparable(json.loads(msgspec.json.encode(r, enc_hook=str))) for r in found.results]
    theirs = [_comparable(r) for r in wanted["results"]]
    for number, (our, their) in enumerate(zip(ours, theirs, strict=True)):
        for part in parts:
            if our[part] != their[part]:
                return f"claim {number}: {part}: expected {their[part]}, found {our[part]}"
    return ""


def _said(outcome: Outcome) -> str:
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
