"""Randomly broken manifests: arbitrary mutations, so that most cannot be parsed, and typical mistakes, so that most
can.

Typical mistakes remove and repeat whole fields, move them a level up or down, misspell keys, put a value where another
belongs, write expressions in another language, and add comments anywhere.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Final

import yaml

Mutation = Callable[[random.Random, list[str]], None]

_WORDS: Final = (
    "null", "[]", "{}", "''", "true", "-1", "1e400", "0x10", "80Gi", "8.0", "&a", "*a", "!!int x", "|", ">-", "%",
    "- -", "99999999999999999999", "{a: {b: [c]}}", "\u0007", "\ud7ff", "é" * 70, "~", "? x", "<<: *a", "'", '"',
    "#", "---", "...",
)  # fmt: skip
_VALUES: Final = (
    "null", "[]", "{}", "''", "true", "-1", "0x10", "80Gi", "40 GB", "8.0", "2", '"2"', "y", "All", "gpu", "~",
    "gpu.nvidia.com", "nvidia.com/gpu", "mig.nvidia.com", "gpu.amd.com", "resource.k8s.io/v1", "ResourceClaim", "Pod",
    "resource.k8s.io/v1beta1", "resource.k8s.io/v1alpha3", "resource.k8s.io/v1alpha2", "ResourceClaimTemplate",
    "1g.5gb", "[gpu]", "{a: {b: [c]}}", "[{name: gpu}]", "{requests: {memory: 40Gi}}", "single-gpu", "{name: gpu}",
    "{string: x}", "{version: '8.0'}", "99999999999999999999", "é😀", "{{ .Values.gpu }}", "${GPU}",
    "'device.attributes[\"gpu.nvidia.com\"].architecture.string == \"Ampere\"'",
)  # fmt: skip
_FIELDS: Final = (
    "requests", "exactly", "firstAvailable", "selectors", "cel", "expression", "constraints", "config", "opaque",
    "parameters", "resourceClaims", "containers", "claims", "metadata", "spec", "name", "count", "devices", "pool",
    "basic", "source", "resourceClaimName", "resourceClaimTemplateName", "deviceClassName", "allocationMode", "kind",
    "tolerations", "adminAccess", "nodeName", "attributes", "capacity", "matchAttribute", "distinctAttribute", "key",
    "operator", "values", "driver", "namespace", "labels", "request", "apiVersion", "template", "capacityRequests",
)  # fmt: skip
_CEL: Final = (
    "(", ")", "&&", "device", ".?", "[", "]", '"', "quantity(", ">=", "in", "!", "semver('8')", "{", "∀", ".string",
)  # fmt: skip
_OTHER_LANGUAGES: Final = (
    (" == ", " = "), (" == ", " >= "), (" && ", " and "), (" && ", " || "), (" || ", " or "), ("isGreaterThan", "gt"),
    (".compareTo(", " >= ("), ("attributes", "capacity"), ("capacity", "attributes"), ('"gpu.nvidia.com"].', '"].'),
    ('["gpu.nvidia.com"]', ""), ("gpu.nvidia.com", "nvidia.com"), ("Gi", "GB"), ("Gi", ""), ('"', "'"), ('"', "“"),
    ("architecture", "arch"), ("memory", "vram"), ("productName", "model"), (".0.0", ".0"), ("quantity(", "("),
    ("semver(", "("), ("device.", ""), ("type", "type.string"), ("memory", "memory.value"), (" in ", " == "),
    ("device.driver == ", "!device.driver == "), ("gpu.nvidia.com", "gpu.amd.com"), ("true", "'true'"),
)  # fmt: skip
_COMMENTS: Final = (
    "# why",
    "#",
    "# device.x: y",
    "  # late",
    "#tight",
    "# é😀",
    "# allot: ignore",
    "# allot: ignore[S102,C2]",
)


def mutate(rng: random.Random, text: str, other: str) -> str:
    """Apply one to four mutations to the text; sometimes append a part of another text."""
    lines = text.split("\n")
    if rng.random() < 0.1:
        lines += ["---", *other.split("\n")]
    table = _ARBITRARY if rng.random() < 0.3 else _MISTAKES
    for _ in range(rng.randint(1, 4)):
        if lines:
            rng.choice(table)(rng, lines)
    text = rng.choice(("\n", "\n", "\n", "\n", "\r\n")).join(lines)
    return _reformat(rng, text) if rng.random() < 0.1 else text


def _reformat(rng: random.Random, text: str) -> str:
    """The same objects as a program would write them, if they can be parsed."""
    try:
        trees = [tree for tree in yaml.safe_load_all(text) if tree is not None]
        if rng.random() < 0.5:
            indent = rng.choice((None, 2, 4, "\t"))
            return "\n".join(json.dumps(tree, indent=indent, default=str) for tree in trees)
        flow = rng.choice((True, False, None))
        text = yaml.safe_dump_all(trees, default_flow_style=flow, width=rng.choice((30, 80, 1000)), sort_keys=False)
    except (yaml.YAMLError, ValueError, RecursionError, TypeError):
        pass
    return text


# --- arbitrary mutations ----------------------------------------------------------------------------------------------


def _any(rng: random.Random, lines: list[str]) -> int:
    return rng.randrange(len(lines))


def _remove_line(rng: random.Random, lines: list[str]) -> None:
    del lines[_any(rng, lines)]


def _repeat_line(rng: random.Random, lines: list[str]) -> None:
    lines.insert(_any(rng, lines), lines[_any(rng, lines)])


def _indent(rng: random.Random, lines: list[str]) -> None:
    number = _any(rng, lines)
    lines[number] = rng.choice(("  ", "    ", "\t", " ")) + lines[number]


def _outdent(rng: random.Random, lines: list[str]) -> None:
    number = _any(rng, lines)
    lines[number] = lines[number].removeprefix("  ")


def _word(rng: random.Random, lines: list[str]) -> None:
    number = _any(rng, lines)
    lines[number] = lines[number].partition(":")[0] + ": " + rng.choice(_WORDS)


def _letter(rng: random.Random, lines: list[str]) -> None:
    number = _any(rng, lines)
    at = rng.randint(0, len(lines[number]))
    lines[number] = lines[number][:at] + rng.choice((*_WORDS, *_CEL, "x", "")) + lines[number][at + 1 :]


def _cut(rng: random.Random, lines: list[str]) -> None:
    del lines[_any(rng, lines) :]


def _expression(rng: random.Random, lines: list[str]) -> None:
    places = [number for number, line in enumerate(lines) if "device." in line]
    if places:
        number = rng.choice(places)
        at = rng.randint(0, len(lines[number]))
        lines[number] = lines[number][:at] + rng.choice(_CEL) + lines[number][at + rng.randint(0, 4) :]


# --- typical mistakes -------------------------------------------------------------------------------------------------


def _field(rng: random.Random, lines: list[str]) -> tuple[int, int, int] | None:
    """A random field: its first line, the line after its last, and the column of its key."""
    starts = [number for number, line in enumerate(lines) if ":" in line and not line.lstrip().startswith("#")]
    if not starts:
        return None
    start = rng.choice(starts)
    column = len(lines[start]) - len(lines[start].lstrip(" -"))
    stop = start + 1
    while stop < len(lines) and (not lines[stop].strip() or _column(lines[stop]) > column):
        stop += 1
    return start, stop, column


def _column(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _remove_field(rng: random.Random, lines: list[str]) -> None:
    found = _field(rng, lines)
    if found is not None:
        start, stop, column = found
        dash = lines[start][:column]
        del lines[start:stop]
        if "-" in dash and start < len(lines) and _column(lines[start]) == column:
            lines[start] = dash + lines[start][column:]


def _move_field(rng: random.Random, lines: list[str]) -> None:
    """Move a field to the place of another one."""
    found, other = _field(rng, lines), _field(rng, lines)
    if found is not None and other is not None and not found[0] <= other[0] < found[1]:
        start, stop, column = found
        margin = " " * other[2]
        moved = [margin + line[column:] if line.strip() else line for line in lines[start:stop]]
        if rng.random() < 0.5 and "-" not in lines[start][:column]:
            del lines[start:stop]
            other = other if other[0] < start else (other[0] - (stop - start), other[1] - (stop - start), other[2])
        lines[other[1] : other[1]] = moved


def _nest_field(rng: random.Random, lines: list[str]) -> None:
    found = _field(rng, lines)
    if found is not None:
        start, stop, column = found
        inner = [" " * (column + 2) + line[column:] if line.strip() else line for line in lines[start:stop]]
        lines[start:stop] = [f"{lines[start][:column]}{rng.choice(_FIELDS)}:", *inner]


def _lift_field(rng: random.Random, lines: list[str]) -> None:
    """Remove the key of a mapping, and move its fields up."""
    found = _field(rng, lines)
    if found is not None and found[1] > found[0] + 1 and "-" not in lines[found[0]][: found[2]]:
        start, stop, column = found
        by = _column(lines[start + 1]) - column
        lines[start:stop] = [line[min(by, _column(line)) :] for line in lines[start + 1 : stop]]


def _key(rng: random.Random, lines: list[str]) -> None:
    found = _field(rng, lines)
    if found is not None:
        start, _, column = found
        key, colon, rest = lines[start][column:].partition(":")
        at = rng.randint(0, len(key))
        ways = (
            rng.choice(_FIELDS), rng.choice(_FIELDS), key[:at] + key[at + 1 :], key.lower(), key.upper(), f"{key}s",
            f'"{key}"', f"'{key}'", key.removesuffix("s"), key[:at] + key[at : at + 1] * 2 + key[at + 1 :],
        )  # fmt: skip
        lines[start] = lines[start][:column] + rng.choice(ways) + colon + rest


def _value(rng: random.Random, lines: list[str]) -> None:
    """Replace the value of a field, with all of its lines."""
    found = _field(rng, lines)
    if found is not None:
        start, stop, column = found
        key = lines[start][column:].partition(":")[0]
        lines[start:stop] = [f"{lines[start][:column]}{key}: {rng.choice(_VALUES)}"]


def _scalar(rng: random.Random, lines: list[str]) -> None:
    """Replace a scalar on a line, also of a list item."""
    places = [number for number, line in enumerate(lines) if line.strip() and line.rstrip()[-1] not in ":|>-"]
    if places:
        number = rng.choice(places)
        head, colon, _ = lines[number].partition(": ")
        if colon:
            lines[number] = f"{head}: {rng.choice(_VALUES)}"
        elif head.lstrip().startswith("- "):
            lines[number] = f"{head[: head.index('-')]}- {rng.choice(_VALUES)}"


def _translate(rng: random.Random, lines: list[str]) -> None:
    """Write an expression in another language."""
    places = [number for number, line in enumerate(lines) if "device." in line]
    if places:
        number = rng.choice(places)
        fitting = [pair for pair in _OTHER_LANGUAGES if pair[0] in lines[number]]
        if fitting:
            old, new = rng.choice(fitting)
            lines[number] = lines[number].replace(old, new, rng.choice((1, 1, -1)))


def _comment(rng: random.Random, lines: list[str]) -> None:
    for _ in range(rng.randint(1, 5)):
        number = _any(rng, lines)
        remark = rng.choice(_COMMENTS)
        if rng.random() < 0.6:
            if lines[number].strip() and "device." not in lines[number]:
                lines[number] += f" {remark}"
        else:
            lines.insert(number, " " * rng.choice((0, _column(lines[number]), 4)) + remark)


def _blank(rng: random.Random, lines: list[str]) -> None:
    lines.insert(_any(rng, lines), rng.choice(("", "", "   ")))


def _without_newline(rng: random.Random, lines: list[str]) -> None:
    while lines and not lines[-1].strip():
        lines.pop()


_ARBITRARY: Final[tuple[Mutation, ...]] = (
    _remove_line, _repeat_line, _indent, _outdent, _word, _word, _letter, _cut, _expression, _expression,
)  # fmt: skip
_MISTAKES: Final[tuple[Mutation, ...]] = (
    _remove_field, _move_field, _move_field, _nest_field, _lift_field, _key, _key, _value, _scalar, _scalar,
    _translate, _translate,
    _translate, _comment, _blank, _without_newline,
)  # fmt: skip
