"""V308: a bound on memory that a product's label passes and the driver's figure does not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from allotment.model.quantity import Quantity
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.hardware.sample_devices import Specimen, given_specimens, let_through, specimens
from allotment.tools.check.names.known_names import words_of
from allotment.tools.check.rule import Fix, Found, Level, Rule
from allotment.tools.check.selectors.edits import replaced
from allotment.tools.check.selectors.expressions import Compared, read_selectors
from allotment.tools.check.selectors.necessary_conditions import certain_comparisons
from allotment.tools.sentences import listed
from allotment.tools.views import SelectorView

_GIB = 1 << 30
_LABEL = re.compile(r"-([0-9]+)gb\b")


class _Missed(NamedTuple):
    """Devices that fail a bound which their label passes. ``memory`` is what they publish, ``label`` in GB."""

    title: str
    memory: Quantity
    label: int


def _find(bundle: Bundle) -> Iterator[Found]:
    for view, read in read_selectors(bundle):
        for compared in certain_comparisons(read):
            access = compared.access
            if access.kind != "capacity" or access.name != "memory" or compared.operator not in (">", ">="):
                continue
            bound = compared.literals[0].value
            if isinstance(bound, Quantity):
                yield from _told(bundle, view, compared, bound)


def _told(bundle: Bundle, view: SelectorView, compared: Compared, bound: Quantity) -> Iterator[Found]:
    words = words_of(bundle, compared.access.domain)
    if words is None:
        return
    known = specimens(words.driver, words.release)
    there = let_through(bundle, view, known, [compared.extent])
    given = bundle.published is not None and words.driver in bundle.published.drivers
    if given:
        # Only what the cluster has matters.
        titles = {one.title for one in bundle.kept(given_specimens).get(words.driver, ())}
        there = tuple(one for one in there if one.title in titles)
    strict = compared.operator == ">"
    missed = list(_missed(there, bound, strict=strict))
    others = any((memory := one.memory()) is not None and not _fails(memory, bound, strict=strict) for one in there)
    # Of hardware that is known, there may be other; of what was given, none is large enough.
    level: Level = "error" if given else "warning"
    if others:
        # Who asks for the figure on the label means that model, too. Who asks for more may well mean larger ones.
        missed = [one for one in missed if bound.value() == one.label * _GIB]
        level = "note" if strict else "warning"
    if not missed:
        return
    exactly = all(one.memory == bound for one in missed)
    told = listed([f"{one.title} ({one.memory})" for one in missed[:4]])
    told += f" and {len(missed) - 4} more" if len(missed) > 4 else ""
    why = "just that" if exactly else "less than the label says"
    asks = f"more than {bound}" if strict else f"{bound} or more"
    fix = None
    lower = _round(min(one.memory.value() for one in missed), bound, strict=strict)
    if lower and level != "note":
        literal = compared.literals[0]
        quote = view.expression[literal.text_extent[0]]
        edit = replaced(view, literal.text_extent, f"{quote}{lower}{quote}")
        fix = Fix(f"lower the bound to {lower}", ((view.document, edit),), safe=False)
    yield Found(
        view.document,
        view.path,
        f"{asks} leaves out {told}: {'it has' if len(missed) == 1 else 'they have'} {why}",
        help=f"lower the bound if they are meant, to {lower}" if lower else "",
        fix=fix,
        level=level,
        part=compared.literals[0].extent,
    )


def _missed(devices: Iterable[Specimen], bound: Quantity, *, strict: bool) -> Iterator[_Missed]:
    """The devices whose label passes a bound that their memory does not; whole ones, if there are any."""
    listed = list(devices)
    whole = [one for one in listed if not one.part] or listed
    found: dict[str, _Missed] = {}
    for one in whole:
        memory = one.memory()
        if memory is not None and _fails(memory, bound, strict=strict):
            label = _label(one, memory)
            if bound.value() <= label * _GIB:
                found.setdefault(one.title, _Missed(one.title, memory, label))
    yield from found.values()


def _fails(memory: Quantity, bound: Quantity, *, strict: bool) -> bool:
    return memory < bound or (strict and memory == bound)


def _label(device: Specimen, memory: Quantity) -> int:
    """How many GB the label says: that in the profile's or the model's name, else the next whole number."""
    name = device.part.replace(".", "-") if device.part else (device.accelerator.id if device.accelerator else "")
    found = _LABEL.search(name)
    return int(found[1]) if found else -(-memory.value() // _GIB)


def _round(memory: int, bound: Quantity, *, strict: bool) -> str:
    """The largest whole number of GiB, below the bound, that a memory passes.

    >>> _round(81559 << 20, Quantity.parse("80Gi"), strict=False), _round(40 << 30, Quantity.parse("40Gi"), strict=True)
    ('79Gi', '39Gi')
    """
    whole = memory // _GIB
    if strict and whole * _GIB == memory:
        whole -= 1
    return f"{whole}Gi" if 0 < whole * _GIB < bound.value() else ""


_EXPRESSION = """\
device.attributes["gpu.nvidia.com"].architecture == "Hopper" &&
device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("{}")) >= 0
"""

RULE = Rule(
    code="V308",
    name="memory-threshold",
    family="vocabulary",
    level="warning",
    summary="a bound on memory that a product's label passes and the driver's figure does not",
    why=(
        "Drivers publish the bytes that they can hand out, which is less than the label says: an H100 with 80 GB has "
        "81559Mi, not 80Gi (81920Mi), while an A100 with 80 GB has just 80Gi. A bound at the label's figure leaves "
        "such devices out in silence, and a strict one (isGreaterThan) even those that have it exactly."
    ),
    bad=examples.template("h100", selector=_EXPRESSION.format("80Gi")),
    good=examples.template("h100", selector=_EXPRESSION.format("79Gi")),
    find=_find,
    fixable="unsafe",
)
