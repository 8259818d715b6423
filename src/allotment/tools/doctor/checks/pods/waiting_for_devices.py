"""Pending pods, grouped by the reason why their claims are not allocated, and by what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from allotment.engine.refusal import BUSY, CODES, AllocationRefusal, Diagnosis
from allotment.explanation import Answer
from allotment.explanation.cause_key import RemedyKey, cause_key
from allotment.explanation.next_step import commands_for_changes, manifest_note
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.checks.pods.claims_not_made import pods_without_claims
from allotment.tools.doctor.checks.pods.no_scheduler import unscheduled_pods
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.object_state import name_of
from allotment.tools.doctor.wording import remedy
from allotment.tools.doctor.workload_groups import pods_text

#: Causes that other checks report.
_ELSEWHERE = frozenset({"class-missing", "template-missing", "claim-missing", "wrong-namespace"})


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """One symptom per cause and remedy, independent of the number of pods."""
    others = {name_of(pod) for pod in (*unscheduled_pods(cluster), *pods_without_claims(cluster))}
    waiting = {
        name for pod in cluster.pending_pods if (name := name_of(pod)) not in others and not pod.spec.scheduling_gates
    }
    groups: dict[tuple[str, str, str], list[Answer]] = {}
    for answer in cluster.explanation.answers:
        if answer.kind == "Pod" and answer.reasons is not None and answer.name in waiting:
            headline = answer.reasons.headline
            if headline.code not in _ELSEWHERE and _is_about_devices(cluster, answer):
                groups.setdefault((headline.code, answer.owner or answer.name, _device_classes(headline)), []).append(
                    answer
                )
    by_cause: dict[tuple[str, str, tuple[RemedyKey, ...]], list[list[Answer]]] = {}
    for (code, _, classes), answers in groups.items():
        by_remedy: dict[tuple[RemedyKey, ...], list[Answer]] = {}
        for answer in answers:
            by_remedy.setdefault(_remedy_key(answer), []).append(answer)
        for key, same in by_remedy.items():
            by_cause.setdefault((code, classes, key), []).append(same)
    for (code, _, _), with_cause in by_cause.items():
        yield _symptom(cluster, code, [answer for group in with_cause for answer in group])


def _is_about_devices(cluster: ClusterIndex, answer: Answer) -> bool:
    """Whether a pod requests devices, or an extended resource that nothing provides: perhaps its name is misspelled."""
    assert answer.reasons is not None
    pod = cluster.pods_by_name[answer.name]
    return cluster.requests_devices(pod) or answer.reasons.headline.code == "extended-resource-missing"


def _device_classes(refused: AllocationRefusal) -> str:
    """The requested DeviceClasses; pods with different ones are reported separately."""
    return ", ".join(sorted({funnel.device_class for funnel in refused.funnels}))


def _remedy_key(answer: Answer) -> tuple[RemedyKey, ...]:
    """The first remedy, which is the same for equal changes of different objects of a kind."""
    assert answer.reasons is not None
    changes = cause_key(answer.reasons).remedy
    return tuple(change._replace(object=change.object.partition(" ")[0]) for change in changes)


def _symptom(cluster: ClusterIndex, code: str, answers: Sequence[Answer]) -> Symptom:
    names = [answer.name for answer in answers]
    reasons = answers[0].reasons
    assert reasons is not None
    headline = reasons.headline
    verb = "is pending" if len(names) == 1 else "are pending"
    first = "" if len(names) == 1 else f"; {names[0]}"
    text = f"{pods_text(cluster, names)} {verb}: {code}{first}: {headline.summary or CODES[code].summary}"
    namespace, _, name = names[0].partition("/")
    words = _remedy(cluster, reasons)
    if any(_remedy(cluster, answer.reasons) != words for answer in answers[1:] if answer.reasons is not None):
        words = f"For {names[0]}: {words}"
    if note := manifest_note(answers[0], cluster.origin):
        words += f" Also {note}."
    commands = (commands_for_changes(answers[0], cluster.origin), f"allot explain pod/{name} -n {namespace}")
    help_ = remedy(words, *filter(None, commands))
    return Symptom.of("pod", names, text, help_, "warning" if code in BUSY else "error")


def _remedy(cluster: ClusterIndex, reasons: Diagnosis) -> str:
    """The remedies of the diagnosis as sentences; general advice without any."""
    refused = reasons.headline
    if not refused.changes:
        excluded = {node for row in reasons.nodes for node in row.nodes} or cluster.nodes.keys()
        if refused.code == "node-not-eligible" and not cluster.nodes_by_state.keys().isdisjoint(excluded):
            return "Find out why the nodes are cordoned or not ready: kubectl get nodes."
        return CODES[refused.code].advice
    texts = [", and ".join(c.text for c in changes) for changes in (refused.changes, refused.otherwise) if changes]
    words = ". Or ".join(texts)
    return f"{words[:1].upper()}{words[1:]}."


CHECK = ClusterCheck(
    code="D602",
    severity="error",
    summary="pods are pending because no devices can be allocated to them",
    why="The cause is determined in the same way as by `allot explain`, and pods with the same cause and remedy "
    "are reported together. If matching"
    " devices are in use, this is a warning, because waiting helps; all other causes require a change. For nearly all "
    "causes, Kubernetes reports only `cannot allocate all claims`, or nothing.",
    find=find,
    needs=("nodes", "pods", "resourceclaims", "resourceslices", "deviceclasses", "resourceclaimtemplates"),
)
