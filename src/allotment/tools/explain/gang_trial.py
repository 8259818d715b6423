"""Tries the pods of a PodGroup together, and takes back what was recorded if too few of them fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from msgspec.structs import replace

from allotment.engine.refusal import SuggestedChange
from allotment.model.core import Pod, PodStatus
from allotment.model.meta import ObjectKey
from allotment.model.resource import ResourceClaim
from allotment.tools.explain.gangs import (
    Domain,
    Gang,
    Member,
    NoDomain,
    Outcome,
    Remedies,
    domains,
    incomplete,
    more_pods,
    smaller_gang,
    waits,
    without_domain,
)
from allotment.tools.explain.node_eligibility import EligibilityNode
from allotment.tools.explain.report import Answer

#: Maximum number of missing pods for which it is tested whether they would fit.
_MAX_COPIES: Final = 64


class DoesNotFit(Exception):
    """Raised when a pod or claim does not fit and no reason is wanted, to end the trial."""


class Explainer(Protocol):
    """Explains single pods, and records what they get."""

    without_reasons: bool
    """Whether `DoesNotFit` is raised instead of looking for reasons."""
    domain: Domain
    """Where pods may run."""

    @property
    def nodes(self) -> dict[str, EligibilityNode]: ...

    @property
    def claims(self) -> Mapping[ObjectKey, ResourceClaim]: ...

    def pod(self, pod: Pod, owner: str) -> Answer:
        """Try one pod and record its allocations."""
        ...

    def mark(self) -> int:
        """The present state, for `revert`."""
        ...

    def revert(self, mark: int) -> None:
        """Take back all allocations since then."""
        ...

    def after(self, changes: Sequence[SuggestedChange], gang: Gang) -> Iterable[str]:
        """The names of the pods of a gang that fit together after changes."""
        ...


def group_answers(run: Explainer, gang: Gang) -> list[Answer]:
    """The answers for all members of an existing group, in order."""
    try:
        choice = domains(gang, run.nodes)
    except NoDomain as error:
        return without_domain(gang, error)
    run.domain = choice[0] if len(choice) == 1 else _best(run, gang, choice)
    try:
        return _in_domain(run, gang, len(choice))
    finally:
        run.domain = Domain()


def _best(run: Explainer, gang: Gang, choice: Iterable[Domain]) -> Domain:
    """The domain in which most pods fit, the first one among equals."""
    wanted, run.without_reasons = run.without_reasons, True
    mark, counts = run.mark(), dict[Domain, int]()
    for run.domain in choice:
        counts[run.domain] = sum(answer.fits for answer in _attempts(run, gang))
        run.revert(mark)
    run.without_reasons = wanted
    return max(counts, key=lambda domain: counts[domain])


def _attempts(run: Explainer, gang: Gang) -> Iterator[Answer]:
    """Try the members one after the other, as kube-scheduler does."""
    for member in gang.members:
        yield _attempt(run, member)


def _attempt(run: Explainer, member: Member) -> Answer:
    try:
        return run.pod(member.pod, member.owner)
    except DoesNotFit:
        return Answer(kind="Pod", name=str(member.pod.key), outcome="refused", owner=member.owner)


def _in_domain(run: Explainer, gang: Gang, placements: int) -> list[Answer]:
    mark = run.mark()
    outcome = Outcome(gang, run.domain, tuple(_attempts(run, gang)), placements)
    if outcome.is_complete:
        return list(outcome.answers)
    if gang.minimum == 1:
        return list(outcome.answers)  # no pod fits, so nothing was recorded
    if run.without_reasons:
        run.revert(mark)
        raise DoesNotFit
    spare = not outcome.refused and _would_fit(run, gang)
    run.revert(mark)
    return incomplete(outcome, list(_remedies(run, outcome, spare)))


def _would_fit(run: Explainer, gang: Gang) -> bool:
    """Whether the missing pods fit, too, if they are like the last one."""
    if not gang.members or gang.missing > _MAX_COPIES:
        return False
    like, owner, _ = gang.members[-1]
    quick, run.without_reasons = run.without_reasons, True
    try:
        for number in range(gang.missing):
            name = f"{like.metadata.name}-more-{number}"
            metadata = replace(like.metadata, name=name, uid="")
            run.pod(replace(like, metadata=metadata, status=PodStatus()), owner)
    except DoesNotFit:
        return False
    finally:
        run.without_reasons = quick
    return True


def _remedies(run: Explainer, outcome: Outcome, spare: bool) -> Iterator[Remedies]:
    """Verified changes, in the order of their suggestion."""
    if spare:
        yield more_pods(outcome)
    refused = outcome.refused
    if refused is not None and refused.reasons is not None and not outcome.gang.missing:
        headline = refused.reasons.headline
        waiting = ((wait,) for wait in waits(headline, run.claims))
        for changes in filter(None, (*waiting, headline.changes, headline.otherwise)):
            if helped := frozenset(run.after(changes, outcome.gang)):
                yield Remedies(changes, helped)
    if (smaller := smaller_gang(outcome)) is not None:
        yield smaller
