"""Rewords errors of the CEL compiler for authors of selectors."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from allotment.cel.common_mistakes import fix_mistakes
from allotment.cel.quantity_comparisons import comparison_mistake

_TYPES: Final = {
    "kubernetes.Quantity": "a quantity", "kubernetes.Semver": "a version", "string": "a string", "int": "a number",
    "double": "a number", "uint": "an unsigned number", "bool": "a bool", "any": "an attribute",
    "google.protobuf.Any": "an attribute", "dyn": "an attribute", "null": "null", "null_type": "null",
    "kubernetes.DRADevice": "the device", "type": "a type",
}  # fmt: skip
_OVERLOAD: Final = re.compile(r"found no matching overload for '(.+)' applied to '(?:(.*)\.)?\((.*)\)'")
_ISSUE: Final = re.compile(r"compilation failed: ERROR: <input>:\d+:\d+: (.+)")
_OPERATOR: Final = re.compile(r"_(.+)_")


def readable_message(message: str) -> str:
    """A compiler error as a readable sentence; unchanged if it is of an unknown form.

    >>> readable_message("found no matching overload for '_>_' applied to '(string, int)'")
    'CEL has no operator > for a string and a number'
    >>> readable_message("undeclared reference to 'gpu' (in container '')")
    'gpu is undefined: an expression can only use device'
    >>> readable_message("found no matching overload for 'slice' applied to 'list(string).(list(int), string)'")
    'a list has no method slice that takes a list and a string'
    """
    for pattern, render in _SENTENCES:
        match = pattern.match(message)
        if match is not None:
            return render(match)
    return message


def refusal_sentence(expression: str, text: str) -> str:
    """The mistake in an expression that the API server rejects with ``text``, as a sentence; empty if the text is no
    compiler error, or one of an unknown form.

    >>> refusal_sentence('device.driver = "a"', "compilation failed: ERROR: <input>:1:15: Syntax error: …")
    '= is not valid in CEL: write =='
    """
    issue = _ISSUE.search(text)
    if issue is None:
        return ""
    mistakes = fix_mistakes(expression)
    if mistakes is not None:
        return mistakes.mistakes[0].sentence
    if "kubernetes.Quantity" in issue[1] and (sentence := comparison_mistake(expression)):
        return sentence
    sentence = readable_message(issue[1])
    return sentence if sentence != issue[1] else ""


def type_name(name: str) -> str:
    """The plain name of a CEL type.

    >>> type_name("map(string, any)"), type_name("list(string)"), type_name("kubernetes.Quantity")
    ('a whole map', 'a list', 'a quantity')
    """
    if name.startswith("map("):
        return "a whole map"
    if name.startswith("list("):
        return "a list"
    return "an optional value" if name.startswith("optional_type(") else _TYPES.get(name, name)


def _overload(match: re.Match[str]) -> str:
    function, receiver, arguments = match.groups()
    types = [type_name(name) for name in _split(arguments)]
    if function == "@in":
        return f"CEL cannot test whether {types[0]} is in {types[1]}"
    if function == "_[_]":
        return f"{types[0]} cannot be indexed by {types[1]}"
    if function == "_?_:_":
        return "both results of ? : must have the same type"
    operator = _OPERATOR.fullmatch(function)
    if operator and len(types) == 2:
        return f"CEL has no operator {operator[1]} for {types[0]} and {types[1]}"
    if function.startswith(("!", "-")):
        return f"CEL has no operator {function[0]} for {types[0]}"
    argument_list = " and ".join(types) or "nothing"
    if receiver:
        receiver_type = type_name(receiver)
        return f"{receiver_type} has no method {function} that takes {argument_list}"
    return f"{function}() does not take {argument_list}"


def _split(arguments: str) -> list[str]:
    """The types of a call's arguments; types can contain commas, too."""
    types, depth, start = [], 0, 0
    for number, letter in enumerate(arguments):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            types.append(arguments[start:number].strip())
            start = number + 1
    return [*types, arguments[start:].strip()] if arguments.strip() else []


def _syntax(match: re.Match[str]) -> str:
    text = match[1]
    if text == "<EOF>":
        return "the expression is incomplete: something is missing at the end"
    if text in ('"', "'"):
        return f"a string that starts with {text} has no closing quote"
    return f"{text} is not allowed here"


_SENTENCES: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...]] = (
    (_OVERLOAD, _overload),
    (
        re.compile(r"undeclared reference to '(.+)' \(in"),
        lambda m: f"{m[1]} is undefined: an expression can only use device",
    ),
    (
        re.compile(r"undefined field '(.+)'"),
        lambda m: f"a device has no {m[1]}: it has only driver, attributes, capacity and allowMultipleAllocations",
    ),
    (re.compile(r"Syntax error: token recognition error at: '(.+)'", re.DOTALL), _syntax),
    (re.compile(r"Syntax error: mismatched input '(.*?)' expecting", re.DOTALL), _syntax),
    (
        re.compile(r"expected type 'bool' but found '(.+)'"),
        lambda m: f"&& and || combine only bool values, but this is {type_name(m[1])}",
    ),
    (
        re.compile(r"expected type '(.+)' but found '(.+)'"),
        lambda m: (
            f"all items of a list must have the same type: the first is {type_name(m[1])}, but this is "
            f"{type_name(m[2])}"
        ),
    ),
    (
        re.compile(r"must evaluate to bool or the unknown type, not (.+)", re.DOTALL),
        lambda m: f"a selector must evaluate to true or false, but this is {type_name(m[1])}",
    ),
    (re.compile(r"type '(.+)' does not support field selection"), lambda m: f"{type_name(m[1])} has no fields"),
    (re.compile(r"reserved identifier: (.+)"), lambda m: f"{m[1]} is a reserved word of CEL"),
    (re.compile(r"invalid matches argument"), lambda _: "this is not a valid RE2 regular expression"),
)
