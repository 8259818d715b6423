"""P501: the engine tried it, and it does not get its devices."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.model.loading import Document
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import Found, Rule
from allotment.tools.check.rules.static_rules import UNTRIED
from allotment.tools.check.simulation.result import tried
from allotment.tools.check.simulation.trial import Pending
from allotment.tools.explain.subjects import ANY_POD

#: What machines alone cannot tell: labels of their nodes, and device plugins.
_BESIDE_HARDWARE = ("node-not-eligible", "extended-resource-missing")


def _find(bundle: Bundle) -> Iterator[Found]:
    made = tried(bundle, UNTRIED)
    if made is None or bundle.world is None:
        return
    noted: set[tuple[Document, str]] = set()
    for one in made.proof.pending:
        if made.is_told(bundle, one):
            continue
        reasons = one.answers[0].reasons
        assert reasons is not None
        told = reasons.headline
        everywhere = all(row.refused.code in _BESIDE_HARDWARE for row in reasons.nodes)
        beside = bundle.world.hardware and told.code in _BESIDE_HARDWARE and everywhere
        # Each node is left out by a sentence of its own; that none is known to fit is said once.
        if beside and (one.document, told.code) in noted:
            continue
        noted.add((one.document, told.code))
        yield Found(
            one.document,
            one.path,
            f"{_who(one)}: {told.summary.rstrip('.')}",
            help="; ".join(_help(one)),
            level="note" if beside else None,
        )


def _who(pending: Pending) -> str:
    """Who does not fit, in words."""
    first, number = pending.answers[0], len(pending.answers)
    if first.kind != "Pod":
        return f"{first.kind} {first.name} stays pending"
    name = first.name.rpartition("/")[2]
    if name.startswith(ANY_POD):
        return f"a pod with template {name.removeprefix(ANY_POD)} stays pending"
    if not first.owner:
        return f"Pod {first.name} stays pending"
    if pending.of == 1:
        return f"the pod of {first.owner} stays pending"
    some = f"all {number}" if number == pending.of else f"{number} of {pending.of}"
    return f"{some} pods of {first.owner} stay{'s' if number == 1 else ''} pending"


def _help(pending: Pending) -> Iterator[str]:
    """The smallest change, and by how much it was missed."""
    reasons = pending.answers[0].reasons
    assert reasons is not None
    told = reasons.headline
    # What another pod of the files holds is not waited for.
    changes = [change.text for change in told.changes if change.remedy != "wait"]
    changes = changes or [change.text for change in told.otherwise]
    if changes:
        yield f"to make it fit: {', and '.join(changes)}"
    if told.nearest is not None:
        yield f"nearest miss: {told.nearest}"


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
    bad=examples.together(examples.template("four-gpus", request="gpus", more="count: 8"), _JOB),
    good=examples.together(examples.template("four-gpus", request="gpus", more="count: 4"), _JOB),
    find=_find,
    see="https://kep.k8s.io/4381",
    fleet="t4-4x-pcie",
)
