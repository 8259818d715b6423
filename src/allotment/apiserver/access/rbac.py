"""Roles and bindings, resolved: which rules hold for a user, what a rule allows, and whether rules cover other rules.

Pure functions over what is stored; who asks often keeps the results (see ``authorization``). A ClusterRole with an
aggregation rule has the rules of all roles that its selectors match, whatever is written in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from allotment.apiserver.kinds.field_validation import matches
from allotment.apiserver.kinds.kind import Reader, User
from allotment.model.trees import Tree

GROUP: Final = "rbac.authorization.k8s.io"
ROLES: Final = f"roles.{GROUP}"
CLUSTER_ROLES: Final = f"clusterroles.{GROUP}"
BINDINGS: Final = f"rolebindings.{GROUP}"
CLUSTER_BINDINGS: Final = f"clusterrolebindings.{GROUP}"
_ACCOUNT: Final = "system:serviceaccount:"


class Rule(NamedTuple):
    """A PolicyRule."""

    verbs: frozenset[str]
    groups: frozenset[str]
    resources: frozenset[str]
    names: frozenset[str]
    paths: tuple[str, ...]

    @staticmethod
    def of(tree: Tree) -> Rule:
        """From its tree."""
        return Rule(
            frozenset(tree.get("verbs") or ()),
            frozenset(tree.get("apiGroups") or ()),
            frozenset(tree.get("resources") or ()),
            frozenset(tree.get("resourceNames") or ()),
            tuple(tree.get("nonResourceURLs") or ()),
        )

    def allows(self, verb: str, group: str, resource: str, subresource: str, name: str) -> bool:
        """Whether it allows a request about objects."""
        if verb not in self.verbs and "*" not in self.verbs:
            return False
        if group not in self.groups and "*" not in self.groups:
            return False
        if self.names and name not in self.names:
            return False
        wanted = f"{resource}/{subresource}" if subresource else resource
        if wanted in self.resources or "*" in self.resources:
            return True
        return bool(subresource) and f"*/{subresource}" in self.resources

    def allows_path(self, verb: str, path: str) -> bool:
        """Whether it allows a request for something that is no object."""
        if verb not in self.verbs and "*" not in self.verbs:
            return False
        return any(
            known in ("*", path) or (known.endswith("*") and path.startswith(known.rstrip("*"))) for known in self.paths
        )

    def tree(self) -> Tree:
        """As a PolicyRule again, sorted."""
        parts: Tree = {"verbs": sorted(self.verbs)}
        for name, values in (
            ("apiGroups", sorted(self.groups)), ("resources", sorted(self.resources)),
            ("resourceNames", sorted(self.names)), ("nonResourceURLs", list(self.paths)),
        ):  # fmt: skip
            if values:
                parts[name] = values
        return parts


class Granted(NamedTuple):
    """The rules that hold for somebody somewhere, and which roles were named but not found."""

    rules: Sequence[Rule]
    problems: Sequence[str]


#: Rules of a role: ``(bucket, namespace, name)`` to rules; None if there is no such role.
Roles = Callable[[str, str, str], "Sequence[Rule] | None"]


def role_rules(reader: Reader, bucket: str, namespace: str, name: str) -> Sequence[Rule] | None:
    """The rules of a role as stored, aggregated ones gathered."""
    entry = reader.get(bucket, namespace, name)
    if entry is None:
        return None
    return tuple(map(Rule.of, _rule_trees(entry.tree, reader)))


def _rule_trees(role: Tree, reader: Reader) -> Iterable[Tree]:
    selectors = (role.get("aggregationRule") or {}).get("clusterRoleSelectors")
    if not selectors:
        return role.get("rules") or ()
    own = role["metadata"]["name"]
    gathered: dict[Rule, Tree] = {}
    for other in reader.list(CLUSTER_ROLES):
        labels = other.tree["metadata"].get("labels") or {}
        if other.name != own and any(matches(selector, labels) for selector in selectors):
            # A role that is itself gathered brings its own parts along.
            gathered |= {Rule.of(rule): rule for rule in _rule_trees(other.tree, reader)}
    return gathered.values()


def subject_is(subject: Tree, user: User, namespace: str) -> bool:
    """Whether a binding's subject is a user; ``namespace`` is the binding's, for service accounts without one."""
    kind, name = subject.get("kind"), subject.get("name")
    if kind == "User":
        return bool(name == user.name)
    if kind == "Group":
        return name in user.groups
    where = subject.get("namespace") or namespace
    return kind == "ServiceAccount" and bool(where) and user.name == f"{_ACCOUNT}{where}:{name}"


def granted(reader: Reader, user: User, namespace: str, roles: Roles | None = None) -> Granted:
    """All rules of a user in a namespace ("" for the cluster and paths); those of the cluster hold everywhere."""
    lookup: Roles = roles or (lambda bucket, where, name: role_rules(reader, bucket, where, name))
    rules: list[Rule] = []
    problems: list[str] = []
    for binding, where in _bindings(reader, user, namespace):
        reference = binding.get("roleRef") or {}
        name = reference.get("name") or ""
        cluster = reference.get("kind") == "ClusterRole"
        bucket = CLUSTER_ROLES if cluster else ROLES
        found = lookup(bucket, "" if cluster else where, name)
        if found is None:
            singular = "clusterrole" if cluster else "role"
            problems.append(f'{singular}.{GROUP} "{name}" not found')
        else:
            rules.extend(found)
    return Granted(rules, problems)


def _bindings(reader: Reader, user: User, namespace: str) -> Iterator[tuple[Tree, str]]:
    for bucket, where in ((CLUSTER_BINDINGS, ""), *(((BINDINGS, namespace),) if namespace else ())):
        for entry in reader.list(bucket, where or None):
            if any(subject_is(subject, user, where) for subject in entry.tree.get("subjects") or ()):
                yield entry.tree, where


def uncovered(owned: Sequence[Rule], wanted: Sequence[Rule]) -> list[Rule]:
    """The parts of ``wanted`` that nobody with ``owned`` may hand on, each as small as rules get."""
    return [part for rule in wanted for part in _broken_down(rule) if not any(_covers(own, part) for own in owned)]


def _broken_down(rule: Rule) -> Iterator[Rule]:
    for verb in sorted(rule.verbs):
        for group in sorted(rule.groups):
            for resource in sorted(rule.resources):
                for name in sorted(rule.names) or [""]:
                    names = frozenset([name]) if name else frozenset[str]()
                    yield Rule(frozenset([verb]), frozenset([group]), frozenset([resource]), names, ())
        for path in rule.paths:
            yield Rule(frozenset([verb]), frozenset(), frozenset(), frozenset(), (path,))


def _covers(own: Rule, part: Rule) -> bool:
    if not ("*" in own.verbs or part.verbs <= own.verbs):
        return False
    if part.paths:
        return all(
            any(mine in ("*", path) or (mine.endswith("*") and path.startswith(mine.rstrip("*"))) for mine in own.paths)
            for path in part.paths
        )
    if not ("*" in own.groups or part.groups <= own.groups):
        return False
    if own.names and not (part.names and part.names <= own.names):
        return False
    (resource,) = part.resources
    _, slash, subresource = resource.partition("/")
    return "*" in own.resources or resource in own.resources or (bool(slash) and f"*/{subresource}" in own.resources)


def shown(rule: Rule) -> str:
    """A rule in the words of the refusal to grant it."""
    parts: Mapping[str, Iterable[str]] = {
        "APIGroups": sorted(rule.groups), "Resources": sorted(rule.resources), "ResourceNames": sorted(rule.names),
        "NonResourceURLs": rule.paths, "Verbs": sorted(rule.verbs),
    }  # fmt: skip
    texts = (f"{name}:[" + " ".join(f'"{value}"' for value in values) + "]" for name, values in parts.items() if values)
    return "{" + ", ".join(texts) + "}"
