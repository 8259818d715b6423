"""The changes of a what-if question: each changes a hypothetical cluster, and returns a sentence about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

import msgspec
from msgspec.structs import replace

from allotment.api.named_objects import WORKLOAD_WORDS
from allotment.api.objects.releases import features, release
from allotment.errors import InputError
from allotment.explanation.node_eligibility import tolerated
from allotment.fleet import FleetMachine, cluster_of, parse_fleet
from allotment.fleet.errors import suggestion
from allotment.model.core import Node, Pod, PodStatus, Taint
from allotment.model.meta import ObjectMeta
from allotment.model.resource import DeviceTaint, ResourceSlice
from allotment.phrases import counted
from allotment.screens.header import cluster_options
from allotment.screens.hypothetical_cluster import HypotheticalCluster
from allotment.screens.hypothetical_devices import add_classes, change_mode, fail_device, taint_device
from allotment.shell_words import shell_line

Action: TypeAlias = Literal[
    "drain", "remove", "fail-device", "taint", "scale", "mig-mode", "kube-version", "add-machines"
]
ACTIONS: Final[tuple[Action, ...]] = get_args(Action)
_EFFECTS: Final = ("NoSchedule", "NoExecute", "PreferNoSchedule")
#: The largest numbers that a question may name, so that an answer takes seconds at most.
_MOST_PODS: Final = 2_000
MAX_MACHINES: Final = 2_000


class Change(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A change. ``target``: a node, ``NODE/DEVICE`` or ``POOL/DEVICE``, ``NAMESPACE/KIND/NAME`` of a workload, or
    machines in the syntax of ``--fleet``. ``value``: a taint ``KEY[=VALUE]:EFFECT``, a number of replicas, a mode, or a
    release."""

    action: Action
    target: str = ""
    value: str = ""


class MadeChange(NamedTuple):
    """The effect of a change as a sentence, and the command line that makes it in the cluster; empty if none does."""

    sentence: str
    command: str = ""


def make(cluster: HypotheticalCluster, change: Change) -> MadeChange:
    """Make a change. Raises InputError if its target or value does not exist."""
    return _FUNCTIONS[change.action](cluster, change)


def change_of(text: str) -> Change:
    """Return the change of a link: ``drain:node-a``, ``scale:ml/deploy/web:10``. Raises InputError.

    >>> change_of("taint:node-a:gpu=broken:NoExecute").value
    'gpu=broken:NoExecute'
    """
    action, _, rest = text.partition(":")
    for known in ACTIONS:
        if action == known:
            if known == "add-machines":
                return Change(known, rest)
            target, _, value = rest.partition(":")
            return Change(known, target, value) if known != "kube-version" else Change(known, "", value or target)
    raise InputError(f"expected one of {', '.join(ACTIONS)}, found {action!r}", argument="change")


# --- nodes -----------------------------------------------------------------------------------------------------------


def _drain(cluster: HypotheticalCluster, change: Change) -> MadeChange:
    node = _node(cluster, change.target)
    cluster.put(replace(node, spec=replace(node.spec, unschedulable=True)))
    cluster.undone_by.add(("uncordon", change.target))
    count = cluster.evict(cluster.pods_on(change.target))
    return MadeChange(
        f"drain {change.target}: {_evicted(count)}",
        _kubectl(cluster, "drain", change.target, "--ignore-daemonsets", "--delete-emptydir-data"),
    )


def _remove(cluster: HypotheticalCluster, change: Change) -> MadeChange:
    node = _node(cluster, change.target)
    count = cluster.evict(cluster.pods_on(change.target), node_ends=True)
    cluster.publish((), instead_of=change.target)
    cluster.delete(node)
    return MadeChange(f"remove {change.target}: {_evicted(count)}", _kubectl(cluster, "delete", "node", change.target))


def _taint(cluster: HypotheticalCluster, change: Change) -> MadeChange:
    key, value, effect = _taint_of(change.value)
    if "/" in change.target:
        device_taint = DeviceTaint(key=key, value=value, effect=effect)
        device, count = taint_device(cluster, change.target, device_taint)
        return MadeChange(f"taint device {device} with {device_taint}: {_evicted(count)}")
    node, taint = _node(cluster, change.target), Taint(key=key, value=value, effect=effect)
    cluster.put(replace(node, spec=replace(node.spec, taints=(*node.spec.taints, taint))))
    cluster.undone_by.update({("recover", change.target), ("uncordon", change.target)})
    leaving = [pod for pod in cluster.pods_on(change.target) if not tolerated(taint, pod.spec.tolerations)]
    count = cluster.evict(leaving) if effect == "NoExecute" else 0
    return MadeChange(
        f"taint {change.target} with {change.value}: {_evicted(count)}",
        _kubectl(cluster, "taint", "node", change.target, change.value),
    )


def _evicted(count: int) -> str:
    return f"{counted(count, 'pod')} {'loses its node' if count == 1 else 'lose their node'}"


# --- devices ---------------------------------------------------------------------------------------------------------


def _fail_device(cluster: HypotheticalCluster, change: Change) -> MadeChange:
    device, count = fail_device(cluster, change.target)
    return MadeChange(f"device {device} fails: {_evicted(count)}")


def _mig_mode(cluster: HypotheticalCluster, change: Change) -> MadeChange:
    devices, count = change_mode(cluster, _node(cluster, change.target), change.value)
    mode = change.value or "full"
    return MadeChange(f"{change.target} publishes {counted(devices, 'device')} in mode {mode}: {_evicted(count)}")


# --- workloads, releases, machines -----------------------------------------------------------------------------------


def _scale(cluster: HypotheticalCluster, change: Change) -> MadeChange:
    workload = _workload(cluster, change.target)
    wanted = _number(change.value)
    pods = sorted(cluster.pods_of(workload), key=lambda pod: (not pod.spec.node_name, _age(pod)))
    if not pods:
        raise InputError(f"{workload} has no pod", "what its pods request is not known")
    for pod in pods[wanted:]:
        cluster.end(pod)
    if wanted > len(pods):
        cluster.undone_by.add(("replicas", workload))
    for number in range(wanted - len(pods)):
        cluster.start(_replica(pods[0], f"{_stem(pods[0], workload)}-new-{number + 1}"))
    kind, _, full = workload.partition(" ")
    namespace, _, name = full.partition("/")
    command = _kubectl(cluster, "scale", kind.lower(), name, "-n", namespace, f"--replicas={wanted}")
    return MadeChange(f"scale {workload} from {len(pods)} to {counted(wanted, 'pod')}", command)


def _stem(pod: Pod, workload: str) -> str:
    return workload.rpartition("/")[2] or pod.metadata.name


def _replica(pod: Pod, name: str) -> Pod:
    metadata = replace(pod.metadata, name=name, uid="", creation_timestamp="9999-12-31T23:59:59Z")
    return replace(pod, metadata=metadata, spec=replace(pod.spec, node_name=""), status=PodStatus(phase="Pending"))


def _age(pod: Pod) -> str:
    return pod.metadata.creation_timestamp or ""


def _workload(cluster: HypotheticalCluster, target: str) -> str:
    """The workload of ``ml/deploy/web`` or ``Deployment ml/web`` as kind and name."""
    parts = target.replace(" ", "/").split("/")
    if len(parts) != 3:
        raise InputError(f"expected NAMESPACE/KIND/NAME, found {target!r}", "for example ml/deploy/web")
    words = [word for word in parts[:2] if word.lower() in WORKLOAD_WORDS]
    if not words:
        raise InputError(f"{target!r} names no kind of workload", "for example ml/deploy/web")
    word = words[0]
    namespace = parts[1] if parts[0] == word else parts[0]
    return f"{WORKLOAD_WORDS[word.lower()].__name__} {namespace}/{parts[2]}"


def _kube_version(cluster: HypotheticalCluster, change: Change) -> MadeChange:
    kube = release(change.value or change.target)
    before, cluster.features = cluster.features.kube, features(kube, cluster.view.gates)
    moved = [pod for pod in cluster.of(Pod) if pod.spec.node_name and pod.spec.resource_claims]
    count = cluster.evict(moved)
    restart = "restarts" if count == 1 else "restart"
    return MadeChange(f"Kubernetes {kube} instead of {before}: {counted(count, 'pod')} with devices {restart}")


def _add_machines(cluster: HypotheticalCluster, change: Change) -> MadeChange:
    machines = tuple(_renamed(cluster, machine) for machine in machines_of(change.target))
    added = cluster_of(machines, cluster.features.kube)
    for node in added.nodes:
        cluster.put(node)
    cluster.publish(added.slices)
    add_classes(cluster, machines)
    return MadeChange(f"add {counted(len(machines), 'machine')}: {change.target}")


def machines_of(text: str) -> tuple[FleetMachine, ...]:
    """Return described machines. Raises InputError for more than `MAX_MACHINES`."""
    machines = parse_fleet([text])
    if len(machines) > MAX_MACHINES:
        raise InputError(f"expected at most {MAX_MACHINES} machines, found {len(machines)}", argument="fleet")
    return machines


def _renamed(cluster: HypotheticalCluster, machine: FleetMachine) -> FleetMachine:
    """The machine with a name that no node has."""
    name, number = machine.node, 1
    while cluster.node(name) is not None:
        name, number = f"{machine.node}-new-{number}", number + 1
    return FleetMachine(name, machine.hardware, machine.mode, machine.form)


# --- targets and values ----------------------------------------------------------------------------------------------


def _node(cluster: HypotheticalCluster, name: str) -> Node:
    found = cluster.node(name)
    if found is not None:
        return found
    named = {slice_.spec.node_name for slice_ in cluster.of(ResourceSlice)}
    if name and name in named:
        return Node(metadata=ObjectMeta(name=name))
    known = sorted(node.metadata.name for node in cluster.of(Node))
    raise InputError(f"no node {name!r}", suggestion(name, known))


def _taint_of(text: str) -> tuple[str, str, str]:
    rest, _, effect = text.rpartition(":")
    key, _, value = rest.partition("=")
    if not key or effect not in _EFFECTS:
        raise InputError(f"expected KEY[=VALUE]:EFFECT with effect {', '.join(_EFFECTS)}, found {text!r}")
    return key, value, effect


def _number(text: str) -> int:
    if text.isascii() and text.isdigit() and int(text[:9]) <= _MOST_PODS:
        return int(text[:9])
    raise InputError(f"expected a number of pods from 0 to {_MOST_PODS}, found {text!r}")


def _kubectl(cluster: HypotheticalCluster, *words: str) -> str:
    options = cluster_options(cluster.view)
    return shell_line(("kubectl", *options, *words)) if options else ""


_FUNCTIONS: Final[Mapping[Action, Callable[[HypotheticalCluster, Change], MadeChange]]] = {
    "drain": _drain,
    "remove": _remove,
    "fail-device": _fail_device,
    "taint": _taint,
    "scale": _scale,
    "mig-mode": _mig_mode,
    "kube-version": _kube_version,
    "add-machines": _add_machines,
}
