"""V304: a value that an attribute never has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from allotment.engine.diagnosis.published_names import likeness, near, qualified
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.names.known_names import SLIP, words_of
from allotment.tools.check.rule import Fix, Found, Rule
from allotment.tools.check.selectors.edits import replaced
from allotment.tools.check.selectors.expressions import Compared, Expression, Literally, read_selectors
from allotment.tools.sentences import either, quoted
from allotment.tools.views import SelectorView
from allotment.vocabulary import Attribute

#: Attributes whose values have a rule of their own (V307).
_PROFILE = "gpu.nvidia.com/profile"


class _Meant(NamedTuple):
    """What was probably meant: a value, or ``part`` of many."""

    value: str
    part: bool = False


def _find(bundle: Bundle) -> Iterator[Found]:
    for view, read in read_selectors(bundle):
        for compared in read.compared:
            access = compared.access
            words = words_of(bundle, access.domain)
            term = words.attribute(access.domain, access.name) if words is not None else None
            if access.kind != "attributes" or term is None or term.kind != "string" or term.name == _PROFILE:
                continue
            known = {*term.values, *bundle.kept(_published).get(term.name, ())}
            if not known or compared.operator not in ("==", "!=", "in"):
                continue
            for literal in compared.literals:
                if isinstance(literal.value, str) and literal.value not in known:
                    yield from _told(view, read, compared, literal, term, known)


def _told(
    view: SelectorView, read: Expression, compared: Compared, literal: Literally, term: Attribute, known: set[str]
) -> Iterator[Found]:
    value = str(literal.value)
    is_product = term.name.endswith("/productName")
    meant = _product(value, known) if is_product else [_Meant(one) for one in _named(value, known, closed=term.closed)]
    if not meant and not term.closed:
        return
    message = f'no known device has {compared.access.name} "{value}"'
    if len(meant) == 1 and not meant[0].part:
        message += f': did you mean "{meant[0].value}"?'
    elif meant:
        message += ": the names that have it in them are longer" if meant[0].part else ""
    values = sorted(one for one in known if value.lower() in one.lower()) if meant and meant[0].part else sorted(known)
    shown = either(map(quoted, values[:12]))
    yield Found(
        view.document,
        view.path,
        message,
        help=f"{compared.access.name} is {shown}" + (", and so on" if len(values) > 12 else ""),
        fix=_fix(view, read, compared, literal, meant, known),
        part=literal.extent,
    )


def _fix(
    view: SelectorView, read: Expression, compared: Compared, literal: Literally, meant: list[_Meant], known: set[str]
) -> Fix | None:
    if len(meant) != 1:
        return None
    quote = "'" if view.expression[literal.extent[0]] == "'" else '"'
    text = f"{quote}{meant[0].value}{quote}"
    if not meant[0].part:
        edit = replaced(view, literal.extent, text)
        return Fix(f"compare with {text}", ((view.document, edit),), safe=False)
    start, stop = compared.access.extent
    if compared.operator == "in":
        parts = [_product(str(one.value), known) for one in compared.literals]
        if any(len(one) != 1 or not one[0].part for one in parts):
            return None
        tests = " || ".join(f"{view.expression[start:stop]}.contains({quote}{one[0].value}{quote})" for one in parts)
        whole = compared.extent == (0, len(view.expression))
        edit = replaced(view, compared.extent, tests if whole else f"({tests})")
        text = f"ask whether {compared.access.name} contains one of them"
        return Fix(text, ((view.document, edit),), safe=False)
    negation = "!" if compared.operator == "!=" else ""
    edit = replaced(view, compared.extent, f"{negation}{view.expression[start:stop]}.contains({text})")
    return Fix(f"ask whether {compared.access.name} contains {text}", ((view.document, edit),), safe=False)


def _named(value: str, known: set[str], *, closed: bool) -> list[str]:
    """The values that one was meant for. Where there may be others, a number makes it another value, not a slip.

    >>> _named("Amper", {"Ampere", "Hopper"}, closed=False), _named("0x2331", {"0x2330"}, closed=False)
    (['Ampere'], [])
    """
    same = sorted(one for one in known if _plain(one) == _plain(value))
    if same or closed:
        return same or list(near(value, known))
    if any(letter.isdigit() for letter in value):
        return []
    return [one for one in near(value, known) if likeness(value, one) >= SLIP or set(_words(value)) < set(_words(one))]


def _product(value: str, known: Iterable[str]) -> list[_Meant]:
    """The product that a name was meant for. Only what cannot be a whole name is held to be none.

    >>> _product("h100", ["NVIDIA H100 80GB HBM3", "Tesla T4"]), _product("NVIDIA L40", ["NVIDIA L40S"])
    ([_Meant(value='H100', part=True)], [])
    """
    plain = _plain(value)
    if not plain:
        return []
    same = [one for one in known if _plain(one) == plain]
    if same:
        return [_Meant(one) for one in sorted(same)]
    inside = [one for one in sorted(known) if _holds(_words(one), _words(value))]
    if not inside:
        return []
    if value in inside[0] or value.upper() in inside[0]:
        return [_Meant(value if value in inside[0] else value.upper(), part=True)]
    return [_Meant(one) for one in inside] if len(inside) == 1 else []


def _holds(whole: list[str], part: list[str]) -> bool:
    """Whether words stand in a row among others: a model's name within a product's."""
    return any(whole[n : n + len(part)] == part for n in range(len(whole) - len(part) + 1))


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", name.lower())


def _plain(name: str) -> str:
    return "".join(_words(name))


def _published(bundle: Bundle) -> dict[str, set[str]]:
    """The values that given slices have, by the full names of attributes."""
    found: dict[str, set[str]] = {}
    for one in bundle.slices or ():
        for device in one.spec.devices or ():
            for key, attribute in device.attributes.items():
                if attribute.string:
                    found.setdefault("/".join(qualified(key, one.spec.driver)), set()).add(attribute.string)
    return found


RULE = Rule(
    code="V304",
    name="unknown-value",
    family="vocabulary",
    level="warning",
    summary="an attribute is compared with a value that no known device has",
    why=(
        "Values are compared to the letter: 'ampere' is not 'Ampere', and NVML calls an H100 'NVIDIA H100 80GB HBM3'. "
        "Such a comparison is simply false, so the pod stays pending without any error. Where an attribute may have "
        "values that nobody told us of (products), only what comes near a known one is told."
    ),
    bad=examples.template("ampere", selector='device.attributes["gpu.nvidia.com"].architecture == "ampere"'),
    good=examples.template("ampere", selector='device.attributes["gpu.nvidia.com"].architecture == "Ampere"'),
    find=_find,
    fixable="unsafe",
)
