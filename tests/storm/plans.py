"""``python -m tests.storm.plans``: every pod that a plan seats is bound by the scheduler, once its machines are there.

Demands at random (``demands``) are planned for on a part of the catalogue; then the planned nodes publish the slices
that their drivers publish, not the templates, and the real scheduler places the pods, told by ``nominatedNodeName``
where the plan has them. And what is called impossible is asked of every type in every mode, one by one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any, Final

from allotment.cel.admission import validation_context
from allotment.cli.inputs import judge
from allotment.cluster.resources import CLAIMS, DEVICE_CLASSES, NODES, PODS, SLICES
from allotment.engine.cluster.inventory import Inventory
from allotment.fleet import CLASSES, Cluster, cluster_of, parse_fleet
from allotment.fleet.catalog import catalog
from allotment.fleet.catalog.templates import modes_of, template_of
from allotment.model.core import Node, Pod
from allotment.model.features import Features
from allotment.model.loading import load_text
from allotment.model.meta import Object, ObjectKey
from allotment.model.resource import ResourceClaim, ResourceSlice
from allotment.model.trees import to_tree
from allotment.placing.demand import Demands
from allotment.placing.filters import judge as judge_node
from allotment.placing.machines import Machines
from allotment.tools.explain import explain
from allotment.tools.plan.limits import Limits
from allotment.tools.plan.planning import plan
from allotment.tools.plan.report import Plan
from tests.storm.demands import NAMESPACE, Scenario, scenario
from tests.unit.scheduler.world import world

KUBE: Final = "1.36"
FEATURES: Final = Features(kube=KUBE)
#: The scheduler has nothing more to do when nothing was bound for so long.
_QUIET_SECONDS: Final = 1.0
#: Unserved for other reasons than that no type can, or that other pods have what there is.
_NOT_IMPOSSIBLE: Final = frozenset({"gang", "limits", "not-ready", "run-time-only"})

Tree = dict[str, Any]


class Unsound(AssertionError):
    """A plan promised what did not come true."""


def attempt(given: Scenario) -> Counter[str]:
    """Plan and schedule one scenario. Raises Unsound."""
    cluster = _there(given)
    values = (*cluster.nodes, *cluster.slices, *_classes(), *_values(given.claims), *_values(given.pods))
    steps = iter(range(200))
    made = plan(values, given.catalog, Limits(), FEATURES, keep_going=lambda: next(steps, None) is not None, seed=1)
    _check(made, given)
    asyncio.run(_schedule(made, given, cluster))
    told = Counter({"pods": len(given.pods), "machines": len(made.machines)})
    for unserved in made.unserved:
        told[f"unserved: {unserved.code}"] += 1
        if unserved.code not in _NOT_IMPOSSIBLE:
            _really_impossible(unserved.pod, given)
    return told


def _there(given: Scenario) -> Cluster:
    machines = cluster_of(parse_fleet(given.fleet), KUBE) if given.fleet else Cluster((), (), ())
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    trees = [
        to_tree(node, "v1", "Node") | {"status": {"capacity": amounts, "allocatable": amounts}}
        for node in machines.nodes
    ]
    nodes = tuple(value for value in _values(tuple(trees)) if isinstance(value, Node))
    return Cluster(nodes, machines.slices, machines.classes)


def _classes() -> tuple[Object, ...]:
    return (*CLASSES["nvidia"], *CLASSES["amd"])


def _values(trees: Sequence[Tree]) -> tuple[Object, ...]:
    text = "\n---\n".join(json.dumps(tree) for tree in trees)
    values, problems = judge(load_text(text, "scenario.yaml"), validation_context(FEATURES))
    assert not problems, problems
    return tuple(values)


def _check(made: Plan, given: Scenario) -> None:
    """The plan says of every pod exactly one thing."""
    said = [seat.pod for seat in made.existing]
    said += [seat.pod for machine in made.machines for seat in machine.seats]
    said += [unserved.pod for unserved in made.unserved]
    asked = [ObjectKey(NAMESPACE, pod["metadata"]["name"]) for pod in given.pods]
    if sorted(said) != sorted(asked):
        raise Unsound(f"pods told of: {sorted(map(str, said))}; pods that wait: {sorted(map(str, asked))}")
    if made.bound > made.total:
        raise Unsound(f"bound {made.bound} above total {made.total}")


async def _schedule(made: Plan, given: Scenario, cluster: Cluster) -> None:
    types = {one.key: one for one in given.catalog}
    nodes: list[Tree] = [to_tree(node, "v1", "Node") for node in cluster.nodes]
    slices: list[ResourceSlice] = list(cluster.slices)
    for machine in made.machines:
        template = template_of(
            types[machine.instance], machine.form.partition("/")[2], machine.node, zone=machine.zone,
            capacity_type=machine.capacity_type,
        )  # fmt: skip
        nodes.append(to_tree(template.node, "v1", "Node"))
        if machine.form:
            slices += cluster_of(parse_fleet([f"{machine.node}={machine.form}"]), KUBE).slices
    places = {seat.pod.name: seat.node for seat in made.existing}
    places |= {seat.pod.name: seat.node for machine in made.machines for seat in machine.seats}
    pods = [
        pod | {"status": {"phase": "Pending", "nominatedNodeName": places.get(pod["metadata"]["name"], "")}}
        for pod in given.pods
    ]
    objects = [
        *((NODES, tree) for tree in nodes),
        *((SLICES, to_tree(one, "resource.k8s.io/v1", "ResourceSlice")) for one in slices),
        *((DEVICE_CLASSES, to_tree(one, "resource.k8s.io/v1", "DeviceClass")) for one in _classes()),
        *((CLAIMS, to_tree(one, "resource.k8s.io/v1", "ResourceClaim")) for one in _values(given.claims)),
        *((PODS, pod) for pod in pods),
    ]
    async with world(*objects, features=FEATURES) as running:
        quiet_since, bound = time.monotonic(), -1
        while len(running.client.bound) < len(places):
            if len(running.client.bound) != bound:
                quiet_since, bound = time.monotonic(), len(running.client.bound)
            if time.monotonic() - quiet_since > _QUIET_SECONDS:
                left = sorted(places.keys() - dict(running.client.bound).keys())
                told = "; ".join(
                    f"{name} (planned on {places[name]}): "
                    + str(running.client.objects[PODS, NAMESPACE, name].get("status", {}).get("conditions"))
                    for name in left
                )
                raise Unsound(f"not bound: {told}")
            await asyncio.sleep(0.002)


def _really_impossible(pod: ObjectKey, given: Scenario) -> None:
    """Ask every type in every mode for this one pod, without the planner."""
    tree = next(one for one in given.pods if one["metadata"]["name"] == pod.name)
    named = {entry["resourceClaimName"] for entry in tree["spec"]["resourceClaims"]}
    users = [one for one in given.pods if named & {e["resourceClaimName"] for e in one["spec"]["resourceClaims"]}]
    if len(users) > 1 or "affinity" in tree["spec"]:
        return  # it needs a place beside others
    claims = [one for one in given.claims if one["metadata"]["name"] in named]
    for instance in given.catalog:
        for mode in modes_of(instance):
            if mode in ("static-mig", "vfio", "shared"):
                continue  # dynamic-mig offers all layouts
            template = template_of(instance, f"{mode}=memory" if mode == "consumable-shares" else mode, "node")
            slices = cluster_of(parse_fleet([f"node={template.form}"]), KUBE).slices if template.form else ()
            if _fits(tree, claims, template.node, slices):
                raise Unsound(f"{pod} is called impossible and fits on {instance.key} in mode {mode or 'whole'}")


def _fits(pod: Tree, claims: Sequence[Tree], node: Node, slices: Sequence[ResourceSlice]) -> bool:
    machines = Machines(Inventory(FEATURES))
    machines.put(to_tree(node, "v1", "Node"))
    if judge_node(Demands().of(pod["spec"]), machines.by_name["node"], frozenset()) is not None:
        return False
    asked = [value for value in _values([*claims, pod]) if isinstance(value, Pod | ResourceClaim)]
    return explain((node, *slices, *_classes(), *asked), FEATURES, tries=0).fits


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; 1 if any plan was unsound."""
    parser = argparse.ArgumentParser(prog="python -m tests.storm.plans", description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--only", help="one scenario, by its words (SEED/NUMBER)")
    given = parser.parse_args(arguments)
    everything = catalog()
    words = [given.only] if given.only else [f"{given.seed}/{number}" for number in range(given.count)]
    began, told, wrong = time.perf_counter(), Counter[str](), 0
    for word in words:
        try:
            told += attempt(scenario(Random(word), everything))
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
