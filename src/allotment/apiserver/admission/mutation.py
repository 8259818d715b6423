"""Mutating admission that users configure: policies, then webhooks, in up to two rounds."""

from __future__ import annotations

from collections.abc import Callable

from allotment.apiserver.admission.attempts import Attempt
from allotment.apiserver.admission.attributes import Attributes
from allotment.apiserver.admission.mutating_policies import MutatingPolicies
from allotment.apiserver.admission.reinvocation import Reinvocation, Rounds
from allotment.apiserver.admission.webhooks import Webhooks
from allotment.model.trees import Tree


def _complete(tree: Tree, before: Tree) -> Tree:
    return tree


def _unchanged(tree: Tree) -> Tree:
    return tree


class Mutation:
    """The mutating policies and webhooks of a store."""

    def __init__(self, policies: MutatingPolicies, webhooks: Webhooks) -> None:
        self._policies, self._webhooks = policies, webhooks

    @property
    def exists(self) -> bool:
        """Whether there is any."""
        return self._webhooks.mutating_exist or self._policies.exist

    def mutated(
        self, attributes: Attributes, attempt: Attempt | None, *,
        default: Callable[[Tree, Tree], Tree] = _complete, admit: Callable[[Tree], Tree] = _unchanged,
    ) -> Tree | None:  # fmt: skip
        """The new object of a request after mutating admission. Raises StatusError and CallsNeeded.

        ``default`` completes an object that was changed; its second argument is the object before. ``admit`` applies
        the admission plugins of its kind again, which have run before.
        """
        rounds = Rounds()
        of_policies, of_webhooks = Reinvocation(rounds), Reinvocation(rounds)

        def run(new: Tree | None) -> Tree | None:
            new = self._policies.mutate(attributes._replace(new=new), of_policies, default)
            return self._webhooks.mutate(attributes._replace(new=new), attempt, of_webhooks, default)

        new = run(attributes.new)
        if not rounds.is_second_needed or new is None:
            return new
        rounds.is_second = True
        return run(admit(new))
