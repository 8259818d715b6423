"""Formats the comparison as text: a table of workloads, pending pods with reasons, and assumptions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from allotment.phrases import counted, first_few
from allotment.tools.migrate.report import Migration, Section
from allotment.tools.migrate.simulation.comparison import Comparison, WorkloadComparison
from allotment.tools.migrate.simulation.device_kind import DeviceCount

TITLE = "Before and after"


def before_and_after(migration: Migration, trial: Comparison | None) -> Section | None:
    """The section; None if no workload requests devices."""
    if not migration.workloads:
        return None
    if trial is None:
        if migration.target.features is None:
            return None
        return Section(
            title=TITLE,
            lines=("Not simulated: pass --fleet HARDWARE or --cluster FILE to place every pod before and after.",),
        )
    rows = tuple(_row(one) for one in trial.workloads)
    return Section(
        title=TITLE,
        lines=(_verdict(trial), *(line for one in trial.workloads for line in _workload_lines(one)), *_notes(trial)),
        table=(("WORKLOAD", "PODS", "BEFORE", "AFTER"), *rows),
        fine=trial.fine,
        data=msgspec.to_builtins(trial),
    )


def _verdict(trial: Comparison) -> str:
    fitted = sum(one.fitted for one in trial.workloads)
    lost = sum(len(one.lost) for one in trial.workloads)
    changed = sum(len(one.changed) for one in trial.workloads)
    if all(one.untried for one in trial.workloads):
        return "No workload could be simulated."
    if not fitted:
        return "No pod fits on these nodes before the migration, so there is nothing to compare."
    pods = counted(fitted, "pod")
    if lost:
        return f"Of {pods} that fit{'s' if fitted == 1 else ''} before, {_pending(lost)} after the migration."
    if fitted == 1:
        kind = "another device" if changed else "the same kind of device"
        return f"The pod that fits before also fits after, on {kind}."
    kinds = f"{changed} of them on other devices" if changed else "on the same kinds of device"
    return f"{'Both pods' if fitted == 2 else f'All {pods}'} that fit before also fit after, {kinds}."


def _pending(number: int) -> str:
    return f"{number} {'is' if number == 1 else 'are'} pending"


def _row(one: WorkloadComparison) -> tuple[str, str, str, str]:
    if one.untried:
        return one.subject, "-", "not simulated", "not simulated"
    before, after = _cell(one.before, one.fitted, one.pods), _cell(one.after, one.fit, one.pods)
    return one.subject, str(one.pods), before, "the same" if before == after and one.fit and not one.changed else after


def _cell(answers: Iterable[tuple[DeviceCount, ...]], fit: int, pods: int) -> str:
    if not pods:
        return "no pods"
    if not fit:
        return "pending" if pods == 1 else "all pending"
    kinds = " or ".join(" + ".join(map(str, devices)) or "no device" for devices in answers)
    return kinds if fit == pods else f"{fit} of {pods}: {kinds}"


def _workload_lines(one: WorkloadComparison) -> Iterator[str]:
    waiting = one.pods - one.fit
    if one.untried:
        yield f"{one.subject} is not simulated: {one.untried}."
    if one.lost:
        change = f" To make {'it' if len(one.lost) == 1 else 'them'} fit: {_ended(one.change)}" if one.change else ""
        number = f"{len(one.lost)} of its pods" if one.pods > 1 else "its pod"
        does = "does" if len(one.lost) == 1 else "do"
        yield f"{one.subject}: {number} fitted before and no longer {does}: {_ended(one.reason)}{change}"
    elif waiting and one.reason:
        known = "before and after" if one.fitted < one.pods else "after"
        yield f"{one.subject}: {_pending(waiting)} {known}: {_ended(one.reason)}"
    if one.fit > one.fitted and one.reason_before:
        yield f"{one.subject}: {_pending(one.pods - one.fitted)} with the device plugin: {_ended(one.reason_before)}"
    if one.changed:
        both = " become ".join(
            " or ".join(" + ".join(map(str, devices)) for devices in answers) for answers in (one.before, one.after)
        )
        yield f"{one.subject}: its devices differ: {both}."


def _ended(text: str) -> str:
    """A sentence with its end, unless it has one."""
    return text if text.endswith((".", "?")) else f"{text}."


def _notes(trial: Comparison) -> Iterator[str]:
    if trial.assumed:
        yield f"Assumed to be met, because the input does not cover it: {_with_users(trial.assumed)}."
    expected = tuple(node for node in trial.expected if node not in trial.kept)
    if expected:
        yield (
            f"No driver publishes slices for {first_few(expected, 4)} yet: they were derived from the nodes' labels "
            "and resources."
        )
    if trial.dark:
        yield (
            f"The slices that a driver would publish on {first_few(trial.dark, 4)} are unknown: labels of feature "
            "discovery are missing or name an unknown model. No pod was placed there after the migration."
        )
    kept = {node: users for node, users in trial.kept.items() if users}
    if kept and any(one.outcome not in ("leave", "cannot") for one in trial.workloads):
        yield (
            f"A node runs either the device plugin or the driver, never both. Kept for the device plugin: "
            f"{_with_users(kept)}."
        )


def _with_users(listed: Mapping[str, tuple[str, ...]]) -> str:
    return first_few([f"{what} ({first_few(users, 4)})" for what, users in listed.items()], 4)
