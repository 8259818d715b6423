"""Semantic versions of device attributes and CEL: strict SemVer 2.0.0, ordered without build metadata.

Drivers publish ``version`` attributes in strict form; CEL's ``semver(text, true)`` also accepts lenient spellings
(``v1``, ``1.2``, ``01.2.3``). Error messages are those of the Go library that Kubernetes uses.
"""

from __future__ import annotations

import functools
import re
from typing import Any, Final

from allotment.model.quoting import quote

_UINT64_MAX: Final = 2**64 - 1
_DIGITS: Final = re.compile(r"[0-9]*", re.ASCII)
_IDENTIFIER: Final = re.compile(r"[0-9A-Za-z-]*", re.ASCII)


class SemverError(ValueError):
    """Raised if text is not a semantic version; the message is the Go library's."""


@functools.total_ordering
class Semver:
    """A version. ``major``, ``minor`` and ``patch`` are unsigned 64-bit; build metadata does not affect equality.

    >>> Semver.parse("1.10.0") > Semver.parse("1.9.0-rc.1"), str(Semver.parse("v1", normalize=True))
    (True, '1.0.0')
    """

    __slots__ = ("_order", "build", "major", "minor", "patch", "prerelease")

    major: int
    minor: int
    patch: int
    prerelease: tuple[str, ...]
    build: tuple[str, ...]

    def __init__(
        self, major: int, minor: int, patch: int, prerelease: tuple[str, ...] = (), build: tuple[str, ...] = ()
    ) -> None:
        set_field = object.__setattr__
        set_field(self, "major", major)
        set_field(self, "minor", minor)
        set_field(self, "patch", patch)
        set_field(self, "prerelease", prerelease)
        set_field(self, "build", build)
        # A release sorts after its prereleases; numeric identifiers by value and before text; the shorter list first.
        ranks = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in prerelease)
        set_field(self, "_order", (major, minor, patch, not prerelease, ranks))

    @staticmethod
    def parse(text: str, normalize: bool = False) -> Semver:
        """Parse a version; ``normalize`` accepts lenient spellings. Raises ``SemverError``."""
        if normalize:
            return _parse(_normalized(text))
        return _parse_cached(text) if len(text) <= 64 else _parse(text)

    def __str__(self) -> str:
        text = f"{self.major}.{self.minor}.{self.patch}"
        if self.prerelease:
            text += "-" + ".".join(self.prerelease)
        return text + "+" + ".".join(self.build) if self.build else text

    def __repr__(self) -> str:
        return f"Semver({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return bool(self._order == other._order) if isinstance(other, Semver) else NotImplemented

    def __lt__(self, other: Semver) -> bool:
        return bool(self._order < other._order)

    def __hash__(self) -> int:
        return hash(self._order)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"versions are immutable: cannot set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"versions are immutable: cannot delete {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return Semver, (self.major, self.minor, self.patch, self.prerelease, self.build)

    _order: tuple[int, int, int, bool, tuple[tuple[int, int, str], ...]]


def _parse(text: str) -> Semver:
    if not text:
        raise SemverError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise SemverError("No Major.Minor.Patch elements found")
    major = _number(parts[0], "Major")
    minor = _number(parts[1], "Minor")
    rest, plus, build_text = parts[2].partition("+")
    patch_text, dash, prerelease_text = rest.partition("-")
    patch = _number(patch_text, "Patch")
    prerelease = tuple(prerelease_text.split(".")) if dash else ()
    build = tuple(build_text.split(".")) if plus else ()
    for part in prerelease:
        _check_prerelease(part)
    for part in build:
        if not part:
            raise SemverError("Build meta data is empty")
        if not _IDENTIFIER.fullmatch(part):
            raise SemverError(f"Invalid character(s) found in build meta data {quote(part)}")
    return Semver(major, minor, patch, prerelease, build)


_parse_cached = functools.lru_cache(maxsize=16384)(_parse)


def _number(text: str, component: str) -> int:
    if not _DIGITS.fullmatch(text):
        raise SemverError(f"Invalid character(s) found in {component.lower()} number {quote(text)}")
    if len(text) > 1 and text[0] == "0":
        raise SemverError(f"{component} number must not contain leading zeroes {quote(text)}")
    return _uint64(text)


def _uint64(text: str) -> int:
    if not text:
        raise SemverError('strconv.ParseUint: parsing "": invalid syntax')
    if len(text) > 20 or int(text) > _UINT64_MAX:
        raise SemverError(f"strconv.ParseUint: parsing {quote(text)}: value out of range")
    return int(text)


def _check_prerelease(part: str) -> None:
    if not part:
        raise SemverError("Prerelease is empty")
    if _DIGITS.fullmatch(part):
        if len(part) > 1 and part[0] == "0":
            raise SemverError(f"Numeric PreRelease version must not contain leading zeroes {quote(part)}")
        _uint64(part)
    elif not _IDENTIFIER.fullmatch(part):
        raise SemverError(f"Invalid character(s) found in prerelease {quote(part)}")


def _normalized(text: str) -> str:
    parts = [_without_leading_zeros(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            raise SemverError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def _without_leading_zeros(part: str) -> str:
    if len(part) < 2:
        return part
    stripped = part.lstrip("0")
    return stripped if stripped and stripped[0] in "0123456789" else "0" + stripped
