"""The lock file that `make test` installs: all requirements of pyproject.toml, in exact releases with hashes."""

from __future__ import annotations

import re
from typing import Final

from packaging.utils import canonicalize_name

from release.lock_file import LOCK, locked_releases, requirements

#: The extras that `scripts/lock` locks.
EXTRAS: Final = ("dev", "all")


def test_every_requirement_is_locked() -> None:
    releases: dict[str, list[str]] = {}
    for entry in locked_releases():
        releases.setdefault(entry.name, []).append(entry.version)
    for requirement in requirements(*EXTRAS):
        found = releases.get(canonicalize_name(requirement.name))
        assert found, f"{requirement.name} is not locked: `make lock`"
        for release in found:
            assert release in requirement.specifier, f"{requirement}, locked is {release}: `make lock`"


def test_each_entry_is_one_release_with_its_hashes() -> None:
    entries = locked_releases()
    assert len(entries) > 50
    for entry in entries:
        (pin,) = entry.requirement.specifier
        assert pin.operator == "==", entry
        assert entry.hashes, entry
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", each) for each in entry.hashes), entry
        assert entry.required_by, entry


def test_the_lock_file_names_no_index() -> None:
    text = LOCK.read_text()
    for word in ("://", "--index-url", "--extra-index-url", "--find-links", "--trusted-host"):
        assert word not in text, word
