"""What the compiler says, in the words of who wrote the expression."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

_TYPES: Final = {
    "kubernetes.Quantity": "a quantity", "kubernetes.Semver": "a version", "string": "text", "int": "a number",
    "double": "a number", "uint": "an unsigned number", "bool": "true or false", "any": "an attribute",
    "google.protobuf.Any": "an attribute", "dyn": "an attribute", "null": "null", "null_type": "null",
    "kubernetes.DRADevice": "the device", "type": "a type",
}  # fmt: skip
_OVERLOAD: Final = re.compile(r"found no matching overload for '(.+)' applied to '(?:(.*)\.)?\((.*)\)'")
_OPERATOR: Final = re.compile(r"_(.+)_")


def worded(message: str) -> str:
    """A finding of the compiler as a sentence.

    >>> worded("found no matching overload for '_>_' applied to '(string, int)'")
    'CEL has no > between text and a number'
    >>> worded("undeclared reference to 'gpu' (in container '')")
    'there is no gpu here: an expression sees only device'
    >>> worded("found no matching overload for 'slice' applied to 'list(string).(list(int), string)'")
    'a list has no slice that takes a list and text'
    """
    for pattern, say in _SENTENCES:
        found = pattern.match(message)
        if found is not None:
            return say(found)
    return message


def type_name(name: str) -> str:
    """What a type is to who wrote the expression.

    >>> type_name("map(string, any)"), type_name("list(string)"), type_name("kubernetes.Quantity")
    ('a whole map', 'a list', 'a quantity')
    """
    if name.startswith("map("):
        return "a whole map"
    if name.startswith("list("):
        return "a list"
    return "an optional value" if name.startswith("optional_type(") else _TYPES.get(name, name)


def _overload(found: re.Match[str]) -> str:
    function, receiver, arguments = found.groups()
    types = [type_name(one) for one in _split(arguments)]
    if function == "@in":
        return f"CEL cannot look for {types[0]} in {types[1]}"
    if function == "_[_]":
        return f"{types[0]} cannot be indexed by {types[1]}"
    if function == "_?_:_":
        return "the two results of ? : must be of one type"
    operator = _OPERATOR.fullmatch(function)
    if operator and len(types) == 2:
        return f"CEL has no {operator[1]} between {types[0]} and {types[1]}"
    if function.startswith(("!", "-")):
        return f"CEL has no {function[0]} of {types[0]}"
    given = " and ".join(types) or "nothing"
    if receiver:
        what = type_name(receiver)
        return f"{what} has no {function} that takes {given}"
    return f"{function} does not take {given}"


def _split(arguments: str) -> list[str]:
    """The types of a call's arguments; commas stand inside of types, too."""
    found, depth, start = [], 0, 0
    for number, letter in enumerate(arguments):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            found.append(arguments[start:number].strip())
            start = number + 1
    return [*found, arguments[start:].strip()] if arguments.strip() else []


def _syntax(found: re.Match[str]) -> str:
    text = found[1]
    if text == "<EOF>":
        return "the expression ends too early: something is missing at its end"
    if text in ('"', "'"):
        return f"a {text} that opens a text has none that closes it"
    return f"{text} cannot stand here"


_SENTENCES: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...]] = (
    (_OVERLOAD, _overload),
    (
        re.compile(r"undeclared reference to '(.+)' \(in"),
        lambda m: f"there is no {m[1]} here: an expression sees only device",
    ),
    (
        re.compile(r"undefined field '(.+)'"),
        lambda m: f"a device has no {m[1]}: it has driver, attributes, capacity and allowMultipleAllocations",
    ),
    (re.compile(r"Syntax error: token recognition error at: '(.+)'", re.DOTALL), _syntax),
    (re.compile(r"Syntax error: mismatched input '(.*?)' expecting", re.DOTALL), _syntax),
    (
        re.compile(r"expected type 'bool' but found '(.+)'"),
        lambda m: f"only what is true or false can be joined by && and ||, and this is {type_name(m[1])}",
    ),
    (
        re.compile(r"expected type '(.+)' but found '(.+)'"),
        lambda m: f"all parts of a list are of one type: the first is {type_name(m[1])}, this is {type_name(m[2])}",
    ),
    (
        re.compile(r"must evaluate to bool or the unknown type, not (.+)", re.DOTALL),
        lambda m: f"a selector must be true or false, and this is {type_name(m[1])}",
    ),
    (re.compile(r"type '(.+)' does not support field selection"), lambda m: f"{type_name(m[1])} has no fields"),
    (re.compile(r"reserved identifier: (.+)"), lambda m: f"{m[1]} is a reserved word of CEL"),
    (re.compile(r"invalid matches argument"), lambda _: "this is no regular expression (RE2)"),
)
