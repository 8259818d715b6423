"""The comparison in words: a table of all workloads, then what does not fit, and what was taken as given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from allotment.phrases import counted, first_few
from allotment.tools.migrate.report import Migration, Section
from allotment.tools.migrate.simulation.comparison import Compared, Comparison
from allotment.tools.migrate.simulation.device_kind import Got

TITLE = "Before and after"


def before_and_after(migration: Migration, trial: Comparison | None) -> Section | None:
    """The section; None where no workload asks for anything."""
    if not migration.workloads:
        return None
    if trial is None:
        if migration.target.features is None:
            return None
        return Section(title=TITLE, lines=("Not tried: --fleet HARDWARE or --cluster FILE tries every pod both ways.",))
    rows = tuple(_row(one) for one in trial.workloads)
    return Section(
        title=TITLE,
        lines=(_verdict(trial), *(line for one in trial.workloads for line in _said(one)), *_notes(trial)),
        table=(("WORKLOAD", "PODS", "BEFORE", "AFTER"), *rows),
        fine=trial.fine,
        data=msgspec.to_builtins(trial),
    )


def _verdict(trial: Comparison) -> str:
    fitted = sum(one.fitted for one in trial.workloads)
    lost = sum(len(one.lost) for one in trial.workloads)
    changed = sum(len(one.changed) for one in trial.workloads)
    if all(one.untried for one in trial.workloads):
        return "Nothing could be tried."
    if not fitted:
        return "No pod fits before on these nodes, so there is nothing to compare with."
    pods = counted(fitted, "pod")
    if lost:
        return f"Of {pods} that fit{'s' if fitted == 1 else ''} before, {_waits(lost)} after the migration."
    if fitted == 1:
        return (
            f"The pod that fits before fits after, {'on another device' if changed else 'on the same kind of device'}."
        )
    kinds = f"{changed} of them on other devices" if changed else "on the same kinds of device"
    return f"{'Both pods' if fitted == 2 else f'All {pods}'} that fit before fit after, {kinds}."


def _waits(number: int) -> str:
    return counted(number, "waits", "wait")


def _row(one: Compared) -> tuple[str, str, str, str]:
    if one.untried:
        return one.subject, "-", "not tried", "not tried"
    before, after = _cell(one.before, one.fitted, one.pods), _cell(one.after, one.fit, one.pods)
    return one.subject, str(one.pods), before, "the same" if before == after and one.fit and not one.changed else after


def _cell(answers: Iterable[tuple[Got, ...]], fit: int, pods: int) -> str:
    if not pods:
        return "no pods"
    if not fit:
        return "waits" if pods == 1 else "all wait"
    kinds = " or ".join(" + ".join(map(str, devices)) or "no device" for devices in answers)
    return kinds if fit == pods else f"{fit} of {pods}: {kinds}"


def _said(one: Compared) -> Iterator[str]:
    waiting = one.pods - one.fit
    if one.untried:
        yield f"{one.subject} is not tried: {one.untried}."
    if one.lost:
        change = f" To make {'it' if len(one.lost) == 1 else 'them'} fit: {_ended(one.change)}" if one.change else ""
        number = f"{len(one.lost)} of its pods" if one.pods > 1 else "its pod"
        does = "does" if len(one.lost) == 1 else "do"
        yield f"{one.subject}: {number} fitted and no longer {does}: {_ended(one.reason)}{change}"
    elif waiting and one.reason:
        known = "before and after" if one.fitted < one.pods else "after"
        yield f"{one.subject}: {_waits(waiting)} {known}: {_ended(one.reason)}"
    if one.fit > one.fitted and one.reason_before:
        yield f"{one.subject}: {_waits(one.pods - one.fitted)} with the device plugin: {_ended(one.reason_before)}"
    if one.changed:
        both = " become ".join(
            " or ".join(" + ".join(map(str, devices)) for devices in answers) for answers in (one.before, one.after)
        )
        yield f"{one.subject}: devices are others than before: {both}."


def _ended(text: str) -> str:
    """A sentence with its end, unless it has one."""
    return text if text.endswith((".", "?")) else f"{text}."


def _notes(trial: Comparison) -> Iterator[str]:
    if trial.assumed:
        yield f"Taken as met, for nothing tells of it here: {_with_users(trial.assumed)}."
    expected = tuple(node for node in trial.expected if node not in trial.kept)
    if expected:
        yield (
            f"No driver publishes {first_few(expected, 4)} yet: what it will was taken from the nodes' labels and resources."
        )
    if trial.dark:
        yield (
            f"What a driver would publish on {first_few(trial.dark, 4)} is not known: the labels of feature discovery are "
            "missing, or name a model that is not known here. Nothing was placed there after the migration."
        )
    kept = {node: users for node, users in trial.kept.items() if users}
    if kept and any(one.outcome not in ("leave", "cannot") for one in trial.workloads):
        yield (
            f"A node belongs to the device plugin or to the driver, never to both. Kept for the device plugin: "
            f"{_with_users(kept)}."
        )


def _with_users(listed: Mapping[str, tuple[str, ...]]) -> str:
    return first_few([f"{what} ({first_few(users, 4)})" for what, users in listed.items()], 4)
