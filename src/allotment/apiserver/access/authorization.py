"""May this user do that: RBAC over the stored roles and bindings, resolved once and kept until one of them changes."""

from __future__ import annotations

from typing import Any, Final

from allotment.apiserver.access.rbac import (
    BINDINGS,
    CLUSTER_BINDINGS,
    CLUSTER_ROLES,
    ROLES,
    Granted,
    Rule,
    granted,
    role_rules,
)
from allotment.apiserver.kinds.kind import User
from allotment.apiserver.storage.store import Change, Store
from allotment.model.quoting import quote

MASTERS: Final = "system:masters"
_MOST_KEPT: Final = 4096


class Authorizer:
    """Called with a request's attributes; None means allowed, a text says why not, in Kubernetes' words."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._granted: dict[tuple[str, tuple[str, ...], str], Granted] = {}
        self._roles: dict[tuple[str, str, str], tuple[Rule, ...] | None] = {}
        self._stop = [
            store.subscribe(bucket, self._forget) for bucket in (ROLES, CLUSTER_ROLES, BINDINGS, CLUSTER_BINDINGS)
        ]

    def close(self) -> None:
        """Stop listening to changes."""
        for stop in self._stop:
            stop()

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
    ) -> str | None:
        """Whether ``user`` may do ``verb`` to objects of a resource, or (without a resource) to a path."""
        if MASTERS in user.groups:
            return None
        held = self.granted(user, namespace)
        if resource:
            for rule in held.rules:
                if rule.allows(verb, group, resource, subresource, name):
                    return None
        elif any(rule.allows_path(verb, path) for rule in held.rules):
            return None
        refusal = refusal_text(user, verb, group, resource, subresource, namespace, path)
        return f"{refusal}: RBAC: {_together(held.problems)}" if held.problems else refusal

    def granted(self, user: User, namespace: str) -> Granted:
        """The rules that hold for a user in a namespace."""
        key = (user.name, user.groups, namespace)
        found = self._granted.get(key)
        if found is None:
            if len(self._granted) >= _MOST_KEPT:
                self._granted.clear()
            found = self._granted[key] = granted(self._store, user, namespace, self._rules_of)
        return found

    def _rules_of(self, bucket: str, namespace: str, name: str) -> tuple[Rule, ...] | None:
        key = (bucket, namespace, name)
        if key not in self._roles:
            rules = role_rules(self._store, bucket, namespace, name)
            self._roles[key] = None if rules is None else tuple(rules)
        return self._roles[key]

    def _forget(self, change: Change) -> None:
        self._granted.clear()
        if change.resource in (ROLES, CLUSTER_ROLES):
            self._roles.clear()


def _together(problems: Any) -> str:
    distinct = list(dict.fromkeys(problems))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def refusal_text(user: User, verb: str, group: str, resource: str, subresource: str, namespace: str, path: str) -> str:
    """What the user cannot do.

    >>> refusal_text(User("eve"), "list", "", "pods", "", "shop", "")
    'User "eve" cannot list resource "pods" in API group "" in the namespace "shop"'
    """
    who = f"User {quote(user.name)} cannot {verb}"
    if not resource:
        return f"{who} path {quote(path)}"
    what = f"{resource}/{subresource}" if subresource else resource
    where = f"in the namespace {quote(namespace)}" if namespace else "at the cluster scope"
    return f"{who} resource {quote(what)} in API group {quote(group)} {where}"
