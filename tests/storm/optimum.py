"""``python -m tests.storm.optimum``: small demands solved exactly, to see that no bound is above what is possible.

With five pods at most every way to deal them out to machines can be tried: for each set of pods the cheapest type that
takes it, in any mode, and then the cheapest partition. What a machine takes is asked of the filters and of the engine,
with the slices that drivers publish, in the order of the queue; the solver has no part in it. A MIG layout may be
anything, so GPUs that are not cut yet stand for all layouts, and pods may come to them in any order.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import permutations
from random import Random
from typing import Final, NamedTuple

from allotment.engine.allocator import Allocator
from allotment.engine.cluster.inventory import Inventory
from allotment.engine.outcome import Allocated
from allotment.engine.refusal import Diagnosis
from allotment.fleet import cluster_of, parse_fleet
from allotment.fleet.catalog import InstanceType, catalog
from allotment.fleet.catalog.templates import modes_of, template_of
from allotment.model.core import Node, Pod
from allotment.model.meta import ObjectKey
from allotment.model.resource import DeviceClass, ResourceClaim, ResourceSlice
from allotment.model.trees import Tree, to_tree
from allotment.node_fit.assigned_pod import AssignedPod
from allotment.node_fit.filters import run_filters
from allotment.node_fit.nodes import NodeCache
from allotment.node_fit.pod_requirements import PodRequirementsCache
from allotment.tools.explain.extended_resources import extended_claim
from allotment.tools.plan.offerings.templates import UNDECIDED, template
from tests.storm.demands import AMD, GROUPS, Scenario
from tests.storm.plans import planned
from tests.storm.scheduled import FEATURES, KUBE, classes, there, values_of
from tests.storm.wide_demands import OF_ONE_NODE

_MOST_PODS: Final = 5
_EXTENDED: Final = "nvidia.com/gpu"


class Wrong(AssertionError):
    """A bound above what is possible, or a plan below it."""


class Found(NamedTuple):
    """What a plan costs, what its bound is, and what the best plan there can be costs; USD per hour."""

    total: Decimal
    bound: Decimal
    optimum: Decimal


def small(random: Random, everything: Sequence[InstanceType]) -> Scenario:
    """A demand of one to five pods, three to six types, and sometimes a machine that is there."""
    sold = [one for one in everything if not one.unusable and one.arch == "amd64"]
    some = tuple(random.sample(sold, random.randint(3, 6)))
    pods: list[Tree] = []
    claims: list[Tree] = []
    for number in range(random.randint(1, 3)):
        made = random.choice(_GROUPS)(random, f"g{number}", some)
        pods += made[0]
        claims += made[1]
    pods = random.sample(pods, min(len(pods), random.randint(1, _MOST_PODS)))
    pods.sort(key=lambda pod: str(pod["metadata"]["name"]))
    for at, pod in enumerate(pods):
        pod["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{at:02d}Z"
    named = {name for pod in pods for name in _named(pod)}
    fleet = random.choice([(), (), (), ("old=2xt4",), ("old=1xa100-40gb/static-mig=1g.5gb:2+2g.10gb:1",), ("old=l4",)])
    return Scenario(tuple(pods), tuple(c for c in claims if c["metadata"]["name"] in named), some, fleet)


_GROUPS: Final = tuple(
    group
    for group in (*GROUPS, *OF_ONE_NODE)
    if group.__name__ not in ("_apart", "_near", "_spread", "_matched", "_different")  # of several nodes, or unknowable
)


def _named(pod: Tree) -> list[str]:
    return [entry["resourceClaimName"] for entry in pod["spec"]["resourceClaims"]]


def compare(given: Scenario) -> Found:
    """Plan a small demand and solve it exactly. Raises Wrong."""
    made = planned(given, there(given))
    exact = _Exact(given)
    unserved = {one.pod.name for one in made.unserved}
    possible = exact.possible()
    left = [pod["metadata"]["name"] for pod in possible if pod["metadata"]["name"] in unserved]
    if left and exact.optimum(possible) is not None:
        raise Wrong(f"{left} could be served: {made.unserved}")
    best = exact.optimum([pod for pod in possible if pod["metadata"]["name"] not in unserved])
    if best is None:
        raise Wrong("a plan for pods that cannot all be served")
    found = Found(made.total, made.bound, best)
    if found.bound > found.optimum:
        raise Wrong(f"bound {found.bound} above the optimum {found.optimum}, total {found.total}")
    if found.total < found.optimum:
        raise Wrong(f"total {found.total} below the optimum {found.optimum}")
    return found


class _Exact:
    """All ways to deal pods out to machines."""

    def __init__(self, given: Scenario) -> None:
        self._given = given
        self._claims = {
            claim["metadata"]["name"]: value
            for claim, value in zip(given.claims, values_of(given.claims), strict=True)
            if isinstance(value, ResourceClaim)
        }
        self._pods = {
            pod["metadata"]["name"]: value
            for pod, value in zip(given.pods, values_of(given.pods), strict=True)
            if isinstance(value, Pod)
        }
        self._cluster = there(given)
        self._nodes = [_Host(node.metadata.name, node, self._cluster.slices) for node in self._cluster.nodes]
        self._known: dict[tuple[str, tuple[str, ...]], bool] = {}
        self._hosts = sorted(
            (
                (price, _host(one, mode))
                for one in given.catalog
                if (price := one.price("on-demand"))
                for mode in _modes(one, given)
            ),
            key=lambda pair: pair[0],
        )

    def possible(self) -> list[Tree]:
        """Pods that some machine takes, together with all that must be with them."""
        return [pod for pod in self._given.pods if self._price(self._with(pod)) is not None or self._there(pod)]

    def optimum(self, pods: Sequence[Tree]) -> Decimal | None:
        """The least that machines for these pods can cost; None if they cannot all be served."""
        best: dict[int, Decimal] = {0: Decimal(0)}
        whole = (1 << len(pods)) - 1

        def of(mask: int) -> tuple[Tree, ...]:
            return tuple(pod for at, pod in enumerate(pods) if mask >> at & 1)

        prices = {mask: self._price(of(mask)) for mask in range(1, whole + 1)}
        for mask in range(1, whole + 1):
            lowest = mask & -mask
            options = []
            part = mask
            while part:
                price = prices[part]
                if part & lowest and price is not None and mask ^ part in best:
                    options.append(price + best[mask ^ part])
                part = (part - 1) & mask
            if options:
                best[mask] = min(options)
        free = {0}
        for node in self._nodes:
            free |= {
                taken | mask
                for taken in free
                for mask in range(1, whole + 1)
                if not taken & mask and self._takes(node, of(mask))
            }
        return min((best[whole ^ mask] for mask in free if whole ^ mask in best), default=None)

    def _with(self, pod: Tree) -> tuple[Tree, ...]:
        named = set(_named(pod))
        return tuple(one for one in self._given.pods if one is pod or named & set(_named(one)))

    def _there(self, pod: Tree) -> bool:
        return any(self._takes(node, self._with(pod)) for node in self._nodes)

    def _price(self, pods: tuple[Tree, ...]) -> Decimal | None:
        return next((price for price, host in self._hosts if self._takes(host, pods)), None)

    def _takes(self, host: _Host, pods: tuple[Tree, ...]) -> bool:
        """Whether a machine takes all of them, if they come in the right order."""
        together = {name for pod in pods for name in _named(pod)}
        if any(together & set(_named(one)) for one in self._given.pods if one not in pods):
            return False  # a claim has its devices on one machine
        key = (host.name, tuple(_sort(pod, self._claims) for pod in pods))
        if key not in self._known:
            orders = self._orders(pods) if host.name.endswith(UNDECIDED) else (pods,)
            self._known[key] = any(self._holds(host, order) for order in orders)
        return self._known[key]

    def _orders(self, pods: tuple[Tree, ...]) -> Iterator[tuple[Tree, ...]]:
        seen: set[tuple[str, ...]] = set()
        for order in permutations(pods):
            sorts = tuple(_sort(pod, self._claims) for pod in order)
            if sorts not in seen:
                seen.add(sorts)
                yield order

    def _holds(self, host: _Host, pods: Iterable[Tree]) -> bool:
        inventory = Inventory.of(
            FEATURES, slices=host.slices, classes=[c for c in classes() if isinstance(c, DeviceClass)]
        )
        machines = NodeCache(inventory)
        machines.put(to_tree(host.node, "v1", "Node"))
        machine = machines.by_name[host.node.metadata.name]
        allocator, demands, done = Allocator(inventory), PodRequirementsCache(), set[str]()
        for tree in pods:
            name = tree["metadata"]["name"]
            demand = demands.of(tree["spec"])
            if run_filters(demand, machine, frozenset((_EXTENDED,))) is not None:
                return False
            claims = [self._claims[one] for one in _named(tree) if one not in done]
            done.update(_named(tree))
            made = extended_claim(self._pods[name], inventory.classes, FEATURES, frozenset())
            if isinstance(made, Diagnosis):
                return False
            wanted = (*claims, made) if made is not None else tuple(claims)
            if wanted:
                outcome = allocator.allocate(machine.name, wanted)
                if not isinstance(outcome, Allocated):
                    return False
                for number, result in enumerate(outcome.results):
                    inventory.allocate(ObjectKey("given", f"{name}-{number}"), result)
            resident = AssignedPod(
                uid=name, namespace="default", name=name, labels={}, priority=0, requirements=demand, started="",
                terminating=False,
            )  # fmt: skip
            machines.assign_pod(resident, machine.name)
        return True


def _sort(pod: Tree, claims: dict[str, ResourceClaim]) -> str:
    """Equal for pods that ask the same."""
    spec = {**pod["spec"], "resourceClaims": [str(claims[name].spec) for name in _named(pod)]}
    return str(spec) + (str(_named(pod)) if len(_named(pod)) and "-claim-" not in str(_named(pod)) else "")


class _Host(NamedTuple):
    """A machine in a mode."""

    name: str
    node: Node
    slices: Sequence[ResourceSlice]


def _modes(instance: InstanceType, given: Scenario) -> Iterator[str]:
    """Whole GPUs, and what some claim asks for beside: parts of GPUs, or shares of them."""
    asked = str(given.claims)
    for mode in modes_of(instance) or ("",):
        if mode == "static-mig" and "mig.nvidia.com" in asked:
            yield UNDECIDED
        elif mode == "consumable-shares" and "'capacity': {'requests'" in asked:
            yield "consumable-shares=memory"
        elif mode in ("", "full", "spx"):
            yield ""
        elif mode in ("dpx", "qpx", "cpx") and AMD in asked:
            yield mode


@lru_cache(maxsize=1024)
def _host(instance: InstanceType, mode: str) -> _Host:
    if mode == UNDECIDED:
        made = template(instance, mode, "machine", KUBE)
        return _Host(f"{instance.key} {mode}", made.node, made.slices)
    made = template_of(instance, mode, "machine")
    slices = cluster_of(parse_fleet([f"machine={made.form}"]), KUBE).slices if made.form else ()
    return _Host(f"{instance.key} {mode}", made.node, slices)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; 1 if anything was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.storm.optimum", description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--only", help="one demand, by its words (SEED/NUMBER)")
    given = parser.parse_args(arguments)
    everything = catalog()
    words = [given.only] if given.only else [f"{given.seed}/{number}" for number in range(given.count)]
    began, told, wrong = time.perf_counter(), Counter[str](), 0
    found: list[Found] = []
    for word in words:
        try:
            one = compare(small(Random(word), everything))
        except Exception as error:
            wrong += 1
            sys.stdout.write(f"{word}: {type(error).__name__}: {str(error)[:2000]}\n")
            if given.only:
                raise
            continue
        found.append(one)
        told["optimal"] += one.total == one.optimum
        told["proven"] += one.bound == one.total
        if one.total != one.optimum:
            sys.stdout.write(f"{word}: total {one.total}, optimum {one.optimum}, bound {one.bound}\n")
    paid = [one for one in found if one.optimum]
    below = sum(1 - float(one.bound / one.optimum) for one in paid) / max(1, len(paid))
    above = sum(float(one.total / one.optimum) - 1 for one in paid) / max(1, len(paid))
    sys.stdout.write(
        f"{len(words)} demands in {time.perf_counter() - began:.0f} s, {wrong} wrong; the plan is the cheapest in "
        f"{told['optimal']} (proven in {told['proven']}); on average it costs {above:.2%} more than the cheapest, and "
        f"the bound is {below:.2%} below that\n"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
