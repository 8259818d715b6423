"""Changes worth trying, apart from those of conditions: counts, capacities, classes, constraints, other claims."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from msgspec.structs import replace as altered

from allotment.engine.cluster.identity import PoolID
from allotment.engine.diagnosis.context import Scene, places
from allotment.engine.diagnosis.holders import Holder
from allotment.engine.diagnosis.published_names import likeness, near
from allotment.engine.diagnosis.scenario import Candidate, Place, World, claim_name, edit_constraint, edit_request
from allotment.engine.diagnosis.wording import freed
from allotment.model.quantity import Quantity
from allotment.model.resource import CapacityRequirements, DeviceConstraint, ResourceClaim
from allotment.phrases import counted


def ask_for(place: Place, asked: int, count: int) -> Candidate:
    """Another count of devices."""
    return Candidate(
        "less",
        f"ask for {counted(count, 'device')} instead of {asked}",
        edit_request(place, lambda old: altered(old, count=count)),
        place.object,
        f"{place.path}.count",
        count,
    )


def fewer_devices(scene: Scene, claim: ResourceClaim, most: int) -> tuple[Candidate, ...]:
    """Smaller counts for a claim that asks for too many."""
    found: list[Candidate] = []
    for place, asked in places(claim):
        if asked.count > 1:
            view = len(scene.view.devices)
            found.extend(
                ask_for(place, asked.count, count)
                for count in sorted(
                    {min(most, asked.count - 1, view), min(asked.count - 1, view // 2), 1}, reverse=True
                )
                if count > 0
            )
    return tuple(found)


def complete_pool(pool: PoolID, *, surplus: bool) -> Candidate:
    """What becomes possible once the pool has as many slices as it announces; tried with those that are there now.

    ``surplus``: there are more than announced, so that the driver has to correct the number or what it left behind.
    """

    def edit(world: World) -> World:
        mine = [s for s in world.slices if (s.spec.driver, s.spec.pool.name) == pool]
        newest = max((s.spec.pool.generation for s in mine), default=0)
        count = sum(1 for s in mine if s.spec.pool.generation == newest)
        slices = tuple(
            altered(s, spec=altered(s.spec, pool=altered(s.spec.pool, resource_slice_count=count))) if s in mine else s
            for s in world.slices
        )
        return replace(world, slices=slices)

    if surplus:
        text = f"let the driver of pool {pool} announce all the slices that are there; their devices suffice"
    else:
        text = f"let the driver finish pool {pool}; the devices that are there already suffice"
    return Candidate("driver", text, edit)


def other_classes(world: World, place: Place, name: str) -> list[Candidate]:
    """The other classes, those of like names first; one that the name may have been meant for is a small change."""
    meant = near(name, world.classes)
    others = sorted((c for c in world.classes if c != name), key=lambda c: (-likeness(name, c), c))
    return [
        Candidate(
            "name" if other in meant and name not in world.classes else "other-class",
            f"use class {other}",
            edit_request(place, partial(altered, device_class_name=other)),
            place.object,
            f"{place.path}.deviceClassName",
            other,
        )
        for other in others[:4]
    ]


def capacity_edit(place: Place, requests: dict[str, Quantity], remedy: str, words: str) -> Candidate:
    """Other amounts in ``capacity.requests``."""
    return Candidate(
        remedy,
        words,
        edit_request(place, lambda old: altered(old, capacity=CapacityRequirements(requests=requests))),
        place.object,
        f"{place.path}.capacity",
        {"requests": {name: str(amount) for name, amount in requests.items()}},
    )


def free_claims(holders: list[Holder]) -> list[Candidate]:
    """Ending the allocation of one claim, or of the first few."""
    found = [
        Candidate(
            "wait",
            freed([one]),
            partial(World.without_claim, names=frozenset({one.claim})),
            f"ResourceClaim {one.claim}",
            "status.allocation",
        )
        for one in holders[:4]
    ]
    for count in range(2, min(len(holders), 8) + 1):
        some = holders[:count]
        without = partial(World.without_claim, names=frozenset(one.claim for one in some))
        found.append(Candidate("wait", freed(some), without))
    return found


def exact_count(place: Place, count: int) -> Candidate:
    """So many devices instead of all."""
    return Candidate(
        "less",
        f"ask for {counted(count, 'device')} instead of all",
        edit_request(place, lambda old: altered(old, allocation_mode="ExactCount", count=count)),
        place.object,
        place.path,
        {"allocationMode": "ExactCount", "count": count},
    )


def _without_asking_for(world: World, name: str) -> World:
    return replace(world, claims=tuple(c for c in world.claims if claim_name(c) != name))


def drop_one(claims: tuple[ResourceClaim, ...]) -> list[Candidate]:
    """Leave out a claim of the pod, or a request of the claim."""
    if len(claims) > 1:
        return [
            Candidate(
                "leave-out",
                f"leave claim {claim_name(claim)} out",
                partial(_without_asking_for, name=claim_name(claim)),
            )
            for claim in reversed(claims)
        ]
    return []


def drop_constraint(claim: str, index: int, constraint: DeviceConstraint, attribute: str) -> Candidate:
    """The claim without one of its constraints."""
    kind = "matchAttribute" if constraint.match_attribute else "distinctAttribute"
    return Candidate(
        "constraint",
        f"drop the constraint {kind} {attribute}",
        edit_constraint(claim, index, None),
        f"ResourceClaim {claim}",
        f"spec.devices.constraints[{index}]",
    )
