"""The options of ``allot check``: command line and configuration, combined and validated."""

from __future__ import annotations

import contextlib
import os
import re
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final

from allotment.api.releases import features
from allotment.api.unread_resources import NEEDED, OF_DEVICES, must_know
from allotment.cli.check.configuration import Configuration, configuration
from allotment.cli.inputs.objects import read_inputs
from allotment.errors import InputError
from allotment.fleet.errors import FleetError, suggestion
from allotment.model import DEFAULT_RELEASE
from allotment.model.features import Features
from allotment.tools.check.bundle import CheckSettings, TargetCluster
from allotment.tools.check.policy import CheckPolicy
from allotment.tools.check.selection import RuleSelection, is_known_pattern, known_patterns
from allotment.tools.unread import unread_notes, unread_resources
from allotment.vocabulary import drivers, vocabulary


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


#: Directories of third-party files.
_EXCLUDED: Final = ("node_modules", "site-packages", "venv")
_LEVELS: Final = ("error", "warning", "note")
_BOOLEANS: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a run. ``place``: name of the cluster or hardware of fit tests; ``notes``: printed first.

    ``unread``: the cluster's resources that the fit tests need but do not know, with the reason.
    """

    settings: CheckSettings
    world: TargetCluster | None
    place: str
    policy: CheckPolicy
    failing: frozenset[str]
    namespace: str
    is_excluded: Callable[[str], bool]
    notes: tuple[str, ...] = ()
    unread: Mapping[str, str] = field(default_factory=dict)


def options_of(arguments: Namespace) -> Options:
    """Return the options of a run. Raises InputError and InvalidManifests for invalid ones."""
    if arguments.unsafe_fixes and not (arguments.fix or arguments.diff):
        raise InputError(
            "--unsafe-fixes: requires --fix or --diff", "use --fix --unsafe-fixes, or --diff --unsafe-fixes"
        )
    config = Configuration() if arguments.isolated else configuration(arguments.config, Path.cwd())
    with _configuration_errors(config):
        features(config.kube_version or DEFAULT_RELEASE, config.feature_gates)
        releases, gates = _drivers(config.drivers), _driver_gates(config.driver_gates)
    known, world, place, notes = _target_cluster(arguments, config)
    for driver, changed in _driver_gates(arguments.driver_gates).items():
        gates[driver] = {**gates.get(driver, {}), **changed}
    settings = CheckSettings(known, {**releases, **_drivers(arguments.driver)}, gates)
    fail_on = arguments.fail_on or config.fail_on or "error"
    failing = frozenset(_LEVELS[: _LEVELS.index(fail_on) + 1]) if fail_on in _LEVELS else frozenset()
    namespace = arguments.namespace or config.namespace or "default"
    excluded = (*_EXCLUDED, *config.exclude)

    def is_excluded(file: str) -> bool:
        path = _from(config.folder, file)
        return any(matches(pattern, path) for pattern in excluded)

    policy = CheckPolicy(_choice(arguments, config), _excuses(config))
    unread = unread_resources(world.objects, NEEDED) if world is not None else {}
    return Options(settings, world, place, policy, failing, namespace, is_excluded, notes, unread)


@contextlib.contextmanager
def _configuration_errors(config: Configuration) -> Iterator[None]:
    """Report an invalid value of the configuration with its file, and the key without dashes."""
    try:
        yield
    except (InputError, FleetError) as error:
        if not config.file:
            raise
        raise InputError(f"{config.file}: {str(error).removeprefix('--')}", error.hint) from None


def _from(folder: Path, file: str) -> str:
    """Return the path of a file relative to a directory, with ``/``."""
    return os.path.relpath(Path(file).absolute(), folder.absolute()).replace(os.sep, "/")


# --- which cluster ---------------------------------------------------------------------------------------------------


def _target_cluster(
    arguments: Namespace, config: Configuration
) -> tuple[Features, TargetCluster | None, str, tuple[str, ...]]:
    """Return the release and gates, the cluster if given, its name, and notes about it."""
    version = arguments.kube_version or config.kube_version
    gates = [*config.feature_gates, *arguments.feature_gates]
    fleet = list(arguments.fleet or ())
    snapshot = list(arguments.cluster or ())
    overridden = Namespace(**{**vars(arguments), "kube_version": version, "feature_gates": gates, "files": []})
    if arguments.context or arguments.kubeconfig:
        if fleet or snapshot:
            raise InputError("--context: not allowed with --cluster or --fleet", "use only one of them")
        from allotment.cli.live.cluster_state import read_live
        from allotment.cluster.inspection.snapshot import DEVICES, PODS

        live = read_live(overridden, (*DEVICES, *PODS))
        must_know(live.values, *OF_DEVICES, "resourceclaimtemplates")
        return (
            live.features,
            TargetCluster(live.values),
            f"the cluster of context {arguments.context}"
            if arguments.context
            else "the cluster of the current context",
            live.notes,
        )
    if not fleet and not snapshot:
        fleet = list(config.fleet)
    if not fleet and not snapshot:
        return features(version or DEFAULT_RELEASE, gates), None, "", ()
    overridden.cluster, overridden.fleet = [snapshot] if snapshot else [], [fleet] if fleet else []
    with contextlib.nullcontext() if arguments.fleet or arguments.cluster else _configuration_errors(config):
        inputs = read_inputs(overridden)
    must_know(inputs.cluster, *OF_DEVICES, "resourceclaimtemplates")
    place = f"the cluster of {' and '.join(snapshot)}" if snapshot else ", ".join(fleet)
    notes = unread_notes(unread_resources(inputs.cluster, NEEDED))
    return inputs.features, TargetCluster(inputs.cluster, fleet_only=not snapshot), place, notes


def _drivers(words: Iterable[str]) -> dict[str, str]:
    """Return releases by driver. Raises InputError for unknown ones, which the rules would ignore."""
    found: dict[str, str] = {}
    for word in words:
        name, equals, release = (part.strip() for part in word.partition("="))
        if not equals or not release:
            raise InputError(f"--driver: expected NAME=RELEASE, found {word!r}", "for example gpu.nvidia.com=25.8")
        if name not in drivers():
            hint = suggestion(name, drivers()) or f"known: {', '.join(drivers())}"
            raise InputError(f"--driver: unknown driver {name!r}", hint)
        try:
            vocabulary(name, release)
        except ValueError as error:
            raise InputError(f"--driver: {error}") from None
        found[name] = release
    return found


def _driver_gates(words: Iterable[str]) -> dict[str, dict[str, bool]]:
    """Return gates by driver: ``NAME=true`` applies to every driver with this gate, ``DRIVER/NAME=true`` to one."""
    known: dict[str, list[str]] = {}
    for driver in drivers():
        words_of = vocabulary(driver)
        for gate in words_of.gates if words_of is not None else ():
            known.setdefault(gate.name, []).append(driver)
    found: dict[str, dict[str, bool]] = {}
    for word in (part.strip() for text in words for part in text.split(",") if part.strip()):
        written, equals, value = (part.strip() for part in word.partition("="))
        driver, _, name = written.rpartition("/")
        enabled = _BOOLEANS.get(value.lower())
        if not equals or enabled is None:
            raise InputError(f"--driver-gates: expected NAME=true or NAME=false, found {word!r}")
        if name not in known or (driver and driver not in known[name]):
            hint = suggestion(name, known) or (f"known: {', '.join(known)}" if known else "")
            raise InputError(f"--driver-gates: unknown gate {written!r}", hint)
        for owner in [driver] if driver else known[name]:
            found.setdefault(owner, {})[name] = enabled
    return found


# --- which rules -----------------------------------------------------------------------------------------------------


def _choice(arguments: Namespace, config: Configuration) -> RuleSelection:
    with _configuration_errors(config):
        select, ignore = _words("select", config.select or ()), _words("ignore", config.ignore)
    if arguments.select:
        select = _words("--select", _split(arguments.select))
    if arguments.ignore:
        ignore = _words("--ignore", _split(arguments.ignore))
    return RuleSelection(select, ignore)


def _split(texts: Sequence[str]) -> list[str]:
    return [word for text in texts for part in text.split(",") if (word := part.strip())]


def _words(option: str, words: Iterable[str]) -> tuple[str, ...]:
    for word in words:
        if not is_known_pattern(word):
            raise InputError(
                f"{option}: unknown rule {word!r}", suggestion(word, known_patterns()) or "allot rule lists all rules"
            )
    return tuple(words)


def _excuses(config: Configuration) -> Callable[[str], tuple[str, ...]]:
    """Return the rules that are ignored for a file, by its path."""
    with _configuration_errors(config):
        by_pattern: Mapping[str, tuple[str, ...]] = {
            pattern: _words("per-file-ignores", words) for pattern, words in config.per_file_ignores.items()
        }

    def excused(file: str) -> tuple[str, ...]:
        path = _from(config.folder, file)
        return tuple(word for pattern, words in by_pattern.items() if matches(pattern, path) for word in words)

    return excused
