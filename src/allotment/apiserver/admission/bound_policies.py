"""The admission policies of a store that have bindings, compiled, and their evaluations for a request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from allotment.apiserver.access.authorization import Authorizer
from allotment.apiserver.admission.attributes import Attributes, request_values
from allotment.apiserver.admission.matching import matched_version
from allotment.apiserver.admission.parameters import ConfigurationError, parameter_kind, parameters
from allotment.apiserver.kinds.kind import StoreReader
from allotment.apiserver.served_kinds import Catalog
from allotment.apiserver.storage.store import Change, Store
from allotment.cel.evaluation.values import Value
from allotment.model.trees import Tree

#: The compiled expressions of a policy.
Compiled = TypeVar("Compiled")


class BoundPolicy(NamedTuple, Generic[Compiled]):
    """A policy and its bindings."""

    tree: Tree
    bindings: Sequence[Tree]
    compiled: Compiled

    @property
    def name(self) -> str:
        """The name of the policy."""
        return str(self.tree["metadata"]["name"])

    @property
    def fails(self) -> bool:
        """Whether an error denies the request."""
        return bool(self.tree["spec"].get("failurePolicy") != "Ignore")


class Evaluation(NamedTuple, Generic[Compiled]):
    """A policy to evaluate in a version, with a binding and one set of parameters."""

    policy: BoundPolicy[Compiled]
    version: str
    binding: Tree
    params: Tree | None

    @property
    def binding_name(self) -> str:
        """The name of the binding."""
        return str(self.binding["metadata"]["name"])


class Misconfiguration(NamedTuple):
    """A policy, or one of its bindings, that cannot be applied. The name of a policy's own binding is empty."""

    policy: str
    binding: str
    message: str
    fails: bool


class BoundPolicies(Generic[Compiled]):
    """The policies of one kind, compiled when they are first needed after a change."""

    def __init__(
        self, store: Store, catalog: Catalog, buckets: tuple[str, str], compile_policy: Callable[[Tree], Compiled]
    ) -> None:
        """``buckets``: those of the policies and of their bindings."""
        self._store, self._catalog, self._buckets, self._compile = store, catalog, buckets, compile_policy
        self._policies: list[BoundPolicy[Compiled]] = []
        self._are_current = False
        self._unsubscribe = [store.subscribe(bucket, self._invalidate) for bucket in buckets]

    def close(self) -> None:
        """Unsubscribe from changes of the store."""
        for unsubscribe in self._unsubscribe:
            unsubscribe()

    def _invalidate(self, change: Change) -> None:
        self._are_current = False

    def current(self) -> list[BoundPolicy[Compiled]]:
        """The policies with bindings, sorted by name; those that have not changed are not compiled again."""
        if not self._are_current:
            known = {policy.name: policy for policy in self._policies}
            bindings: dict[str, list[Tree]] = {}
            for entry in self._store.list(self._buckets[1]):
                bindings.setdefault(entry.tree["spec"]["policyName"], []).append(entry.tree)
            found = ((self._store.get(self._buckets[0], "", name), bound) for name, bound in sorted(bindings.items()))
            self._policies = [self._bound(entry.tree, bound, known) for entry, bound in found if entry is not None]
            self._are_current = True
        return self._policies

    def _bound(
        self, tree: Tree, bindings: Sequence[Tree], known: Mapping[str, BoundPolicy[Compiled]]
    ) -> BoundPolicy[Compiled]:
        before = known.get(tree["metadata"]["name"])
        if before is not None and before.tree is tree:
            return before._replace(bindings=bindings)
        return BoundPolicy(tree, bindings, self._compile(tree["spec"]))

    def evaluations(self, attributes: Attributes) -> Iterator[Evaluation[Compiled] | Misconfiguration]:
        """The evaluations for a request, in order."""
        for policy in self.current():
            yield from self._evaluations(policy, attributes)

    def _evaluations(
        self, policy: BoundPolicy[Compiled], attributes: Attributes
    ) -> Iterator[Evaluation[Compiled] | Misconfiguration]:
        spec = policy.tree["spec"]
        version = matched_version(attributes, spec["matchConstraints"], self._store)
        if version is None:
            return
        try:
            kind = parameter_kind(spec, self._catalog)
        except ConfigurationError as error:
            yield Misconfiguration(policy.name, "", f"failed to configure policy: {error}", policy.fails)
            return
        for binding in policy.bindings:
            bound = binding["spec"]
            resources = bound.get("matchResources")
            if resources and matched_version(attributes, resources, self._store) is None:
                continue
            try:
                objects = parameters(kind, bound.get("paramRef"), attributes.admission_namespace, self._store)
            except ConfigurationError as error:
                message = f"failed to configure binding: {error}"
                yield Misconfiguration(policy.name, binding["metadata"]["name"], message, policy.fails)
                continue
            for params in objects:
                yield Evaluation(policy, version, binding, params)


class RequestValues(dict[str, Mapping[str, Value]]):
    """The values of a request by the version in which policies match it, converted once for all policies."""

    def __init__(self, attributes: Attributes, reader: StoreReader, authorizer: Authorizer) -> None:
        super().__init__()
        self._attributes, self._reader, self._authorizer = attributes, reader, authorizer

    def __missing__(self, version: str) -> Mapping[str, Value]:
        attributes = self._attributes
        entry = self._reader.get("namespaces", "", attributes.namespace) if attributes.namespace else None
        namespace = None if entry is None else entry.tree
        values = self[version] = request_values(attributes, version, namespace, self._authorizer)
        return values
