"""V302: a capacity that the driver does not publish."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import Found, Rule
from allotment.tools.check.rules.vocabulary.unpublished import unpublished


def _find(bundle: Bundle) -> Iterator[Found]:
    return unpublished(bundle, "capacity")


_EXAMPLE = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata:
  name: large-gpu
spec:
  spec:
    devices:
      requests:
      - name: gpu
        exactly:
          deviceClassName: gpu.nvidia.com
          selectors:
          - cel:
              expression: |
                device.capacity["gpu.nvidia.com"].{name}.isGreaterThan(quantity("30Gi"))
"""

RULE = Rule(
    code="V302",
    name="unknown-capacity",
    family="vocabulary",
    level="warning",
    summary="a selector reads a capacity that the driver does not publish",
    why=(
        "As with attributes, the API server takes any name of a capacity, and a device without it makes the selector "
        "fail when it runs: the pod is not scheduled and the attempt is repeated (KEP-4381). A warning, because a "
        "driver may publish more than is known here; against the slices of a cluster an error."
    ),
    bad=_EXAMPLE.format(name="vram"),
    good=_EXAMPLE.format(name="memory"),
    find=_find,
    fixable="unsafe",
    see="https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/4381-dra-structured-parameters",
)
