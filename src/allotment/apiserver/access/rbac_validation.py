"""Validation and admission of roles and bindings: required fields, an immutable roleRef, no privilege escalation.

The escalation check is waived for users with the verb ``escalate`` on roles, or ``bind`` on the bound role.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from allotment.apiserver.access.authorization import MASTERS_GROUP
from allotment.apiserver.access.rbac import (
    CLUSTER_ROLES,
    GROUP,
    ROLES,
    PolicyRule,
    compact_rules,
    resolve_rules,
    role_rules,
    rule_text,
    uncovered_rules,
)
from allotment.apiserver.api_errors import not_found
from allotment.apiserver.kinds import field_validation
from allotment.apiserver.kinds.admission_errors import forbidden as forbidden
from allotment.apiserver.kinds.kind import Errors, KindRules, User, Write
from allotment.model.quoting import quote
from allotment.model.trees import Tree
from allotment.model.validation import names
from allotment.model.validation.errors import invalid, not_supported, required

_ANY: Final = ("*",)
_ALL_RULES: Final = (PolicyRule(_ANY, _ANY, _ANY, (), ()), PolicyRule(_ANY, (), (), (), ("*",)))


def _is_cluster(tree: Tree) -> bool:
    return str(tree.get("kind") or "").startswith("Cluster")


def _validate_role(tree: Tree, write: Write) -> Errors:
    for index, rule in enumerate(tree.get("rules") or ()):
        path = f"rules[{index}]"
        if not rule.get("verbs"):
            yield required(f"{path}.verbs", "verbs must contain at least one value")
        if rule.get("nonResourceURLs"):
            if not _is_cluster(tree):
                yield invalid(
                    f"{path}.nonResourceURLs",
                    rule["nonResourceURLs"],
                    "namespaced rules cannot apply to non-resource URLs",
                )
            if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
                yield invalid(
                    f"{path}.nonResourceURLs", rule["nonResourceURLs"],
                    "rules cannot apply to both regular resources and non-resource URLs",
                )  # fmt: skip
            continue
        if not rule.get("apiGroups"):
            yield required(f"{path}.apiGroups", "resource rules must supply at least one api group")
        if not rule.get("resources"):
            yield required(f"{path}.resources", "resource rules must supply at least one resource")
    aggregation = tree.get("aggregationRule")
    if aggregation is not None:
        path, selectors = "aggregationRule.clusterRoleSelectors", aggregation.get("clusterRoleSelectors") or ()
        if not selectors:
            yield required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil")
        for index, selector in enumerate(selectors):
            yield from field_validation.label_selector(selector, f"{path}[{index}]")
            if not field_validation.is_valid_selector(selector):
                yield invalid(f"{path}[{index}]", None, "invalid label selector.")


def _validate_binding(tree: Tree, write: Write) -> Errors:
    reference = tree.get("roleRef") or {}
    if reference.get("apiGroup") != GROUP:
        yield not_supported("roleRef.apiGroup", reference.get("apiGroup") or "", (GROUP,))
    kinds = ("ClusterRole",) if _is_cluster(tree) else ("Role", "ClusterRole")
    if reference.get("kind") not in kinds:
        yield not_supported("roleRef.kind", reference.get("kind") or "", kinds)
    if not reference.get("name"):
        yield required("roleRef.name")
    else:
        for problem in field_validation.path_segment_problems(reference["name"]):
            yield invalid("roleRef.name", reference["name"], problem)
    for index, subject in enumerate(tree.get("subjects") or ()):
        yield from _subject(subject, f"subjects[{index}]", needs_namespace=_is_cluster(tree))


def _subject(subject: Tree, path: str, *, needs_namespace: bool) -> Errors:
    kind, name, group = subject.get("kind"), subject.get("name") or "", subject.get("apiGroup") or ""
    if not name:
        yield required(f"{path}.name")
    if kind == "ServiceAccount":
        if name:
            yield from names.subdomain(name, f"{path}.name")
        if group:
            yield not_supported(f"{path}.apiGroup", group, ("",))
        if needs_namespace and not subject.get("namespace"):
            yield required(f"{path}.namespace")
    elif kind in ("User", "Group"):
        if group != GROUP:
            yield not_supported(f"{path}.apiGroup", group, (GROUP,))
    else:
        yield not_supported(f"{path}.kind", kind or "", ("ServiceAccount", "User", "Group"))


def _validate_binding_update(new: Tree, old: Tree, write: Write) -> Errors:
    yield from _validate_binding(new, write)
    reference = new.get("roleRef") or {}
    if reference != (old.get("roleRef") or {}):
        shown_reference = {
            "APIGroup": reference.get("apiGroup") or "", "Kind": reference.get("kind") or "",
            "Name": reference.get("name") or "",
        }  # fmt: skip
        yield invalid("roleRef", shown_reference, "cannot change roleRef")


# --- privilege escalation --------------------------------------------------------------------------------------------


def _is_permitted(write: Write, verb: str, bucket: str, name: str) -> bool:
    resource = bucket.partition(".")[0]
    resolved = resolve_rules(write.reader, write.user, write.namespace)
    return any(rule.allows(verb, GROUP, resource, "", name) for rule in resolved.rules)


def _check_escalation(tree: Tree, rules: Sequence[PolicyRule], write: Write, bucket: str) -> None:
    owned = resolve_rules(write.reader, write.user, write.namespace).rules
    missing = uncovered_rules(owned, rules)
    if missing:
        lines = "\n".join(sorted(set(map(rule_text, compact_rules(missing)))))
        raise forbidden(
            bucket, tree["metadata"].get("name") or "",
            f"user {quote(write.user.name)} (groups={_groups_text(write.user)}) is attempting to grant RBAC "
            f"permissions not currently held:\n{lines}",
        )  # fmt: skip


def _groups_text(user: User) -> str:
    return "[" + " ".join(map(quote, user.groups)) + "]"


def _admit_role(tree: Tree, write: Write) -> Tree:
    bucket = CLUSTER_ROLES if _is_cluster(tree) else ROLES
    name = tree["metadata"].get("name") or ""
    if MASTERS_GROUP not in write.user.groups and not _is_permitted(write, "escalate", bucket, name):
        _check_escalation(tree, tuple(map(PolicyRule.from_tree, tree.get("rules") or ())), write, bucket)
        # The roles to aggregate are not known in advance, so all permissions are required.
        if tree.get("aggregationRule") and uncovered_rules(
            resolve_rules(write.reader, write.user, "").rules, _ALL_RULES
        ):
            raise forbidden(bucket, name, "must have cluster-admin privileges to use an aggregationRule")
    return tree


def _admit_binding(tree: Tree, write: Write) -> Tree:
    if MASTERS_GROUP in write.user.groups:
        return tree
    reference = tree.get("roleRef") or {}
    cluster = reference.get("kind") == "ClusterRole"
    bucket, name = (CLUSTER_ROLES if cluster else ROLES), reference.get("name") or ""
    if _is_permitted(write, "bind", bucket, name):
        return tree
    rules = role_rules(write.reader, bucket, "" if cluster else write.namespace, name)
    binding_bucket = f"clusterrolebindings.{GROUP}" if _is_cluster(tree) else f"rolebindings.{GROUP}"
    if rules is None:
        # kube-apiserver names the resource of the request, not that of the role.
        plural, _, group = binding_bucket.partition(".")
        raise not_found(group, plural, name)
    _check_escalation(tree, rules, write, binding_bucket)
    return tree


def _admit_role_update(new: Tree, old: Tree, write: Write) -> Tree:
    same = all(new.get(part) == old.get(part) for part in ("rules", "aggregationRule"))
    return new if same else _admit_role(new, write)


def _admit_binding_update(new: Tree, old: Tree, write: Write) -> Tree:
    same = new.get("roleRef") == old.get("roleRef") and new.get("subjects") == old.get("subjects")
    return new if same else _admit_binding(new, write)


_ROLE_RULES: Final = KindRules(
    admit=_admit_role, validate_create=_validate_role, admit_update=_admit_role_update,
    validate_update=lambda new, old, write: _validate_role(new, write), name=field_validation.path_segment_problems,
)  # fmt: skip
_BINDING_RULES: Final = KindRules(
    admit=_admit_binding, validate_create=_validate_binding, admit_update=_admit_binding_update,
    validate_update=_validate_binding_update, name=field_validation.path_segment_problems,
)  # fmt: skip
RULES: Final[Mapping[str, KindRules]] = {
    ROLES: _ROLE_RULES, CLUSTER_ROLES: _ROLE_RULES,
    f"rolebindings.{GROUP}": _BINDING_RULES, f"clusterrolebindings.{GROUP}": _BINDING_RULES,
}  # fmt: skip
