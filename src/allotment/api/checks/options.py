"""The options of a check: arguments and configuration, combined and validated."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final

from allotment.api.checks.configuration import Configuration, configuration
from allotment.api.choices import require_choice
from allotment.api.cluster import Cluster
from allotment.api.clusters.described import HardwareSource
from allotment.api.clusters.source import Gates, gate_texts
from allotment.api.objects.inputs import Inputs
from allotment.api.objects.releases import features
from allotment.api.objects.unread_resources import NEEDED, OF_DEVICES, must_know
from allotment.cluster.inspection.snapshot import DEVICES, PODS
from allotment.errors import InputError
from allotment.fleet.errors import FleetError, suggestion
from allotment.model import DEFAULT_RELEASE
from allotment.phrases import split_words
from allotment.tools.check.bundle import CheckSettings, TargetCluster
from allotment.tools.check.policy import CheckPolicy
from allotment.tools.check.report import FailOn
from allotment.tools.check.selection import RuleSelection, is_known_pattern, known_patterns
from allotment.tools.unread import unread_notes, unread_resources
from allotment.vocabulary import drivers as known_drivers
from allotment.vocabulary import vocabulary

#: Directories of third-party files.
_EXCLUDED: Final = ("node_modules", "site-packages", "venv")
_BOOLEANS: Final = {"true": True, "false": False}
#: The keys of a configuration that are not named as the argument of the Python API is.
_KEYS: Final[Mapping[str, str]] = {"kube": "kube-version", "gates": "feature-gates", "driver_gates": "driver-gates"}


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """The options of a check. ``world``: the cluster of fit tests; ``place``: its name.

    ``unread``: the cluster's resources that the fit tests need but do not know, with the reason; ``notes``: what the
    user should know about reading the cluster.
    """

    settings: CheckSettings
    world: TargetCluster | None
    place: str
    policy: CheckPolicy
    fail_on: FailOn
    namespace: str
    is_excluded: Callable[[str], bool]
    notes: tuple[str, ...] = ()
    unread: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CheckArguments:
    """The arguments of :func:`allotment.check`, which override the configuration.

    ``cluster``: one that is only a release does not replace the hardware of the configuration.
    """

    cluster: Cluster = field(default_factory=Cluster)
    select: Sequence[str] = ()
    ignore: Sequence[str] = ()
    drivers: Mapping[str, str] = field(default_factory=dict)
    driver_gates: Gates = ()
    namespace: str = ""
    fail_on: FailOn | None = None
    config: str | os.PathLike[str] | None = None
    isolated: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """The same arguments as options of ``allot check``."""
        source = self.cluster.source
        values = {
            "--driver": [f"{driver}={release}" for driver, release in self.drivers.items()],
            "--driver-gates": gate_texts(self.driver_gates),
            "--select": [self.select] if isinstance(self.select, str) else self.select,
            "--ignore": [self.ignore] if isinstance(self.ignore, str) else self.ignore,
            "-n": [self.namespace] if self.namespace else [],
            "--fail-on": [self.fail_on] if self.fail_on else [],
            "--config": [os.fspath(self.config)] if self.config else [],
        }
        return (
            *source.origin.options,
            *source.version_options,
            *(word for option, given in values.items() for value in given for word in (option, value)),
            *(("--isolated",) if self.isolated else ()),
        )


def check_options(given: CheckArguments) -> CheckOptions:
    """Return the options of a check, with those of the configuration as defaults.

    Raises InputError and InvalidManifests for invalid options.
    """
    if given.fail_on is not None:
        require_choice("fail_on", given.fail_on, FailOn)
    file = os.fspath(given.config) if given.config else None
    found = Configuration() if given.isolated else configuration(file, Path.cwd())
    with _configuration_errors(found):
        features(found.kube_version or DEFAULT_RELEASE, found.feature_gates)
        releases, gates = _driver_releases(found.drivers), _driver_gates(found.driver_gates)
    target = _target(given.cluster, found)
    for driver, changed in _driver_gates(gate_texts(given.driver_gates)).items():
        gates[driver] = {**gates.get(driver, {}), **changed}
    excluded = (*_EXCLUDED, *found.exclude)

    def is_excluded(file: str) -> bool:
        path = _from(found.folder, file)
        return any(matches(pattern, path) for pattern in excluded)

    return CheckOptions(
        settings=CheckSettings(target.inputs.features, {**releases, **_driver_releases(given.drivers)}, gates),
        world=target.world,
        place=target.place,
        policy=CheckPolicy(_rules(given.select, given.ignore, found), _excuses(found)),
        fail_on=given.fail_on or found.fail_on or "error",
        namespace=given.namespace or found.namespace or "default",
        is_excluded=is_excluded,
        notes=target.notes,
        unread=unread_resources(target.world.objects, NEEDED) if target.world is not None else {},
    )


@contextlib.contextmanager
def _configuration_errors(config: Configuration) -> Iterator[None]:
    """Report an invalid value of the configuration with its file and key."""
    try:
        yield
    except (InputError, FleetError) as error:
        if not config.file:
            raise
        key = f"{_KEYS.get(error.argument, error.argument)}: " if error.argument else ""
        raise InputError(f"{config.file}: {key}{error.problem}", error.hint) from None


def _from(folder: Path, file: str) -> str:
    """Return the path of a file relative to a directory, with ``/``."""
    return os.path.relpath(Path(file).absolute(), folder.absolute()).replace(os.sep, "/")


# --- which cluster ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Target:
    """The cluster that files are checked for. ``world``: None if only its release is known."""

    inputs: Inputs
    world: TargetCluster | None = None
    place: str = ""
    notes: tuple[str, ...] = ()


def _target(cluster: Cluster, config: Configuration) -> _Target:
    """Return the cluster of a check, with the release, gates and hardware of the configuration as defaults."""
    stated = cluster.source.with_defaults(config.kube_version, config.feature_gates)
    source = stated
    if config.fleet and not stated.has_objects:
        with _configuration_errors(config):
            source = HardwareSource(config.fleet, stated.kube, stated.gates)
    inputs = source.read((*DEVICES, *PODS))
    if not source.has_objects:
        return _Target(inputs)
    must_know(inputs.cluster, *OF_DEVICES, "resourceclaimtemplates")
    origin = source.origin
    notes = inputs.notes if origin.place == "cluster" else unread_notes(unread_resources(inputs.cluster, NEEDED))
    world = TargetCluster(inputs.cluster, fleet_only=origin.place == "hardware")
    return _Target(inputs, world, origin.name, tuple(notes))


def _driver_releases(releases: Mapping[str, str]) -> dict[str, str]:
    """Return releases by driver. Raises InputError for unknown ones, which the rules would ignore."""
    for name, release in releases.items():
        if name not in known_drivers():
            hint = suggestion(name, known_drivers()) or f"known: {', '.join(known_drivers())}"
            raise InputError(f"unknown driver {name!r}", hint, argument="drivers")
        try:
            vocabulary(name, release)
        except ValueError as error:
            raise InputError(str(error), argument="drivers") from None
    return dict(releases)


def _driver_gates(words: Iterable[str]) -> dict[str, dict[str, bool]]:
    """Return gates by driver: ``NAME=true`` applies to every driver with this gate, ``DRIVER/NAME=true`` to one."""
    known: dict[str, list[str]] = {}
    for driver in known_drivers():
        words_of = vocabulary(driver)
        for gate in words_of.gates if words_of is not None else ():
            known.setdefault(gate.name, []).append(driver)
    found: dict[str, dict[str, bool]] = {}
    for word in (part.strip() for text in words for part in text.split(",") if part.strip()):
        written, equals, value = (part.strip() for part in word.partition("="))
        driver, _, name = written.rpartition("/")
        enabled = _BOOLEANS.get(value.lower())
        if not equals or enabled is None:
            raise InputError(f"expected NAME=true or NAME=false, found {word!r}", argument="driver_gates")
        if name not in known or (driver and driver not in known[name]):
            hint = suggestion(name, known) or (f"known: {', '.join(known)}" if known else "")
            raise InputError(f"unknown gate {written!r}", hint, argument="driver_gates")
        for owner in [driver] if driver else known[name]:
            found.setdefault(owner, {})[name] = enabled
    return found


# --- which rules -----------------------------------------------------------------------------------------------------


def _rules(select: Sequence[str], ignore: Sequence[str], config: Configuration) -> RuleSelection:
    with _configuration_errors(config):
        selected, ignored = _known("select", config.select or ()), _known("ignore", config.ignore)
    if select:
        selected = _known("select", split_words(select))
    if ignore:
        ignored = _known("ignore", split_words(ignore))
    return RuleSelection(selected, ignored)


def _known(argument: str, words: Iterable[str]) -> tuple[str, ...]:
    for word in words:
        if not is_known_pattern(word):
            hint = suggestion(word, known_patterns()) or "allot rule lists all rules"
            raise InputError(f"unknown rule {word!r}", hint, argument=argument)
    return tuple(words)


def _excuses(config: Configuration) -> Callable[[str], tuple[str, ...]]:
    """Return the rules that are ignored for a file, by its path."""
    with _configuration_errors(config):
        by_pattern: Mapping[str, tuple[str, ...]] = {
            pattern: _known("per-file-ignores", words) for pattern, words in config.per_file_ignores.items()
        }

    def excused(file: str) -> tuple[str, ...]:
        path = _from(config.folder, file)
        return tuple(word for pattern, words in by_pattern.items() if matches(pattern, path) for word in words)

    return excused


# --- patterns of files -----------------------------------------------------------------------------------------------


def matches(pattern: str, path: str) -> bool:
    """Return whether a pattern matches a path; both use ``/`` and are relative to one directory.

    A pattern without a slash matches names at any depth, with a slash the whole path. ``**``
    matches any number of directories. A pattern that matches a directory matches everything in it.

    >>> matches("charts", "app/charts/gpu.yaml"), matches("charts/*.yaml", "app/charts/gpu.yaml")
    (True, False)
    >>> matches("**/charts/*.yaml", "app/charts/gpu.yaml"), matches("app/**", "app/charts/gpu.yaml")
    (True, True)
    """
    return _compiled(pattern).fullmatch(path) is not None


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    plain = pattern.removeprefix("./").strip("/")
    expression = "" if "/" in plain or pattern.startswith("/") else "(?:.*/)?"
    for part in re.findall(r"\*\*/|/\*\*$|\*\*|\*|\?|[^*?]+", plain):
        expression += {"**/": "(?:.*/)?", "/**": "/.*", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(
            part, re.escape(part)
        )
    return re.compile(f"{expression}(?:/.*)?", re.DOTALL)
