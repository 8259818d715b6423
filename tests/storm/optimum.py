"""``python -m tests.storm.optimum``: solves small demands exactly, to check that no bound is above the optimum.

With at most five pods every assignment of pods to machines can be tried: for each set of pods the cheapest type that
holds it, in any mode, and then the cheapest partition. The filters and the engine decide what a machine holds, with the
slices that drivers publish, in the order of the queue; the solver is not used. A MIG layout is free, so GPUs without a
layout stand for all layouts, and pods may be added to them in any order.
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
from allotment.explanation.extended_resources import extended_claim
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
from allotment.planning.offerings.templates import UNDECIDED, template
from tests.storm.demands import AMD, GROUPS, Scenario
from tests.storm.plan_execution import FEATURES, KUBE, classes, existing_machines, values_of
from tests.storm.plans import make_plan
from tests.storm.wide_demands import OF_ONE_NODE

_MOST_PODS: Final = 5
_EXTENDED: Final = "nvidia.com/gpu"


class BoundError(AssertionError):
    """Raised for a bound above the optimum, or a plan below it."""


class ComparedCosts(NamedTuple):
    """The cost of a plan, its bound, and the cost of the best plan; USD per hour."""

    total: Decimal
    bound: Decimal
    optimum: Decimal


def small_demand(random: Random, everything: Sequence[InstanceType]) -> Scenario:
    """A demand of one to five pods, three to six types, and sometimes an existing machine."""
    sold = [item for item in everything if not item.unusable and item.arch == "amd64"]
    some = tuple(random.sample(sold, random.randint(3, 6)))
    pods: list[Tree] = []
    claims: list[Tree] = []
    for number in range(random.randint(1, 3)):
        created = random.choice(_GROUPS)(random, f"g{number}", some)
        pods += created[0]
        claims += created[1]
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
    # over several nodes, or undecidable
    if group.__name__ not in ("_apart", "_near", "_spread", "_matched", "_different")
)


def _named(pod: Tree) -> list[str]:
    return [entry["resourceClaimName"] for entry in pod["spec"]["resourceClaims"]]


def compare_with_optimum(scenario: Scenario) -> ComparedCosts:
    """Plan a small demand and solve it exactly. Raises Wrong."""
    created = make_plan(scenario, existing_machines(scenario))
    exact = _ExactSolver(scenario)
    unserved = {item.pod.name for item in created.unserved}
    possible = exact.possible()
    remaining = [pod["metadata"]["name"] for pod in possible if pod["metadata"]["name"] in unserved]
    if remaining and exact.optimum(possible) is not None:
        raise BoundError(f"{remaining} could be served: {created.unserved}")
    best = exact.optimum([pod for pod in possible if pod["metadata"]["name"] not in unserved])
    if best is None:
        raise BoundError("a plan for pods that cannot all be served")
    found = ComparedCosts(created.total, created.bound, best)
    if found.bound > found.optimum:
        raise BoundError(f"bound {found.bound} above the optimum {found.optimum}, total {found.total}")
    if found.total < found.optimum:
        raise BoundError(f"total {found.total} below the optimum {found.optimum}")
    return found


class _ExactSolver:
    """All assignments of pods to machines."""

    def __init__(self, scenario: Scenario) -> None:
        self._given = scenario
        self._claims = {
            claim["metadata"]["name"]: value
            for claim, value in zip(scenario.claims, values_of(scenario.claims), strict=True)
            if isinstance(value, ResourceClaim)
        }
        self._pods = {
            pod["metadata"]["name"]: value
            for pod, value in zip(scenario.pods, values_of(scenario.pods), strict=True)
            if isinstance(value, Pod)
        }
        self._cluster = existing_machines(scenario)
        self._nodes = [_Host(node.metadata.name, node, self._cluster.slices) for node in self._cluster.nodes]
        self._known: dict[tuple[str, tuple[str, ...]], bool] = {}
        self._hosts = sorted(
            (
                (price, _host(instance, mode))
                for instance in scenario.catalog
                if (price := instance.price("on-demand"))
                for mode in _modes(instance, scenario)
            ),
            key=lambda pair: pair[0],
        )

    def possible(self) -> list[Tree]:
        """Pods that some machine holds, together with all pods that must be on the same one."""
        return [pod for pod in self._given.pods if self._price(self._with(pod)) is not None or self._there(pod)]

    def optimum(self, pods: Sequence[Tree]) -> Decimal | None:
        """The minimal cost of machines for these pods; None if they cannot all be served."""
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
                if not taken & mask and self._fits(node, of(mask))
            }
        return min((best[whole ^ mask] for mask in free if whole ^ mask in best), default=None)

    def _with(self, pod: Tree) -> tuple[Tree, ...]:
        named = set(_named(pod))
        return tuple(item for item in self._given.pods if item is pod or named & set(_named(item)))

    def _there(self, pod: Tree) -> bool:
        return any(self._fits(node, self._with(pod)) for node in self._nodes)

    def _price(self, pods: tuple[Tree, ...]) -> Decimal | None:
        return next((price for price, host in self._hosts if self._fits(host, pods)), None)

    def _fits(self, host: _Host, pods: tuple[Tree, ...]) -> bool:
        """Whether a machine holds all of them, if they are added in a suitable order."""
        together = {name for pod in pods for name in _named(pod)}
        if any(together & set(_named(pod)) for pod in self._given.pods if pod not in pods):
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
            claims = [self._claims[item] for item in _named(tree) if item not in done]
            done.update(_named(tree))
            created = extended_claim(self._pods[name], inventory.classes, FEATURES, frozenset())
            if isinstance(created, Diagnosis):
                return False
            expected = (*claims, created) if created is not None else tuple(claims)
            if expected:
                outcome = allocator.allocate(machine.name, expected)
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
    """Equal for pods with the same requests."""
    spec = {**pod["spec"], "resourceClaims": [str(claims[name].spec) for name in _named(pod)]}
    return str(spec) + (str(_named(pod)) if len(_named(pod)) and "-claim-" not in str(_named(pod)) else "")


class _Host(NamedTuple):
    """A machine in a mode."""

    name: str
    node: Node
    slices: Sequence[ResourceSlice]


def _modes(instance: InstanceType, scenario: Scenario) -> Iterator[str]:
    """Whole GPUs, and what some claim requests in addition: parts of GPUs, or shares of them."""
    claims_text = str(scenario.claims)
    for mode in modes_of(instance) or ("",):
        if mode == "static-mig" and "mig.nvidia.com" in claims_text:
            yield UNDECIDED
        elif mode == "consumable-shares" and "'capacity': {'requests'" in claims_text:
            yield "consumable-shares=memory"
        elif mode in ("", "full", "spx"):
            yield ""
        elif mode in ("dpx", "qpx", "cpx") and AMD in claims_text:
            yield mode


@lru_cache(maxsize=1024)
def _host(instance: InstanceType, mode: str) -> _Host:
    if mode == UNDECIDED:
        created = template(instance, mode, "machine", KUBE)
        return _Host(f"{instance.key} {mode}", created.node, created.slices)
    created = template_of(instance, mode, "machine")
    slices = cluster_of(parse_fleet([f"machine={created.form}"]), KUBE).slices if created.form else ()
    return _Host(f"{instance.key} {mode}", created.node, slices)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 1 if a bound or plan was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.storm.optimum", description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--only", help="a single demand (SEED/NUMBER)")
    scenario = parser.parse_args(arguments)
    everything = catalog()
    words = [scenario.only] if scenario.only else [f"{scenario.seed}/{number}" for number in range(scenario.count)]
    start, totals, wrong = time.perf_counter(), Counter[str](), 0
    found: list[ComparedCosts] = []
    for word in words:
        try:
            costs = compare_with_optimum(small_demand(Random(word), everything))
        except Exception as error:
            wrong += 1
            sys.stdout.write(f"{word}: {type(error).__name__}: {str(error)[:2000]}\n")
            if scenario.only:
                raise
            continue
        found.append(costs)
        totals["optimal"] += costs.total == costs.optimum
        totals["proven"] += costs.bound == costs.total
        if costs.total != costs.optimum:
            sys.stdout.write(f"{word}: total {costs.total}, optimum {costs.optimum}, bound {costs.bound}\n")
    paid = [item for item in found if item.optimum]
    below = sum(1 - float(item.bound / item.optimum) for item in paid) / max(1, len(paid))
    above = sum(float(item.total / item.optimum) - 1 for item in paid) / max(1, len(paid))
    sys.stdout.write(
        f"{len(words)} demands in {time.perf_counter() - start:.0f} s, {wrong} wrong; the plan is the cheapest in "
        f"{totals['optimal']} (proven in {totals['proven']}); on average it costs {above:.2%} more "
        f"than the cheapest, and the bound is {below:.2%} below that\n"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
