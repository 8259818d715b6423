"""Tries the pods of a PodGroup together, and takes back what was recorded if too few of them fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from msgspec.structs import replace

from allotment.engine.refusal import SuggestedChange
from allotment.engine.remedies import Distance, LossClass, distance
from allotment.explanation.gangs import (
    Domain,
    Gang,
    Member,
    NoDomain,
    Outcome,
    Remedies,
    domains,
    held_claims,
    incomplete,
    more_pods,
    smaller_gang,
    wait_for,
    without_domain,
)
from allotment.explanation.node_eligibility import EligibilityNode
from allotment.explanation.pod_trial import DoesNotFit, TrialScope
from allotment.explanation.report import Answer
from allotment.model.core import Pod, PodStatus
from allotment.model.meta import ObjectKey
from allotment.model.resource import ResourceClaim

#: Maximum number of missing pods for which it is tested whether they would fit.
_MAX_COPIES: Final = 64
#: Maximum number of claims of other users that are verified one by one.
_MAX_WAITS: Final = 3


class Explainer(Protocol):
    """Explains single pods, and records what they get."""

    @property
    def nodes(self) -> dict[str, EligibilityNode]: ...

    @property
    def claims(self) -> Mapping[ObjectKey, ResourceClaim]: ...

    def pod(self, pod: Pod, owner: str, scope: TrialScope) -> Answer:
        """Try one pod and record its allocations. Raises DoesNotFit."""
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


def group_answers(run: Explainer, gang: Gang, scope: TrialScope) -> list[Answer]:
    """The answers for all members of an existing group, in order. Raises DoesNotFit."""
    try:
        choice = domains(gang, run.nodes)
    except NoDomain as error:
        return without_domain(gang, error)
    domain = choice[0] if len(choice) == 1 else _best(run, gang, choice)
    return _in_domain(run, gang, scope._replace(domain=domain), len(choice))


def _best(run: Explainer, gang: Gang, choice: Iterable[Domain]) -> Domain:
    """The domain in which most pods fit, the first one among equals."""
    mark, counts = run.mark(), dict[Domain, int]()
    for domain in choice:
        counts[domain] = sum(answer.fits for answer in _attempts(run, gang, TrialScope(domain, with_reasons=False)))
        run.revert(mark)
    return max(counts, key=lambda domain: counts[domain])


def _attempts(run: Explainer, gang: Gang, scope: TrialScope) -> Iterator[Answer]:
    """Try the members one after the other, as kube-scheduler does."""
    for member in gang.members:
        yield _attempt(run, member, scope)


def _attempt(run: Explainer, member: Member, scope: TrialScope) -> Answer:
    try:
        return run.pod(member.pod, member.owner, scope)
    except DoesNotFit:
        return Answer(kind="Pod", name=str(member.pod.key), outcome="refused", owner=member.owner)


def _in_domain(run: Explainer, gang: Gang, scope: TrialScope, placements: int) -> list[Answer]:
    mark = run.mark()
    outcome = Outcome(gang, scope.domain, tuple(_attempts(run, gang, scope)), placements)
    if outcome.is_complete:
        return list(outcome.answers)
    if gang.minimum == 1:
        return list(outcome.answers)  # no pod fits, so nothing was recorded
    if not scope.with_reasons:
        run.revert(mark)
        raise DoesNotFit
    spare = not outcome.refused and _would_fit(run, gang, scope.domain)
    run.revert(mark)
    return incomplete(outcome, list(_remedies(run, outcome, spare)))


def _would_fit(run: Explainer, gang: Gang, domain: Domain) -> bool:
    """Whether the missing pods fit, too, if they are like the last one."""
    if not gang.members or gang.missing > _MAX_COPIES:
        return False
    like, owner, _ = gang.members[-1]
    try:
        for number in range(gang.missing):
            name = f"{like.metadata.name}-more-{number}"
            metadata = replace(like.metadata, name=name, uid="")
            copy = replace(like, metadata=metadata, status=PodStatus())
            run.pod(copy, owner, TrialScope(domain, with_reasons=False))
    except DoesNotFit:
        return False
    return True


def _remedies(run: Explainer, outcome: Outcome, spare: bool) -> Iterator[Remedies]:
    """Verified changes, in the order of their suggestion: those that lose least of what was intended first."""
    if spare:
        yield more_pods(outcome)
    refused = outcome.refused
    if refused is not None and refused.reasons is not None and not outcome.gang.missing:
        headline = refused.reasons.headline
        own = sorted(filter(None, (headline.changes, headline.otherwise)), key=_distance)
        nearer = [changes for changes in own if _distance(changes).loss < LossClass.WAIT]
        yield from _verified(run, outcome, nearer)
        yield from _waiting(run, outcome, held_claims(refused.reasons, run.claims))
        yield from _verified(run, outcome, [changes for changes in own if changes not in nearer])
    if (smaller := smaller_gang(outcome)) is not None:
        yield smaller


def _verified(run: Explainer, outcome: Outcome, ways: Iterable[Sequence[SuggestedChange]]) -> Iterator[Remedies]:
    for changes in ways:
        if helped := frozenset(run.after(changes, outcome.gang)):
            yield Remedies(tuple(changes), helped)


def _waiting(run: Explainer, outcome: Outcome, held: Sequence[ResourceClaim]) -> Iterator[Remedies]:
    """Waiting for one of the claims that hold devices, or for as many of them as the gang needs."""
    single = list(_verified(run, outcome, ((wait_for([claim]),) for claim in held[:_MAX_WAITS])))
    yield from single
    if single or len(held) < 2:
        return

    def helped(count: int) -> frozenset[str]:
        return frozenset(run.after([wait_for([claim]) for claim in held[:count]], outcome.gang))

    count, last = 1, len(held)  # too few, and enough
    if not (found := helped(last)):
        return
    while last - count > 1:
        middle = (count + last) // 2
        if names := helped(middle):
            last, found = middle, names
        else:
            count = middle
    yield Remedies((wait_for(held[:last]),), found)


def _distance(changes: Iterable[SuggestedChange]) -> Distance:
    return distance(change.remedy for change in changes)
