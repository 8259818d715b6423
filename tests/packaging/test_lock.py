"""The lock file that `make test` installs: all requirements of pyproject.toml, in exact releases with hashes."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packaging.helm import ROOT

LOCK: Final = ROOT / "requirements" / "dev.lock"
#: The extras that `scripts/lock` locks.
EXTRAS: Final = ("dev", "all")


def required(*extras: str) -> Iterator[Requirement]:
    """The requirements of the project and of its extras, without references to other extras of its own."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    remaining, seen = [*project["dependencies"], *(f"allotment[{extra}]" for extra in extras)], set[str]()
    while remaining:
        requirement = Requirement(remaining.pop())
        if requirement.name != "allotment":
            yield requirement
            continue
        for extra in requirement.extras - seen:
            seen.add(extra)
            remaining += project["optional-dependencies"][extra]


def locked() -> Iterator[tuple[Requirement, list[str]]]:
    """Each entry of the lock file with its hashes."""
    text = re.sub(r"(?m)^\s*#.*\n", "", LOCK.read_text())
    for entry in re.split(r"\n(?=\S)", text.strip()):
        requirement, *hashes = re.split(r"\s*\\?\s+--hash=", entry.strip())
        yield Requirement(requirement), hashes


def test_every_requirement_is_locked() -> None:
    releases: dict[str, list[str]] = {}
    for entry, _ in locked():
        (pin,) = entry.specifier
        releases.setdefault(canonicalize_name(entry.name), []).append(pin.version)
    for requirement in required(*EXTRAS):
        found = releases.get(canonicalize_name(requirement.name))
        assert found, f"{requirement.name} is not locked: `make lock`"
        for release in found:
            assert release in requirement.specifier, f"{requirement}, locked is {release}: `make lock`"


def test_each_entry_is_one_release_with_its_hashes() -> None:
    entries = list(locked())
    assert len(entries) > 50
    for entry, hashes in entries:
        (pin,) = entry.specifier
        assert pin.operator == "==", entry
        assert hashes, entry
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", hashe) for hashe in hashes), entry


def test_the_lock_file_names_no_index() -> None:
    text = LOCK.read_text()
    for word in ("://", "--index-url", "--extra-index-url", "--find-links", "--trusted-host"):
        assert word not in text, word
