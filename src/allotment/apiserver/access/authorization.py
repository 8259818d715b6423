"""The Node and RBAC authorizers: a request is allowed if one of them allows it.

The rules that result from the stored roles and bindings are cached until one of these changes.
"""

from __future__ import annotations

from typing import Any, Final

from allotment.apiserver.access import node_authorizer
from allotment.apiserver.access.default_roles import node_rules
from allotment.apiserver.access.rbac import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    ROLE_BINDINGS,
    ROLES,
    PolicyRule,
    ResolvedRules,
    resolve_rules,
    role_rules,
)
from allotment.apiserver.kinds.kind import User
from allotment.apiserver.storage.store import Change, Store
from allotment.model.features import Features
from allotment.model.quoting import quote

MASTERS_GROUP: Final = "system:masters"
_CACHE_SIZE: Final = 4096


class Authorizer:
    """Called with a request's attributes: return None if allowed, else the reason in Kubernetes' words."""

    def __init__(self, store: Store, features: Features | None = None) -> None:
        self._store = store
        self._node_rules = () if features is None else node_rules(features)
        # From 1.37 on, reasons begin with the name of the authorizer.
        self._names = ("node: ", "rbac: ") if features is not None and features.since("1.37") else ("", "")
        self._resolved: dict[tuple[str, tuple[str, ...], str], ResolvedRules] = {}
        self._role_rules: dict[tuple[str, str, str], tuple[PolicyRule, ...] | None] = {}
        self._unsubscribe = [
            store.subscribe(bucket, self._invalidate)
            for bucket in (ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS)
        ]

    def close(self) -> None:
        """Unsubscribe from changes of the store."""
        for unsubscribe in self._unsubscribe:
            unsubscribe()

    def __call__(
        self,
        user: User,
        verb: str,
        group: str = "",
        resource: str = "",
        subresource: str = "",
        namespace: str = "",
        name: str = "",
        path: str = "",
        fields: str = "",
    ) -> str | None:
        """Check whether ``user`` may do ``verb`` on objects of a resource, or (without a resource) on a path.

        ``fields``: the field selector of a request for a collection.
        """
        reason = self.refusal_reason(user, verb, group, resource, subresource, namespace, name, path, fields)
        if reason is None:
            return None
        refusal = denial_message(user, verb, group, resource, subresource, namespace, path)
        return f"{refusal}: {reason}" if reason else refusal

    def refusal_reason(
        self, user: User, verb: str, group: str = "", resource: str = "", subresource: str = "", namespace: str = "",
        name: str = "", path: str = "", fields: str = "",
    ) -> str | None:  # fmt: skip
        """Return the reasons of the authorizers for a refusal, often none; None if the request is allowed."""
        if MASTERS_GROUP in user.groups:
            return None
        node = node_authorizer.node_of(user)
        reason = ""
        if node is not None:
            bucket = f"{resource}.{group}" if group else resource
            attributes = node_authorizer.AccessAttributes(verb, bucket, subresource, namespace, name, fields)
            decision = node_authorizer.decide(user, node, attributes, self._node_rules, self._store)
            if decision is None:
                return None
            reason = f"{self._names[0]}{decision}" if decision else ""
        resolved = self.rules_for(user, namespace)
        if resource:
            for rule in resolved.rules:
                if rule.allows(verb, group, resource, subresource, name):
                    return None
        elif any(rule.allows_path(verb, path) for rule in resolved.rules):
            return None
        problems = f"{self._names[1]}RBAC: {_join_problems(resolved.problems)}" if resolved.problems else ""
        return "\n".join(filter(None, (reason, problems)))

    def rules_for(self, user: User, namespace: str) -> ResolvedRules:
        """The rules that apply to a user in a namespace."""
        key = (user.name, user.groups, namespace)
        resolved = self._resolved.get(key)
        if resolved is None:
            if len(self._resolved) >= _CACHE_SIZE:
                self._resolved.clear()
            resolved = self._resolved[key] = resolve_rules(self._store, user, namespace, self._rules_of)
        return resolved

    def _rules_of(self, bucket: str, namespace: str, name: str) -> tuple[PolicyRule, ...] | None:
        key = (bucket, namespace, name)
        if key not in self._role_rules:
            rules = role_rules(self._store, bucket, namespace, name)
            self._role_rules[key] = None if rules is None else tuple(rules)
        return self._role_rules[key]

    def _invalidate(self, change: Change) -> None:
        self._resolved.clear()
        if change.resource in (ROLES, CLUSTER_ROLES):
            self._role_rules.clear()


def _join_problems(problems: Any) -> str:
    distinct = list(dict.fromkeys(problems))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def denial_message(
    user: User, verb: str, group: str, resource: str, subresource: str, namespace: str, path: str
) -> str:
    """The message for a denied request.

    >>> denial_message(User("eve"), "list", "", "pods", "", "shop", "")
    'User "eve" cannot list resource "pods" in API group "" in the namespace "shop"'
    """
    subject = f"User {quote(user.name)} cannot {verb}"
    if not resource:
        return f"{subject} path {quote(path)}"
    target = f"{resource}/{subresource}" if subresource else resource
    scope = f"in the namespace {quote(namespace)}" if namespace else "at the cluster scope"
    return f"{subject} resource {quote(target)} in API group {quote(group)} {scope}"
