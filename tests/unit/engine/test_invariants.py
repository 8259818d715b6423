"""Invariants under random changes: no device is allocated twice, and incremental updates equal a rebuilt inventory."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from allotment.engine import Aborted, Allocated, Allocator, Inventory, NotPlaced, Outcome, Placed, Unfit
from allotment.engine.cluster.layout import available
from allotment.model.features import Features
from allotment.model.meta import ObjectKey
from allotment.model.resource import (
    AllocationResult,
    Device,
    DeviceTaint,
    DeviceToleration,
    ResourceClaim,
    ResourceSlice,
)
from tests.unit.engine.objects import DRIVER, ROOT, claim, class_of, device, first_of, inventory, request, slice_of

FEATURES = Features("1.36", {"DRADeviceTaintRules": True, "DRAListTypeAttributes": True})
NODES = ("n1", "n2", "n3")
TAINT = DeviceTaint(key="k", effect="NoSchedule")
TOLERANT = (DeviceToleration(key="k", operator="Exists"),)


def plain(node: str, tainted: bool) -> list[ResourceSlice]:
    made = (
        device(f"d{i}", serial=f"{node}-{i}", kind="x" if i % 2 else "y", root=f"root-{i // 2}", taints=taints)
        for i, taints in enumerate(((), (TAINT,) if tainted else (), (), ()))
    )
    return [slice_of(*made, node=node, name=f"{node}-a")]


def partitions(node: str, tainted: bool) -> list[ResourceSlice]:
    parts = [
        device(f"g{g}-{kind}{i}", draws={f"g{g}": amount}, kind=kind, root=f"root-{g}")
        for g in range(2)
        for kind, amount, count in (("full", "40", 1), ("half", "20", 2))
        for i in range(count)
    ]
    counters = slice_of(node=node, name=f"{node}-a", counters={"g0": "40", "g1": "30" if tainted else "40"}, count=2)
    return [counters, slice_of(*parts, node=node, name=f"{node}-b", count=2)]


def shareable(node: str, tainted: bool) -> list[ResourceSlice]:
    whole = device("whole", memory="10", kind="x", root="root-0")
    shared = [device(f"s{i}", memory="10", shareable=True, kind="x", root=f"root-{i}") for i in range(2)]
    return [slice_of(whole, *shared, node=node, name=f"{node}-a", count=2 if tainted else 1)]


MAKES = {"plain": plain, "partitions": partitions, "shareable": shareable}

#: Claims of pods by description; their names are filled in later.
SHAPES: Mapping[str, tuple[ResourceClaim, ...]] = {
    "one": (claim(request(1)),),
    "two that match": (claim(request(2), match=ROOT),),
    "two that differ": (claim(request(2, tolerations=TOLERANT), distinct=ROOT),),
    "a kind": (claim(request(1, f'device.attributes["{DRIVER}"].?kind.orValue("") == "x"')),),
    "half of a GPU": (claim(request(1, f'device.attributes["{DRIVER}"].?kind.orValue("") == "half"')),),
    "alternatives": (
        claim(first_of((3, ""), (0, f'device.attributes["{DRIVER}"].?kind.orValue("") == "y"'), (1, ""))),
    ),
    "some memory": (claim(request(1, memory="3")),),
    "two claims": (claim(request(1), name="a"), claim(request(2), name="b", match=ROOT)),
    "all": (claim(request(0, tolerations=TOLERANT)),),
    "watching": (claim(request(1, admin=True)),),
    "error": (claim(request(1, f'device.attributes["{DRIVER}"].kind == "half"')),),
}


def summary(outcome: Outcome) -> object:
    """An outcome without the share IDs, which are new every time."""
    if not isinstance(outcome, Allocated):
        return outcome
    return [
        (
            [(r.request, r.driver, r.pool, r.device, r.share_id is None) for r in result.devices.results],
            result.node_selector,
        )
        for result in outcome.results
    ]


class Cluster(RuleBasedStateMachine):
    """Random changes of pods, slices and nodes, with the applied changes as the model of the inventory."""

    @initialize(
        makes=st.tuples(*[st.sampled_from(sorted(MAKES))] * len(NODES)), tainted=st.booleans(), network=st.booleans()
    )
    def start(self, makes: tuple[str, ...], tainted: bool, network: bool) -> None:
        self.inventory = inventory(nodes=NODES, features=FEATURES)
        self.allocator = Allocator(self.inventory)
        self.slices: dict[str, ResourceSlice] = {}
        self.nodes = dict.fromkeys(NODES)
        self.held: dict[ObjectKey, AllocationResult] = {}
        self.number = 0
        for node, make in zip(NODES, makes, strict=True):
            self.publish(node, make, tainted)
        self.network(network)

    def rebuilt(self) -> Inventory:
        """A rebuilt inventory of the same cluster."""
        made = Inventory.of(
            FEATURES, nodes=[(node, {}) for node in self.nodes], slices=self.slices.values(), classes=[class_of()]
        )
        for key, result in self.held.items():
            made.allocate(key, result)
        return made

    @rule(node=st.sampled_from(NODES), make=st.sampled_from(sorted(MAKES)), tainted=st.booleans())
    def republish(self, node: str, make: str, tainted: bool) -> None:
        """A driver publishes other devices, unless devices of the node are allocated."""
        if any(r.pool == node for result in self.held.values() for r in result.devices.results):
            return
        self.publish(node, make, tainted)

    def publish(self, node: str, make: str, tainted: bool) -> None:
        for name in [n for n in self.slices if n.startswith(f"{node}-")]:
            del self.slices[name]
            self.inventory.remove_slice(name)
        for slice_ in MAKES[make](node, tainted):
            self.slices[slice_.metadata.name] = slice_
            self.inventory.put_slice(slice_)

    @rule(on=st.booleans())
    def renetwork(self, on: bool) -> None:
        """A pool that all nodes share is added or removed, unless its devices are allocated."""
        if any(r.pool == "a-net" for result in self.held.values() for r in result.devices.results):
            return
        self.network(on)

    def network(self, on: bool) -> None:
        made = slice_of(device("net0"), device("net1"), all_nodes=True, pool="a-net", name="zz-net")
        if on:
            self.slices["zz-net"] = made
            self.inventory.put_slice(made)
        else:
            self.slices.pop("zz-net", None)
            self.inventory.remove_slice("zz-net")

    @rule(node=st.sampled_from(NODES), exists=st.booleans())
    def add_or_remove_node(self, node: str, exists: bool) -> None:
        if exists and node not in self.nodes:
            self.nodes[node] = None
            self.inventory.put_node(node, {})
        elif not exists and len(self.nodes) > 1:
            self.nodes.pop(node, None)
            self.inventory.remove_node(node)

    @rule(shape=st.sampled_from(sorted(SHAPES)), start=st.integers(0, 4))
    def schedule(self, shape: str, start: int) -> None:
        self.number += 1
        claims = [
            msgspec.structs.replace(c, metadata=msgspec.structs.replace(c.metadata, name=f"{self.number}-{i}"))
            for i, c in enumerate(SHAPES[shape])
        ]
        placed = self.allocator.place(claims, start)
        self.check_placement(claims, start, placed)
        if isinstance(placed, Placed):
            for c, result in zip(claims, placed.results, strict=True):
                key = ObjectKey(c.metadata.namespace, c.metadata.name)
                self.held[key] = result
                self.inventory.allocate(key, result)

    def check_placement(self, claims: list[ResourceClaim], start: int, placed: Placed | NotPlaced | Aborted) -> None:
        """The result of ``place`` equals that of node-by-node allocation on a rebuilt inventory."""
        made = self.rebuilt()
        names = [self.inventory.node_at(i) for i in range(self.inventory.index_count)]
        start %= len(names)
        for node in [*names[start:], *names[:start]]:
            if node is None:
                continue
            outcome = Allocator(made).allocate(node, claims)
            if isinstance(outcome, Unfit) or (isinstance(outcome, Aborted) and not outcome.fatal):
                continue
            if isinstance(outcome, Aborted):
                assert placed == outcome
            else:
                assert isinstance(placed, Placed)
                assert placed.node == node
                assert summary(Allocated(placed.results)) == summary(outcome)
            return
        assert isinstance(placed, NotPlaced)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.held)))
        del self.held[key]
        self.inventory.free(key)

    @precondition(lambda self: self.nodes)
    @rule(shape=st.sampled_from(sorted(SHAPES)), data=st.data())
    def allocate_and_deallocate(self, shape: str, data: st.DataObject) -> None:
        node = data.draw(st.sampled_from(sorted(self.nodes)))
        claims = SHAPES[shape]
        before = self.allocator.allocate(node, claims)
        if isinstance(before, Allocated):
            for i, result in enumerate(before.results):
                self.inventory.allocate(ObjectKey("passing", str(i)), result)
            for i in range(len(before.results)):
                self.inventory.free(ObjectKey("passing", str(i)))
        assert summary(self.allocator.allocate(node, claims)) == summary(before)

    @invariant()
    def no_device_is_given_twice(self) -> None:
        if not hasattr(self, "inventory"):
            return
        usage = self.inventory.usage
        assert all(len(holders) == 1 for holders in usage.exclusive.values())
        assert not usage.exclusive.keys() & usage.shares.keys()

    @invariant()
    def capacity_and_counters_suffice(self) -> None:
        if not hasattr(self, "inventory"):
            return
        usage = self.inventory.usage
        for node in self.nodes:
            view = self.inventory.view(node)
            assert all(left >= 0 for left in available(view.layout, view.state(usage)))
            for record in view.records:
                assert all(left >= 0 for left in usage.remaining(record.id, record.traits.limits).values())


TestCluster = Cluster.TestCase
TestCluster.settings = settings(max_examples=40, stateful_step_count=25)


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Device], list[ResourceClaim]]:
    """Devices of few kinds and claims that nearly fit, without mode All."""
    count = draw(st.integers(2, 6))
    devices = [
        device(f"d{i}", kind=draw(st.sampled_from("xy")), root=f"root-{draw(st.integers(0, 2))}") for i in range(count)
    ]
    claims = []
    for number in range(draw(st.integers(1, 2))):
        constraint = draw(st.sampled_from([{}, {"match": ROOT}, {"distinct": ROOT}]))
        requests = [
            request(
                draw(st.integers(1, 3)), *draw(st.sampled_from([(), (f'device.attributes["{DRIVER}"].kind == "x"',)]))
            )
            if draw(st.booleans())
            else first_of((draw(st.integers(1, 3)), ""), (draw(st.integers(1, 2)), ""))
        ]
        claims.append(claim(*requests, name=f"c{number}", **constraint))
    return devices, claims


@given(cases(), st.data())
def test_removing_a_free_device_never_makes_a_refused_claim_fit(
    case: tuple[list[Device], list[ResourceClaim]], data: st.DataObject
) -> None:
    # With mode All it may fit, because one device less is required.
    # Likewise if the device is allocated, because its counters become free.
    devices, claims = case
    if isinstance(Allocator(inventory(slice_of(*devices))).allocate("n1", claims), Allocated):
        return
    gone = data.draw(st.sampled_from(devices))
    fewer = [d for d in devices if d is not gone]
    assert isinstance(Allocator(inventory(slice_of(*fewer))).allocate("n1", claims), Unfit)
