"""The Pod Security levels that the labels of a namespace select, for each of the modes enforce, audit and warn."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from allotment.model.validation.errors import FieldError, invalid

PRIVILEGED: Final = "privileged"
BASELINE: Final = "baseline"
RESTRICTED: Final = "restricted"
#: From the least to the most restrictive level.
_LEVELS: Final = (PRIVILEGED, BASELINE, RESTRICTED)
_LATEST: Final = "latest"
_PREFIX: Final = "pod-security.kubernetes.io/"
_VERSION: Final = re.compile(r"v1\.(0|[1-9][0-9]*)", re.ASCII)


class Level(NamedTuple):
    """A level in a version.

    >>> str(Level("baseline", "v1.30"))
    'baseline:v1.30'
    """

    name: str = PRIVILEGED
    version: str = _LATEST

    @property
    def minor(self) -> int | None:
        """The minor version; None for ``latest``."""
        return None if self.version == _LATEST else int(self.version.removeprefix("v1."))

    def is_stricter_than(self, other: Level) -> bool:
        """Whether the level, without its version, forbids more than another one."""
        return _LEVELS.index(self.name) > _LEVELS.index(other.name)

    def __str__(self) -> str:
        return f"{self.name}:{self.version}"


class Policy(NamedTuple):
    """The levels of a namespace by mode."""

    enforce: Level = Level()
    audit: Level = Level()
    warn: Level = Level()

    @property
    def is_privileged(self) -> bool:
        """Whether no mode has a restriction."""
        return self.enforce.name == self.audit.name == self.warn.name == PRIVILEGED


def policy_of(labels: Mapping[str, str] | None) -> Policy:
    """The policy of a namespace. Invalid levels are enforced as ``restricted``, and ignored in the other modes."""
    if not labels or not any(key.startswith(_PREFIX) for key in labels):
        return _UNRESTRICTED
    enforce = _level(labels, "enforce", RESTRICTED)
    audit = _level(labels, "audit", PRIVILEGED)
    warn = _level(labels, "warn", PRIVILEGED)
    is_valid = labels.get(f"{_PREFIX}enforce") in _LEVELS
    if f"{_PREFIX}warn" not in labels and is_valid and enforce.is_stricter_than(warn):
        # Without a level of its own, warn has that of enforce.
        warn = Level(enforce.name, warn.version if f"{_PREFIX}warn-version" in labels else enforce.version)
    return Policy(enforce, audit, warn)


_UNRESTRICTED: Final = Policy()


def _level(labels: Mapping[str, str], mode: str, fallback: str) -> Level:
    name, version = labels.get(_PREFIX + mode, PRIVILEGED), labels.get(f"{_PREFIX}{mode}-version", _LATEST)
    return Level(name if name in _LEVELS else fallback, version if _VERSION.fullmatch(version) else _LATEST)


def label_errors(labels: Mapping[str, str] | None) -> Iterator[FieldError]:
    """The errors in the labels of a namespace, in the order in which Kubernetes reports them."""
    for mode in ("enforce", "audit", "warn"):
        name, version = f"{_PREFIX}{mode}", f"{_PREFIX}{mode}-version"
        value = (labels or {}).get(name, PRIVILEGED)
        if value not in _LEVELS:
            yield invalid(f"metadata.labels[{name}]", value, f"must be one of {', '.join(_LEVELS)}")
        value = (labels or {}).get(version, _LATEST)
        if value != _LATEST and not _VERSION.fullmatch(value):
            yield invalid(f"metadata.labels[{version}]", value, 'must be "latest" or "v1.x"')
