"""V317: conditions that no known hardware meets together, if no cluster is given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from allotment.model.quantity import Quantity
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.claims.requested_devices import requested_types
from allotment.tools.check.hardware.sample_devices import SampleDevice, sample_devices, selected_by, selected_by_class
from allotment.tools.check.rule import Rule, RuleMatch
from allotment.tools.check.rules.vocabulary import (
    memory_in_bytes,
    memory_threshold,
    no_such_mig_profile,
    unknown_attribute,
    unknown_capacity,
    unknown_value,
)
from allotment.tools.check.selectors.expressions import LiteralComparison, parse_selector
from allotment.tools.check.selectors.necessary_conditions import necessary_comparisons
from allotment.tools.views import RequestView, SelectorView

#: Rules that report a single condition as wrong.
_NEARER: Final = (
    unknown_attribute.RULE, unknown_capacity.RULE, unknown_value.RULE, no_such_mig_profile.RULE, memory_threshold.RULE,
    memory_in_bytes.RULE,
)  # fmt: skip
#: Attributes and capacities that the model of a GPU determines; others depend on the machine and on its software.
_OF_MODELS: Final = frozenset({"productName", "architecture", "brand", "type", "profile", "memory"})


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    if bundle.slices is not None:
        return
    reported = {match.document for rule in _NEARER for match in bundle.results_of(rule.find)}
    for claim in bundle.claims:
        for request in claim.requests if claim.document not in reported else ():
            if "/" in request.name:  # another alternative may be available
                continue
            match = _check_request(bundle, request)
            if match is not None:
                yield match


def _check_request(bundle: Bundle, request: RequestView) -> RuleMatch | None:
    conditions = [
        (view, comparison)
        for view in request.selectors
        for comparison in necessary_comparisons(parse_selector(bundle, view))
        if comparison.access.name in _OF_MODELS
        # M402 reports an exact amount.
        and (comparison.access.kind == "attributes" or comparison.operator != "==")
    ]
    types = requested_types(bundle, request)
    is_valid = all(parse_selector(bundle, view).error is None for view in request.selectors)
    if types is None or not conditions or not is_valid:
        return None
    known = sample_devices(types.vocabulary.driver, types.vocabulary.release)
    devices = selected_by_class(bundle, request.class_name, known)
    if not devices or _meeting(bundle, devices, conditions):
        return None
    view, comparison = conditions[-1]
    memory = next((pair for pair in conditions if pair[1].access.name == "memory"), None)
    if memory is not None:
        view, comparison = memory
    others = [pair for pair in conditions if pair[1] is not comparison]
    together = "all conditions" if others else "the condition"
    return RuleMatch(
        view.document,
        view.path,
        f"request {request.name}: no known device of {types.vocabulary.driver} meets {together}",
        help=_most_memory(_meeting(bundle, devices, others), meets_others=bool(others)) if memory is not None else "",
        span=comparison.extent,
    )


def _meeting(
    bundle: Bundle, devices: Iterable[SampleDevice], conditions: Iterable[tuple[SelectorView, LiteralComparison]]
) -> tuple[SampleDevice, ...]:
    """The devices that meet conditions, whatever the rest of the selectors requires."""
    meeting = tuple(devices)
    for view, comparison in conditions:
        terms = parse_selector(bundle, view).conjuncts
        rest = [(term.start, term.stop) for term in terms if term.node.id != comparison.node.id]
        meeting = selected_by(bundle, view, meeting, rest)
    return meeting


def _most_memory(devices: Iterable[SampleDevice], *, meets_others: bool) -> str:
    """The largest memory of devices, as a sentence; empty if they have none."""
    amounts = [memory for device in devices if (memory := device.memory()) is not None]
    if not amounts:
        return ""
    most: Quantity = max(amounts)
    which = "those that meet the other conditions have" if meets_others else "they have"
    return f"{which} at most {most} of memory; to check against your own devices, pass --context or --cluster"


_SELECTOR = """\
device.attributes["gpu.nvidia.com"].architecture == "Ampere" &&
device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("{}")) >= 0"""

RULE = Rule(
    code="V317",
    name="no-known-hardware",
    family="vocabulary",
    level="note",
    summary="no known hardware meets the conditions of a request",
    why=(
        "Allotment knows the attributes that drivers publish for common GPUs, MIG profiles and partitions. If none of "
        "these devices meets the conditions on model, architecture and memory together, there is probably a mistake in "
        "one of them, and the pod stays pending. It is a note, because other hardware exists; with a cluster, its own "
        "devices decide."
    ),
    bad=examples.template("large", selector=_SELECTOR.format("120Gi")),
    good=examples.template("large", selector=_SELECTOR.format("40Gi")),
    find=_find,
)
