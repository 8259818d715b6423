"""V301: an attribute that the driver does not publish."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import RuleMatch, Rule
from allotment.tools.check.selectors.unpublished_names import unpublished_names


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    return unpublished_names(bundle, "attributes")


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
    bad=examples.template("hopper", selector='device.attributes["gpu.nvidia.com"].arch == "Hopper"'),
    good=examples.template("hopper", selector='device.attributes["gpu.nvidia.com"].architecture == "Hopper"'),
    find=_find,
    fixable="unsafe",
    see="https://kep.k8s.io/4381",
)
