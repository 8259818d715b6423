"""The public objects of the Python API, read from the source by griffe, without importing it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import griffe

SOURCE: Final = Path(__file__).resolve().parents[2] / "src"
_ROOT: Final = "allotment"


@cache
def module(path: str) -> griffe.Module:
    """Return a module. The package as a whole has a thousand of them; the API is in less than a hundred."""
    file = _file(path)
    return griffe.visit(path, filepath=file, code=file.read_text(encoding="utf-8"))


def _file(path: str) -> Path:
    place = SOURCE.joinpath(*path.split("."))
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


def exports(package: str) -> dict[str, griffe.Object]:
    """Return the objects of ``__all__`` with their names, in this order."""
    found = module(package)
    names = [str(name) for name in found.exports or () if str(name) != "__version__"]
    return {name: resolved(found.members[name]) for name in names}


def resolved(found: griffe.Object | griffe.Alias) -> griffe.Object:
    """Return the object that an import refers to."""
    while isinstance(found, griffe.Alias):
        path, _, name = found.target_path.rpartition(".")
        found = module(path).members[name]
    return found


def lookup(path: str) -> griffe.Object | None:
    """Return the object at a dotted path of this package; None for modules, and for other packages."""
    parent, _, name = path.rpartition(".")
    if not path.startswith(f"{_ROOT}.") or not _file(parent).is_file():
        return None
    found = module(parent).members.get(name)
    return None if found is None or name.startswith("_") else resolved(found)


def bases(owner: griffe.Class) -> Iterator[griffe.Class]:
    """Yield the base classes of this package, the nearest first."""
    for base in owner.bases:
        path = base.canonical_path if isinstance(base, griffe.Expr) else base
        found = lookup(path) or owner.module.members.get(path.rpartition(".")[2])
        if isinstance(found, griffe.Class):
            yield found
            yield from bases(found)


def is_value(owner: griffe.Class) -> bool:
    """Whether the class has fields: a dataclass, a NamedTuple or a Struct."""
    words = {str(base).rpartition(".")[2] for each in (owner, *bases(owner)) for base in each.bases}
    return bool({"NamedTuple", "Struct"} & words) or any("dataclass" in str(each.value) for each in owner.decorators)


def members(owner: griffe.Class) -> Iterator[griffe.Object]:
    """Yield the public members, those of base classes first, except for the methods that every value has."""
    found: dict[str, griffe.Object] = {}
    for each in (*reversed([base for base in bases(owner) if base.path != f"{_ROOT}.model.meta.Value"]), owner):
        for name, member in each.members.items():
            if name.startswith("_") or isinstance(member, griffe.Alias):
                continue
            found[name] = member
    yield from found.values()


def comment(found: griffe.Attribute) -> str:
    """Return the comment ``#:`` above an attribute, in one line."""
    lines = _file(found.module.path).read_text(encoding="utf-8").splitlines()[: (found.lineno or 1) - 1]
    words: list[str] = []
    while lines and (line := lines.pop().strip()).startswith("#:"):
        words.insert(0, line.removeprefix("#:").strip())
    return " ".join(words)


def constant(expression: object) -> str:
    """Return an expression as text; the value instead of the name of a constant, the default of a field."""
    if isinstance(expression, griffe.ExprName):
        found = lookup(expression.canonical_path)
        if isinstance(found, griffe.Attribute) and re.match(r"['\"\d]", str(found.value)):
            return str(found.value)
    text = str(expression)
    text = text.removeprefix("msgspec.")
    if text.startswith("field("):
        default = re.search(r"default=(.+?)(?:, name=.+)?\)$", text)
        return (
            default[1] if default else {"dict": "{}", "list": "[]"}.get(text[len("field(default_factory=") : -1], "…")
        )
    return text


def types_in(owner: griffe.Object) -> Iterator[griffe.Object]:
    """Yield the types of this package in the annotations of a function, a field or an alias."""
    expressions: list[object] = []
    if isinstance(owner, griffe.Function):
        expressions = [owner.returns, *(parameter.annotation for parameter in owner.parameters)]
    elif isinstance(owner, griffe.Attribute):
        expressions = [owner.annotation] if owner.parent and owner.parent.is_class else [owner.value]
    for expression in expressions:
        if not isinstance(expression, griffe.Expr):
            continue
        for part in expression.iterate(flat=True):
            if isinstance(part, griffe.ExprName) and (found := lookup(part.canonical_path)) is not None:
                yield found
