"""Declarative validation: the rules that Kubernetes' types declare for their fields (``+k8s:`` tags).

The API server checks the declared rules after those of its code, in the version in which a client wrote, and reports
both kinds of errors in that order; an error of the code is left out if a declared rule reports the same field for the
same reason. Rules that are ``alpha`` are checked by the code alone, as are ``beta`` ones while the gate
DeclarativeValidationBeta is off, and until 1.36 those of all kinds but one. An update is checked only where it changes
something: parts that are equal to the stored ones are skipped, items of a list by their key. The tables are data
(``data/validation_rules``), written by ``scripts/validation_rules``.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import resources
from typing import Any, Final, NamedTuple, TypeVar

from allotment.model.features import Features
from allotment.model.trees import Tree
from allotment.model.validation import declared_formats
from allotment.model.validation.errors import (
    Errors,
    ErrorType,
    FieldError,
    duplicate,
    forbidden,
    immutable,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from allotment.model.validation.gotext import GoNamedString, GoStruct, size

#: v1beta1 has these fields next to a request's name, and a device's fields under ``basic``.
_FLAT_REQUEST: Final = re.compile(
    r"(spec\.devices\.requests\[\d+\])\."
    "(deviceClassName|selectors|allocationMode|count|adminAccess|tolerations|derivedAttributes)"
)
#: The name of a type of another version: ``scheduling.k8s.io/v1alpha3.Type``.
_QUALIFIED_TYPE: Final = re.compile(r'"([\w.]+/\w+)\.\w+"')
_BASIC_DEVICE: Final = re.compile(r"(spec\.devices\[\d+\])\.basic\.")


#: A declared error, or one without stability.
E = TypeVar("E")


class DeclaredError(NamedTuple):
    """An error of a declared rule; a ``beta`` one replaces errors of the code."""

    error: FieldError
    beta: bool


class Check(NamedTuple):
    """One object that is checked: its state before an update, if any, and the gates."""

    update: bool
    features: Features


def declared_errors(new: Tree, old: Tree | None, features: Features) -> list[DeclaredError]:
    """The errors of a new object, or of an update, by the declared rules of its version and kind."""
    types = _types(features.kube, str(new.get("apiVersion")))
    kind = str(new.get("kind"))
    if kind not in types:
        return []
    found = types[kind](new, old, "", Check(old is not None, features))
    # DeclarativeValidation cannot be turned off, and DeclarativeValidationTakeover has no effect anymore.
    enforces_beta = features.enabled("DeclarativeValidationBeta")
    return [error for error in found if enforces_beta or not error.beta]


def merged(coded: Iterable[FieldError], declared: Sequence[DeclaredError]) -> list[FieldError]:
    """The errors of the code, each once, that no declared rule repeats, then those of the declared rules."""
    repeated = {(error.type, _in_v1(error.path)) for error, beta in declared if beta}
    distinct = {str(error): error for error in coded}.values()
    kept = [error for error in distinct if not error.is_declared or (error.type, error.path) not in repeated]
    return [*kept, *(error for error, _ in declared)]


def is_declared(api_version: str, kind: str, features: Features) -> bool:
    """Whether a kind of a release has declared rules."""
    return kind in _types(features.kube, api_version)


def _in_v1(path: str) -> str:
    """The path in v1 of a path in any version."""
    return _BASIC_DEVICE.sub(r"\1.", _FLAT_REQUEST.sub(r"\1.exactly.\2", path))


# --- compiled rules --------------------------------------------------------------------------------------------------

#: Checks a value against its former state (None: it had none) at a path.
Checker = Callable[[Any, Any, str, Check], Iterator[DeclaredError]]
#: A rule without stages: the errors of one value.
PlainRule = Callable[[Any, Any, str, Check], Errors]


class _Rule(NamedTuple):
    """A rule: whether errors of it are reported, and whether they stop the rules that follow."""

    check: Checker
    is_reported: bool
    stops: bool


@functools.cache
def _table(kube: str) -> dict[str, Any]:
    path = resources.files("allotment.model") / "data" / "validation_rules" / f"{kube}.json"
    return json.loads(path.read_text()) if path.is_file() else {}


@functools.cache
def _types(kube: str, api_version: str) -> Mapping[str, Checker]:
    """The checkers of a version's types, by Go name."""
    types: dict[str, Checker] = {}
    table = _table(kube).get(api_version, {})
    silent = _silent_types(table)
    for name, declared in table.items():
        types[name] = _type(declared, types, silent)
    for version in set(_QUALIFIED_TYPE.findall(json.dumps(table))):
        types.update({f"{version}.{name}": checker for name, checker in _types(kube, version).items()})
    return types


def _silent_types(table: Mapping[str, Any]) -> frozenset[str]:
    """The types of a version whose rules, and those of their fields, never report an error."""
    silent = frozenset(table)
    while True:
        fewer = frozenset(
            name
            for name in silent
            if not any(
                _reports(rules, silent) for rules in (table[name]["rules"], *dict(table[name]["fields"]).values())
            )
        )
        if fewer == silent:
            return silent
        silent = fewer


def _reports(declared: Sequence[Any], silent: frozenset[str]) -> bool:
    """Whether any of the rules can report an error."""
    for rule in declared:
        if isinstance(rule[0], list):
            if _reports(rule, silent):
                return True
        elif (inner := _inner_type(rule)) is not None:
            if inner not in silent:
                return True
        elif rule[1] != "alpha" and not _is_optional(rule):
            return True
    return False


def _inner_type(rule: Sequence[Any]) -> str | None:
    """The type that a rule applies to a value, or to each item of it."""
    match rule:
        case ["type", _, _, str(name)] | ["EachMapVal", _, _, ["type", str(name)]]:
            return name
        case ["EachValSliceVal", _, _, _, ["type", str(name)]]:
            return name
    return None


def _is_optional(rule: Sequence[Any]) -> bool:
    """Whether a rule only stops the rules that follow if its field is not set."""
    return any(isinstance(part, str) and part.startswith("Optional") for part in (rule[0], *rule[3:]))


def _type(declared: Mapping[str, Any], types: Mapping[str, Checker], silent: frozenset[str]) -> Checker:
    rules = _rules(declared["rules"], types)
    fields = [_field(name, rules, types) for name, rules in declared["fields"] if _reports(rules, silent)]

    def check(value: Any, old: Any, path: str, context: Check) -> Iterator[DeclaredError]:
        yield from _apply(rules, value, old, path, context)
        for field in fields:
            yield from field(value, old, path, context)

    return check


def _field(name: str, declared: Sequence[Any], types: Mapping[str, Checker]) -> Checker:
    rules = _rules(declared, types)
    is_pointer = any("Pointer" in str(part) for rule in declared for part in rule)
    is_struct = not is_pointer and declared[-1][0] == "type" and name != ""
    text = json.dumps(declared)
    is_optional = '"Optional' in text and '"Required' not in text

    def check(parent: Any, old_parent: Any, path: str, context: Check) -> Iterator[DeclaredError]:
        value = parent.get(name) if name else parent
        old = old_parent.get(name) if name and old_parent is not None else old_parent
        if context.update:
            if old_parent is not None and (value == old or not (is_pointer or value or old)):
                return
        elif is_optional and (value is None if is_pointer else not value):
            return
        if is_struct and isinstance(value, dict | None) and isinstance(old, dict | None):
            # A struct always has a value; an empty one is not printed.
            value = {} if value is None else value
            old = {} if old is None and old_parent is not None else old
        yield from _apply(rules, value, old, f"{path}.{name}".lstrip(".") if name else path, context)

    return check


def _apply(
    rules: Sequence[_Rule | list[_Rule]], value: Any, old: Any, path: str, context: Check
) -> Iterator[DeclaredError]:
    stopped = False
    for rule in rules:
        if isinstance(rule, list):
            yield from _apply(rule, value, old, path, context)
            continue
        if stopped and not rule.stops:
            return
        for error in rule.check(value, old, path, context):
            stopped = stopped or rule.stops
            if rule.is_reported:
                yield error


def _rules(declared: Sequence[Any], types: Mapping[str, Checker]) -> list[Any]:
    """Compile rules; a nested list has rules that stop only each other."""
    return [
        _rules(rule, types) if isinstance(rule[0], list) else _rule(rule[0], rule[1], rule[2], rule[3:], types)
        for rule in declared
    ]


def _rule(name: str, stability: str, stops: bool, arguments: Sequence[Any], types: Mapping[str, Checker]) -> _Rule:
    nested = _nested(name, arguments, types)
    if nested is None:
        plain = _plain(name, arguments)
        beta = stability == "beta"

        def nested(value: Any, old: Any, path: str, context: Check) -> Iterator[DeclaredError]:
            for error in plain(value, old, path, context):
                yield DeclaredError(error, beta)

    is_optional = _is_optional((name, stability, stops, *arguments))
    return _Rule(nested, stability != "alpha" and not is_optional, stops)


def _nested(name: str, arguments: Sequence[Any], types: Mapping[str, Checker]) -> Checker | None:
    """Checkers whose errors have a stability of their own: those of other types and of items."""
    match name:
        case "type":
            return _of_type(arguments[0], types)
        case "EachValSliceVal" if arguments[1][0] == "type":
            return _each_item(arguments[0], _of_type(arguments[1][1], types))
        case "EachMapVal":
            return _each_value(_of_type(arguments[0][1], types))
    return None


def _of_type(name: str, types: Mapping[str, Checker]) -> Checker:
    """The checker of a type, which may be compiled later; a type without rules has none."""

    def check(value: Any, old: Any, path: str, context: Check) -> Iterator[DeclaredError]:
        checker = types.get(name)
        return checker(value, old, path, context) if checker is not None else iter(())

    return check


def _each_item(
    keys: Sequence[str], check_item: Callable[[Any, Any, str, Check], Iterator[E]]
) -> Callable[[Any, Any, str, Check], Iterator[E]]:
    def check(items: Any, old: Any, path: str, context: Check) -> Iterator[E]:
        before = {_key(item, keys): item for item in reversed(old or ())} if keys and context.update else {}
        for index, item in enumerate(items or ()):
            stored = before.get(_key(item, keys)) if keys else None
            if stored is None or stored != item:
                yield from check_item(item, stored, f"{path}[{index}]", context)

    return check


def _each_value(check_value: Checker) -> Checker:
    def check(items: Any, old: Any, path: str, context: Check) -> Iterator[DeclaredError]:
        for key in sorted(items or {}):
            stored = (old or {}).get(key)
            if not context.update or stored is None or stored != items[key]:
                yield from check_value(items[key], stored, f"{path}[{key}]", context)

    return check


def _key(item: Any, keys: Sequence[str]) -> Any:
    return item if list(keys) == [""] else tuple(item.get(key) or None for key in keys)


# --- plain rules -----------------------------------------------------------------------------------------------------


def _plain(name: str, arguments: Sequence[Any]) -> PlainRule:
    if name.startswith(("Optional", "Required", "Forbidden")):
        return _PRESENCE[name.removesuffix("Pointer").removesuffix("Value").removesuffix("Slice").removesuffix("Map")](
            name.endswith("Pointer")
        )
    if name in declared_formats.FORMATS:
        return _format(declared_formats.FORMATS[name])
    return _PLAIN[name](*arguments)


def _presence(error: Callable[[str], FieldError], when_set: bool) -> Callable[[bool], PlainRule]:
    def rule(is_pointer: bool) -> PlainRule:
        def check(value: Any, old: Any, path: str, context: Check) -> Errors:
            if (value is not None if is_pointer else bool(value)) is when_set:
                yield error(path)

        return check

    return rule


_PRESENCE: Final = {
    "Optional": _presence(required, False),  # stops, and is not reported
    "Required": _presence(required, False),
    "Forbidden": _presence(lambda path: forbidden(path, ""), True),
}


def _format(check_format: Callable[[str, str], Errors]) -> PlainRule:
    def check(value: Any, old: Any, path: str, context: Check) -> Errors:
        return check_format(value, path) if value is not None else iter(())

    return check


def _max_items(limit: int) -> PlainRule:
    def check(value: Any, old: Any, path: str, context: Check) -> Errors:
        if len(value or ()) > limit:
            yield too_many(path, len(value), limit)

    return check


def _max_bytes(limit: int) -> PlainRule:
    return _format(lambda text, path: iter([too_long(path, limit)] if size(text) > limit else []))


def _max_length(limit: int) -> PlainRule:
    def check(text: str, path: str) -> Errors:
        if len(text) > limit:
            yield FieldError(ErrorType.TOO_LONG, path, None, f"may not be more than {limit} characters")

    return _format(check)


def _minimum(limit: int) -> PlainRule:
    return _bound(lambda value: value < limit, f"must be greater than or equal to {limit}")


def _maximum(limit: int) -> PlainRule:
    return _bound(lambda value: value > limit, f"must be less than or equal to {limit}")


def _bound(exceeds: Callable[[Any], bool], text: str) -> PlainRule:
    def check(value: Any, old: Any, path: str, context: Check) -> Errors:
        if value is not None and exceeds(value):
            yield invalid(path, value, text)

    return check


def _enum(choices: Sequence[str]) -> PlainRule:
    def check(value: Any, old: Any, path: str, context: Check) -> Errors:
        if value is not None and value not in choices:
            yield not_supported(path, GoNamedString(value), choices)

    return check


def _members(value: Any, names: Sequence[str]) -> list[str]:
    """The fields that are set; an empty list is not, an empty text or struct is."""
    return [name for name in names if value.get(name) not in (None, [])]


def _union(names: Sequence[str]) -> PlainRule:
    choices = ", ".join(f"`{name}`" for name in names)

    def check(value: Any, old: Any, path: str, context: Check) -> Errors:
        chosen = _members(value, names)
        if context.update and old is not None and chosen == _members(old, names):
            return
        if not chosen:
            yield invalid(path, "", f"must specify one of: {choices}")
        elif len(chosen) > 1:
            yield invalid(path, f"{{{', '.join(chosen)}}}", f"must specify exactly one of: {choices}")

    return check


def _dependent_required(trigger: str, dependent: str) -> PlainRule:
    names = (trigger, dependent)

    def check(value: Any, old: Any, path: str, context: Check) -> Errors:
        if context.update and old is not None and _members(value, names) == _members(old, names):
            return
        if _members(value, names) == [trigger]:
            yield required(f"{path}.{dependent}", f"must be set when {trigger} is set")

    return check


def _immutable() -> PlainRule:
    def check(value: Any, old: Any, path: str, context: Check) -> Errors:
        if context.update:  # an unchanged value is not checked
            yield immutable(path, None)

    return check


#: Texts of changes that are not allowed, and whether the former and the new value are set.
_TRANSITIONS: Final = {
    "NoSet": ("field cannot be set once created", False, True),
    "NoUnset": ("field cannot be cleared once set", True, False),
    "NoModify": ("field cannot be modified once set", True, True),
}


def _update(constraints: Sequence[str]) -> PlainRule:
    def check(value: Any, old: Any, path: str, context: Check) -> Errors:
        for text, was_set, is_set in map(_TRANSITIONS.__getitem__, constraints):
            if context.update and (old is not None) is was_set and (value is not None) is is_set:
                yield invalid(path, None, text)

    return check


def _update_items(keys: Sequence[str], constraints: Sequence[str]) -> PlainRule:
    """Items that an update must not add or remove."""

    def check(items: Any, old: Any, path: str, context: Check) -> Errors:
        if not context.update:
            return
        before, after = ({_key(item, keys) for item in part or ()} for part in (old, items))
        for index, item in enumerate(items or ()):
            if "NoAddItem" in constraints and _key(item, keys) not in before:
                yield forbidden(f"{path}[{index}]", "item may not be added")
        for item in old or ():
            if "NoRemoveItem" in constraints and _key(item, keys) not in after:
                yield forbidden(path, "item may not be removed")

    return check


def _unique(keys: Sequence[str]) -> PlainRule:
    def check(items: Any, old: Any, path: str, context: Check) -> Errors:
        seen = set[Any]()
        for index, item in enumerate(items or ()):
            if (key := _key(item, keys)) in seen:
                yield duplicate(f"{path}[{index}]", _as_go(item))
            seen.add(key)

    return check


def _as_go(value: Any) -> Any:
    """A value of a Go type, whose fields a message prints in their order."""
    if isinstance(value, dict):
        return GoStruct({name: _as_go(item) for name, item in value.items()})
    return [_as_go(item) for item in value] if isinstance(value, list) else value


def _if_option(option: str, enabled: bool, inner: str) -> PlainRule:
    rule = _plain(inner, ())

    def check(value: Any, old: Any, path: str, context: Check) -> Errors:
        return rule(value, old, path, context) if context.features.enabled(option) is enabled else iter(())

    return check


def _subfield(name: str, inner: str) -> PlainRule:
    rule = _plain(inner, ())

    def check(value: Any, old: Any, path: str, context: Check) -> Errors:
        if context.update and old is not None and value.get(name) == old.get(name):
            return iter(())
        return rule(value.get(name), (old or {}).get(name), f"{path}.{name}", context)

    return check


def _each_key(inner: str) -> PlainRule:
    rule = _plain(inner, ())

    def check(items: Any, old: Any, path: str, context: Check) -> Errors:
        for key in sorted(items or {}):
            if not context.update or key not in (old or {}):
                yield from rule(key, None, path, context)

    return check


def _each_plain_item(keys: Sequence[str], inner: Sequence[Any]) -> PlainRule:
    return _each_item(keys, _plain(inner[0], inner[1:]))


_PLAIN: Final[Mapping[str, Callable[..., PlainRule]]] = {
    "MaxItems": _max_items,
    "MaxBytes": _max_bytes,
    "MaxLength": _max_length,
    "Minimum": _minimum,
    "Maximum": _maximum,
    "Enum": _enum,
    "Union": _union,
    "DependentRequired": _dependent_required,
    "Immutable": _immutable,
    "UpdatePointer": _update,
    "ValSliceUpdate": _update_items,
    "ValSliceUnique": _unique,
    "IfOption": _if_option,
    "Subfield": _subfield,
    "EachMapKey": _each_key,
    "EachValSliceVal": _each_plain_item,
}
