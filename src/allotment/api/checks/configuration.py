"""Reads ``[check]`` of the nearest allotment.toml, or ``[tool.allotment.check]`` of the nearest pyproject.toml.

Every key has the name of an option. An unknown key or a wrong type is an error with its position, because settings that
are silently ignored are worse than none.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from allotment.errors import InputError, InvalidManifests
from allotment.fleet.errors import suggestion
from allotment.model import DEFAULT_RELEASE
from allotment.model.problems import InputProblem, Position
from allotment.tools.check.report import FAIL_ON, FailOn

OWN: Final = "allotment.toml"
SHARED: Final = "pyproject.toml"


@dataclass(frozen=True, slots=True)
class Configuration:
    """The options of a configuration file. ``folder``: the file's directory, to which patterns are relative."""

    folder: Path = Path()
    file: str = ""
    kube_version: str | None = None
    feature_gates: tuple[str, ...] = ()
    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    fail_on: FailOn | None = None
    drivers: Mapping[str, str] = field(default_factory=dict)
    driver_gates: tuple[str, ...] = ()
    fleet: tuple[str, ...] = ()
    namespace: str | None = None
    exclude: tuple[str, ...] = ()


class _Unfit(Exception):
    """Raised for a value of the wrong type; the text names the expected type."""


def configuration(named: str | None, start: Path) -> Configuration:
    """Return the configuration for a directory, or that of the file ``named``.

    Raises InputError if the named file does not exist, InvalidManifests with all errors in a file.
    """
    if named is not None:
        path = Path(named)
        found = _section(path, named)
        if found is None:
            raise InputError(f"{named} has no table [{_header(path)}]", argument="config")
        return found
    for folder in (start, *start.parents):
        for name in (OWN, SHARED):
            path = folder / name
            if path.is_file():
                found = _section(path, _shown(path, start))
                if found is not None:
                    return found
    return Configuration()


def _shown(path: Path, start: Path) -> str:
    return path.name if path.parent == start else str(path)


def _header(path: Path) -> str:
    return "tool.allotment.check" if path.name == SHARED else "check"


def _section(path: Path, shown: str) -> Configuration | None:
    """Return the configuration in a file, or None if it has no table for Allotment."""
    text = _text(path, shown)
    try:
        tree: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _bad(text, shown, [_not_toml(shown, text, error)]) from None
    problems: list[InputProblem] = []
    if path.name == SHARED:
        settings = tree.get("tool", {}).get("allotment", {})
        section, above = settings.get("check"), "tool.allotment"
    else:
        settings, section, above = tree, tree.get("check", {}), ""
    for key in settings:
        if key != "check":
            hint = suggestion(key, ("check",)) or "allot check reads only the table [check]"
            name = f"{above}.{key}" if above else key
            problems.append(_problem("unknown-key", f"unknown table: {name}", _place(text, "", key), shown, name, hint))
    if section is None and not problems:
        return None
    header = _header(path)
    values = _values(section, text, shown, header, problems)
    if problems:
        raise _bad(text, shown, problems)
    return Configuration(folder=path.parent.absolute(), file=shown, **values)


def _values(section: Any, text: str, shown: str, header: str, problems: list[InputProblem]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if not isinstance(section, dict | None):
        problems.append(_problem("wrong-type", f"{header}: expected a table", _place(text, "", "check"), shown, header))
        return values
    for key, value in (section or {}).items():
        place = _place(text, header, key)
        if key not in _KEYS:
            hint = suggestion(key, _KEYS) or f"known: {', '.join(_KEYS)}"
            problems.append(_problem("unknown-key", f"unknown key: {key}", place, shown, f"{header}.{key}", hint))
            continue
        name, read = _KEYS[key]
        try:
            values[name] = read(value)
        except _Unfit as error:
            message = f"{key}: {error}, found {_describe(value)}"
            problems.append(_problem("wrong-type", message, place, shown, f"{header}.{key}"))
    return values


def _text(path: Path, shown: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{shown}: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError:
        raise InputError(f"{shown}: not UTF-8") from None


# --- values ----------------------------------------------------------------------------------------------------------


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise _Unfit("expected a string")
    return value


def _version(value: Any) -> str:
    if not isinstance(value, str):  # 1.40 would be 1.4
        raise _Unfit(f'expected a release in quotes, such as "{DEFAULT_RELEASE}"')
    return value


def _strings(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _Unfit("expected a list of strings")
    return tuple(value)


def _level(value: Any) -> FailOn:
    for level in FAIL_ON:
        if value == level:
            return level
    raise _Unfit(f"expected one of {', '.join(FAIL_ON)}")


def _switches(value: Any) -> tuple[str, ...]:
    if isinstance(value, dict):
        if not all(isinstance(enabled, bool) for enabled in value.values()):
            raise _Unfit("expected a table whose values are true or false")
        return tuple(f"{name}={str(enabled).lower()}" for name, enabled in value.items())
    return _strings(value)


def _releases(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(release, str) for release in value.values()):
        raise _Unfit('expected a table of releases in quotes: {"gpu.nvidia.com" = "25.8"}')
    return value


def _by_file(value: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, dict):
        raise _Unfit('expected a table of patterns and codes: {"old/**" = ["S101"]}')
    return {pattern: _strings(words) for pattern, words in value.items()}


#: Key of the file -> field of ``Configuration``, and how its value is read.
_KEYS: Final[Mapping[str, tuple[str, Callable[[Any], Any]]]] = {
    "kube-version": ("kube_version", _version),
    "feature-gates": ("feature_gates", _switches),
    "select": ("select", _strings),
    "ignore": ("ignore", _strings),
    "per-file-ignores": ("per_file_ignores", _by_file),
    "fail-on": ("fail_on", _level),
    "drivers": ("drivers", _releases),
    "driver-gates": ("driver_gates", _switches),
    "fleet": ("fleet", _strings),
    "namespace": ("namespace", _string),
    "exclude": ("exclude", _strings),
}


# --- what is wrong with a file ---------------------------------------------------------------------------------------


def _describe(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    named: dict[type, str] = {dict: "a table", list: "a list"}
    return named.get(type(value), repr(value))


def _place(text: str, header: str, key: str) -> tuple[int, int]:
    """Return line and column of a key, or of its table; Python's TOML parser does not report them."""
    bare = rf"""(?P<key>(?P<quote>["']?){re.escape(key)}(?P=quote))"""
    inside = not header
    for number, line in enumerate(text.splitlines(), 1):
        if table := re.match(r"\s*\[+\s*([^\]]+?)\s*\]", line):
            if found := re.fullmatch(rf"(?:{re.escape(header)}\.)?{bare}(?:\..*)?", table[1]):
                if not header or table[1].startswith(f"{header}."):
                    return number, table.start(1) + found.start("key") + 1
            inside = table[1] == header or not header
        elif inside and (found := re.match(rf"\s*{bare}\s*[=.]", line)):
            return number, found.start("key") + 1
    return 1, 1


def _problem(code: str, message: str, place: tuple[int, int], file: str, path: str, hint: str = "") -> InputProblem:
    return InputProblem(code=code, message=message, position=Position(file, *place), path=path, hint=hint)


def _not_toml(file: str, text: str, error: tomllib.TOMLDecodeError) -> InputProblem:
    words = str(error)
    found = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", words)
    line, column = (int(found[1]), int(found[2])) if found and found[1] else (max(len(text.splitlines()), 1), 1)
    message = words[: found.start()] if found else words
    return _problem("bad-toml", f"not TOML: {message[:1].lower()}{message[1:]}", (line, column), file, "")


def _bad(text: str, file: str, problems: list[InputProblem]) -> InvalidManifests:
    return InvalidManifests(problems, lambda name: text if name == file else None)
