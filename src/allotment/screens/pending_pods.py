"""The pending pods of a view, explained once for each shape, with the next steps of `allot explain`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from allotment.api.bound_pods import answers_of_bound
from allotment.api.named_objects import ObjectsByName
from allotment.api.next_step import add_next_steps
from allotment.api.objects.unread_resources import OF_DEVICES, OF_PODS, must_know
from allotment.api.question import Question
from allotment.engine.refusal import SuggestedChange
from allotment.explanation.pending_run import PendingRun, ShapeAnswer
from allotment.explanation.report import Answer, Explanation
from allotment.explanation.subjects import objects_to_explain, other_pods
from allotment.model.core import Pod
from allotment.screens.holders import workload_of
from allotment.screens.manifest_answers import prepared_devices
from allotment.screens.remedies import in_one_sentence
from allotment.screens.unprepared_pods import prepare_errors, unprepared_pods
from allotment.screens.visibility import readers_of
from allotment.tools.unread import is_read_in_a_namespace
from allotment.watched.view import ClusterView

_CLAIMS_OF_ONE_NAMESPACE: Final = (
    "The ResourceClaims of other namespaces could not be read: devices that they use count as free."
)


@dataclass(frozen=True, slots=True)
class PendingGroup:
    """Pods with one cause. ``answers``: one for each shape, workload and namespace, that of the first pod first.

    ``pods``: all of them, in scheduling order; claims that no pod uses have none. ``by_name``: the answer for each pod
    or claim. ``ids``: those of all shapes in the group, any of which finds it; ``id`` is the first one.
    """

    id: str
    answers: tuple[Answer, ...]
    pods: tuple[Pod, ...] = ()
    by_name: Mapping[str, Answer] = field(default_factory=dict)
    ids: frozenset[str] = frozenset()

    @property
    def first(self) -> Answer:
        """The answer of the first pod."""
        return self.answers[0]


@dataclass(frozen=True, slots=True)
class PendingPods:
    """All groups, those with most pods first, and the run that tries changes."""

    groups: tuple[PendingGroup, ...]
    _run: PendingRun
    _group_of: Mapping[str, str]

    def group(self, id: str) -> PendingGroup | None:
        """Return a group."""
        return next((group for group in self.groups if id in group.ids), None)

    def group_of(self, pod: str) -> str:
        """Return the group of a pod or claim; empty if it is not pending."""
        return self._group_of.get(pod, "")

    def after(self, answer: Answer, changes: Sequence[SuggestedChange]) -> Answer:
        """Return the answer for a pod after changes. Raises NotApplicable."""
        return self._run.after(answer, changes)


def pending_pods(view: ClusterView) -> PendingPods:
    """Return the pending pods of a view. Raises InputError if objects that the answers need could not be read."""
    return view.cached("screens.pending", lambda: _explained(view))


def _explained(view: ClusterView) -> PendingPods:
    cluster = view.inputs.cluster
    if view.place in ("lab", "cluster"):
        must_know(cluster, *OF_DEVICES, *OF_PODS, in_one_namespace=True)
    values = objects_to_explain(cluster, ())
    run = prepared_devices(view, "pending").pending(values, other_pods(cluster, values), readers_of(view))
    found = [*run.answers, *_unprepared(view)]
    question = Question(view.cluster, None, view.inputs)
    explanation = Explanation(tuple(each.answer for each in found))
    answers = add_next_steps(explanation, question, ObjectsByName(view.objects)).answers
    if is_read_in_a_namespace(view.unread.get("resourceclaims", "")):
        answers = tuple(replace(answer, notes=(*answer.notes, _CLAIMS_OF_ONE_NAMESPACE)) for answer in answers)
    complete = [each._replace(answer=answer) for each, answer in zip(found, answers, strict=True)]
    listed = [_group(members) for members in _of_one_cause(complete)]
    listed.sort(key=lambda group: (group.first.fits, -len(group.pods)))
    return PendingPods(tuple(listed), run, dict(_members(listed)))


def _unprepared(view: ClusterView) -> Iterator[ShapeAnswer]:
    """Yield the answers for pods that have devices, but do not start; those with one error are a group."""
    pods = unprepared_pods(view)
    errors = prepare_errors(view)
    for pod, answer in zip(pods, answers_of_bound(pods, view.inputs.cluster, errors), strict=True):
        yield ShapeAnswer(answer, (pod,), errors[pod.key].cause.replace(str(pod.key), ""))


def _of_one_cause(found: Sequence[ShapeAnswer]) -> Iterable[list[ShapeAnswer]]:
    """Return the answers in groups, each in order: those that have any key in common are in one group."""
    parents = list(range(len(found)))

    def first_of(number: int) -> int:
        while parents[number] != number:
            number = parents[number]
        return number

    known: dict[Hashable, int] = {}
    for number, each in enumerate(found):
        for key in _keys(each):
            one, other = sorted((first_of(known.setdefault(key, number)), first_of(number)))
            parents[other] = one
    groups: dict[int, list[ShapeAnswer]] = {}
    for number, each in enumerate(found):
        groups.setdefault(first_of(number), []).append(each)
    return groups.values()


def _keys(found: ShapeAnswer) -> Iterator[Hashable]:
    """Yield what pods of one group have in common: the cause, and the request, the texts or the workload."""
    answer = found.answer
    cause = (answer.kind, _cause(answer))
    yield *cause, "request", found.digest
    headline = answer.reasons.headline if answer.reasons is not None else None
    texts = (
        (headline.summary, in_one_sentence(headline.changes))
        if headline is not None
        else (answer.waits, *(answer.notes[:1] if not answer.fits else ()))
    )
    yield *cause, "texts", *_without_own_names(texts, found)
    if found.pods and (workload := workload_of(found.pods[0])):
        yield *cause, "workload", workload


def _without_own_names(texts: Iterable[str], found: ShapeAnswer) -> Iterator[str]:
    """The texts with a mark instead of the names of the pod and its claims."""
    namespace, _, name = found.answer.name.partition("/")
    names = {name}
    for pod in found.pods[:1]:
        names |= {entry.resource_claim_name or "" for entry in pod.spec.resource_claims}
        names |= {status.resource_claim_name or "" for status in pod.status.resource_claim_statuses}
    listed = "|".join(map(re.escape, sorted(names - {""}, key=len, reverse=True)))
    own = re.compile(rf"(?<![\w./-])(?:{re.escape(namespace)}/)?(?:{listed})(?![\w/-]|\.\w)")
    return (own.sub("…", text) for text in texts)


def _group(found: Sequence[ShapeAnswer]) -> PendingGroup:
    by_name = {each.answer.name: each.answer for each in found}
    by_name |= {str(pod.key): each.answer for each in found for pod in each.pods}
    pods = tuple(pod for each in found for pod in each.pods)
    ids = [_id(each.answer, each.digest) for each in found]
    return PendingGroup(ids[0], tuple(each.answer for each in found), pods, by_name, frozenset(ids))


def _members(groups: Iterable[PendingGroup]) -> Iterable[tuple[str, str]]:
    for group in groups:
        yield from ((name, group.id) for name in group.by_name)


def _id(answer: Answer, digest: str) -> str:
    """An id that stays the same while the cause and the request do."""
    return hashlib.sha256(f"{answer.kind} {_cause(answer)} {digest}".encode()).hexdigest()[:12]


def _cause(answer: Answer) -> str:
    """The code, or the outcome and the kind of reason for which a pod that fits is pending."""
    if answer.reasons is not None:
        return answer.reasons.headline.code
    return f"{answer.outcome} {_without_names(answer.waits)}"


def _without_names(waits: str) -> str:
    """The kind of the reason; the messages of schedulers differ from pod to pod."""
    return waits.partition(":")[0]
