"""Pods of drivers that do not run."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from allotment.phrases import counted, first_few
from allotment.tools.doctor.check import Check, Sign
from allotment.tools.doctor.cluster_index import Case
from allotment.tools.doctor.object_state import condition_of, is_down, is_finished, name_of
from allotment.tools.doctor.objects import Pod
from allotment.tools.doctor.vendors import is_driver
from allotment.tools.doctor.wording import about, remedy, unique

_PATIENCE: Final = timedelta(minutes=2)


def find(case: Case) -> Iterable[Sign]:
    """By DaemonSet."""
    by_set: dict[str, list[Pod]] = {}
    for pod in case.pods:
        owner = next((one for one in pod.metadata.owner_references if one.controller), None)
        if owner is None or owner.kind != "DaemonSet" or not is_driver(pod, owner.name):
            continue
        if pod.metadata.deletion_timestamp is not None or is_finished(pod) or _is_silent(case, pod):
            continue
        if condition_of(pod, "Ready") != "True" and case.is_old(pod.metadata.creation_timestamp, _PATIENCE):
            by_set.setdefault(f"{pod.metadata.namespace}/{owner.name}", []).append(pod)
    for set_, pods in by_set.items():
        nodes = unique(pod.spec.node_name or "no node" for pod in pods)
        states = unique(filter(None, (_state(pod) for pod in pods)))
        states_told = first_few(states) or pods[0].status.phase or "no status"
        publishing = sum(node in case.drivers_on for node in nodes)
        text = f"{about('pod', [name_of(pod) for pod in pods])} of DaemonSet {set_} not ready: {states_told}."
        if publishing:
            text += f" {publishing} of {counted(len(nodes), 'node')} still published: claims are allocated there,"
            text += " and pods that use them cannot start"
        else:
            text += f" {counted(len(nodes), 'node')} without what it publishes"
        namespace, name = pods[0].metadata.namespace, pods[0].metadata.name
        help_ = remedy(
            "See why it fails:", f"kubectl logs -n {namespace} {name} --all-containers --tail=50",
            f"kubectl describe pod -n {namespace} {name}",
        )  # fmt: skip
        names = [name_of(pod) for pod in pods]
        yield Sign.of("pod", names, text, help_)


def _is_silent(case: Case, pod: Pod) -> bool:
    """Whether nobody can tell of the pod, for its node is not there or not Ready, which is told of the node."""
    node = case.nodes.get(pod.spec.node_name)
    return bool(pod.spec.node_name and case.nodes) and (node is None or is_down(node))


def _state(pod: Pod) -> str:
    """What its containers wait for."""
    for one in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        if one.state.waiting is not None and one.state.waiting.reason:
            restarts = f", {counted(one.restart_count, 'restart')}" if one.restart_count else ""
            return f"container {one.name} {one.state.waiting.reason}{restarts}"
    return next((f"container {one.name} not ready" for one in pod.status.container_statuses if not one.ready), "")


CHECK = Check(
    code="D202",
    severity="error",
    summary="a driver's pod does not run",
    why="While it is down nothing of its node can be prepared: what is published is still allocated, and the pods hang"
    " in ContainerCreating. A driver is known by `dra` in the name of its DaemonSet or image, or by the folders of the"
    " node that it has: the kubelet's plugins_registry beside one of CDI or NRI. Ours are known by their labels.",
    find=find,
    needs=("pods",),
)
