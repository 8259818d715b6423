"""The admission of requests: mutating policies and webhooks, then plugins, then validating policies and webhooks."""

from __future__ import annotations

from collections.abc import Callable

from allotment.apiserver.access.authorization import Authorizer
from allotment.apiserver.access.node_authorizer import node_of
from allotment.apiserver.admission import node_restriction, plugins
from allotment.apiserver.admission.attempts import Attempt
from allotment.apiserver.admission.attributes import Attributes
from allotment.apiserver.admission.mutating_policies import MutatingPolicies
from allotment.apiserver.admission.pod_warnings import WARNINGS
from allotment.apiserver.admission.reinvocation import Reinvocation, Rounds
from allotment.apiserver.admission.validating_policies import ValidatingPolicies
from allotment.apiserver.admission.webhooks import Webhooks
from allotment.apiserver.operation import Operation, ignore_warning
from allotment.apiserver.served_kinds import Catalog
from allotment.apiserver.storage.store import Store
from allotment.model.features import Features
from allotment.model.trees import Tree


def _complete(tree: Tree, before: Tree) -> Tree:
    return tree


def _unchanged(tree: Tree) -> Tree:
    return tree


class Admission:
    """What decides about the requests to a store.

    ``attempt``: the write that is being carried out, if webhooks can be called for it. ``disabled_plugins``: plugins
    that do not run, by Kubernetes' names.
    """

    def __init__(self, store: Store, catalog: Catalog, features: Features, authorizer: Authorizer) -> None:
        self.attempt: Attempt | None = None
        self.disabled_plugins: frozenset[str] = frozenset()
        self._store, self._features, self._authorizer = store, features, authorizer
        self._policies = ValidatingPolicies(store, catalog, features.kube, authorizer)
        self._webhooks = Webhooks(store, features.kube, authorizer)
        self._mutating_policies = MutatingPolicies(store, catalog, features.kube, authorizer)

    def close(self) -> None:
        """Unsubscribe from the store."""
        for each in (self._policies, self._webhooks, self._mutating_policies):
            each.close()

    @property
    def has_webhooks(self) -> bool:
        """Whether a webhook may decide about a write."""
        return self._webhooks.exist

    def admit(
        self, operation: Operation, action: str, new: Tree | None = None, old: Tree | None = None, *,
        name: str = "", body_kind: tuple[str, str] | None = None,
    ) -> Tree | None:  # fmt: skip
        """The new object after admission by webhooks and policies; the arguments are those of ``Attributes``.

        Raises StatusError if they deny the request.
        """
        if not self.can_mutate(operation) and not self.can_deny(operation):
            return new
        attributes = self.attributes(operation, action, new, old, name=name, body_kind=body_kind)
        attributes = attributes._replace(new=self.mutated(attributes))
        self.validate(attributes)
        return attributes.new

    def can_mutate(self, operation: Operation) -> bool:
        """Whether policies or webhooks may change what a write stores."""
        return not operation.is_admitted and (self._webhooks.mutating_exist or self._mutating_policies.exist)

    def can_deny(self, operation: Operation) -> bool:
        """Whether policies or webhooks decide about a write that mutating admission has admitted."""
        return not operation.is_admitted and (self._policies.exist or self._webhooks.exist)

    def validate(self, attributes: Attributes) -> None:
        """Raise StatusError if a policy or a webhook denies a request. Raises CallsNeeded."""
        self._policies.check(attributes)
        self._webhooks.validate(attributes, self.attempt)

    def attributes(
        self, operation: Operation, action: str, new: Tree | None, old: Tree | None, *, name: str = "",
        body_kind: tuple[str, str] | None = None,
    ) -> Attributes:  # fmt: skip
        """What admission knows about a request; ``action``: CREATE, UPDATE, DELETE or CONNECT."""
        options: Tree | None = None
        if action != "CONNECT":
            dry_run = {"dryRun": ["All"]} if operation.dry_run else {}
            options = {
                "kind": f"{action.capitalize()}Options", "apiVersion": "meta.k8s.io/v1", **(operation.options or {}),
                **dry_run,
            }  # fmt: skip
        return Attributes(
            action, operation.kind, operation.version, operation.namespace,
            "" if operation.is_collection else name or operation.name,
            operation.user, operation.warn, new, old, operation.subresource, operation.dry_run, options, body_kind,
        )  # fmt: skip

    def validate_by_plugins(
        self, operation: Operation, action: str, new: Tree, old: Tree | None = None, *, name: str = ""
    ) -> None:
        """Raise StatusError if an admission plugin for the kind rejects a valid object."""
        validating = plugins.VALIDATING.get(operation.kind.bucket)
        if validating is None or operation.is_admitted:
            return
        attributes = self.attributes(operation, action, new, old, name=name)
        if operation.warn is not ignore_warning and operation.kind.bucket in WARNINGS:
            WARNINGS[operation.kind.bucket](attributes)
        for plugin_name, validate in validating.items():
            if plugin_name not in self.disabled_plugins:
                validate(attributes, self._store, self._features.kube)

    def restrict_node(
        self, operation: Operation, action: str, new: Tree | None = None, old: Tree | None = None, *, name: str = ""
    ) -> None:
        """Raise StatusError if the user is a node that may not make this request; ``new`` is not yet validated."""
        node = node_of(operation.user)
        if node is None or operation.is_admitted or node_restriction.NAME in self.disabled_plugins:
            return
        attributes = self.attributes(operation, action, new, old, name=name)
        node_restriction.restrict(node, attributes, self._store, self._authorizer, self._features)

    def mutated(
        self, attributes: Attributes, *, default: Callable[[Tree, Tree], Tree] = _complete,
        admit: Callable[[Tree], Tree] = _unchanged,
    ) -> Tree | None:  # fmt: skip
        """The new object of a request after policies and webhooks, in up to two rounds.

        ``default`` completes an object that was changed; its second argument is the object before. ``admit`` applies
        the admission plugins of its kind again, which have run before. Raises StatusError and CallsNeeded.
        """
        rounds = Rounds()
        of_policies, of_webhooks = Reinvocation(rounds), Reinvocation(rounds)

        def run(new: Tree | None) -> Tree | None:
            new = self._mutating_policies.mutate(attributes._replace(new=new), of_policies, default)
            return self._webhooks.mutate(attributes._replace(new=new), self.attempt, of_webhooks, default)

        new = run(attributes.new)
        if not rounds.is_second_needed or new is None:
            return new
        rounds.is_second = True
        return run(admit(new))
