"""RBAC: resolves roles and bindings to the rules of a user, matches rules, and compares them for escalation.

Pure functions over stored objects; the authorizer caches their results (see ``authorization``). A ClusterRole with an
aggregation rule has the rules of all roles that its selectors match; its own rules are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Final, NamedTuple

from allotment.apiserver.kinds.field_validation import selector_matches
from allotment.apiserver.kinds.kind import StoreReader, User
from allotment.model.trees import Tree

GROUP: Final = "rbac.authorization.k8s.io"
ROLES: Final = f"roles.{GROUP}"
CLUSTER_ROLES: Final = f"clusterroles.{GROUP}"
ROLE_BINDINGS: Final = f"rolebindings.{GROUP}"
CLUSTER_ROLE_BINDINGS: Final = f"clusterrolebindings.{GROUP}"
_ACCOUNT_PREFIX: Final = "system:serviceaccount:"


class PolicyRule(NamedTuple):
    """A PolicyRule, parsed. Values have the order in which they were written, which messages repeat."""

    verbs: tuple[str, ...]
    groups: tuple[str, ...]
    resources: tuple[str, ...]
    names: tuple[str, ...]
    paths: tuple[str, ...]

    @staticmethod
    def from_tree(tree: Tree) -> PolicyRule:
        return PolicyRule(
            tuple(tree.get("verbs") or ()),
            tuple(tree.get("apiGroups") or ()),
            tuple(tree.get("resources") or ()),
            tuple(tree.get("resourceNames") or ()),
            tuple(tree.get("nonResourceURLs") or ()),
        )

    def allows(self, verb: str, group: str, resource: str, subresource: str, name: str) -> bool:
        """Whether it allows a request for a resource."""
        if verb not in self.verbs and "*" not in self.verbs:
            return False
        if group not in self.groups and "*" not in self.groups:
            return False
        if self.names and name not in self.names:
            return False
        requested = f"{resource}/{subresource}" if subresource else resource
        if requested in self.resources or "*" in self.resources:
            return True
        return bool(subresource) and f"*/{subresource}" in self.resources

    def allows_path(self, verb: str, path: str) -> bool:
        """Whether it allows a request for a non-resource URL."""
        if verb not in self.verbs and "*" not in self.verbs:
            return False
        return any(
            pattern in ("*", path) or (pattern.endswith("*") and path.startswith(pattern.rstrip("*")))
            for pattern in self.paths
        )

    def tree(self) -> Tree:
        """The PolicyRule as a tree, with sorted values."""
        parts: Tree = {"verbs": sorted(self.verbs)}
        for name, values in (
            ("apiGroups", sorted(self.groups)), ("resources", sorted(self.resources)),
            ("resourceNames", sorted(self.names)), ("nonResourceURLs", list(self.paths)),
        ):  # fmt: skip
            if values:
                parts[name] = values
        return parts


class ResolvedRules(NamedTuple):
    """The rules that apply to a user in a namespace, and an error for each role not found."""

    rules: Sequence[PolicyRule]
    problems: Sequence[str]


#: ``(bucket, namespace, name)`` to the rules of a role; None if the role does not exist.
RoleLookup = Callable[[str, str, str], "Sequence[PolicyRule] | None"]


def role_rules(reader: StoreReader, bucket: str, namespace: str, name: str) -> Sequence[PolicyRule] | None:
    """The rules of a stored role, aggregated ones included; None if the role does not exist."""
    entry = reader.get(bucket, namespace, name)
    if entry is None:
        return None
    return tuple(map(PolicyRule.from_tree, _rule_trees(entry.tree, reader)))


def _rule_trees(role: Tree, reader: StoreReader) -> Iterable[Tree]:
    selectors = (role.get("aggregationRule") or {}).get("clusterRoleSelectors")
    if not selectors:
        return role.get("rules") or ()
    name = role["metadata"]["name"]
    aggregated: dict[PolicyRule, Tree] = {}
    for other in reader.list(CLUSTER_ROLES):
        labels = other.tree["metadata"].get("labels") or {}
        if other.name != name and any(selector_matches(selector, labels) for selector in selectors):
            # An aggregated role can itself aggregate others.
            aggregated |= {PolicyRule.from_tree(rule): rule for rule in _rule_trees(other.tree, reader)}
    return aggregated.values()


def subject_matches(subject: Tree, user: User, namespace: str) -> bool:
    """Whether a binding's subject is a user; ``namespace`` is the default for service accounts."""
    kind, name = subject.get("kind"), subject.get("name")
    if kind == "User":
        return bool(name == user.name)
    if kind == "Group":
        return name in user.groups
    account_namespace = subject.get("namespace") or namespace
    return (
        kind == "ServiceAccount"
        and bool(account_namespace)
        and user.name == f"{_ACCOUNT_PREFIX}{account_namespace}:{name}"
    )


def resolve_rules(reader: StoreReader, user: User, namespace: str, roles: RoleLookup | None = None) -> ResolvedRules:
    """All rules of a user in a namespace ("" for cluster scope and paths); ClusterRoleBindings apply everywhere."""
    lookup: RoleLookup = roles or (
        lambda bucket, binding_namespace, name: role_rules(reader, bucket, binding_namespace, name)
    )
    rules: list[PolicyRule] = []
    problems: list[str] = []
    for binding, binding_namespace in _bindings(reader, user, namespace):
        reference = binding.get("roleRef") or {}
        name = reference.get("name") or ""
        cluster = reference.get("kind") == "ClusterRole"
        bucket = CLUSTER_ROLES if cluster else ROLES
        role = lookup(bucket, "" if cluster else binding_namespace, name)
        if role is None:
            singular = "clusterrole" if cluster else "role"
            problems.append(f'{singular}.{GROUP} "{name}" not found')
        else:
            rules.extend(role)
    return ResolvedRules(rules, problems)


def _bindings(reader: StoreReader, user: User, namespace: str) -> Iterator[tuple[Tree, str]]:
    for bucket, binding_namespace in (
        (CLUSTER_ROLE_BINDINGS, ""),
        *(((ROLE_BINDINGS, namespace),) if namespace else ()),
    ):
        for entry in reader.list(bucket, binding_namespace or None):
            if any(subject_matches(subject, user, binding_namespace) for subject in entry.tree.get("subjects") or ()):
                yield entry.tree, binding_namespace


def uncovered_rules(owned: Sequence[PolicyRule], requested: Sequence[PolicyRule]) -> list[PolicyRule]:
    """The parts of ``requested`` that ``owned`` does not cover, broken down to single-valued rules."""
    parts = (part for rule in requested for part in _breakdown(rule))
    return [part for part in parts if not any(_covers(rule, part) for rule in owned)]


def _breakdown(rule: PolicyRule) -> Iterator[PolicyRule]:
    for group, resource, verb in product(rule.groups, rule.resources, rule.verbs):
        for name in rule.names or ("",):
            yield PolicyRule((verb,), (group,), (resource,), (name,) if name else (), ())
    for path, verb in product(rule.paths, rule.verbs):
        yield PolicyRule((verb,), (), (), (), (path,))


def compact_rules(parts: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Single-valued rules of which those for the same resource are combined; their verbs are listed in order.

    >>> one = PolicyRule(("get",), ("",), ("pods",), (), ())
    >>> [rule_text(rule) for rule in compact_rules([one, one._replace(verbs=("list",))])]
    ['{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}']
    """
    combined: dict[PolicyRule, tuple[str, ...]] = {}
    for part in parts:
        resource = part if part.paths else part._replace(verbs=())
        combined[resource] = (*combined.get(resource, ()), *part.verbs)
    return [rule if rule.paths else rule._replace(verbs=verbs) for rule, verbs in combined.items()]


def _covers(owned: PolicyRule, part: PolicyRule) -> bool:
    if not ("*" in owned.verbs or part.verbs[0] in owned.verbs):
        return False
    if part.paths:
        return all(
            any(
                pattern in ("*", path) or (pattern.endswith("*") and path.startswith(pattern.rstrip("*")))
                for pattern in owned.paths
            )
            for path in part.paths
        )
    if not ("*" in owned.groups or part.groups[0] in owned.groups):
        return False
    if owned.names and not (part.names and part.names[0] in owned.names):
        return False
    (resource,) = part.resources
    _, slash, subresource = resource.partition("/")
    return (
        "*" in owned.resources or resource in owned.resources or (bool(slash) and f"*/{subresource}" in owned.resources)
    )


def rule_text(rule: PolicyRule) -> str:
    """A rule as printed in the message about privilege escalation."""
    parts: Mapping[str, Iterable[str]] = {
        "APIGroups": rule.groups, "Resources": rule.resources, "NonResourceURLs": rule.paths,
        "ResourceNames": rule.names, "Verbs": rule.verbs,
    }  # fmt: skip
    texts = (f"{name}:[" + " ".join(f'"{value}"' for value in values) + "]" for name, values in parts.items() if values)
    return "{" + ", ".join(texts) + "}"
