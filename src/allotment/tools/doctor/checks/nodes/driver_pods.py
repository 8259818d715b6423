"""Pods of drivers that do not run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from allotment.tools.doctor.case import Case, condition_of, name_of
from allotment.tools.doctor.check import Check, Sign
from allotment.tools.doctor.hardware import our_driver
from allotment.tools.doctor.objects import Pod
from allotment.tools.doctor.wording import about, counted, remedy, some, subject, unique

#: ``dra`` as a word: k8s-dra-driver-gpu, dra-example-driver, k8s-gpu-dra-driver.
_DRA: Final = re.compile(r"(?:^|[-/._])dra(?:[-/._:]|$)")
_PATIENCE: Final = timedelta(minutes=2)


def find(case: Case) -> Iterable[Sign]:
    """By DaemonSet."""
    by_set: dict[str, list[Pod]] = {}
    for pod in case.pods:
        owner = next((one for one in pod.metadata.owner_references if one.controller), None)
        if owner is None or owner.kind != "DaemonSet" or not _is_driver(pod, owner.name):
            continue
        if condition_of(pod, "Ready") != "True" and case.is_old(pod.metadata.creation_timestamp, _PATIENCE):
            by_set.setdefault(f"{pod.metadata.namespace}/{owner.name}", []).append(pod)
    for set_, pods in by_set.items():
        nodes = unique(pod.spec.node_name or "no node" for pod in pods)
        states = unique(filter(None, (_state(pod) for pod in pods)))
        states_told = some(states) or pods[0].status.phase or "no status"
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
        yield Sign(subject("pod", names), text, help_, objects=tuple(names))


def _is_driver(pod: Pod, owner: str) -> bool:
    return bool(our_driver(pod)) or any(
        _DRA.search(word) for word in (owner, *(one.image for one in pod.spec.containers))
    )


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
    " in ContainerCreating. A driver is known by `dra` in the name of its DaemonSet or image, ours by its labels.",
    find=find,
    needs=("pods",),
)
