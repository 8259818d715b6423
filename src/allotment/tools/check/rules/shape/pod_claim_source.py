"""S103: ``source`` around the name of a pod's claim, as Kubernetes had it until 1.30."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.model.editing.edits import Lift
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.objects.decoding_errors import decoding_errors_for
from allotment.tools.check.rule import Fix, RuleMatch, Rule
from allotment.tools.views import at


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    """The entries of pods and of workloads' templates that have a source."""
    for error in decoding_errors_for(bundle, "pod-claim-source"):
        document, path = error.document, error.misfit.path
        entry, source = at(document.tree, path[:-1]), at(document.tree, path)
        fix = None
        if isinstance(source, dict) and source and not source.keys() & (entry.keys() - {"source"}):
            fix = Fix("write its fields beside the name, without source", ((document, Lift(path)),), safe=True)
        yield RuleMatch(
            document,
            path,
            "a pod's claim has no source: the name of the claim or template stands beside its own name",
            help="" if fix else "write resourceClaimName or resourceClaimTemplateName beside the name",
            fix=fix,
            at_key=True,
        )


_BAD = """\
apiVersion: v1
kind: Pod
metadata:
  name: inference
spec:
  resourceClaims:
  - name: gpu
    source:
      resourceClaimTemplateName: one-gpu
  containers:
  - name: app
    image: my-inference-image
    resources:
      claims:
      - name: gpu
"""

_GOOD = """\
apiVersion: v1
kind: Pod
metadata:
  name: inference
spec:
  resourceClaims:
  - name: gpu
    resourceClaimTemplateName: one-gpu
  containers:
  - name: app
    image: my-inference-image
    resources:
      claims:
      - name: gpu
"""

RULE = Rule(
    code="S103",
    name="pod-claim-source",
    family="shape",
    level="error",
    summary="a pod names its claim under source, which Kubernetes 1.31 removed",
    why=(
        "Until Kubernetes 1.30, an entry of spec.resourceClaims held source with resourceClaimName or"
        " resourceClaimTemplateName. 1.31 took source away (KEP-4381). The API server refuses the field strictly;"
        " otherwise it drops it, and refuses the pod because the entry names neither claim nor template."
    ),
    bad=_BAD,
    good=_GOOD,
    find=_find,
    fixable="safe",
    see="https://kep.k8s.io/4381",
)
