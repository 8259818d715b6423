"""``python -m tests.storm.plans``: checks that the scheduler binds every pod that a plan places, once the machines
exist.

Random demands (``demands``) are planned for on a part of the catalog; then the planned nodes publish the slices that
their drivers publish, not the templates, and the real scheduler places the pods, with ``nominatedNodeName`` where the
plan has them. For each pod that a plan calls impossible, every type in every mode is tried separately.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

from allotment.engine.cluster.inventory import Inventory
from allotment.explanation import explain
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
from allotment.planning.limits import PlanLimits
from allotment.planning.planner import plan
from allotment.planning.report import ProvisioningPlan
from tests.storm.demands import NAMESPACE, Scenario, scenario_of
from tests.storm.plan_execution import (
    FEATURES,
    KUBE,
    classes,
    existing_machines,
    left_unbound,
    namespace,
    plan_names,
    pods_and_claims,
    values_of,
)
from tests.unit.cluster import idle

#: Causes of unserved pods other than that no type can serve them.
_NOT_IMPOSSIBLE: Final = frozenset(
    {"gang", "limits", "not-ready", "run-time-only", "architecture", "full", "neighbours"}
)


class PlanError(AssertionError):
    """Raised when a plan is wrong."""


def attempt(scenario: Scenario, *, alone: bool = False) -> Counter[str]:
    """Plan and schedule one scenario. Raises Unsound. ``alone``: also report how the scheduler fares without
    nominations."""
    cluster = existing_machines(scenario)
    created = make_plan(scenario, cluster)
    _check(created, scenario, cluster)
    remaining = idle.run(left_unbound(created, scenario, cluster, nominated=True))
    if remaining:
        raise PlanError(f"not bound: {remaining}")
    counts = Counter({"pods": len(plan_names(scenario)), "machines": len(created.machines)})
    for unserved in created.unserved:
        counts[f"unserved: {unserved.code}"] += 1
        if unserved.code == "limits" and scenario.limits == PlanLimits():
            raise PlanError(f"{unserved.pod} is unserved because of limits that are not set: {unserved.text}")
        if unserved.code not in _NOT_IMPOSSIBLE:
            _check_impossible(unserved.pod, scenario)
    if alone:
        remaining = idle.run(left_unbound(created, scenario, cluster, nominated=False))
        counts["alone: scenarios with every planned pod bound"] += not remaining
        counts["alone: planned pods not bound"] += len(remaining)
    return counts


def make_plan(scenario: Scenario, cluster: FleetCluster) -> ProvisioningPlan:
    """The plan for a scenario, which is deterministic."""
    trees = (*scenario.objects, *scenario.claims, *scenario.pods)
    values = (namespace(), *cluster.nodes, *cluster.slices, *classes(), *values_of(trees))
    steps = iter(range(200))
    return plan(
        values, scenario.catalog, scenario.limits, FEATURES, keep_going=lambda: next(steps, None) is not None, seed=1
    )


def _check(made: ProvisioningPlan, scenario: Scenario, cluster: FleetCluster) -> None:
    """Check that the plan mentions every pod exactly once and respects its limits."""
    planned_pods = [placement.pod for placement in made.existing]
    planned_pods += [placement.pod for machine in made.machines for placement in machine.placements]
    planned_pods += [unserved.pod for unserved in made.unserved]
    planned_pods = [pod for pod in planned_pods if not pod.name.startswith("daemon-")]
    running = {pod["metadata"]["name"] for pod in scenario.pods if pod["spec"].get("nodeName")}
    pending = [ObjectKey(NAMESPACE, name) for name in plan_names(scenario) if name not in running]
    if sorted(planned_pods) != sorted(pending):
        raise PlanError(
            f"pods in the plan: {sorted(map(str, planned_pods))}; pending pods: {sorted(map(str, pending))}"
        )
    if made.bound > made.total:
        raise PlanError(f"bound {made.bound} above total {made.total}")
    limits = scenario.limits
    spot = sum(machine.capacity_type == "spot" for machine in made.machines)
    if limits.budget is not None and made.total > limits.budget:
        raise PlanError(f"{made.total} spent of {limits.budget}")
    if limits.max_machines is not None and len(made.machines) > limits.max_machines:
        raise PlanError(f"{len(made.machines)} machines of {limits.max_machines}")
    if limits.spot_share is not None and spot > limits.spot_share * len(made.machines):
        raise PlanError(f"{spot} of {len(made.machines)} machines are spot")
    if any(not machine.placements for machine in made.machines):
        raise PlanError("a machine is provisioned without pods")


def _check_impossible(pod: ObjectKey, scenario: Scenario) -> None:
    """Try every type in every mode for this one pod, without the planner."""
    pods, known = pods_and_claims(scenario)
    name = plan_names(scenario)[pod.name]
    tree = next(pod for pod in pods if pod["metadata"]["name"] == name)
    named = _claims_of(tree)
    users = [pod for pod in pods if named & _claims_of(pod)]
    if len(users) > 1 or {"podAffinity", "podAntiAffinity"} & tree["spec"].get("affinity", {}).keys():
        return  # it needs to be near other pods
    claims = [item for item in known if item["metadata"]["name"] in named]
    tree["spec"] = {
        **tree["spec"],
        "resourceClaims": [{"name": f"c{n}", "resourceClaimName": name} for n, name in enumerate(sorted(named))],
    }
    for instance in scenario.catalog:
        for mode in modes_of(instance):
            if mode in ("static-mig", "vfio", "shared"):
                continue  # dynamic-mig offers all layouts
            template = template_of(instance, f"{mode}=memory" if mode == "consumable-shares" else mode, "node")
            slices = cluster_of(parse_fleet([f"node={template.form}"]), KUBE).slices if template.form else ()
            if _fits(tree, claims, template.node, slices, scenario):
                raise PlanError(
                    f"{pod} is reported as impossible, but fits on {instance.key} in mode {mode or 'whole'}"
                )


def _claims_of(pod: Tree) -> set[str]:
    created = {
        status["name"]: status["resourceClaimName"] for status in pod.get("status", {}).get("resourceClaimStatuses", ())
    }
    entries = pod["spec"].get("resourceClaims", ())
    return {entry.get("resourceClaimName") or created[entry["name"]] for entry in entries}


def _fits(pod: Tree, claims: Sequence[Tree], node: Node, slices: Sequence[ResourceSlice], scenario: Scenario) -> bool:
    machines = NodeCache(Inventory(FEATURES))
    machines.put(to_tree(node, "v1", "Node"))
    by_devices = frozenset(("nvidia.com/gpu",))
    if judge_node(PodRequirementsCache().of(pod["spec"]), machines.by_name["node"], by_devices) is not None:
        return False
    others = [tree for tree in scenario.objects if tree["kind"] in ("ResourceSlice", "DeviceClass")]
    objects = [value for value in values_of([*claims, pod]) if isinstance(value, Pod | ResourceClaim)]
    return explain((node, *slices, *classes(), *values_of(others), *objects), FEATURES, tries=0).fits


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 1 if any plan was unsound."""
    parser = argparse.ArgumentParser(prog="python -m tests.storm.plans", description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", default="1", help="a seed that begins with wide makes more diverse requests")
    parser.add_argument("--only", help="a single scenario (SEED/NUMBER)")
    parser.add_argument("--alone", action="store_true", help="try the scheduler without nominations as well")
    scenario = parser.parse_args(arguments)
    everything = catalog()
    words = [scenario.only] if scenario.only else [f"{scenario.seed}/{number}" for number in range(scenario.count)]
    start, totals, wrong = time.perf_counter(), Counter[str](), 0
    for word in words:
        try:
            totals += attempt(scenario_of(word, everything), alone=scenario.alone)
        except Exception as error:
            wrong += 1
            sys.stdout.write(f"{word}: {type(error).__name__}: {str(error)[:2000]}\n")
            if scenario.only:
                raise
    elapsed = time.perf_counter() - start
    sys.stdout.write(f"{len(words)} scenarios in {elapsed:.0f} s, {wrong} wrong: {dict(sorted(totals.items()))}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
