"""V301: an attribute that the driver does not publish."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import Found, Rule
from allotment.tools.check.selectors.unpublished import unpublished


def _find(bundle: Bundle) -> Iterator[Found]:
    return unpublished(bundle, "attributes")


_EXAMPLE = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata:
  name: hopper
spec:
  spec:
    devices:
      requests:
      - name: gpu
        exactly:
          deviceClassName: gpu.nvidia.com
          selectors:
          - cel:
              expression: device.attributes["gpu.nvidia.com"].{name} == "Hopper"
"""

RULE = Rule(
    code="V301",
    name="unknown-attribute",
    family="vocabulary",
    level="warning",
    summary="a selector reads an attribute that the driver does not publish",
    why=(
        "Attributes are dynamic: the API server takes any name, and a name that a device lacks is an error when the "
        "selector runs. One such device ends the attempt to schedule the pod ('no such key'), which is then tried "
        "again and again (KEP-4381). Drivers may publish more than is known here, so this is a warning; against the "
        "slices of a cluster it is an error. Names that are read only where they exist are left alone."
    ),
    bad=_EXAMPLE.format(name="arch"),
    good=_EXAMPLE.format(name="architecture"),
    find=_find,
    fixable="unsafe",
    see="https://kep.k8s.io/4381",
)
