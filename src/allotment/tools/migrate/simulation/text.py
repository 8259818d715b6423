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
            lines=(
                (
                    "Not simulated: pass --fleet HARDWARE or --cluster FILE to simulate every pod before and after the "
                    "migration."
                ),
            ),
        )
    rows = tuple(_row(workload) for workload in trial.workloads)
    return Section(
        title=TITLE,
        lines=(
            _verdict(trial),
            *(line for workload in trial.workloads for line in _workload_lines(workload)),
            *_notes(trial),
        ),
        table=(("WORKLOAD", "PODS", "BEFORE", "AFTER"), *rows),
        fine=trial.fine,
        data=msgspec.to_builtins(trial),
    )


def _verdict(trial: Comparison) -> str:
    fitted = sum(workload.fitted for workload in trial.workloads)
    lost = sum(len(workload.lost) for workload in trial.workloads)
    changed = sum(len(workload.changed) for workload in trial.workloads)
    if all(workload.untried for workload in trial.workloads):
        return "No workload could be simulated."
    if not fitted:
        return "Even before the migration, no pod fits on these nodes, so there is nothing to compare."
    pods = counted(fitted, "pod")
    if lost:
        return f"Of {pods} that fit before, {_pending(lost)} after the migration."
    if fitted == 1:
        kind = "a different device" if changed else "the same kind of device"
        return f"The pod that fit before still fits, on {kind}."
    kinds = f"{changed} of them on different devices" if changed else "on the same kinds of device"
    return f"{'Both pods' if fitted == 2 else f'All {pods}'} that fit before still fit, {kinds}."


def _pending(number: int) -> str:
    return f"{number} {'is' if number == 1 else 'are'} pending"


def _row(workload: WorkloadComparison) -> tuple[str, str, str, str]:
    if workload.untried:
        return workload.subject, "-", "not simulated", "not simulated"
    before, after = (
        _cell(workload.before, workload.fitted, workload.pods),
        _cell(workload.after, workload.fit, workload.pods),
    )
    return (
        workload.subject,
        str(workload.pods),
        before,
        "the same" if before == after and workload.fit and not workload.changed else after,
    )


def _cell(answers: Iterable[tuple[DeviceCount, ...]], fit: int, pods: int) -> str:
    if not pods:
        return "no pods"
    if not fit:
        return "pending" if pods == 1 else "all pending"
    kinds = " or ".join(" + ".join(map(str, devices)) or "no device" for devices in answers)
    return kinds if fit == pods else f"{fit} of {pods}: {kinds}"


def _workload_lines(workload: WorkloadComparison) -> Iterator[str]:
    waiting = workload.pods - workload.fit
    if workload.untried:
        yield f"{workload.subject} is not simulated: {workload.untried}."
    if workload.lost:
        change = (
            f" To make {'it' if len(workload.lost) == 1 else 'them'} fit: {_ended(workload.change)}"
            if workload.change
            else ""
        )
        number = f"{len(workload.lost)} of its pods" if workload.pods > 1 else "its pod"
        does = "does" if len(workload.lost) == 1 else "do"
        yield f"{workload.subject}: {number} fit before and no longer {does}: {_ended(workload.reason)}{change}"
    elif waiting and workload.reason:
        known = "before and after" if workload.fitted < workload.pods else "after"
        yield f"{workload.subject}: {_pending(waiting)} {known}: {_ended(workload.reason)}"
    if workload.fit > workload.fitted and workload.reason_before:
        pending = _pending(workload.pods - workload.fitted)
        yield f"{workload.subject}: {pending} with the device plugin: {_ended(workload.reason_before)}"
    if workload.changed:
        before, after = (
            " or ".join(" + ".join(map(str, devices)) for devices in answers)
            for answers in (workload.before, workload.after)
        )
        yield f"{workload.subject}: its devices change from {before} to {after}."


def _ended(text: str) -> str:
    """The text with a full stop, unless it already ends with a full stop or question mark."""
    return text if text.endswith((".", "?")) else f"{text}."


def _notes(trial: Comparison) -> Iterator[str]:
    if trial.assumed:
        yield f"Assumed to be met, because the input does not provide this information: {_with_users(trial.assumed)}."
    expected = tuple(node for node in trial.expected if node not in trial.kept)
    if expected:
        yield (
            f"No driver publishes slices for {first_few(expected, 4)} yet, so they were derived from the nodes' "
            "labels and resources."
        )
    if trial.dark:
        yield (
            f"The slices that a driver would publish on {first_few(trial.dark, 4)} are unknown, because feature "
            "discovery labels are missing or name an unknown model. The simulation after the migration placed no "
            "pod there."
        )
    kept = {node: users for node, users in trial.kept.items() if users}
    if kept and any(workload.outcome not in ("leave", "cannot") for workload in trial.workloads):
        yield (
            "A node runs either the device plugin or the driver, never both. Nodes kept for the device plugin: "
            f"{_with_users(kept)}."
        )


def _with_users(listed: Mapping[str, tuple[str, ...]]) -> str:
    return first_few([f"{name} ({first_few(users, 4)})" for name, users in listed.items()], 4)
