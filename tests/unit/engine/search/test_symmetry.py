"""States of a search that look alike but differ in the compatibility groups of their devices (KEP-5941)."""

from __future__ import annotations

from msgspec.structs import replace

from allotment.engine import Allocated, Allocator
from allotment.engine.search.attempt import SearchAttempt
from allotment.engine.search.symmetry import InterchangeableSlots
from allotment.model.features import Features
from allotment.model.meta import ObjectKey
from allotment.model.quantity import Quantity
from allotment.model.resource import Counter, CounterSet, Device, DeviceCounterConsumption, DeviceRequest, ResourceSlice
from tests.unit.engine.objects import claim, device, devices_of, holding, inventory, request, slice_of

FEATURES = Features("1.37", {"DRADeviceCompatibilityGroups": True})


def drawing(name: str, kind: str, card: int, amount: int, *groups: str, counter: str = "memory") -> Device:
    """A device that consumes an amount of a card's counter."""
    counters = {counter: Counter(value=Quantity.of_int(amount))}
    use = DeviceCounterConsumption(counter_set=f"card-{card}", counters=counters, compatibility_groups=groups)
    return replace(device(name, kind=kind), consumes_counters=(use,))


def cards(count: int, **limits: int) -> ResourceSlice:
    """The counters of three cards, in a pool of ``count`` slices."""
    counters = {name: Counter(value=Quantity.of_int(limit)) for name, limit in limits.items()}
    plain = slice_of(name="counters", pool="cards", count=count, all_nodes=True)
    sets = tuple(CounterSet(name=f"card-{card}", counters=counters) for card in range(3))
    return replace(plain, spec=replace(plain.spec, shared_counters=sets))


def of_kind(kind: str, count: int = 1) -> DeviceRequest:
    return request(count, f'device.attributes["gpu.example.com"].kind == "{kind}"', name=kind)


#: The search takes d0 first, which leaves nothing for e; only after such a dead end does it record failed states.
DEAD_END = (drawing("d0", "d", 2, 10), device("d1", kind="d"), drawing("e", "e", 2, 10))


def test_cards_that_devices_of_other_nodes_share_are_told_apart_by_their_groups() -> None:
    """A whole card leaves only the other one: a and b fit together on card 0, where z is common, but not on card 1.

    Counting does not show that: two devices of card 1 have x in common, a and c.
    """
    whole = [drawing(f"w{card}", "whole", card, 9, *"xyz") for card in range(2)]
    parts = [
        drawing(f"{name}{card}", kind, card, 2, *groups)
        for card in range(2)
        for name, kind, groups in (("a", "a", "xz"), ("c", "a", "xz"), ("b", "b", "yz"))
    ]
    elsewhere = [drawing("o0", "other", 0, 1, "z"), drawing("o1", "other", 1, 1, "x", "y")]
    made = inventory(
        slice_of(*DEAD_END, *whole, *parts, name="here", pool="cards", count=3),
        slice_of(*elsewhere, name="there", pool="cards", count=3, node="n2"),
        cards(3, memory=10),
        nodes=("n1", "n2"),
        features=FEATURES,
    )
    made.allocate(ObjectKey("ns", "other"), holding("o0", "o1", pool="cards"))
    outcome = Allocator(made).allocate("n1", [claim(*map(of_kind, ("d", "e", "whole", "a", "b")))])
    assert isinstance(outcome, Allocated)
    assert devices_of(outcome.results) == [["d1", "e", "w1", "a0", "b0"]]


def test_devices_of_a_card_belong_together_although_they_consume_different_counters() -> None:
    """x and y cost a card the group z. If both are on one card, the other one has room for an a together with b.

    Counting does not show that: on each card two devices have p in common, a and c.
    """
    makers = [drawing(f"x{card}", "x", card, 1, *"pq", counter="first") for card in (0, 1)]
    makers += [drawing(f"y{card}", "y", card, 1, *"pq", counter="second") for card in (1, 0)]
    parts = [
        drawing(f"{name}{card}", kind, card, 1, *groups, counter="third")
        for card in range(2)
        for name, kind, groups in (("a", "a", "pz"), ("c", "a", "pz"), ("b", "b", "qz"))
    ]
    made = inventory(
        slice_of(*DEAD_END, *makers, *parts, name="devices", pool="cards", count=2),
        cards(2, memory=10, first=10, second=10, third=10),
        features=FEATURES,
    )
    wanted = claim(*map(of_kind, ("d", "e", "x", "y")), of_kind("a", 3), of_kind("b"))
    outcome = Allocator(made).allocate("n1", [wanted])
    assert isinstance(outcome, Allocated)
    assert devices_of(outcome.results) == [["d1", "e", "x0", "y0", "a0", "c0", "a1", "b1"]]


def test_cards_whose_devices_have_other_groups_are_of_another_type() -> None:
    """b fits only beside the devices of card 1, which the first choice uses up."""
    whole = [drawing(f"w{card}", "whole", card, 10, "x") for card in (1, 0)]
    parts = [
        drawing(f"{name}{card}", kind, card, 2, group)
        for card in range(2)
        for name, kind, group in (("a", "a", "x"), ("c", "a", "x"), ("b", "b", "yx"[card]))
    ]
    made = inventory(
        slice_of(*DEAD_END, *whole, *parts, name="devices", pool="cards", count=2),
        cards(2, memory=10),
        features=FEATURES,
    )
    outcome = Allocator(made).allocate("n1", [claim(*map(of_kind, ("d", "e", "whole", "a", "b")))])
    assert isinstance(outcome, Allocated)
    assert devices_of(outcome.results) == [["d1", "e", "w0", "a1", "b1"]]


def test_devices_with_other_groups_are_not_interchangeable() -> None:
    made = inventory(
        slice_of(*(drawing(name, "a", 0, 1, group) for name, group in ("ax", "by", "cx")), pool="cards", count=2),
        cards(2, memory=40),
        features=FEATURES,
    )
    cache = Allocator(made).cache_for([claim(request(1))])
    view = made.view("n1")
    attempt = SearchAttempt(cache.shape, cache.pattern(view), view.state(made.usage))
    assert InterchangeableSlots(attempt).of(0, 0) == 0b101
