"""P502: what could not be tried, since it, or what it names, has errors."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.model.meta import ObjectKey
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.claims.references import promised_templates
from allotment.tools.check.rule import Found, Rule
from allotment.tools.check.rules.static_rules import UNTRIED
from allotment.tools.check.simulation.result import tried
from allotment.tools.views import at, key_of, text


def _find(bundle: Bundle) -> Iterator[Found]:
    made = tried(bundle, UNTRIED)
    promised = promised_templates(bundle)
    for one in made.proof.left if made is not None else ():
        why = one.why
        if not why:  # a name that leads nowhere is told of by M405, unless a controller will make the object
            key = ObjectKey(key_of(one.document, bundle.namespace).namespace, text(at(one.document.tree, one.path)))
            if key not in promised:
                continue
            why = f"the controller of the ComputeDomain makes template {key.name}"
        what = f"{one.document.kind} {one.document.name}".strip()
        yield Found(one.document, one.path, f"{what} was not tried on the devices of the cluster: {why}")


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
    summary="a pod or claim was not tried, since it, or what it names, has errors or is not given",
    why=(
        "What the API server would refuse cannot be tried on the devices of the cluster, nor can a pod whose claim, "
        "template or class it would refuse. The errors are told where they are; this only says that nobody knows yet "
        "whether the pod would fit."
    ),
    bad=examples.together(
        _TEMPLATE.format(exactly=""), examples.pod("server", "resourceClaimTemplateName: single-gpu")
    ),
    good=examples.together(
        _TEMPLATE.format(exactly="exactly:\n          "),
        examples.pod("server", "resourceClaimTemplateName: single-gpu"),
    ),
    find=_find,
    fleet="t4",
)
