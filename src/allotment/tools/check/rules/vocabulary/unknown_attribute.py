"""V301: an attribute that the driver does not publish."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import Rule, RuleMatch
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
        "Attribute names are not validated: the API server accepts any name, and reading an attribute that a device "
        "does not have is an evaluation error ('no such key'). A single such device aborts the attempt to schedule "
        "the pod, and the scheduler retries indefinitely (KEP-4381). Drivers may publish names that Allotment does "
        "not know, so the finding is a warning; if the slices of a cluster are given, it is an error. Names that are "
        "read only if they are present are not reported."
    ),
    bad=examples.template("hopper", selector='device.attributes["gpu.nvidia.com"].arch == "Hopper"'),
    good=examples.template("hopper", selector='device.attributes["gpu.nvidia.com"].architecture == "Hopper"'),
    find=_find,
    fixable="unsafe",
    see="https://kep.k8s.io/4381",
)
