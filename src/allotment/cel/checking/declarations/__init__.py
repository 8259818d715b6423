"""Function declarations of the DRA environment, as text tables of functions and their overloads.

A line is ``function  overload-id  signature``. ``receiver.(parameters) result`` declares a member call and
``(parameters) result`` a global one; a single capital letter is a type parameter. Cost rules and the run time are keyed
by upstream's overload ids. The lines are in upstream's order, because the checker numbers type variables in that order
and error texts can contain the numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from allotment.cel.checking import types
from allotment.cel.checking.types import Type


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function. ``params`` includes the receiver of a member call; ``type_params`` are the distinct
    type parameters in order of appearance."""

    id: str
    params: tuple[Type, ...]
    result: Type
    member: bool
    type_params: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class FunctionDeclaration:
    """A function name and its member and global overloads, each in declaration order."""

    name: str
    members: tuple[Overload, ...]
    globals: tuple[Overload, ...]


# fmt: off
_NAMES: dict[str, Type] = {
    "bool": types.BOOL, "int": types.INT, "uint": types.UINT, "double": types.DOUBLE, "string": types.STRING,
    "bytes": types.BYTES, "dyn": types.DYN, "any": types.ANY, "null": types.NULL, "timestamp": types.TIMESTAMP,
    "duration": types.DURATION, "Quantity": types.QUANTITY, "Semver": types.SEMVER, "URL": types.URL,
    "NamedFormat": types.FORMAT, "IP": types.IP, "CIDR": types.CIDR,
    "Authorizer": types.struct("kubernetes.authorization.Authorizer"),
    "PathCheck": types.struct("kubernetes.authorization.PathCheck"),
    "GroupCheck": types.struct("kubernetes.authorization.GroupCheck"),
    "ResourceCheck": types.struct("kubernetes.authorization.ResourceCheck"),
    "Decision": types.struct("kubernetes.authorization.Decision"),
}
# fmt: on


def _split_parameters(text: str) -> list[str]:
    """Splits a parameter list at the commas outside of parentheses."""
    parts: list[str] = []
    depth = start = 0
    for i, c in enumerate(text):
        if c == "(":
            depth += 1
        elif c == ")":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


@lru_cache(maxsize=256)
def parse_type(text: str) -> Type:
    """Parses a type of a table: ``list(map(K, string))``.

    >>> str(parse_type("optional(list(string))"))
    'optional_type(list(string))'
    """
    head, bracket, rest = text.partition("(")
    if not bracket:
        if len(head) == 1:
            return types.param(head)
        return _NAMES[head]
    params = [parse_type(p) for p in _split_parameters(rest[:-1])]
    match head:
        case "list":
            return types.list_of(params[0])
        case "map":
            return types.map_of(params[0], params[1])
        case "type":
            return types.type_of(params[0])
        case "optional":
            return types.optional_of(params[0])
        case _:
            raise ValueError(f"type in a declaration: {text!r}")


def _type_params(signature: Iterable[Type]) -> tuple[Type, ...]:
    found: dict[Type, None] = {}

    def collect(t: Type) -> None:
        if t.kind is types.TypeKind.PARAM:
            found[t] = None
        for p in t.params:
            collect(p)

    for t in signature:
        collect(t)
    return tuple(found)


def overload(id: str, params: Iterable[Type], result: Type, member: bool) -> Overload:
    params = tuple(params)
    return Overload(id, params, result, member, _type_params((result, *params)))


def parse_table(table: str) -> list[tuple[str, Overload]]:
    """Parses the lines of a table into (function name, overload)."""
    rows: list[tuple[str, Overload]] = []
    for line in table.strip().splitlines():
        name, id, signature = line.split(None, 2)
        # The parameter list starts the signature or follows the receiver's dot.
        open_at = 0 if signature.startswith("(") else signature.index(".(") + 1
        depth = 0
        for close_at in range(open_at, len(signature)):
            depth += {"(": 1, ")": -1}.get(signature[close_at], 0)
            if depth == 0:
                break
        params = [parse_type(p) for p in _split_parameters(signature[open_at + 1 : close_at])]
        if open_at:
            params.insert(0, parse_type(signature[: open_at - 1]))
        rows.append((name, overload(id, params, parse_type(signature[close_at + 1 :].strip()), bool(open_at))))
    return rows


def functions(rows: Iterable[tuple[str, Overload]]) -> Mapping[str, FunctionDeclaration]:
    """Groups overloads by function name, in order."""
    grouped: dict[str, list[Overload]] = {}
    for name, declared in rows:
        grouped.setdefault(name, []).append(declared)
    return {
        name: FunctionDeclaration(name, tuple(o for o in all_ if o.member), tuple(o for o in all_ if not o.member))
        for name, all_ in grouped.items()
    }
