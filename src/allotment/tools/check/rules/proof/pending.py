"""P501: the engine tried it, and it does not get its devices."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.model.loading import Document
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import RuleMatch, Rule
from allotment.tools.check.rules.static_rules import STATIC_RULES
from allotment.tools.check.simulation.result import simulation_report
from allotment.tools.check.simulation.trial import PendingObject
from allotment.tools.explain.subjects import ANY_POD

#: What machines alone cannot tell: labels of their nodes, and device plugins.
_NOT_IN_FLEET = ("node-not-eligible", "extended-resource-missing")


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    report = simulation_report(bundle, STATIC_RULES)
    if report is None or bundle.cluster is None:
        return
    reported: set[tuple[Document, str]] = set()
    for pending_ in report.outcome.pending:
        if report.is_explained(bundle, pending_):
            continue
        reasons = pending_.answers[0].reasons
        assert reasons is not None
        headline = reasons.headline
        on_all_nodes = all(row.refused.code in _NOT_IN_FLEET for row in reasons.nodes)
        is_uncertain = bundle.cluster.fleet_only and headline.code in _NOT_IN_FLEET and on_all_nodes
        # Each node is left out by a sentence of its own; that none is known to fit is said once.
        if is_uncertain and (pending_.document, headline.code) in reported:
            continue
        reported.add((pending_.document, headline.code))
        yield RuleMatch(
            pending_.document,
            pending_.path,
            f"{_subject(pending_)}: {headline.summary.rstrip('.')}",
            help="; ".join(_help(pending_)),
            level="note" if is_uncertain else None,
        )


def _subject(pending: PendingObject) -> str:
    """Who does not fit, in words."""
    answer, number = pending.answers[0], len(pending.answers)
    if answer.kind != "Pod":
        return f"{answer.kind} {answer.name} stays pending"
    name = answer.name.rpartition("/")[2]
    if name.startswith(ANY_POD):
        return f"a pod with template {name.removeprefix(ANY_POD)} stays pending"
    if not answer.owner:
        return f"Pod {answer.name} stays pending"
    if pending.pod_count == 1:
        return f"the pod of {answer.owner} stays pending"
    count = f"all {number}" if number == pending.pod_count else f"{number} of {pending.pod_count}"
    return f"{count} pods of {answer.owner} stay{'s' if number == 1 else ''} pending"


def _help(pending: PendingObject) -> Iterator[str]:
    """The smallest change, and by how much it was missed."""
    reasons = pending.answers[0].reasons
    assert reasons is not None
    headline = reasons.headline
    # What another pod of the files holds is not waited for.
    changes = [change.text for change in headline.changes if change.remedy != "wait"]
    changes = changes or [change.text for change in headline.otherwise]
    if changes:
        yield f"to make it fit: {', and '.join(changes)}"
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
    summary="a pod or claim does not get its devices in the given cluster",
    why=(
        "With --cluster or --fleet the files are not only read but tried: the pods of all workloads, one after the "
        "other and in the order of the files, ask for their devices as they would ask the scheduler, whose allocator "
        "is rebuilt here and agrees with it device for device. What one gets the next cannot have. Whatever stays "
        "pending is told with the reason and the smallest change that was found to help."
    ),
    bad=examples.join_documents(examples.template("four-gpus", request="gpus", request_extra="count: 8"), _JOB),
    good=examples.join_documents(examples.template("four-gpus", request="gpus", request_extra="count: 4"), _JOB),
    find=_find,
    see="https://kep.k8s.io/4381",
    fleet="t4-4x-pcie",
)
