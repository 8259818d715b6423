"""V308: a memory bound that a product meets by its label, but not by the capacity that its driver publishes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from allotment.engine.diagnosis.value_distance import sold_as
from allotment.fleet.advertised_memory import GIB, advertised_gb
from allotment.model.quantity import Quantity
from allotment.phrases import listed
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.hardware.sample_devices import SampleDevice, cluster_samples, sample_devices, selected_by
from allotment.tools.check.names.known_names import vocabulary_of
from allotment.tools.check.rule import Fix, Level, Rule, RuleMatch
from allotment.tools.check.selectors.edits import replace_extent
from allotment.tools.check.selectors.expressions import LiteralComparison, parsed_selectors
from allotment.tools.check.selectors.necessary_conditions import necessary_comparisons
from allotment.tools.views import SelectorView


class _ExcludedDevice(NamedTuple):
    """A device below the bound that its label satisfies. ``memory`` is the published capacity, ``label`` is in GB."""

    title: str
    memory: Quantity
    label: int


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    for view, expr in parsed_selectors(bundle):
        for comparison in necessary_comparisons(expr):
            access = comparison.access
            if access.kind != "capacity" or access.name != "memory" or comparison.operator not in (">", ">="):
                continue
            bound = comparison.literals[0].value
            if isinstance(bound, Quantity):
                yield from _check_bound(bundle, view, comparison, bound)


def _check_bound(
    bundle: Bundle, view: SelectorView, comparison: LiteralComparison, bound: Quantity
) -> Iterator[RuleMatch]:
    vocab = vocabulary_of(bundle, comparison.access.domain)
    if vocab is None:
        return
    samples = sample_devices(vocab.driver, vocab.release)
    candidates = selected_by(bundle, view, samples, [comparison.extent])
    is_in_cluster = bundle.published is not None and vocab.driver in bundle.published.drivers
    if is_in_cluster:
        # Only devices of the cluster matter.
        titles = {sample.title for sample in bundle.cached(cluster_samples).get(vocab.driver, ())}
        candidates = tuple(sample for sample in candidates if sample.title in titles)
    strict = comparison.operator == ">"
    written = view.expression[slice(*comparison.literals[0].text_extent)].strip("\"'")
    if not strict and written.endswith("Mi") and any(sample.memory() == bound for sample in candidates):
        return  # read from a device, and not from a label
    excluded = list(_excluded_devices(candidates, bound, strict=strict))
    others_pass = any(
        (memory := sample.memory()) is not None and not _is_below(memory, bound, strict=strict) for sample in candidates
    )
    # Unknown hardware may be large enough; in the given cluster, no device is.
    level: Level = "error" if is_in_cluster else "warning"
    if others_pass:
        # A bound equal to the label probably includes that model; a higher one may mean larger models.
        excluded = [sample for sample in excluded if bound.value() == sample.label * GIB]
        level = "note" if strict else "warning"
    if not excluded:
        return
    exactly = all(sample.memory == bound for sample in excluded)
    names = listed([f"{sample.title} ({sample.memory})" for sample in excluded[:4]])
    names += f" and {len(excluded) - 4} more" if len(excluded) > 4 else ""
    verb = "has" if len(excluded) == 1 else "have"
    reason = (
        "exactly this amount" if exactly else f"less than {'its' if len(excluded) == 1 else 'their'} advertised size"
    )
    bound_text = f"more than {bound}" if strict else f"{bound} or more"
    fix = None
    lower = _lower_bound(min(sample.memory for sample in excluded), bound, strict=strict)
    if lower and level != "note":
        literal = comparison.literals[0]
        quote = view.expression[literal.text_extent[0]]
        edit = replace_extent(view, literal.text_extent, f"{quote}{lower}{quote}")
        fix = Fix(f"lower the bound to {lower}", ((view.document, edit),), safe=False)
    yield RuleMatch(
        view.document,
        view.path,
        f"requiring {bound_text} excludes {names}, which {verb} {reason}",
        help=f"lower the bound to {lower} to include {'it' if len(excluded) == 1 else 'them'}" if lower else "",
        fix=fix,
        level=level,
        span=comparison.literals[0].extent,
    )


def _excluded_devices(devices: Iterable[SampleDevice], bound: Quantity, *, strict: bool) -> Iterator[_ExcludedDevice]:
    """The devices whose label satisfies a bound that their memory does not; only whole devices, if there are any."""
    samples = list(devices)
    candidates = [sample for sample in samples if not sample.partition] or samples
    excluded: dict[str, _ExcludedDevice] = {}
    for sample in candidates:
        memory = sample.memory()
        if memory is not None and _is_below(memory, bound, strict=strict):
            label = _label_gb(sample, memory)
            if bound.value() <= label * GIB:
                excluded.setdefault(sample.title, _ExcludedDevice(sample.title, memory, label))
    yield from excluded.values()


def _is_below(memory: Quantity, bound: Quantity, *, strict: bool) -> bool:
    return memory < bound or (strict and memory == bound)


def _label_gb(device: SampleDevice, memory: Quantity) -> int:
    """The GB on the label: from the profile's or model's name, else the memory rounded up."""
    name = device.partition or (device.accelerator.id if device.accelerator else "")
    return advertised_gb(name, memory.value())


def _lower_bound(memory: Quantity, bound: Quantity, *, strict: bool) -> str:
    """The amount below the bound that a memory satisfies: the GB that the device is sold by, else whole GiB.

    >>> _lower_bound(Quantity.parse("81559Mi"), Quantity.parse("80Gi"), strict=False)
    '80G'
    >>> _lower_bound(Quantity.parse("10880Mi"), Quantity.parse("12Gi"), strict=False)
    '10Gi'
    >>> _lower_bound(Quantity.parse("40Gi"), Quantity.parse("40Gi"), strict=True)
    '39Gi'
    """
    sold = sold_as(bound, [memory])
    if sold is not None:
        return str(sold.amount)
    gib = memory.value() // GIB
    if strict and gib * GIB == memory.value():
        gib -= 1
    return f"{gib}Gi" if 0 < gib * GIB < bound.value() else ""


_EXPRESSION = """\
device.attributes["gpu.nvidia.com"].architecture == "Hopper" &&
device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("{}")) >= 0
"""

RULE = Rule(
    code="V308",
    name="memory-threshold",
    family="vocabulary",
    level="warning",
    summary="a memory bound excludes a product whose advertised size is large enough",
    why=(
        "Drivers publish the memory that can be allocated, which is often less than the advertised size: an H100 "
        "with 80 GB has 81559Mi, not 80Gi (81920Mi), while an A100 with 80 GB has exactly 80Gi. A bound equal to the "
        "advertised size silently excludes such devices, and a strict bound (isGreaterThan) excludes even devices "
        "that have exactly that amount. Vendors count in powers of ten: 80G is the bound that cards of 80 GB satisfy."
    ),
    bad=examples.template("h100", selector=_EXPRESSION.format("80Gi")),
    good=examples.template("h100", selector=_EXPRESSION.format("80G")),
    find=_find,
    fixable="unsafe",
)
