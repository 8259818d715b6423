"""Evaluates pods against a Pod Security level: the checks that apply in its version, and their violations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from allotment.apiserver.pod_security.baseline_checks import BASELINE_CHECKS
from allotment.apiserver.pod_security.levels import BASELINE, PRIVILEGED, Level
from allotment.apiserver.pod_security.restricted_checks import RESTRICTED_CHECKS
from allotment.apiserver.pod_security.violations import Check, Violation
from allotment.model.trees import Tree


def violations(level: Level, metadata: Tree, spec: Tree, kube: str) -> list[Violation]:
    """The violations of a pod in the order of messages. ``kube``: the release, which knows no later versions."""
    if level.name == PRIVILEGED:
        return []
    newest = int(kube.rpartition(".")[2])
    minor = newest if level.minor is None else min(level.minor, newest)
    found = (check(metadata, spec) for check in _checks(level.name, minor))
    return [violation for violation in found if violation is not None]


@cache
def _checks(level: str, minor: int) -> tuple[Check, ...]:
    baseline = {name: check for name, versions in BASELINE_CHECKS.items() for check in _newest(versions, minor)}
    if level == BASELINE:
        return tuple(baseline.values())
    added = []
    for restricted in RESTRICTED_CHECKS.values():
        for check in _newest(restricted.versions, minor):
            added.append(check)
            baseline.pop(restricted.replaces, None)
    return (*baseline.values(), *added)


def _newest(versions: Sequence[tuple[int, Check]], minor: int) -> Iterator[Check]:
    """The check that applies in a minor version, if one does."""
    known = [check for first, check in versions if first <= minor]
    yield from known[-1:]
