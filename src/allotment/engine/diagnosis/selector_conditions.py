"""Explanation of a selector condition that matches no device: the error in it, the nearest miss, and possible repairs.

A condition is one operand of the selector's outermost ``&&``. For a simple comparison (``path operator literal``) the
actual values can be reported; for other conditions only the names that they read.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterator, Sequence
from dataclasses import dataclass

from allotment.cel import Conjunct, DeviceReference, ValueComparison
from allotment.engine.claims.constraints import find_attribute
from allotment.engine.cluster.identity import DeviceID
from allotment.engine.diagnosis.condition_repairs import (
    ConditionRepair,
    any_model,
    other_amounts,
    other_case,
    other_values,
    partial_comparison,
    value_of,
)
from allotment.engine.diagnosis.condition_text import (
    OPERATOR_WORDS,
    comparable_text,
    comparison_text,
    literal,
    one_line,
    path_text,
    relation,
    value_text,
)
from allotment.engine.diagnosis.mig_profiles import memory_instead_of_profile
from allotment.engine.diagnosis.published_names import (
    PublishedNames,
    attribute_kind,
    did_you_mean,
    of_similar_owner,
    qualified,
    similar_names,
    similarity,
)
from allotment.engine.diagnosis.selector_corrections import intended_name, selector_corrections
from allotment.engine.diagnosis.value_distance import value_distance
from allotment.engine.diagnosis.visible_devices import VisibleDevice
from allotment.engine.refusal import NearestMiss
from allotment.model.quantity import Quantity
from allotment.model.semver import Semver
from allotment.model.written_amounts import quantity_of_number
from allotment.phrases import first_few

_KIND = {"int": "an int", "bool": "a bool", "string": "a string", "version": "a version"}


@dataclass(frozen=True, slots=True)
class ConditionFinding:
    """The cause that follows from a condition, and the repairs to try."""

    code: str
    summary: str
    nearest: NearestMiss | None = None
    repairs: tuple[ConditionRepair, ...] = ()


def explain_condition(
    conjunct: Conjunct,
    names: Sequence[DeviceReference],
    arriving: Sequence[VisibleDevice],
    published: PublishedNames,
    *,
    of_class: bool,
    stated: int = 0,
    in_use: Container[DeviceID] = (),
) -> ConditionFinding:
    """Explain why ``conjunct``, which reads ``names``, matches none of the ``arriving`` devices.

    Unpublished names are checked first, because they explain a false comparison. ``stated``: the memory that the
    request states, in bytes; devices with less are suggested last. ``in_use``: devices that are not free.
    """
    comparison = conjunct.comparison
    drop = ConditionRepair("condition", f"drop the condition {one_line(conjunct.text)}", "")
    repairs = [*memory_instead_of_profile(comparison), drop]
    if published.slices:
        for name in names:
            finding = _unknown_name(conjunct, (name.kind, name.domain, name.name), arriving, published)
            if finding is not None:
                guesses = _by_value(comparison, arriving) if comparison is not None and not finding.repairs else ()
                return _with_repairs(finding, [*guesses, *repairs])
    if comparison is None:
        part = partial_comparison(conjunct.text)
        named = other_case(conjunct.text, arriving)
        if part is not None and not named:
            named = [
                *any_model(part, arriving, _models(part, published), in_use),
                *other_values(part, arriving, stated, in_use),
            ]
        return _plain(conjunct, of_class, None, [*named, *repairs])
    others = [
        *any_model(comparison, arriving, _models(comparison, published), in_use),
        *other_values(comparison, arriving, stated, in_use),
    ]
    if comparison.path == ("driver",):
        return _driver(conjunct, comparison, published, of_class)
    mismatch = _type_mismatch(comparison, arriving)
    if mismatch is not None:
        return _with_repairs(mismatch, repairs)
    return _value_mismatch(conjunct, comparison, arriving, of_class, [*others, *repairs], stated)


def _models(comparison: ValueComparison, published: PublishedNames) -> Collection[str]:
    """The published values of a compared attribute that names models."""
    return published.models.get(comparison.path[1:3], ()) if len(comparison.path) == 3 else ()


def _driver(
    conjunct: Conjunct, comparison: ValueComparison, published: PublishedNames, of_class: bool
) -> ConditionFinding:
    """A comparison of ``device.driver`` with a name that is misspelled, not installed, or not on this node.

    The condition is never dropped: what a request or class means depends on its driver.
    """
    wanted = comparison.literal
    if comparison.operator != "==" or not isinstance(wanted, str):
        return _plain(conjunct, of_class, None, [])
    if wanted in published.drivers:
        return ConditionFinding("driver-missing", f'the node has no device of driver "{wanted}"')
    similar = of_similar_owner(wanted, published.drivers)
    names = similar_names(wanted, similar)
    summary = f'driver "{wanted}" publishes no ResourceSlices.{did_you_mean(wanted, similar)}'
    if not names:
        drivers = ", ".join(sorted(published.drivers))
        return ConditionFinding("driver-missing", f"{summary} Existing drivers: {drivers}")
    return ConditionFinding(
        "unknown-driver", summary, None, tuple(_rename(wanted, name, f'use driver "{name}"') for name in names)
    )


def _with_repairs(finding: ConditionFinding, repairs: Sequence[ConditionRepair]) -> ConditionFinding:
    return ConditionFinding(finding.code, finding.summary, finding.nearest, (*finding.repairs, *repairs))


def _plain(
    conjunct: Conjunct, of_class: bool, nearest: NearestMiss | None, repairs: Sequence[ConditionRepair]
) -> ConditionFinding:
    code = "class-matches-nothing" if of_class else "selector-matches-nothing"
    return ConditionFinding(code, f"no device satisfies {one_line(conjunct.text)}", nearest, tuple(repairs))


def _rename(old: str, new: str, words: str) -> ConditionRepair:
    """A repair that replaces the whole name ``old`` by ``new``, not parts of longer names or domains."""
    before = r"(?<![\w\-])" if "." not in old else r"(?<![\w.\-])"
    pattern = rf"{before}{re.escape(old)}(?![\w\-])"
    return ConditionRepair("name", words, rename=(pattern, new.replace("\\", r"\\")), size=1.0 - similarity(old, new))


def _unknown_name(
    conjunct: Conjunct, path: tuple[str, ...], arriving: Sequence[VisibleDevice], published: PublishedNames
) -> ConditionFinding | None:
    """The finding if a name is not published, or is a capacity read as an attribute or vice versa."""
    side, domain, name = path
    attributes, capacities = published.attributes.get(domain, {}), published.capacities.get(domain, frozenset())
    known_names, other_names = (capacities, attributes) if side == "capacity" else (attributes, capacities)
    if name in known_names:
        return None
    if name in other_names:
        if side == "capacity":
            code, words = "attribute-read-as-capacity", f"{name} is an attribute of {domain}, not a capacity"
            other_map = "attributes"
        else:
            code, words = "capacity-read-as-attribute", f"{name} is a capacity of {domain}, not an attribute"
            other_map = "capacity"
        right = path_text((other_map, domain, name))
        becomes = _with_access(conjunct.text, path, right)
        amount = _amount_of_number(conjunct.comparison, path) if side == "attributes" else None
        if amount is not None and conjunct.comparison is not None:
            becomes = comparison_text(("capacity", domain, name), conjunct.comparison.operator, amount)
            repair = ConditionRepair("likely", f'read {right}, compare with quantity("{amount}")', becomes)
        else:
            repair = ConditionRepair("name", f"read {right}", becomes)
        return ConditionFinding(code, f"{words}: read {right}", None, (repair,))
    if not attributes and not capacities and domain not in published.drivers:
        return _unknown_domain(conjunct.text, path, arriving, published)
    kind = "capacity" if side == "capacity" else "attribute"
    names = similar_names(name, known_names)
    listed = ", ".join(sorted(known_names)) or "none"
    summary = f'no device publishes {kind} "{name}" of {domain}.' + (
        did_you_mean(name, known_names) or f" Published: {listed}"
    )
    repairs = [_rename(name, n, f"use {kind} {n}") for n in names]
    if not names:
        crossed = similar_names(name, other_names)
        other_map = "attributes" if side == "capacity" else "capacity"
        repairs = [_crossed(conjunct, path, (other_map, domain, n)) for n in crossed]
        if crossed:
            summary += f"; {other_map}: {', '.join(crossed)}"
    return ConditionFinding("unknown-attribute", summary, None, tuple(repairs))


def _crossed(conjunct: Conjunct, path: tuple[str, ...], right: tuple[str, str, str]) -> ConditionRepair:
    """A repair that reads a similar name from the other map; a number that a capacity is compared with is an amount."""
    amount = _amount_of_number(conjunct.comparison, path) if right[0] == "capacity" else None
    if amount is not None and conjunct.comparison is not None:
        text = f'read {path_text(right)}, compare with quantity("{amount}")'
        return ConditionRepair("likely", text, comparison_text(right, conjunct.comparison.operator, amount))
    return ConditionRepair("likely", f"read {path_text(right)}", _with_access(conjunct.text, path, path_text(right)))


def _with_access(text: str, path: tuple[str, ...], right: str) -> str:
    """The text with another access instead of the one at a path."""
    side, domain, name = (re.escape(part) for part in path)
    pattern = rf"device\.{side}\s*\[\s*(['\"]){domain}\1\s*\]\s*(?:\.\s*{name}\b|\[\s*(['\"]){name}\2\s*\])"
    return re.sub(pattern, lambda _: right, text)


def _amount_of_number(comparison: ValueComparison | None, path: tuple[str, ...]) -> Quantity | None:
    """The amount that a number stands for which is compared with a capacity; None if it is no number."""
    if comparison is None or comparison.path != path or type(comparison.literal) not in (int, float):
        return None
    guess = quantity_of_number(str(comparison.literal), path[2])
    return Quantity.parse(guess.text) if guess is not None else None


def _by_value(comparison: ValueComparison, arriving: Sequence[VisibleDevice]) -> Iterator[ConditionRepair]:
    """Repairs for a string that is compared with an unpublished name but is the value of another attribute."""
    wanted, (side, domain, *_) = comparison.literal, comparison.path
    if side != "attributes" or comparison.operator != "==" or not isinstance(wanted, str) or len(wanted) < 2:
        return
    for visible in arriving[:1]:
        for key, attribute in visible.device.attributes.items():
            of, name = qualified(key, visible.driver)
            if of == domain and attribute.string and wanted.lower() in attribute.string.lower():
                text = comparison_text(("attributes", domain, name), "==", attribute.string)
                yield ConditionRepair("likely", f"request {name} {literal(attribute.string)}", text)


def _unknown_domain(
    text: str, path: tuple[str, ...], arriving: Sequence[VisibleDevice], published: PublishedNames
) -> ConditionFinding:
    domain, name = path[1], path[2]
    domains = published.domains()
    similar = of_similar_owner(domain, domains)
    names = similar_names(domain, similar)
    summary = f'no device publishes anything in the domain "{domain}".'
    if not names and "." not in domain:
        # device.attributes["model"]: the author used the attribute as the domain.
        found = tuple(ConditionRepair("likely", c.text, c.expression) for c in selector_corrections(text, published))
        driver = next((visible.driver for visible in arriving), next(iter(sorted(published.drivers)), "domain"))
        kind, right = intended_name(driver, domain, path[0], published)
        hint = path_text((kind, driver, right)) if found else f'device.{kind}["{driver}"].…'
        summary = f"{summary} Index by the domain first, then by the name: {hint}"
        return ConditionFinding("unknown-driver", summary, None, found)
    summary += did_you_mean(domain, similar) or f" Published domains: {', '.join(domains)}"
    repairs = [_rename(domain, n, f'read {name} from "{n}"') for n in names]
    return ConditionFinding("unknown-driver", summary, None, tuple(repairs))


def _type_mismatch(comparison: ValueComparison, arriving: Sequence[VisibleDevice]) -> ConditionFinding | None:
    """The finding if the literal has another type than the attribute of the devices."""
    path, wanted = comparison.path, comparison.literal
    if path[0] != "attributes" or comparison.operator in ("!=", "in"):
        return None
    for visible in arriving:
        attribute = find_attribute(visible.device, visible.driver, f"{path[1]}/{path[2]}")
        if attribute is None:
            continue
        kind = attribute_kind(attribute)
        if kind not in _KIND or kind == _kind_of(wanted) or (kind == "int" and isinstance(wanted, float)):
            return None
        first, actual = visible, value_of(comparison, visible)
        break
    else:
        return None
    summary = f"{path[2]} is {_KIND[kind]}, but is compared with the {_kind_of(wanted)} {value_text(wanted)}"
    repairs = []
    typed = _as_kind(wanted, kind)
    # A number as text is what was intended only if a device has this text.
    if typed is not None and (kind != "string" or any(value_of(comparison, s) == typed for s in arriving)):
        becomes = comparison_text(path, comparison.operator, typed)
        repairs.append(ConditionRepair("name", f"compare with {literal(typed)}", becomes))
    if actual is not None and typed != actual:
        repairs.append(
            ConditionRepair(
                "other-value",
                f"request {literal(actual)}",
                comparison_text(path, "==", actual),
                size=value_distance(typed if typed is not None else wanted, actual),
            )
        )
    nearest = NearestMiss(
        device=first.name,
        what=path[2],
        actual=f"{actual} ({kind})",
        wanted=f"{value_text(wanted)} ({_kind_of(wanted)})",
    )
    return ConditionFinding("type-mismatch", summary, nearest, tuple(repairs))


def _kind_of(value: object) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int"
    if isinstance(value, float):
        return "double"
    if isinstance(value, Semver):
        return "version"
    if isinstance(value, Quantity):
        return "quantity"
    return "string"


def _as_kind(value: object, kind: str) -> object | None:
    """The value converted to another type, or None if its text is not valid for it."""
    text = literal(value) if isinstance(value, bool) else str(value)
    if kind == "int" and re.fullmatch(r"-?\d{1,18}", text):
        return int(text)
    if kind == "bool" and text in ("true", "false"):
        return text == "true"
    if kind == "string":
        return text
    if kind == "version":
        try:
            return Semver.parse(text, normalize=True)
        except ValueError:
            return None
    return None


def _value_mismatch(
    conjunct: Conjunct,
    comparison: ValueComparison,
    arriving: Sequence[VisibleDevice],
    of_class: bool,
    repairs: list[ConditionRepair],
    stated: int,
) -> ConditionFinding:
    """The finding if the devices have other values: too small, too large, or different."""
    path, operator, wanted = comparison.path, comparison.operator, comparison.literal
    valued = [(visible, value) for visible in arriving if (value := value_of(comparison, visible)) is not None]
    if not valued:
        finding = _plain(conjunct, of_class, None, repairs)
        side = "capacity" if path[0] == "capacity" else "attribute"
        return ConditionFinding(
            finding.code, f"the devices do not publish {side} {path[2]} of {path[1]}", None, finding.repairs
        )
    best, actual = min(valued, key=lambda pair: value_distance(wanted, pair[1]))
    # The name of the capacity is the noun of the sentence.
    nearest = NearestMiss(
        device=best.name,
        kind=best.kind,
        what=path[-1],
        actual=value_text(actual),
        wanted=OPERATOR_WORDS[operator] + value_text(wanted),
    )
    if isinstance(wanted, Quantity) or operator in ("<", "<=", ">", ">="):
        repairs = [*other_amounts(comparison, [value for _, value in valued], actual, stated), *repairs]
    if path[0] == "capacity" and operator in (">", ">="):
        summary = (
            f"{nearest.wanted} of {path[-1]} requested; the devices have at most {comparable_text(actual, wanted)}"
            if operator == ">"
            else f"{wanted} of {path[-1]} requested; the devices have at most {comparable_text(actual, wanted)}"
        )
        code = "not-enough-capacity"
        return ConditionFinding(code, summary, nearest, tuple(repairs))
    finding = _plain(conjunct, of_class, nearest, repairs)
    different = sorted({value_text(value) for _, value in valued})
    wanted_text = f"{path[-1]} {relation(operator)}{value_text(wanted)}"
    summary = f"no device has {wanted_text}; the devices have {first_few(different, 4)}"
    return ConditionFinding(finding.code, summary, nearest, finding.repairs)
