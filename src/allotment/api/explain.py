"""The devices that pods and claims get in a cluster, or why they get none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace as replace_fields

from allotment.api.answer_selection import select_answers
from allotment.api.bound_pods import answer_of_claim, answers_of_bound
from allotment.api.cluster import Cluster
from allotment.api.load import Source
from allotment.api.named_objects import CLAIM_WORDS, POD_WORDS, Subject, subject_of
from allotment.api.next_step import add_next_steps
from allotment.api.objects.unread_resources import NEEDED, OF_DEVICES, OF_PODS, must_know
from allotment.api.question import Evaluation, Question
from allotment.cluster.errors import StatusError
from allotment.cluster.inspection.events import events_of
from allotment.cluster.inspection.snapshot import DEVICES, KEEPING_PODS, PODS, WORKLOADS, SnapshotResource
from allotment.errors import InputError
from allotment.explanation import Answer, Explanation, containers_without_device
from allotment.explanation import explain as evaluate
from allotment.explanation.origin_mapping import owner_of
from allotment.explanation.prepare_errors import FAILED_PREPARE, PrepareError, prepare_error
from allotment.explanation.subjects import ANY_POD, is_relevant, objects_to_explain, other_pods
from allotment.model.core import Pod
from allotment.model.meta import Object, ObjectKey
from allotment.model.resource import ResourceClaim
from allotment.model.server_facts import ServerFacts
from allotment.model.workloads import template_of
from allotment.tools.unread import unread_notes, unread_resources

if TYPE_CHECKING:
    from allotment.api.clusters.live import LiveSource
    from allotment.cluster.client import Client
    from allotment.cluster.remote.http_client import HttpClient
    from allotment.cluster.remote.kubeconfig import ClusterTarget

#: Pods of a workload whose events are read; they have the same cause.
_MAX_WITH_EVENTS: Final = 8
#: The reasons of events after which the devices are prepared.
_STARTING: Final = ("Pulling", "Pulled", "Created", "Started")


def explain(
    objects: Source | None = None, cluster: Cluster | None = None, *, name: str = "", namespace: str | None = None
) -> Explanation:
    """Return the devices that pods and claims get in a cluster, or why they get none.

    ``objects``: manifests, validated as on creation; without them, all pending pods and claims of the cluster.
    ``cluster``: by default only the objects themselves, or without objects the running cluster. ``name``: explain only
    this object: ``trainer-0``, ``pod/trainer-0``, ``claim/shared``, ``deploy/llm``. ``namespace``: that of the named
    object, and of manifests without one.

    A ResourceClaim without a pod has an answer of its own; for a template, it is that of a generated pod: template
    ``gpu`` is answered as Pod ``any-pod-with-gpu``.

    Raises InputError if there is nothing to explain, InvalidManifests for objects, StatusError and Unreachable for a
    cluster.
    """
    return answer(read_question(objects, cluster, name=name, namespace=namespace), name)


# --- reading ---------------------------------------------------------------------------------------------------------


def read_question(
    objects: Source | None, cluster: Cluster | None, *, name: str = "", namespace: str | None = None
) -> Question:
    """Read what ``answer`` needs. Raises InputError, and for a running cluster StatusError and Unreachable."""
    question = Question.of(objects, cluster, namespace)
    kinds = kinds_for(name)
    if not question.is_live:
        return question.read(kinds)
    from allotment.api.clusters.live import LiveSource

    source = question.cluster.source
    if not isinstance(source, LiveSource):  # a running cluster that is kept in memory
        return question.read(kinds)

    async def read(client: HttpClient, _: ClusterTarget) -> Question:
        found = question.with_cluster(await source.read_with(client, kinds))
        if found.manifests is None and (keeping := _kinds_keeping_pods(found)):
            found = await _with_workloads(source, client, found, keeping)
        if _is_unknown(found, name):
            named = [kind._replace(fields=f"metadata.name={name}") for kind in WORKLOADS]
            return await _with_workloads(source, client, found, named)
        return replace(found, prepare_errors=await prepare_errors(client, found, name))

    return source.run(read)


def _is_unknown(question: Question, name: str) -> bool:
    """Return whether a name without a kind is that of no pod and no claim of the cluster."""
    if not name or "/" in name or question.manifests is not None:
        return False
    values = question.inputs.cluster
    return not any(isinstance(value, Pod | ResourceClaim) and value.metadata.name == name for value in values)


def _kinds_keeping_pods(question: Question) -> list[SnapshotResource]:
    """Return the kinds of workloads to read in addition: they may have been changed since they created pending pods."""
    values = question.inputs.cluster
    pending = (value for value in values if isinstance(value, Pod) and is_relevant(value, only_state=False))
    owners = {owner_of(pod).partition(" ")[0] for pod in pending}
    missing = owners - {type(value).__name__ for value in values}
    return [kind for kind in KEEPING_PODS if any(kind.plural == f"{name.lower()}s" for name in missing)]


async def _with_workloads(
    source: LiveSource, client: HttpClient, question: Question, kinds: Sequence[SnapshotResource]
) -> Question:
    """Return the question with workloads of these kinds: the error for an unknown name then proposes them, and answers
    take into account that they were changed.
    """
    workloads: tuple[Object, ...] = ()
    with suppress(StatusError):  # without permission for all of these kinds
        read = await source.read_with(client, kinds)
        workloads = tuple(value for value in read.cluster if not isinstance(value, ServerFacts))
    return replace(question, inputs=replace(question.inputs, cluster=(*question.inputs.cluster, *workloads)))


def kinds_for(name: str) -> tuple[SnapshotResource, ...]:
    """Return the kinds that an explanation needs; workloads only if one of them is named."""
    kind = name.partition("/")[0].lower() if "/" in name else "pod"
    return (*DEVICES, *PODS, *(() if kind in (*POD_WORDS, *CLAIM_WORDS) else WORKLOADS))


async def prepare_errors(client: Client, question: Question, name: str) -> Mapping[ObjectKey, PrepareError]:
    """Return the last error of each named pod whose devices cannot be prepared on its node."""
    subject: Subject | None = None
    if question.manifests is None:
        with suppress(InputError):
            subject = subject_of(name, question.namespace, question.inputs.cluster)
    pods = [pod for pod in (subject.placed if subject is not None else ()) if pod.status.phase in ("", "Pending")]
    errors: dict[ObjectKey, PrepareError] = {}
    for pod in pods[:_MAX_WITH_EVENTS]:
        identity = {"namespace": pod.metadata.namespace, "name": pod.metadata.name, "uid": pod.metadata.uid}
        found = last_prepare_error(await events_of(client, {"kind": "Pod", "metadata": identity}) or ())
        if found is not None:
            errors[pod.key] = found
    return errors


def last_prepare_error(events: Iterable[Mapping[str, Any]]) -> PrepareError | None:
    """Return why the devices of a pod could not be prepared, by its events, the oldest first; None if they were."""
    found: PrepareError | None = None
    for event in events:
        if event.get("reason") == FAILED_PREPARE:
            found = prepare_error(str(event.get("message") or ""))
        elif event.get("reason") in _STARTING:
            found = None
    return found


# --- the answer ------------------------------------------------------------------------------------------------------


def answer(question: Question, name: str = "") -> Explanation:
    """Return the answer to a question that has been read. Raises InputError if there is nothing to explain."""
    question.require_objects()
    inputs = question.inputs
    is_about_cluster = question.is_live and question.manifests is None
    subject = subject_of(name, question.namespace, inputs.cluster) if is_about_cluster else None
    if subject is not None:
        found = _of_subject(question, subject)
    elif is_about_cluster and not name and not any(map(is_pending, inputs.cluster)):
        must_know(inputs.cluster, *OF_PODS, "resourceclaims")
        found = Explanation()
    else:
        found = _of_objects(question, name)
    found = replace_fields(found, notes=tuple(dict.fromkeys((*found.notes, *inputs.notes))))
    return add_next_steps(found, question)


def is_pending(value: Object) -> bool:
    """Return whether an object of a cluster waits for devices or a node."""
    if isinstance(value, ResourceClaim):
        return value.status.allocation is None
    return isinstance(value, Pod) and is_relevant(value, only_state=False)


def _of_objects(question: Question, name: str) -> Explanation:
    """Return the answers for manifests or pending pods."""
    found, values = _evaluated(question, name)
    default = question.namespace or "default"
    selected = {full.rpartition(" ")[2] for answer in found.answers for full in (answer.name, answer.owner)}
    pods = [
        value
        for value in values
        if f"{value.metadata.namespace or default}/{value.metadata.name}" in selected
        and not value.metadata.name.startswith(ANY_POD)
        and (isinstance(value, Pod) or template_of(value) is not None)
    ]
    notes = (*found.notes, *containers_without_device(values, pods), *unread_notes(found.unread))
    return replace_fields(found, notes=tuple(dict.fromkeys(notes)))


def _of_subject(question: Question, subject: Subject) -> Explanation:
    """Return the answers for an object of a running cluster, those of pending pods first."""
    values = question.inputs.cluster
    placed = answers_of_bound(subject.placed, values, question.prepare_errors)
    if subject.claim is not None:
        placed.append(answer_of_claim(subject.claim, values))
    tried: Sequence[Answer] = ()
    notes: tuple[str, ...] = ()
    workload = (subject.workload,) if subject.workload is not None else ()
    if subject.waiting or workload:
        found, _ = _evaluated(replace(question, inputs=replace(question.inputs, queried=workload)))
        names = {f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in subject.waiting}
        tried = [each for each in found.answers if workload or (each.kind == "Pod" and each.name in names)]
        notes = (*found.notes, *unread_notes(found.unread))
    own = workload or (*subject.waiting, *subject.placed)
    notes = (*notes, *containers_without_device(values, own))
    unread = unread_resources(values, NEEDED)
    return Explanation(answers=(*tried, *placed), notes=tuple(dict.fromkeys(notes)), unread=unread)


def _evaluated(question: Question, name: str = "") -> tuple[Explanation, Sequence[Object]]:
    """Return the selected answers, and the objects that were evaluated."""
    inputs = question.inputs
    if question.is_live and not inputs.queried:
        must_know(inputs.cluster, *OF_PODS, "resourceclaims")
    must_know(inputs.cluster, *OF_DEVICES, *(() if inputs.queried else OF_PODS))
    found, values = (question.evaluated or evaluated)(question)
    answers = select_answers(found.answers, question, name)
    return replace_fields(found, answers=answers, unread=unread_resources(values, NEEDED)), values


def evaluated(question: Question) -> Evaluation:
    """Return the answers for the objects of a question that wait for devices, without the next steps."""
    inputs = question.inputs
    values = objects_to_explain(inputs.cluster, inputs.queried)
    others = other_pods(inputs.cluster, values)
    default = question.namespace or "default"
    found = evaluate(values, inputs.features, others=others, default_namespace=default, readers=question.readers)
    return Evaluation(found, values)
