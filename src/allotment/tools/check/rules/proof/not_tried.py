"""P502: an object was not simulated, because it or an object that it references has errors."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import Rule, RuleMatch
from allotment.tools.check.rules.static_rules import STATIC_RULES
from allotment.tools.check.simulation.result import simulation_report


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    report = simulation_report(bundle, STATIC_RULES)
    for skipped in report.outcome.skipped if report is not None else ():
        subject = f"{skipped.document.kind} {skipped.document.name}".strip()
        yield RuleMatch(skipped.document, skipped.path, f"{subject} was not simulated: {skipped.reason}")


_TEMPLATE = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata:
  name: single-gpu
spec:
  spec:
    devices:
      requests:
      - name: gpu
        {exactly}deviceClassName: gpu.nvidia.com
"""

RULE = Rule(
    code="P502",
    name="not-tried",
    family="proof",
    level="note",
    summary="a pod or claim was not simulated, because of errors or because a template is not created yet",
    why=(
        "Objects that the API server would reject cannot be simulated, nor can pods whose claim, template or class "
        "it would reject. The errors themselves are reported where they occur; this note only means that it is "
        "unknown whether the pod would fit."
    ),
    bad=examples.join_documents(
        _TEMPLATE.format(exactly=""), examples.pod("server", "resourceClaimTemplateName: single-gpu")
    ),
    good=examples.join_documents(
        _TEMPLATE.format(exactly="exactly:\n          "),
        examples.pod("server", "resourceClaimTemplateName: single-gpu"),
    ),
    find=_find,
    fleet="t4",
)
