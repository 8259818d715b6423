"""Pods that run and hold devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import NamedTuple

from allotment.engine.cluster.identity import DeviceID
from allotment.explanation import Answer, explain
from allotment.model.trees import Tree
from tests.storm.advice.requests import claim
from tests.storm.advice.worlds import FEATURES, NAMESPACE, SECRET, World, values_of


class Holder(NamedTuple):
    """A pod and its claim, which are not placed yet."""

    pod: Tree
    claim: Tree


def holder(name: str, namespace: str, spec: Tree, node: str = "") -> Holder:
    """A pod that requests devices, on a node if one is given."""
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": {"claims": [{"name": "gpu"}]}}
    pod_spec: Tree = {
        "containers": [container], "resourceClaims": [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}],
    }  # fmt: skip
    if node:
        pod_spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}"}
    made = claim(f"{name}-gpu", spec, namespace)
    made["metadata"]["uid"] = f"uid-{namespace}-{name}-gpu"
    return Holder({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec}, made)


def placed(world: World, holders: Sequence[Holder], *, phase: str = "Running") -> World:
    """The world with those of the pods that fit on it, on their nodes and with their devices."""
    if not holders:
        return world
    trees = [tree for pair in holders for tree in pair]
    answers = {a.name: a for a in explain(values_of((*_open(world), *trees)), FEATURES, 0).answers if a.kind == "Pod"}
    found: list[Tree] = []
    numbers = count(sum(tree["kind"] == "Pod" for tree in world.cluster))
    for pod, made in holders:
        metadata = pod["metadata"]
        answer = answers[f"{metadata['namespace']}/{metadata['name']}"]
        if not answer.fits:
            continue
        spec = {key: value for key, value in pod["spec"].items() if key != "nodeSelector"}
        found.append({**pod, "spec": {**spec, "nodeName": answer.node}, "status": {"phase": phase}})
        user = {"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]}
        found.append({**made, "status": {"allocation": _allocation(answer, next(numbers)), "reservedFor": [user]}})
    return world.with_cluster(*found)


def _open(world: World) -> Iterator[Tree]:
    """The cluster without its pods, with nodes that all pods may use: the holders are older than the nodes' state."""
    for tree in world.cluster:
        if tree["kind"] == "Node":
            yield {**tree, "spec": {}}
        elif tree["kind"] != "Pod":
            yield tree


def _allocation(answer: Answer, number: int) -> Tree:
    results = []
    for given in answer.claims[0].devices:
        result: Tree = {"request": given.request, "driver": given.driver, "pool": given.pool, "device": given.device}
        if given.share:
            result |= {"consumedCapacity": dict(given.share), "shareID": f"00000000-0000-4000-8000-{number:012d}"}
        results.append(result)
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [answer.node]}]}
    return {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [term]}}


# --- the devices that are held --------------------------------------------------------------------------------------


def held_devices(world: World) -> dict[DeviceID, Tree]:
    """The claims that hold devices, by device."""
    return {
        DeviceID(result["driver"], result["pool"], result["device"]): tree
        for tree in world.of_kind("ResourceClaim")
        for result in ((tree.get("status") or {}).get("allocation") or {}).get("devices", {}).get("results", ())
    }


def released(world: World, *claims: str) -> World:
    """The world after the pods that use these claims (``namespace/name``; none: all) have ended."""
    trees: list[Tree] = []
    gone: set[tuple[str, str]] = set()
    for tree in world.cluster:
        metadata = tree["metadata"]
        name = f"{metadata.get('namespace', '')}/{metadata['name']}"
        if tree["kind"] == "ResourceClaim" and tree.get("status") and (not claims or name in claims):
            gone |= {(metadata["namespace"], user["name"]) for user in tree["status"].get("reservedFor") or ()}
        else:
            trees.append(tree)
    kept = [
        tree
        for tree in trees
        if tree["kind"] != "Pod" or (tree["metadata"]["namespace"], tree["metadata"]["name"]) not in gone
    ]
    return world._replace(cluster=tuple(kept))


def tenant(number: int) -> str:
    """The namespace of a tenant; 0 is that of the pending pod."""
    return NAMESPACE if number == 0 else f"{SECRET}-team-{number}"


def holder_name(number: int, namespace: str) -> str:
    """The name of a pod that holds devices."""
    return f"notebook-{number}" if namespace == NAMESPACE else f"{SECRET}-job-{number}"
