"""Several mistakes at once: the changes past an obstacle or a rule for nodes, and those that the claims need then.

A broken reference, a rejected object or an excluded node hides what else is wrong, because nothing is tried after it.
If its own correction does not suffice, the pod is explained again with that correction, and both are reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final, NamedTuple

from msgspec.structs import replace

from allotment.engine.refusal import Diagnosis, SuggestedChange
from allotment.engine.remedies import FARTHEST, REMEDIES, RESELECTIONS, Distance, LossClass, distance

#: Number of groups of excluded nodes for which changes of the claims are searched.
_MAX_COMBINED: Final = 3
#: Remedies that are not suggested together with another one.
_LAST_RESORTS: Final = frozenset({"of-class", "leave-out"})


class AfterChange(NamedTuple):
    """The result of a change for a pod: its ``node`` if it fits, or the ``further`` changes after which it fits;
    neither if nothing is known to help."""

    node: str = ""
    further: tuple[SuggestedChange, ...] = ()


#: Returns the result of a change for a pod.
After = Callable[[SuggestedChange], AfterChange]


def _unknown(change: SuggestedChange) -> AfterChange:
    return AfterChange()


def with_further_changes(reasons: Diagnosis, ways: Iterable[SuggestedChange], after: After) -> Diagnosis:
    """The reasons with the nearest of the ``ways`` after which other changes help; as they are if there is none, or if
    those change the class of other users or drop a part of the request."""
    found: list[tuple[SuggestedChange, ...]] = []
    for way in ways:
        node, further = after(way)
        if node or (further and not any(change.remedy in _LAST_RESORTS for change in further)):
            found.append((replace(way, node=node or further[0].node), *further))
    if not found:
        return reasons
    return replace(reasons, headline=replace(reasons.headline, changes=min(found, key=_distance)))


class LossLimit(NamedTuple):
    """The loss below which changes are considered: ``rules`` if the pod's own rules then match other nodes, otherwise
    ``nodes``. ``equal``: the worst loss of the changes that suffice, and the sum of their other losses; with the same
    worst loss, changes whose other losses are smaller are considered, too, unless they are of the pod's own rules."""

    rules: int = FARTHEST.loss
    nodes: int = FARTHEST.loss
    equal: tuple[int, int] = (FARTHEST.loss, 0)

    def at_most(self, loss: int) -> LossLimit:
        """The limit, reduced to a loss."""
        return LossLimit(
            min(self.rules, loss), min(self.nodes, loss), self.equal if self.equal[0] < loss else NO_LIMIT.equal
        )

    def allows(self, changes: Sequence[SuggestedChange]) -> bool:
        """Whether changes lose less."""
        worst, others = _losses(changes)
        if any(change.remedy in RESELECTIONS for change in changes):
            return worst < self.rules
        return worst < self.nodes or (worst == self.equal[0] and others < self.equal[1])


NO_LIMIT: Final = LossLimit()


def _losses(changes: Sequence[SuggestedChange]) -> tuple[int, int]:
    """The worst loss of changes, and the sum of the others."""
    lost = [REMEDIES[change.remedy].loss for change in changes]
    return (max(lost), sum(lost) - max(lost)) if lost else (FARTHEST.loss, 0)


def loss_limit(changes: Sequence[SuggestedChange]) -> LossLimit:
    """The limit for changes of the rules for nodes and of the claims together if ``changes`` of the claims suffice.

    Other models and less memory are requested for an excluded node only to keep a condition or constraint, if nothing
    else helps and the pod's own rules do not change, or if nothing else is lost.
    """
    if not changes:
        return LossLimit(rules=LossClass.MODEL)
    loss = _distance(changes).loss
    limit = NO_LIMIT.at_most(loss if loss > LossClass.MEMORY else min(loss, LossClass.MODEL))
    return limit._replace(equal=_losses(changes))


def may_lose_less(changes: Sequence[SuggestedChange]) -> bool:
    """Whether changes of the rules for nodes and of the claims together may lose less than ``changes`` of the claims.

    If only devices have to be released, an excluded node that has free ones needs no change of the claims.
    """
    lost = [REMEDIES[change.remedy].loss for change in changes]
    return not lost or max(lost) >= (LossClass.FEWER if min(lost) == LossClass.WAIT else LossClass.WAIT)


def combined_changes(
    groups: Iterable[Sequence[str]],
    of_claims: Callable[[Sequence[str]], tuple[SuggestedChange, ...]],
    of_rules: Callable[[str], tuple[SuggestedChange, ...]],
    limit: LossLimit = NO_LIMIT,
    after: After = _unknown,
) -> tuple[SuggestedChange, ...]:
    """The nearest changes of the rules for nodes and of the claims that make a pod fit together on an excluded node.

    ``groups``: excluded nodes, the nearest to the rules first; only the first few are tried. ``of_claims``: the changes
    after which the claims fit on one of some nodes; ``of_rules``: those that make a node eligible, unless an error on
    another node ends the attempt. Changes that reach the ``limit`` are left out. ``after``: what happens to the
    pod after a change that corrects such an error.
    """
    found: list[tuple[SuggestedChange, ...]] = []
    for names in islice(groups, _MAX_COMBINED):
        further = of_claims(names)
        way = of_rules(further[0].node) if further and further[0].node else ()
        together = _in_order(way, further) if way else _with_rules(further, after)
        if together and limit.allows(together) and not any(c.remedy in _LAST_RESORTS for c in together):
            found.append(together)
    return min(found, key=_distance, default=())


def _in_order(
    of_rules: tuple[SuggestedChange, ...], of_claims: tuple[SuggestedChange, ...]
) -> tuple[SuggestedChange, ...]:
    """Changes of both; what is written wrong comes first, because it is wrong on every node."""
    corrects = any(REMEDIES[change.remedy].scope == "spelling" for change in of_claims)
    return (*of_claims, *of_rules) if corrects else (*of_rules, *of_claims)


def _with_rules(of_claims: tuple[SuggestedChange, ...], after: After) -> tuple[SuggestedChange, ...]:
    """The change of the claims with what is necessary then; empty if nothing helps.

    An error on an eligible node may end the attempt on all nodes until the claims are corrected.
    """
    if len(of_claims) != 1 or not of_claims[0].object or not of_claims[0].node:
        return ()
    further = after(of_claims[0]).further
    return (*of_claims, *further) if further else ()


def _distance(changes: Iterable[SuggestedChange]) -> Distance:
    return distance(change.remedy for change in changes)
