"""``python -m tests.storm.plans``: every pod that a plan seats is bound by the scheduler, once its machines are there.

Demands at random (``demands``) are planned for on a part of the catalogue; then the planned nodes publish the slices
that their drivers publish, not the templates, and the real scheduler places the pods, told by ``nominatedNodeName``
where the plan has them. And what is called impossible is asked of every type in every mode, one by one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

from allotment.engine.cluster.inventory import Inventory
from allotment.fleet import FleetCluster, cluster_of, parse_fleet
from allotment.fleet.catalog import catalog
from allotment.fleet.catalog.templates import modes_of, template_of
from allotment.model.core import Node, Pod
from allotment.model.meta import ObjectKey
from allotment.model.resource import ResourceClaim, ResourceSlice
from allotment.model.trees import Tree, to_tree
from allotment.node_fit.filters import run_filters as judge_node
from allotment.node_fit.nodes import NodeCache
from allotment.node_fit.pod_requirements import PodRequirementsCache
from allotment.tools.explain import explain
from allotment.tools.plan.limits import PlanLimits
from allotment.tools.plan.planning import plan
from allotment.tools.plan.report import ProvisioningPlan
from tests.storm.demands import NAMESPACE, Scenario, scenario_of
from tests.storm.scheduled import (
    FEATURES,
    KUBE,
    classes,
    left_unbound,
    named_by_plan,
    namespace,
    pods_and_claims,
    there,
    values_of,
)
from tests.unit.cluster import idle

#: Unserved for other reasons than that no type can.
_NOT_IMPOSSIBLE: Final = frozenset(
    {"gang", "limits", "not-ready", "run-time-only", "architecture", "full", "neighbours"}
)


class Unsound(AssertionError):
    """A plan promised what did not come true."""


def attempt(given: Scenario, *, alone: bool = False) -> Counter[str]:
    """Plan and schedule one scenario. Raises Unsound. ``alone``: see as well how the scheduler fares untold."""
    cluster = there(given)
    made = planned(given, cluster)
    _check(made, given, cluster)
    left = idle.run(left_unbound(made, given, cluster, nominated=True))
    if left:
        raise Unsound(f"not bound: {left}")
    told = Counter({"pods": len(named_by_plan(given)), "machines": len(made.machines)})
    for unserved in made.unserved:
        told[f"unserved: {unserved.code}"] += 1
        if unserved.code == "limits" and given.limits == PlanLimits():
            raise Unsound(f"{unserved.pod} is kept from its place by limits that nobody gave: {unserved.text}")
        if unserved.code not in _NOT_IMPOSSIBLE:
            _really_impossible(unserved.pod, given)
    if alone:
        left = idle.run(left_unbound(made, given, cluster, nominated=False))
        told["alone: scenarios with every planned pod bound"] += not left
        told["alone: planned pods not bound"] += len(left)
    return told


def planned(given: Scenario, cluster: FleetCluster) -> ProvisioningPlan:
    """The plan for a scenario; the same every time."""
    trees = (*given.objects, *given.claims, *given.pods)
    values = (namespace(), *cluster.nodes, *cluster.slices, *classes(), *values_of(trees))
    steps = iter(range(200))
    return plan(values, given.catalog, given.limits, FEATURES, keep_going=lambda: next(steps, None) is not None, seed=1)


def _check(made: ProvisioningPlan, given: Scenario, cluster: FleetCluster) -> None:
    """The plan says of every pod exactly one thing, and keeps to its limits."""
    said = [seat.pod for seat in made.existing]
    said += [seat.pod for machine in made.machines for seat in machine.seats]
    said += [unserved.pod for unserved in made.unserved]
    said = [pod for pod in said if not pod.name.startswith("daemon-")]
    running = {pod["metadata"]["name"] for pod in given.pods if pod["spec"].get("nodeName")}
    asked = [ObjectKey(NAMESPACE, name) for name in named_by_plan(given) if name not in running]
    if sorted(said) != sorted(asked):
        raise Unsound(f"pods told of: {sorted(map(str, said))}; pods that wait: {sorted(map(str, asked))}")
    if made.bound > made.total:
        raise Unsound(f"bound {made.bound} above total {made.total}")
    limits = given.limits
    spot = sum(machine.capacity_type == "spot" for machine in made.machines)
    if limits.budget is not None and made.total > limits.budget:
        raise Unsound(f"{made.total} spent of {limits.budget}")
    if limits.max_machines is not None and len(made.machines) > limits.max_machines:
        raise Unsound(f"{len(made.machines)} machines of {limits.max_machines}")
    if limits.spot_share is not None and spot > limits.spot_share * len(made.machines):
        raise Unsound(f"{spot} of {len(made.machines)} machines are spot")
    if any(not machine.seats for machine in made.machines):
        raise Unsound("a machine is bought for nobody")


def _really_impossible(pod: ObjectKey, given: Scenario) -> None:
    """Ask every type in every mode for this one pod, without the planner."""
    pods, known = pods_and_claims(given)
    name = named_by_plan(given)[pod.name]
    tree = next(one for one in pods if one["metadata"]["name"] == name)
    named = _claims_of(tree)
    users = [one for one in pods if named & _claims_of(one)]
    if len(users) > 1 or {"podAffinity", "podAntiAffinity"} & tree["spec"].get("affinity", {}).keys():
        return  # it needs a place beside others
    claims = [one for one in known if one["metadata"]["name"] in named]
    tree["spec"] = {
        **tree["spec"],
        "resourceClaims": [{"name": f"c{n}", "resourceClaimName": name} for n, name in enumerate(sorted(named))],
    }
    for instance in given.catalog:
        for mode in modes_of(instance):
            if mode in ("static-mig", "vfio", "shared"):
                continue  # dynamic-mig offers all layouts
            template = template_of(instance, f"{mode}=memory" if mode == "consumable-shares" else mode, "node")
            slices = cluster_of(parse_fleet([f"node={template.form}"]), KUBE).slices if template.form else ()
            if _fits(tree, claims, template.node, slices, given):
                raise Unsound(f"{pod} is called impossible and fits on {instance.key} in mode {mode or 'whole'}")


def _claims_of(pod: Tree) -> set[str]:
    made = {one["name"]: one["resourceClaimName"] for one in pod.get("status", {}).get("resourceClaimStatuses", ())}
    entries = pod["spec"].get("resourceClaims", ())
    return {entry.get("resourceClaimName") or made[entry["name"]] for entry in entries}


def _fits(pod: Tree, claims: Sequence[Tree], node: Node, slices: Sequence[ResourceSlice], given: Scenario) -> bool:
    machines = NodeCache(Inventory(FEATURES))
    machines.put(to_tree(node, "v1", "Node"))
    by_devices = frozenset(("nvidia.com/gpu",))
    if judge_node(PodRequirementsCache().of(pod["spec"]), machines.by_name["node"], by_devices) is not None:
        return False
    others = [one for one in given.objects if one["kind"] in ("ResourceSlice", "DeviceClass")]
    asked = [value for value in values_of([*claims, pod]) if isinstance(value, Pod | ResourceClaim)]
    return explain((node, *slices, *classes(), *values_of(others), *asked), FEATURES, tries=0).fits


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; 1 if any plan was unsound."""
    parser = argparse.ArgumentParser(prog="python -m tests.storm.plans", description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", default="1", help="one that begins with wide asks for much more")
    parser.add_argument("--only", help="one scenario, by its words (SEED/NUMBER)")
    parser.add_argument("--alone", action="store_true", help="try the scheduler without nominations as well")
    given = parser.parse_args(arguments)
    everything = catalog()
    words = [given.only] if given.only else [f"{given.seed}/{number}" for number in range(given.count)]
    began, told, wrong = time.perf_counter(), Counter[str](), 0
    for word in words:
        try:
            told += attempt(scenario_of(word, everything), alone=given.alone)
        except Exception as error:
            wrong += 1
            sys.stdout.write(f"{word}: {type(error).__name__}: {str(error)[:2000]}\n")
            if given.only:
                raise
    took = time.perf_counter() - began
    sys.stdout.write(f"{len(words)} scenarios in {took:.0f} s, {wrong} wrong: {dict(sorted(told.items()))}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
