"""V312: an attribute compared with a literal of another kind than its values are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.names.known_names import words_of
from allotment.tools.check.rule import Fix, Found, Rule
from allotment.tools.check.selectors.edits import replaced
from allotment.tools.check.selectors.expressions import Access, Compared, Literally, read_selectors
from allotment.tools.views import SelectorView

#: What to call values and literals of a kind.
_CALLED: Final = {
    "string": "a string", "int": "a whole number", "bool": "true or false", "version": "a version",
    "double": "a number",
}  # fmt: skip
_INT = re.compile(r"-?[0-9]{1,18}")


def _find(bundle: Bundle) -> Iterator[Found]:
    for view, read in read_selectors(bundle):
        for compared in read.compared:
            kind = _kind(bundle, compared.access)
            if not kind:
                continue
            for literal in compared.literals:
                found = _kind_of(literal, kind)
                # A version compared with a text or a number is an error, and C203's.
                if found and found != kind and (kind != "version" or found == "bool"):
                    yield _told(view, compared, literal, kind, found)


def _kind(bundle: Bundle, access: Access) -> str:
    """The kind of an attribute's values, by the given slices or the driver's words; empty where nobody knows."""
    if access.kind != "attributes":
        return ""
    if bundle.published is not None:
        kinds = bundle.published.attributes.get(access.domain, {}).get(access.name, frozenset())
        if kinds:
            return next(iter(kinds)) if len(kinds) == 1 and kinds <= set(_CALLED) else ""
    words = words_of(bundle, access.domain)
    term = words.attribute(access.domain, access.name) if words is not None else None
    return term.kind if term is not None else ""


def _kind_of(literal: Literally, kind: str) -> str:
    """The kind of a literal; empty for those that other rules speak of."""
    if isinstance(literal.value, bool):
        return "bool"
    if isinstance(literal.value, int):
        return "int"
    if isinstance(literal.value, float):
        # In CEL 4 equals 4.0.
        return "int" if kind == "int" and literal.value.is_integer() else "double"
    return "string" if isinstance(literal.value, str) else ""


def _told(view: SelectorView, compared: Compared, literal: Literally, kind: str, found: str) -> Found:
    access = compared.access
    written = view.expression[literal.extent[0] : literal.extent[1]]
    return Found(
        view.document,
        view.path,
        f"{access.name} is {_CALLED[kind]}, and {written} is {_CALLED[found]}: they are never equal"
        if compared.operator in ("==", "!=", "in")
        else f"{access.name} is {_CALLED[kind]}, and {written} is {_CALLED[found]}: comparing them is an error",
        fix=_fix(view, literal, kind, written),
        part=literal.extent,
    )


def _fix(view: SelectorView, literal: Literally, kind: str, written: str) -> Fix | None:
    value = literal.value
    text = ""
    match kind:
        case "int" if isinstance(value, str) and _INT.fullmatch(value.strip()):
            text = str(int(value))
        case "bool" if isinstance(value, str) and value.lower() in ("true", "false"):
            text = value.lower()
        case "string" if isinstance(value, bool | int | float):
            text = f'"{written}"'
    if not text:
        return None
    edit = replaced(view, literal.extent, text)
    return Fix(f"compare with {text}", ((view.document, edit),), safe=True)


RULE = Rule(
    code="V312",
    name="wrong-kind",
    family="vocabulary",
    level="warning",
    summary="an attribute is compared with a literal of another kind than its values",
    why=(
        "An attribute has a type (string, version, int, bool), which the API server does not know when it checks an "
        "expression. In CEL values of different types are never equal, without any error, and ordering them fails "
        "when the selector runs."
    ),
    bad=examples.template(
        "channel",
        class_name="compute-domain-default-channel.nvidia.com",
        request="channel",
        selector='device.attributes["compute-domain.nvidia.com"].id == "0"',
    ),
    good=examples.template(
        "channel",
        class_name="compute-domain-default-channel.nvidia.com",
        request="channel",
        selector='device.attributes["compute-domain.nvidia.com"].id == 0',
    ),
    find=_find,
    fixable="safe",
)
