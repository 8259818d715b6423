"""Pods that refer to a missing claim, template or class."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from allotment.engine.refusal import CODES
from allotment.explanation import Answer
from allotment.explanation.next_step import commands_for_changes, manifest_note
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.wording import remedy
from allotment.tools.doctor.workload_groups import pods_text

_CODES: Final = frozenset({"class-missing", "template-missing", "claim-missing", "wrong-namespace"})


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """Such pods by the missing object."""
    groups: dict[tuple[str, str], list[Answer]] = {}
    for answer in cluster.explanation.answers:
        if answer.kind == "Pod" and answer.reasons is not None and answer.reasons.headline.code in _CODES:
            headline = answer.reasons.headline
            groups.setdefault((headline.code, headline.summary), []).append(answer)
    for (code, summary), answers in groups.items():
        names = [answer.name for answer in answers]
        verb = "is waiting" if len(names) == 1 else "are waiting"
        changes = answers[0].reasons.headline.changes if answers[0].reasons is not None else ()
        text = f"{pods_text(cluster, names)} {verb} for a missing object: {summary}"
        # A change with a command, such as ``kubectl uncordon``, names its object in its text.
        texts = [change.text if change.command else f"{change.object}: {change.text}" for change in changes]
        words = f"Change {', and '.join(texts)}." if changes else CODES[code].advice
        if changes and all(change.command for change in changes):
            words = f"{texts[0][:1].upper()}{' and '.join(texts)[1:]}."
        namespace, _, name = names[0].partition("/")
        if note := manifest_note(answers[0], cluster.origin):
            words += f" Also {note}."
        commands = (commands_for_changes(answers[0], cluster.origin), f"allot explain pod/{name} -n {namespace}")
        yield Symptom.of("pod", names, text, remedy(words, *filter(None, commands)))


CHECK = ClusterCheck(
    code="D603",
    severity="error",
    summary="pods refer to a missing claim, template or class",
    why="A claim or template must exist in the pod's own namespace. If it is missing, no scheduler reports it: the pod"
    " stays Pending without an event and without a condition.",
    find=find,
    needs=("pods", "resourceclaims", "deviceclasses", "resourceclaimtemplates"),
)
