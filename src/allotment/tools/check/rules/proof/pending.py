"""P501: the object does not get its devices in the simulation."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.engine.refusal import SEARCH_GIVEN_UP
from allotment.explanation.subjects import ANY_POD
from allotment.explanation.text import in_words
from allotment.model.loading import Document
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import Fix, Rule, RuleMatch
from allotment.tools.check.rules.static_rules import STATIC_RULES
from allotment.tools.check.simulation.result import simulation_report
from allotment.tools.check.simulation.trial import PendingObject

#: Reasons that a fleet cannot decide: it defines neither node labels nor device plugins.
_NOT_IN_FLEET = ("node-not-eligible", "extended-resource-missing")
#: Reasons that M405 and M406 report, as warnings if the cluster may have objects that are not given.
_OF_REFERENCES = ("claim-missing", "template-missing", "wrong-namespace")


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    report = simulation_report(bundle, STATIC_RULES)
    if report is None or bundle.cluster is None:
        return
    reported: set[tuple[Document, str]] = set()
    for pending_object, fix in zip(report.outcome.pending, report.tested, strict=True):
        if report.is_explained(bundle, pending_object):
            continue
        reasons = pending_object.answers[0].reasons
        assert reasons is not None
        headline = reasons.headline
        if headline.code in _OF_REFERENCES:
            continue
        on_all_nodes = all(row.refused.code in _NOT_IN_FLEET for row in reasons.nodes)
        is_uncertain = bundle.cluster.fleet_only and headline.code in _NOT_IN_FLEET and on_all_nodes
        # Each node has its own reason, but one sentence is enough to report that no node is known to fit.
        if is_uncertain and (pending_object.document, headline.code) in reported:
            continue
        reported.add((pending_object.document, headline.code))
        is_undecided = headline.code == SEARCH_GIVEN_UP
        yield RuleMatch(
            pending_object.document,
            pending_object.path,
            f"{_subject(pending_object, is_undecided)}: {headline.summary.rstrip('.')}",
            help="; ".join(_help(pending_object, fix)),
            fix=fix,
            level="note" if is_uncertain else "warning" if is_undecided else None,
        )


def _subject(pending: PendingObject, is_undecided: bool) -> str:
    """The pending pods or claims, as the subject of the message."""
    answer, number = pending.answers[0], len(pending.answers)
    stays, stay = ("may stay pending",) * 2 if is_undecided else ("stays pending", "stay pending")
    if answer.kind != "Pod":
        return f"{answer.kind} {answer.name} {stays}"
    name = answer.name.rpartition("/")[2]
    if name.startswith(ANY_POD):
        return f"a pod with template {name.removeprefix(ANY_POD)} {stays}"
    if not answer.owner:
        return f"Pod {answer.name} {stays}"
    if pending.pod_count == 1:
        return f"the pod of {answer.owner} {stays}"
    count = f"all {number}" if number == pending.pod_count else f"{number} of {pending.pod_count}"
    return f"{count} pods of {answer.owner} {stays if number == 1 else stay}"


def _help(pending: PendingObject, fix: Fix | None) -> Iterator[str]:
    """The smallest changes that help, except those that the fix makes, and the nearest miss."""
    reasons = pending.answers[0].reasons
    assert reasons is not None
    headline = reasons.headline
    if headline.changes and fix is None:
        yield f"to make it fit: {in_words(headline.changes)}"
    if headline.otherwise:
        yield f"or: {in_words(headline.otherwise)}"
    if headline.nearest is not None:
        yield f"nearest miss: {headline.nearest}"


_JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: training
spec:
  template:
    spec:
      restartPolicy: Never
      resourceClaims:
      - name: gpus
        resourceClaimTemplateName: four-gpus
      containers:
      - name: trainer
        image: registry.example/trainer:1
        resources:
          claims:
          - name: gpus
"""

RULE = Rule(
    code="P501",
    name="pending",
    family="proof",
    level="error",
    summary="the pod or claim does not get its devices in the given cluster",
    why=(
        "With --cluster or --fleet, allocation is simulated: the pods of all workloads request their devices one "
        "after another, in the order of the files. The simulation uses a reimplementation of the scheduler's "
        "allocator, which makes the same choices. A device that is allocated to one pod is not available to the "
        "next. Each pod that stays pending is reported with the reason and the smallest change that was found to "
        "help; if that changes an object of the files, it is offered as a fix. The fix is safe if it only corrects a "
        "name or a unit that nothing in the cluster has."
    ),
    bad=examples.join_documents(examples.template("four-gpus", request="gpus", request_extra="count: 8"), _JOB),
    good=examples.join_documents(examples.template("four-gpus", request="gpus", request_extra="count: 4"), _JOB),
    find=_find,
    fixable="safe or unsafe",
    see="https://kep.k8s.io/4381",
    fleet="t4-4x-pcie",
)
