"""S103: ``source`` around the name of a pod's claim, as in Kubernetes up to 1.30."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.model.editing.edits import Lift
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.objects.decoding_errors import decoding_errors_for
from allotment.tools.check.rule import Fix, Rule, RuleMatch
from allotment.tools.views import at


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    """The entries with a source, in pods and in templates of workloads."""
    for error in decoding_errors_for(bundle, "pod-claim-source"):
        document, path = error.document, error.misfit.path
        entry, source = at(document.tree, path[:-1]), at(document.tree, path)
        fix = None
        if isinstance(source, dict) and source and not source.keys() & (entry.keys() - {"source"}):
            fix = Fix("move its fields next to name and remove source", ((document, Lift(path)),), safe=True)
        yield RuleMatch(
            document,
            path,
            "Kubernetes 1.31 removed source: the name of the claim or template is a field of the entry itself",
            help="" if fix else "write resourceClaimName or resourceClaimTemplateName next to name",
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
    summary="a pod names its claim under source, which was removed in Kubernetes 1.31",
    why=(
        "Up to Kubernetes 1.30, an entry of spec.resourceClaims had a field source, which contained "
        "resourceClaimName or resourceClaimTemplateName. Kubernetes 1.31 removed source (KEP-4381). With strict "
        "validation, the API server rejects the field; otherwise it drops the field and rejects the pod, because the "
        "entry names neither a claim nor a template."
    ),
    bad=_BAD,
    good=_GOOD,
    find=_find,
    fixable="safe",
    see="https://kep.k8s.io/4381",
)
