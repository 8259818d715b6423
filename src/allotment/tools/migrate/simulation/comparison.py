"""Compares each workload's placement before and after the migration: pods that fit, and their kinds of device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from allotment.model.meta import Value
from allotment.tools.migrate.report import Migration
from allotment.tools.migrate.simulation.after import simulate_after
from allotment.tools.migrate.simulation.before import place_all
from allotment.tools.migrate.simulation.cluster_nodes import plugged_resources
from allotment.tools.migrate.simulation.device_kind import DeviceCount, same_devices
from allotment.tools.migrate.simulation.environment import SimulationEnvironment, environment_of
from allotment.tools.migrate.simulation.subjects import SimulatedWorkload
from allotment.tools.migrate.simulation.trial_result import PodResult, name_of


class PodPair(NamedTuple):
    """A pod before and after; None if the pod does not exist."""

    before: PodResult | None
    after: PodResult | None

    @property
    def lost(self) -> bool:
        """Whether the pod fits before but not after."""
        return self.before is not None and self.before.fits and (self.after is None or not self.after.fits)

    @property
    def changed(self) -> bool:
        """Whether its kinds of device differ."""
        if self.before is None or self.after is None or not (self.before.fits and self.after.fits):
            return False
        return not same_devices(self.before.devices, self.after.devices)


class WorkloadComparison(Value, frozen=True, omit_defaults=False):
    """A workload: the number of its ``pods``, and how many of them ``fitted`` before and ``fit`` after.

    ``lost``: pods that fit before but not after; ``changed``: those on other kinds of device. ``before`` and ``after``:
    the distinct sets of devices that a pod gets. ``reason`` and ``change``: for pods that do not fit after;
    ``reason_before``: for those that do not fit before; ``untried``: why the workload was not simulated.
    """

    subject: str
    outcome: str
    pods: int = 0
    fitted: int = 0
    fit: int = 0
    lost: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    before: tuple[tuple[DeviceCount, ...], ...] = ()
    after: tuple[tuple[DeviceCount, ...], ...] = ()
    reason: str = ""
    change: str = ""
    reason_before: str = ""
    untried: str = ""


class Comparison(Value, frozen=True, omit_defaults=False):
    """The comparison of all workloads. ``kept``: nodes that must keep the device plugin, with the workloads using them.

    ``moved``: nodes that change to the driver. ``assumed``: requirements assumed to be met, with their workloads;
    ``expected``: nodes whose slices are derived, because no driver publishes them yet; ``dark``: nodes with a device
    plugin whose slices cannot be derived. ``others``: pods with GPUs that are not in the files.
    """

    workloads: tuple[WorkloadComparison, ...]
    kept: dict[str, tuple[str, ...]] = {}
    moved: tuple[str, ...] = ()
    assumed: dict[str, tuple[str, ...]] = {}
    expected: tuple[str, ...] = ()
    dark: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    @property
    def fine(self) -> bool:
        """Whether every pod that fits before also fits after."""
        return not any(workload.lost for workload in self.workloads)


def compare(migration: Migration) -> Comparison | None:
    """Simulate placement before and after; None without a cluster or fleet."""
    target = migration.target
    if not target.known or target.features is None or not migration.workloads:
        return None
    environment = environment_of(migration)
    before = place_all(environment.subjects, environment.plugin_nodes(environment.others))
    after = simulate_after(environment)
    nodes = [node.metadata.name for node in target.nodes]
    with_slices = {slice_.spec.node_name for slice_ in target.slices}
    return Comparison(
        workloads=tuple(_compare_workload(subject, before, after.pods) for subject in environment.subjects),
        kept=after.kept,
        moved=tuple(name for name in nodes if name not in after.kept and name in with_slices),
        assumed=_assumptions(environment),
        expected=target.expected,
        dark=tuple(_unknown_nodes(environment, with_slices)),
        others=tuple(f"Pod {name_of(pod)}" for pod in environment.others),
    )


def _compare_workload(
    subject: SimulatedWorkload, before: Mapping[str, PodResult], after: Mapping[str, PodResult]
) -> WorkloadComparison:
    workload = subject.migrated
    names = dict.fromkeys(map(name_of, (*subject.before, *subject.after)))
    pairs = [PodPair(before.get(name), after.get(name)) for name in names if name in before or name in after]
    before_results = [pair.before for pair in pairs if pair.before is not None]
    after_results = [pair.after for pair in pairs if pair.after is not None]
    pending_after, pending_before = _most_common_reason(after_results), _most_common_reason(before_results)
    return WorkloadComparison(
        subject=workload.subject,
        outcome=workload.decision.outcome,
        pods=len(pairs),
        fitted=sum(old.fits for old in before_results),
        fit=sum(new.fits for new in after_results),
        lost=tuple(pair.before.pod for pair in pairs if pair.lost and pair.before is not None),
        changed=tuple(pair.before.pod for pair in pairs if pair.changed and pair.before is not None),
        before=_answers(before_results),
        after=_answers(after_results),
        reason=pending_after.reason,
        change=pending_after.change,
        reason_before=pending_before.reason,
        untried=subject.untried,
    )


def _most_common_reason(pods: Iterable[PodResult]) -> PodResult:
    """A pending pod with the most common reason."""
    waiting = [pod for pod in pods if not pod.fits]
    counts = Counter(pod.reason for pod in waiting)
    return max(waiting, key=lambda pod: counts[pod.reason], default=PodResult(pod=""))


def _answers(pods: Iterable[PodResult]) -> tuple[tuple[DeviceCount, ...], ...]:
    return tuple(dict.fromkeys(pod.devices for pod in pods if pod.fits))


def _assumptions(environment: SimulationEnvironment) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for subject, requirement in environment.assumed:
        found.setdefault(requirement, []).append(subject)
    return {requirement: tuple(dict.fromkeys(subjects)) for requirement, subjects in found.items()}


def _unknown_nodes(environment: SimulationEnvironment, with_slices: Iterable[str | None]) -> Iterable[str]:
    known = set(with_slices)
    return (
        node.metadata.name
        for node in environment.migration.target.nodes
        if plugged_resources(node) and node.metadata.name not in known
    )
