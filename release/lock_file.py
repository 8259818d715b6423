"""The locked dependencies: exact releases with hashes, and who requires them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from release.source_tree import ROOT

LOCK: Final = ROOT / "requirements" / "dev.lock"
_NAME: Final = "allotment"
#: A package that requires another: ``# via aiohttp``, or below ``# via``.
_REQUIRED_BY: Final = re.compile(r"^\s+#\s+(?:via\s+)?([A-Za-z0-9][\w.-]*)", re.MULTILINE)


class LockedRelease(NamedTuple):
    """An entry of the lock file. ``required_by``: names of packages."""

    requirement: Requirement
    hashes: tuple[str, ...]
    required_by: frozenset[str]

    @property
    def name(self) -> str:
        return canonicalize_name(self.requirement.name)

    @property
    def version(self) -> str:
        (pin,) = self.requirement.specifier
        return pin.version

    def is_for(self, environment: dict[str, str]) -> bool:
        """Whether it is installed where markers have these values."""
        return self.requirement.marker is None or self.requirement.marker.evaluate(environment)

    def line(self) -> str:
        """The entry for pip, without its marker."""
        hashes = " ".join(f"--hash={each}" for each in self.hashes)
        return f"{self.name}=={self.version} {hashes}"


def locked_releases() -> list[LockedRelease]:
    """All entries of the lock file."""
    found = []
    for entry in re.split(r"\n(?=[A-Za-z0-9])", LOCK.read_text(encoding="utf-8"))[1:]:
        requirement = Requirement(entry.partition("\n")[0].rstrip(" \\"))
        parents = frozenset(map(canonicalize_name, _REQUIRED_BY.findall(entry))) - {"via"}
        found.append(LockedRelease(requirement, tuple(re.findall(r"--hash=(\S+)", entry)), parents))
    return found


def requirements(*extras: str) -> Iterator[Requirement]:
    """The requirements of the project and of its extras, without references to other extras of its own."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    remaining, seen = [*project["dependencies"], *(f"{_NAME}[{extra}]" for extra in extras)], set[str]()
    while remaining:
        requirement = Requirement(remaining.pop())
        if requirement.name != _NAME:
            yield requirement
            continue
        for extra in requirement.extras - seen:
            seen.add(extra)
            remaining += project["optional-dependencies"][extra]


def installed_with(*extras: str) -> list[LockedRelease]:
    """The releases that an installation of Allotment with these extras contains, on any platform."""
    return _with_dependencies(canonicalize_name(requirement.name) for requirement in requirements(*extras))


def _with_dependencies(names: Iterable[str]) -> list[LockedRelease]:
    every = locked_releases()
    found, before = set(names), 0
    while len(found) > before:
        before = len(found)
        found |= {release.name for release in every if release.required_by & found}
    return [release for release in every if release.name in found]
