"""Why a condition of a selector keeps no device: what is wrong with it, how near it came, and how to mend its text.

A condition is one operand of the selector's outermost ``&&``. Of a plain comparison (``path operator literal``) the
actual values can be told; of anything else only the names it reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from allotment.cel import Conjunct, DeviceInput, DeviceReference, EvaluationError, ValueComparison
from allotment.cel.ordering_operators import method_ordering
from allotment.engine.claims.constraints import find_attribute
from allotment.engine.diagnosis.published_names import Published, attribute_kind, did_you_mean, near, qualified
from allotment.engine.diagnosis.visible_devices import Seen
from allotment.engine.refusal import Miss
from allotment.model.quantity import Quantity
from allotment.model.semver import Semver
from allotment.phrases import first_few

_WORDS = {
    "==": "", "in": "one of ", "!=": "anything but ",
    "<": "less than ", "<=": "at most ", ">": "more than ", ">=": "at least ",
}  # fmt: skip
_KIND = {"int": "an int", "bool": "a bool", "string": "a string", "version": "a version"}


@dataclass(frozen=True, slots=True)
class Repair:
    """A text that could replace the condition; ``""`` drops it.

    ``rename`` (pattern and replacement) corrects a name wherever the selector uses it.
    """

    remedy: str
    words: str
    becomes: str = ""
    rename: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """The cause that a condition gives, and the repairs worth trying. Unset ``code``: nothing special about it."""

    code: str
    summary: str
    nearest: Miss | None = None
    repairs: tuple[Repair, ...] = ()


def literal(value: object) -> str:
    """A value as CEL writes it.

    >>> literal("a100"), literal(True), literal(Quantity.parse("24Gi")), literal(Semver.parse("1.2.3"))
    ('"a100"', 'true', 'quantity("24Gi")', 'semver("1.2.3")')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Quantity):
        return f'quantity("{value}")'
    if isinstance(value, Semver):
        return f'semver("{value}")'
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'
    return str(value)


def shown(value: object) -> str:
    """A value as a sentence shows it: strings quoted, amounts plain."""
    if isinstance(value, tuple):
        return ", ".join(shown(one) for one in value)
    return f'"{value}"' if isinstance(value, str) else literal(value) if isinstance(value, bool) else str(value)


def path_text(path: tuple[str, ...]) -> str:
    """A path as CEL writes it.

    >>> path_text(("capacity", "gpu.nvidia.com", "memory"))
    'device.capacity["gpu.nvidia.com"].memory'
    """
    return f"device.{path[0]}" if len(path) == 1 else f'device.{path[0]}["{path[1]}"].{path[2]}'


def comparison_text(path: tuple[str, ...], operator: str, value: object) -> str:
    """A comparison in CEL; amounts and versions have no order operators and use ``compareTo``.

    >>> comparison_text(("capacity", "d", "memory"), ">=", Quantity.parse("23034Mi"))
    'device.capacity["d"].memory.compareTo(quantity("23034Mi")) >= 0'
    """
    if isinstance(value, Quantity | Semver) and operator not in ("==", "!="):
        return method_ordering(path_text(path), operator, literal(value))
    return f"{path_text(path)} {operator} {literal(value)}"


def value_of(comparison: ValueComparison, seen: Seen) -> object | None:
    """What a device has at the path of a comparison; None if it has nothing there, or nothing that can be read."""
    try:
        value: object = comparison.actual(DeviceInput(seen.driver, seen.device))
    except EvaluationError:
        return None
    return value


def examine(
    conjunct: Conjunct, names: Sequence[DeviceReference], arriving: Sequence[Seen], published: Published, *, of_class: bool
) -> Finding:
    """Say why ``conjunct``, which names ``names``, keeps none of the devices that arrive at it.

    The order matters: a name that nobody publishes explains a false comparison, never the reverse.
    """
    comparison = conjunct.comparison
    repairs = [Repair("condition", f"drop the condition {one_line(conjunct.text)}", "")]
    if published.slices:
        for name in names:
            finding = _unknown_name(conjunct.text, (name.kind, name.domain, name.name), arriving, published)
            if finding is not None:
                guesses = _by_value(comparison, arriving) if comparison is not None and not finding.repairs else ()
                return _with(finding, [*guesses, *repairs])
    if comparison is None:
        return _plain(conjunct, of_class, None, repairs)
    if comparison.path == ("driver",):
        return _driver(conjunct, comparison, published, of_class, repairs)
    mismatch = _type_mismatch(comparison, arriving)
    if mismatch is not None:
        return _with(mismatch, repairs)
    return _too_little_or_other(conjunct, comparison, arriving, of_class, repairs)


def _driver(
    conjunct: Conjunct, comparison: ValueComparison, published: Published, of_class: bool, repairs: list[Repair]
) -> Finding:
    """``device.driver`` compared with a name: misspelt, not installed, or not on this node."""
    wanted = comparison.literal
    if comparison.operator != "==" or not isinstance(wanted, str):
        return _plain(conjunct, of_class, None, repairs)
    if wanted in published.drivers:
        return Finding("driver-missing", f'no device of driver "{wanted}" on the node', None, tuple(repairs))
    names = near(wanted, published.drivers)
    summary = f'no ResourceSlice is of driver "{wanted}".{did_you_mean(wanted, published.drivers)}'
    if not names:
        drivers = ", ".join(sorted(published.drivers))
        return Finding("driver-missing", f"{summary} Drivers here: {drivers}", None, tuple(repairs))
    renames = [_rename(wanted, n, f'write the driver as "{n}"') for n in names]
    return Finding("unknown-driver", summary, None, (*renames, *repairs))


def _with(finding: Finding, repairs: Sequence[Repair]) -> Finding:
    return Finding(finding.code, finding.summary, finding.nearest, (*finding.repairs, *repairs))


def _plain(conjunct: Conjunct, of_class: bool, nearest: Miss | None, repairs: Sequence[Repair]) -> Finding:
    code = "class-matches-nothing" if of_class else "selector-matches-nothing"
    return Finding(code, f"no device satisfies {one_line(conjunct.text)}", nearest, tuple(repairs))


def one_line(text: str) -> str:
    """A condition on one line, as reasons print it."""
    return " ".join(text.split())


def _rename(old: str, new: str, words: str) -> Repair:
    """Write ``new`` for ``old``: a whole name, not a part of a longer one (nor of a longer domain)."""
    before = r"(?<![\w\-])" if "." not in old else r"(?<![\w.\-])"
    return Repair("name", words, rename=(rf"{before}{re.escape(old)}(?![\w\-])", new.replace("\\", r"\\")))


def _unknown_name(text: str, path: tuple[str, ...], arriving: Sequence[Seen], published: Published) -> Finding | None:
    """A name that nobody publishes, or that is published on the other side."""
    side, domain, name = path[0], path[1], path[2]
    attributes, capacities = published.attributes.get(domain, {}), published.capacities.get(domain, frozenset())
    here, there = (capacities, attributes) if side == "capacity" else (attributes, capacities)
    if name in here:
        return None
    if name in there:
        if side == "capacity":
            code, words = "attribute-read-as-capacity", f"{name} is an attribute of {domain}, not a capacity"
            other = "attributes"
        else:
            code, words = "capacity-read-as-attribute", f"{name} is a capacity of {domain}, not an attribute"
            other = "capacity"
        right = path_text((other, domain, name))
        becomes = re.sub(
            rf"device\.{side}\s*\[\s*(['\"]){re.escape(domain)}\1\s*\]\s*\.\s*{re.escape(name)}\b",
            lambda _: right,
            text,
        )
        return Finding(code, f"{words}: {right}", None, (Repair("name", f"read {right}", becomes),))
    if not attributes and not capacities and domain not in published.drivers:
        return _unknown_domain(text, path, arriving, published)
    what = "capacity" if side == "capacity" else "attribute"
    names = near(name, here)
    listed = ", ".join(sorted(here)) or "none"
    summary = f'no device publishes {what} "{name}" of {domain}.' + (
        did_you_mean(name, here) or f" Published: {listed}"
    )
    repairs = [_rename(name, n, f"write the {what} as {n}") for n in names]
    if not names:
        crossed = near(name, there)
        other = "attributes" if side == "capacity" else "capacity"
        repairs = [
            Repair("likely", f"read {path_text((other, domain, n))}", path_text((other, domain, n))) for n in crossed
        ]
        if crossed:
            summary += f"; {other}: {', '.join(crossed)}"
    return Finding("unknown-attribute", summary, None, tuple(repairs))


def _by_value(comparison: ValueComparison, arriving: Sequence[Seen]) -> Iterator[Repair]:
    """A string that is looked for under a name which nobody publishes, and stands in an attribute of another name."""
    wanted, (side, domain, *_) = comparison.literal, comparison.path
    if side != "attributes" or comparison.operator != "==" or not isinstance(wanted, str) or len(wanted) < 2:
        return
    for seen in arriving[:1]:
        for key, attribute in seen.device.attributes.items():
            of, name = qualified(key, seen.driver)
            if of == domain and attribute.string and wanted.lower() in attribute.string.lower():
                text = comparison_text(("attributes", domain, name), "==", attribute.string)
                yield Repair("likely", f"ask for {name} {literal(attribute.string)}", text)


def _unknown_domain(text: str, path: tuple[str, ...], arriving: Sequence[Seen], published: Published) -> Finding:
    domain, name = path[1], path[2]
    domains = published.domains()
    names = near(domain, domains)
    summary = f'nothing is published in the domain "{domain}", which reads as an empty map.'
    if not names and "." not in domain:
        # attributes["model"]: the author took the domain for the attribute.
        drivers = sorted({seen.driver for seen in arriving}) or sorted(published.drivers)
        driver = drivers[0] if drivers else "domain"
        known = (
            published.attributes.get(driver, {}) if path[0] == "attributes" else published.capacities.get(driver, ())
        )
        meant = near(domain, known, 1)
        right = path_text((path[0], driver, *meant)) if meant else f'device.{path[0]}["{driver}"].…'
        summary = f"{summary} The index is the domain, the name comes after it: {right}"
        wrong = path_text((path[0], domain, name))
        lookup = re.sub(r"\s+", "", text).replace("'", '"')
        rewritten = lookup.replace(wrong, right)
        found = (Repair("likely", f"read {right}", rewritten),) if meant and rewritten != lookup else ()
        return Finding("unknown-driver", summary, None, found)
    summary += did_you_mean(domain, domains) or f" Domains here: {', '.join(domains)}"
    repairs = [_rename(domain, n, f'look {name} up in "{n}"') for n in names]
    return Finding("unknown-driver", summary, None, tuple(repairs))


def _type_mismatch(comparison: ValueComparison, arriving: Sequence[Seen]) -> Finding | None:
    """A literal whose type no arriving device's attribute has."""
    path, wanted = comparison.path, comparison.literal
    if path[0] != "attributes" or comparison.operator in ("!=", "in"):
        return None
    for seen in arriving:
        attribute = find_attribute(seen.device, seen.driver, f"{path[1]}/{path[2]}")
        if attribute is None:
            continue
        kind = attribute_kind(attribute)
        if kind not in _KIND or kind == _kind_of(wanted) or (kind == "int" and isinstance(wanted, float)):
            return None
        first, actual = seen, value_of(comparison, seen)
        break
    else:
        return None
    summary = f"{path[2]} is {_KIND[kind]} and is compared with the {_kind_of(wanted)} {shown(wanted)}"
    repairs = []
    typed = _as_kind(wanted, kind)
    if typed is not None:
        becomes = comparison_text(path, comparison.operator, typed)
        repairs.append(Repair("name", f"compare with {literal(typed)}", becomes))
    if actual is not None and typed != actual:
        repairs.append(Repair("other-value", f"ask for {literal(actual)}", comparison_text(path, "==", actual)))
    nearest = Miss(
        device=first.name, what=path[2], actual=f"{actual} ({kind})", wanted=f"{shown(wanted)} ({_kind_of(wanted)})"
    )
    return Finding("type-mismatch", summary, nearest, tuple(repairs))


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
    """The value in another type, if its text reads as one."""
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


def _too_little_or_other(
    conjunct: Conjunct, comparison: ValueComparison, arriving: Sequence[Seen], of_class: bool, repairs: list[Repair]
) -> Finding:
    """The values are there and are others: too small, too large, or different."""
    path, operator, wanted = comparison.path, comparison.operator, comparison.literal
    valued = [(seen, value) for seen in arriving if (value := value_of(comparison, seen)) is not None]
    if not valued:
        finding = _plain(conjunct, of_class, None, repairs)
        side = "capacity" if path[0] == "capacity" else "attribute"
        return Finding(
            finding.code, f"the devices here do not publish {side} {path[2]} of {path[1]}", None, finding.repairs
        )
    best, actual = _nearest(valued, wanted)
    # Upstream's own names for amounts carry the unit; the name of the capacity is the noun.
    nearest = Miss(
        device=best.name, kind=best.kind, what=path[-1], actual=shown(actual), wanted=_WORDS[operator] + shown(wanted)
    )
    relaxed = operator.rstrip("=") + "=" if operator in ("<", ">") else operator
    if isinstance(actual, Quantity) and operator == "==":
        relaxed = ">="  # drivers publish exact bytes; asking for equality again would be the same trap
    remedy = "other-value" if relaxed == "==" else "less"
    relaxation = Repair(remedy, _ask(path[-1], relaxed, actual), comparison_text(path, relaxed, actual))
    repairs = [*([relaxation] if operator != "!=" else []), *repairs]
    if operator == "==" and isinstance(wanted, Quantity) and any(v > wanted for _, v in valued if type(v) is Quantity):
        # Who writes == for an amount mostly means "at least"; where that helps it is the smaller change.
        repairs.insert(0, Repair("likely", _ask(path[-1], ">=", wanted), comparison_text(path, ">=", wanted)))
    if path[0] == "capacity" and operator in (">", ">="):
        summary = (
            f"{nearest.wanted} {path[-1]} asked, the most that a device here has is {actual}"
            if operator == ">"
            else f"{wanted} of {path[-1]} asked, the most that a device here has is {actual}"
        )
        code = "not-enough-capacity"
        return Finding(code, summary, nearest, tuple(repairs))
    finding = _plain(conjunct, of_class, nearest, repairs)
    different = sorted({shown(value) for _, value in valued})
    summary = f"no device has {path[-1]} {_WORDS[operator]}{shown(wanted)}; here it is {first_few(different, 4)}"
    return Finding(finding.code, summary, nearest, finding.repairs)


def _ask(name: str, operator: str, value: object) -> str:
    return f"ask for {name} {_WORDS[operator]}{shown(value)}"


def _nearest(valued: Sequence[tuple[Seen, object]], wanted: object) -> tuple[Seen, object]:
    """The device whose value misses by least; the first of equals."""

    def distance(pair: tuple[Seen, object]) -> float:
        value = pair[1]
        if isinstance(value, Quantity) and isinstance(wanted, Quantity):
            return float(abs(value.nano - wanted.nano))
        if isinstance(value, int) and isinstance(wanted, int | float):
            return abs(float(value) - float(wanted))
        if isinstance(value, str) and isinstance(wanted, str):
            from difflib import SequenceMatcher

            return -SequenceMatcher(None, value.lower(), wanted.lower(), autojunk=False).ratio()
        return 0.0

    return min(valued, key=distance)
