"""``allot explain`` on a live cluster: all pending pods, one pod, or the pods of a workload.

For a bound pod its devices are printed, without an evaluation. A workload without pods is evaluated from its template.
With ``--watch`` the answer is printed again when it changes, until the named objects have their devices.
"""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from allotment.api.inputs import Inputs
from allotment.api.unread_resources import NEEDED, must_know
from allotment.cli.describe.events import events_of
from allotment.cli.inputs.objects import queried_objects
from allotment.cli.live.cluster_state import Live, live, seen_by, what_to_read
from allotment.cli.live.connection import on_cluster
from allotment.cli.next_step import add_next_steps
from allotment.cluster.caches import Caches, all_synced
from allotment.cluster.clock import Clock
from allotment.cluster.inspection.discovery import discover
from allotment.cluster.inspection.snapshot import served_resources
from allotment.cluster.remote.kubeconfig import ClusterTarget
from allotment.engine.cluster.identity import DeviceID
from allotment.errors import InputError
from allotment.explanation import Answer, Explanation, containers_without_device
from allotment.explanation.origin_mapping import owner_of
from allotment.explanation.prepare_errors import FAILED_PREPARE, PrepareError, prepare_error
from allotment.explanation.report import claim_allocation
from allotment.fleet.errors import suggestion
from allotment.model.contested_claims import is_contested
from allotment.model.core import Pod
from allotment.model.meta import Object, ObjectKey
from allotment.model.resource import Device, ResourceClaim, ResourceSlice
from allotment.model.workload_pods import pods_of
from allotment.model.workloads import (
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from allotment.phrases import listed
from allotment.tools.unread import unread_resources

if TYPE_CHECKING:
    from allotment.cluster.remote.http_client import HttpClient


def is_bound(pod: Pod) -> bool:
    """Return whether a pod has a node or has ended."""
    return bool(pod.spec.node_name) or pod.status.phase in ("Succeeded", "Failed")


def answers(
    pods: Iterable[Pod], values: Sequence[Object], errors: Mapping[ObjectKey, PrepareError] = {}
) -> list[Answer]:
    """Return the answer for each bound pod of a cluster with these objects; ``errors``: of pods that do not start."""
    claims = {value.key: value for value in values if isinstance(value, ResourceClaim)}
    devices = _devices(values)
    return [_answer(pod, claims, devices, errors.get(pod.key)) for pod in pods]


def of_claim(claim: ResourceClaim, values: Sequence[Object]) -> Answer:
    """Return the allocation and the users of a claim."""
    users = [f"{user.resource}/{user.name}" for user in claim.status.reserved_for]
    note = f"the claim is reserved for {', '.join(users)}" if users else "the claim is not in use"
    if is_contested(claim):
        note = (
            "the claim was set aside, because another scheduler also allocated its devices; it is deleted when the"
            " devices are free"
        )
    given = claim_allocation(claim, "", False, _devices(values))
    return Answer(kind="ResourceClaim", name=str(claim.key), outcome="fits", claims=(given,), bound=True, notes=(note,))


def _devices(values: Sequence[Object]) -> dict[DeviceID, Device]:
    return {
        DeviceID(value.spec.driver, value.spec.pool.name, device.name): device
        for value in values
        if isinstance(value, ResourceSlice)
        for device in value.spec.devices or ()
    }


def _answer(
    pod: Pod, claims: dict[ObjectKey, ResourceClaim], devices: dict[DeviceID, Device], error: PrepareError | None
) -> Answer:
    made = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
    named = [
        (entry.resource_claim_name or made.get(entry.name) or "", entry.resource_claim_template_name or "")
        for entry in pod.spec.resource_claims
    ]
    if pod.status.extended_resource_claim_status is not None:
        named.append((pod.status.extended_resource_claim_status.resource_claim_name, ""))
    given = []
    for name, template in named:
        claim = claims.get(ObjectKey(pod.metadata.namespace, name))
        if claim is not None and claim.status.allocation is not None:
            given.append(claim_allocation(claim, template, False, devices))
    notes: tuple[str, ...] = (f"the pod's phase is {pod.status.phase or 'Pending'}",)
    if error is not None:
        notes = (f"the pod cannot start, because its devices cannot be prepared: {error.cause}", error.advice)
    outcome = "fits" if error is None else "unprepared"
    return Answer(
        kind="Pod", name=str(pod.key), outcome=outcome, node=pod.spec.node_name or "", claims=tuple(given),
        owner=owner_of(pod), bound=True, notes=notes,
    )  # fmt: skip


#: Explains the queried objects of the inputs; if the flag is set, only those that the arguments name.
Explain = Callable[[Inputs, bool], Explanation]

_WORKLOADS: dict[str, type[Object]] = {
    "deployment": Deployment, "deployments": Deployment, "deploy": Deployment, "statefulset": StatefulSet,
    "statefulsets": StatefulSet, "sts": StatefulSet, "daemonset": DaemonSet, "daemonsets": DaemonSet, "ds": DaemonSet,
    "replicaset": ReplicaSet, "replicasets": ReplicaSet, "rs": ReplicaSet, "job": Job, "jobs": Job,
    "cronjob": CronJob, "cronjobs": CronJob, "cj": CronJob, "replicationcontroller": ReplicationController,
    "rc": ReplicationController,
}  # fmt: skip
_POD_WORDS = ("pod", "pods", "po")
_CLAIM_WORDS = ("claim", "claims", "resourceclaim", "resourceclaims")
#: Pods of a workload whose events are read; they have the same cause.
_MAX_WITH_EVENTS = 8
#: The reasons of events after which the devices are prepared.
_STARTING = ("Pulling", "Pulled", "Created", "Started")
#: Changes arrive in groups: a pod, its claim, its status.
_SETTLE_SECONDS = 0.3


class Subject(NamedTuple):
    """The objects to explain: pending pods, placed pods, a workload without pods, or an allocated claim.
    ``expected``: the number of pods that will exist."""

    waiting: tuple[Pod, ...] = ()
    placed: tuple[Pod, ...] = ()
    workload: Object | None = None
    claim: ResourceClaim | None = None
    expected: int = 0

    @property
    def served(self) -> bool:
        """Whether all pods are placed, or the claim is allocated."""
        if self.waiting or self.workload is not None:
            return False
        return self.claim is not None or (bool(self.placed) and len(self.placed) >= self.expected)


def explain_once(arguments: Namespace, explain: Explain) -> Explanation:
    """Explain the present state. Raises InputError or Failure."""

    async def read(client: HttpClient, way: ClusterTarget) -> tuple[Live, dict[ObjectKey, PrepareError]]:
        found = await live(arguments, client, way, what_to_read(arguments.object))
        return found, await _prepare_errors(arguments, client, found)

    found, errors = on_cluster(arguments, read)
    return answer(arguments, found, explain, errors)


async def _prepare_errors(arguments: Namespace, client: HttpClient, found: Live) -> dict[ObjectKey, PrepareError]:
    """Return the last error of each named pod whose devices cannot be prepared on its node."""
    try:
        subject = None if arguments.files else subject_of(arguments, found.values)
    except InputError:
        return {}
    pods = [pod for pod in (subject.placed if subject is not None else ()) if pod.status.phase in ("", "Pending")]
    errors: dict[ObjectKey, PrepareError] = {}
    for pod in pods[:_MAX_WITH_EVENTS]:
        identity = {"namespace": pod.metadata.namespace, "name": pod.metadata.name, "uid": pod.metadata.uid}
        for event in await events_of(client, {"kind": "Pod", "metadata": identity}) or ():
            if event.get("reason") == FAILED_PREPARE:
                errors[pod.key] = prepare_error(str(event.get("message") or ""))
            elif event.get("reason") in _STARTING:
                errors.pop(pod.key, None)
    return errors


def answer(
    arguments: Namespace, found: Live, explain: Explain, errors: Mapping[ObjectKey, PrepareError] = {}
) -> Explanation:
    """Explain the subject of the arguments, or everything that is pending."""
    queried = queried_objects(arguments, found.features, found.values) if arguments.files else ()
    subject = None if queried else subject_of(arguments, found.values)
    inputs = found.inputs(queried)
    if subject is None:
        return add_next_steps(_noted(explain(inputs, True), found.notes), arguments, inputs)
    placed = answers(subject.placed, found.values, errors)
    if subject.claim is not None:
        placed.append(of_claim(subject.claim, found.values))
    tried: Sequence[Any] = ()
    notes: tuple[str, ...] = ()
    if subject.waiting or subject.workload is not None:
        queried = (subject.workload,) if subject.workload is not None else ()
        explanation = explain(inputs, False)
        names = {f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in subject.waiting}
        tried = [
            candidate
            for candidate in explanation.answers
            if queried or (candidate.kind == "Pod" and candidate.name in names)
        ]
        notes = explanation.notes
    own = queried or (*subject.waiting, *subject.placed)
    notes = tuple(dict.fromkeys((*notes, *containers_without_device(found.values, own))))
    unread = unread_resources(found.values, NEEDED)
    explanation = Explanation(answers=(*tried, *placed), notes=notes, unread=unread)
    return add_next_steps(_noted(explanation, found.notes), arguments, inputs)


def _noted(explanation: Explanation, notes: Iterable[str]) -> Explanation:
    return replace(explanation, notes=tuple(dict.fromkeys((*explanation.notes, *notes))))


def subject_of(arguments: Namespace, values: Sequence[Object]) -> Subject | None:
    """Return the object that the first argument names; None without a name, or for a claim without pending pods.
    Raises InputError."""
    if arguments.object is None:
        return None
    kind, slash, name = arguments.object.rpartition("/")
    kind = kind.lower()
    inside = [value for value in values if arguments.namespace in (None, value.metadata.namespace)]
    if kind in _WORKLOADS:
        if not any(isinstance(value, _WORKLOADS[kind]) and value.metadata.name == name for value in inside):
            raise _missing(_WORKLOADS[kind], kind, name, arguments.namespace, values)
        return _of_workload(_WORKLOADS[kind], name, inside)
    pods = [value for value in inside if isinstance(value, Pod)]
    chosen = [pod for pod in pods if pod.metadata.name == name] if not slash or kind in _POD_WORDS else []
    if chosen:
        return _subject(chosen)
    if kind in _POD_WORDS:
        missing = _missing(Pod, "pod", name, arguments.namespace, values)
        workload = _workload_named(name, pods)
        raise InputError(str(missing), f"did you mean {workload}?") if workload else missing
    claims = [value for value in inside if isinstance(value, ResourceClaim) and value.metadata.name == name]
    return _of_claim(claims[0], pods) if claims and (not slash or kind in _CLAIM_WORDS) else None


def _of_claim(claim: ResourceClaim, pods: Iterable[Pod]) -> Subject | None:
    """Return an allocated claim, or the pending pods of an unallocated one."""
    if claim.status.allocation is not None:
        return Subject(claim=claim)
    name, namespace = claim.metadata.name, claim.metadata.namespace
    waiting = [pod for pod in pods if pod.metadata.namespace == namespace and name in _claims_of(pod)]
    return _subject(waiting) if waiting else None


def _claims_of(pod: Pod) -> set[str | None]:
    named = [entry.resource_claim_name for entry in pod.spec.resource_claims]
    return {*named, *(entry.resource_claim_name for entry in pod.status.resource_claim_statuses)}


def _missing(kind: type[Object], word: str, name: str, namespace: str | None, values: Sequence[Object]) -> InputError:
    """Return the error for an unknown name, with a suggestion. Raises InputError if the kind is not readable."""
    must_know(values, f"{kind.__name__.lower()}s")
    known = [value.metadata for value in values if isinstance(value, kind)]
    if elsewhere := sorted(key.namespace for key in known if key.name == name):
        return InputError(f"no {word} {name!r} in namespace {namespace}", f"it exists in namespace {listed(elsewhere)}")
    inside = [key.name for key in known if namespace in (None, key.namespace)]
    return InputError(f"no {word} {name!r} in {f'namespace {namespace}' if namespace else 'any namespace'}",
                   suggestion(name, inside))  # fmt: skip


def _workload_named(name: str, pods: Iterable[Pod]) -> str:
    """Return the workload of this name that controls any of the pods, as the first argument; empty if there is none."""
    for owner in (owner for pod in pods for owner in pod.metadata.owner_references if owner.controller):
        if owner.name == name:
            return f"{owner.kind.lower()}/{name}"
        if owner.kind == "ReplicaSet" and owner.name.rpartition("-")[0] == name:
            return f"deploy/{name}"
    return ""


def _of_workload(kind: type[Object], name: str, values: Sequence[Object]) -> Subject:
    owners = [value for value in values if isinstance(value, kind) and value.metadata.name == name]
    uids = {value.metadata.uid for value in owners}
    # The ReplicaSets of a Deployment or the Jobs of a CronJob, then their pods.
    for value in values:
        if isinstance(value, ReplicaSet | Job) and _owned(value, uids):
            uids.add(value.metadata.uid)
    pods = [value for value in values if isinstance(value, Pod) and _owned(value, uids)]
    if not pods:
        return Subject(workload=owners[0])
    return _subject(pods)._replace(expected=sum(len(pods_of(owner)) for owner in owners))


def _owned(value: Object, uids: set[str]) -> bool:
    return any(owner.uid in uids for owner in value.metadata.owner_references)


def _subject(pods: Iterable[Pod]) -> Subject:
    every = tuple(pods)
    return Subject(tuple(pod for pod in every if not is_bound(pod)), tuple(pod for pod in every if is_bound(pod)))


# --- --watch ---------------------------------------------------------------------------------------------------------


def explain_on(arguments: Namespace, explain: Explain, show: Callable[[Explanation], None]) -> None:
    """Print the answer, and again whenever it changes, until the named objects are placed or the user interrupts."""
    on_cluster(arguments, lambda client, way: _follow(arguments, client, way, explain, show))


async def _follow(
    arguments: Namespace, client: HttpClient, way: ClusterTarget, explain: Explain, show: Callable[[Explanation], None]
) -> None:
    wanted = what_to_read(arguments.object)
    first = await live(arguments, client, way, wanted)  # report errors before the watch starts
    discovery = await discover(client)
    caches = Caches(client, clock=Clock(), random=Random())
    changed = asyncio.Event()
    followed = [
        caches.trees(resource)
        for resource, _ in served_resources(discovery, wanted)
        if resource.plural not in first.facts.unread
    ]
    for cache in followed:
        cache.on_change(lambda old, new: changed.set())
    following = asyncio.create_task(caches.run())
    try:
        await all_synced(*followed)
        last: Explanation | None = None
        while True:
            changed.clear()
            trees = [
                {**item.tree, "apiVersion": cache.resource.api_version, "kind": cache.resource.kind}
                for cache in followed
                for item in sorted(cache.items(), key=lambda item: item.key)
            ]
            found = seen_by(arguments, way, first.facts, trees)
            now = _answer_or_nothing(arguments, found, explain, await _prepare_errors(arguments, client, found))
            if now != last:
                if last is not None:
                    sys.stdout.write(f"\n--- {datetime.now().astimezone():%H:%M:%S} ---\n")
                show(now)
                sys.stdout.flush()
            last = now
            if _is_served(arguments, found):
                return
            await changed.wait()
            await asyncio.sleep(_SETTLE_SECONDS)
    finally:
        following.cancel()
        await asyncio.wait([following])  # the watch ends before the connection closes


def _is_served(arguments: Namespace, found: Live) -> bool:
    """Return whether the named objects have their devices; always false without a name."""
    if arguments.files:
        return False
    try:
        subject = subject_of(arguments, found.values)
    except InputError:
        return False
    return subject is not None and subject.served


def _answer_or_nothing(
    arguments: Namespace, found: Live, explain: Explain, errors: Mapping[ObjectKey, PrepareError]
) -> Explanation:
    """Return the answer, or none for a missing pod: a watch continues until it exists."""
    try:
        return answer(arguments, found, explain, errors)
    except InputError as mistake:
        return Explanation(notes=(str(mistake),))
