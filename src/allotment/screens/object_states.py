"""The state of each object as text, as lists of objects show it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from allotment.engine.cluster.identity import PoolID
from allotment.errors import InputError
from allotment.model.contested_claims import DESCRIPTION, is_contested
from allotment.model.core import Node, Pod
from allotment.model.meta import Object
from allotment.model.resource import ResourceClaim, ResourceSlice
from allotment.phrases import counted
from allotment.screens.holders import workload_of
from allotment.screens.pending_pods import pending_pods
from allotment.tools.free import DeviceReport, NodeReport
from allotment.watched.view import ClusterView


class DeviceSpot(NamedTuple):
    """A device, and the node that it is listed under."""

    node: str
    report: DeviceReport


class ObjectStates:
    """States of a view's objects."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self.nodes: dict[str, NodeReport] = {node.node: node for node in view.free.nodes}
        self.devices: dict[tuple[str, str], DeviceSpot] = {
            (device.pool, device.device): DeviceSpot(node.node, device)
            for node in view.free.nodes
            for device in node.devices
        }
        self.pools: dict[PoolID, list[ResourceSlice]] = {}
        self._pods: dict[str, list[Pod]] = {}
        for value in view.inputs.cluster:
            if isinstance(value, ResourceSlice):
                self.pools.setdefault(PoolID(value.spec.driver, value.spec.pool.name), []).append(value)
            elif isinstance(value, Pod) and (workload := workload_of(value)):
                self._pods.setdefault(workload, []).append(value)

    def of(self, value: Object) -> str:
        """Return the state of an object; empty for kinds without one."""
        if isinstance(value, Node):
            report = self.nodes.get(value.metadata.name)
            return (report.unschedulable if report is not None else "") or "schedulable"
        if isinstance(value, ResourceClaim):
            return claim_state(value)
        if isinstance(value, ResourceSlice):
            newest = self.generation(PoolID(value.spec.driver, value.spec.pool.name))
            return "current" if value.spec.pool.generation == newest else f"of generation {value.spec.pool.generation}"
        if isinstance(value, Pod):
            return self.of_pod(value)
        return self.of_workload(f"{type(value).__name__} {value.key}")

    def of_pod(self, pod: Pod) -> str:
        """Return the phase of a pod; if it is pending, with the reason."""
        phase = pod.status.phase or "Pending"
        group = self.group_of(str(pod.key)) if phase == "Pending" else ""
        code = self._codes.get(group, "") if group else ""
        return f"{phase}: {code}" if code else phase

    def of_workload(self, name: str) -> str:
        """Return how many pods of a workload have a node; empty if it has none."""
        pods = self._pods.get(name, ())
        placed = sum(bool(pod.spec.node_name) for pod in pods)
        return f"{placed} of {counted(len(pods), 'pod')} placed" if pods else ""

    @property
    def workloads(self) -> tuple[str, ...]:
        """The workloads that have pods, as ``Deployment ml/web``."""
        return tuple(self._pods)

    def pods_of(self, workload: str) -> list[Pod]:
        """Return the pods of a workload."""
        return self._pods.get(workload, [])

    def generation(self, pool: PoolID) -> int:
        """Return the newest generation of a pool."""
        return max((slice_.spec.pool.generation for slice_ in self.pools.get(pool, ())), default=0)

    def of_pool(self, pool: PoolID) -> str:
        """Return ``usable``, or why Kubernetes ignores a pool."""
        names = {slice_.spec.node_name or "" for slice_ in self.pools.get(pool, ())}
        for node in names:
            report = self.nodes.get(node)
            for problem in report.problems if report is not None else ():
                if (problem.driver, problem.pool) == pool:
                    return f"{problem.why}: {problem.text}"
        return "usable"

    def group_of(self, pod: str) -> str:
        """Return the group of a pending pod; empty if it is not pending, or if pending pods cannot be explained."""
        try:
            return pending_pods(self._view).group_of(pod)
        except InputError:
            return ""

    @property
    def _codes(self) -> Mapping[str, str]:
        return self._view.cached("screens.codes", self._codes_of_groups)

    def _codes_of_groups(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for group in pending_pods(self._view).groups:
            first = group.first
            if not first.fits:
                found[group.id] = first.reasons.headline.code if first.reasons is not None else first.outcome
        return found


def states_of(view: ClusterView) -> ObjectStates:
    """Return the states of a view's objects."""
    return view.cached("screens.states", lambda: ObjectStates(view))


def claim_state(claim: ResourceClaim) -> str:
    """Return the state of a claim, in the words of `kubectl get resourceclaims`."""
    if claim.status.allocation is None:
        return "pending"
    if is_contested(claim):
        return f"allocated ({DESCRIPTION})"
    return "allocated, reserved" if claim.status.reserved_for else "allocated"
