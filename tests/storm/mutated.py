"""Manifests broken at random: blindly, so that most can no longer be read, and like people do, so that most can.

People lose and double whole fields, move them a level up or down, misspell keys, put one value where another belongs,
write expressions for another language, and comment everything.
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
_SAID_OTHERWISE: Final = (
    (" == ", " = "), (" == ", " >= "), (" && ", " and "), (" && ", " || "), (" || ", " or "), ("isGreaterThan", "gt"),
    (".compareTo(", " >= ("), ("attributes", "capacity"), ("capacity", "attributes"), ('"gpu.nvidia.com"].', '"].'),
    ('["gpu.nvidia.com"]', ""), ("gpu.nvidia.com", "nvidia.com"), ("Gi", "GB"), ("Gi", ""), ('"', "'"), ('"', "“"),
    ("architecture", "arch"), ("memory", "vram"), ("productName", "model"), (".0.0", ".0"), ("quantity(", "("),
    ("semver(", "("), ("device.", ""), ("type", "type.string"), ("memory", "memory.value"), (" in ", " == "),
    ("device.driver == ", "!device.driver == "), ("gpu.nvidia.com", "gpu.amd.com"), ("true", "'true'"),
)  # fmt: skip
_REMARKS: Final = (
    "# why",
    "#",
    "# device.x: y",
    "  # late",
    "#tight",
    "# é😀",
    "# allot: ignore",
    "# allot: ignore[S102,C2]",
)


def mutated(dice: random.Random, text: str, other: str) -> str:
    """The text broken in one to four ways; sometimes with a piece of another behind it."""
    lines = text.split("\n")
    if dice.random() < 0.1:
        lines += ["---", *other.split("\n")]
    table = _BLIND if dice.random() < 0.3 else _HUMAN
    for _ in range(dice.randint(1, 4)):
        if lines:
            dice.choice(table)(dice, lines)
    text = dice.choice(("\n", "\n", "\n", "\n", "\r\n")).join(lines)
    return _rewritten(dice, text) if dice.random() < 0.1 else text


def _rewritten(dice: random.Random, text: str) -> str:
    """The same objects in the hand of a program, where they can be read."""
    try:
        trees = [tree for tree in yaml.safe_load_all(text) if tree is not None]
        if dice.random() < 0.5:
            indent = dice.choice((None, 2, 4, "\t"))
            return "\n".join(json.dumps(tree, indent=indent, default=str) for tree in trees)
        flow = dice.choice((True, False, None))
        text = yaml.safe_dump_all(trees, default_flow_style=flow, width=dice.choice((30, 80, 1000)), sort_keys=False)
    except (yaml.YAMLError, ValueError, RecursionError, TypeError):
        pass
    return text


# --- blindly ---------------------------------------------------------------------------------------------------------


def _any(dice: random.Random, lines: list[str]) -> int:
    return dice.randrange(len(lines))


def _lose(dice: random.Random, lines: list[str]) -> None:
    del lines[_any(dice, lines)]


def _double(dice: random.Random, lines: list[str]) -> None:
    lines.insert(_any(dice, lines), lines[_any(dice, lines)])


def _indent(dice: random.Random, lines: list[str]) -> None:
    number = _any(dice, lines)
    lines[number] = dice.choice(("  ", "    ", "\t", " ")) + lines[number]


def _outdent(dice: random.Random, lines: list[str]) -> None:
    number = _any(dice, lines)
    lines[number] = lines[number].removeprefix("  ")


def _word(dice: random.Random, lines: list[str]) -> None:
    number = _any(dice, lines)
    lines[number] = lines[number].partition(":")[0] + ": " + dice.choice(_WORDS)


def _letter(dice: random.Random, lines: list[str]) -> None:
    number = _any(dice, lines)
    at = dice.randint(0, len(lines[number]))
    lines[number] = lines[number][:at] + dice.choice((*_WORDS, *_CEL, "x", "")) + lines[number][at + 1 :]


def _cut(dice: random.Random, lines: list[str]) -> None:
    del lines[_any(dice, lines) :]


def _expression(dice: random.Random, lines: list[str]) -> None:
    places = [number for number, line in enumerate(lines) if "device." in line]
    if places:
        number = dice.choice(places)
        at = dice.randint(0, len(lines[number]))
        lines[number] = lines[number][:at] + dice.choice(_CEL) + lines[number][at + dice.randint(0, 4) :]


# --- as people do ----------------------------------------------------------------------------------------------------


def _field(dice: random.Random, lines: list[str]) -> tuple[int, int, int] | None:
    """Some field: its first line, the one behind its last, and the column of its key."""
    starts = [number for number, line in enumerate(lines) if ":" in line and not line.lstrip().startswith("#")]
    if not starts:
        return None
    start = dice.choice(starts)
    column = len(lines[start]) - len(lines[start].lstrip(" -"))
    stop = start + 1
    while stop < len(lines) and (not lines[stop].strip() or _column(lines[stop]) > column):
        stop += 1
    return start, stop, column


def _column(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _lose_field(dice: random.Random, lines: list[str]) -> None:
    found = _field(dice, lines)
    if found is not None:
        start, stop, column = found
        dash = lines[start][:column]
        del lines[start:stop]
        if "-" in dash and start < len(lines) and _column(lines[start]) == column:
            lines[start] = dash + lines[start][column:]


def _move_field(dice: random.Random, lines: list[str]) -> None:
    """A field goes to where another stands."""
    found, other = _field(dice, lines), _field(dice, lines)
    if found is not None and other is not None and not found[0] <= other[0] < found[1]:
        start, stop, column = found
        margin = " " * other[2]
        moved = [margin + line[column:] if line.strip() else line for line in lines[start:stop]]
        if dice.random() < 0.5 and "-" not in lines[start][:column]:
            del lines[start:stop]
            other = other if other[0] < start else (other[0] - (stop - start), other[1] - (stop - start), other[2])
        lines[other[1] : other[1]] = moved


def _nest_field(dice: random.Random, lines: list[str]) -> None:
    found = _field(dice, lines)
    if found is not None:
        start, stop, column = found
        inner = [" " * (column + 2) + line[column:] if line.strip() else line for line in lines[start:stop]]
        lines[start:stop] = [f"{lines[start][:column]}{dice.choice(_FIELDS)}:", *inner]


def _lift_field(dice: random.Random, lines: list[str]) -> None:
    """The key of a mapping goes, and its fields come up."""
    found = _field(dice, lines)
    if found is not None and found[1] > found[0] + 1 and "-" not in lines[found[0]][: found[2]]:
        start, stop, column = found
        by = _column(lines[start + 1]) - column
        lines[start:stop] = [line[min(by, _column(line)) :] for line in lines[start + 1 : stop]]


def _key(dice: random.Random, lines: list[str]) -> None:
    found = _field(dice, lines)
    if found is not None:
        start, _, column = found
        key, colon, rest = lines[start][column:].partition(":")
        at = dice.randint(0, len(key))
        ways = (
            dice.choice(_FIELDS), dice.choice(_FIELDS), key[:at] + key[at + 1 :], key.lower(), key.upper(), f"{key}s",
            f'"{key}"', f"'{key}'", key.removesuffix("s"), key[:at] + key[at : at + 1] * 2 + key[at + 1 :],
        )  # fmt: skip
        lines[start] = lines[start][:column] + dice.choice(ways) + colon + rest


def _value(dice: random.Random, lines: list[str]) -> None:
    """Another value for a field; the lines of the old one go."""
    found = _field(dice, lines)
    if found is not None:
        start, stop, column = found
        key = lines[start][column:].partition(":")[0]
        lines[start:stop] = [f"{lines[start][:column]}{key}: {dice.choice(_VALUES)}"]


def _scalar(dice: random.Random, lines: list[str]) -> None:
    """Another value where one stands on the line, also of an item."""
    places = [number for number, line in enumerate(lines) if line.strip() and line.rstrip()[-1] not in ":|>-"]
    if places:
        number = dice.choice(places)
        head, colon, _ = lines[number].partition(": ")
        if colon:
            lines[number] = f"{head}: {dice.choice(_VALUES)}"
        elif head.lstrip().startswith("- "):
            lines[number] = f"{head[: head.index('-')]}- {dice.choice(_VALUES)}"


def _said(dice: random.Random, lines: list[str]) -> None:
    """An expression in the words of another language."""
    places = [number for number, line in enumerate(lines) if "device." in line]
    if places:
        number = dice.choice(places)
        fitting = [pair for pair in _SAID_OTHERWISE if pair[0] in lines[number]]
        if fitting:
            old, new = dice.choice(fitting)
            lines[number] = lines[number].replace(old, new, dice.choice((1, 1, -1)))


def _remark(dice: random.Random, lines: list[str]) -> None:
    for _ in range(dice.randint(1, 5)):
        number = _any(dice, lines)
        remark = dice.choice(_REMARKS)
        if dice.random() < 0.6:
            if lines[number].strip() and "device." not in lines[number]:
                lines[number] += f" {remark}"
        else:
            lines.insert(number, " " * dice.choice((0, _column(lines[number]), 4)) + remark)


def _blank(dice: random.Random, lines: list[str]) -> None:
    lines.insert(_any(dice, lines), dice.choice(("", "", "   ")))


def _no_end(dice: random.Random, lines: list[str]) -> None:
    while lines and not lines[-1].strip():
        lines.pop()


_BLIND: Final[tuple[Mutation, ...]] = (
    _lose, _double, _indent, _outdent, _word, _word, _letter, _cut, _expression, _expression,
)  # fmt: skip
_HUMAN: Final[tuple[Mutation, ...]] = (
    _lose_field, _move_field, _move_field, _nest_field, _lift_field, _key, _key, _value, _scalar, _scalar, _said, _said,
    _said, _remark, _blank, _no_end,
)  # fmt: skip
