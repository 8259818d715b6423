"""Whether a request matches the resource rules, selectors and matchConditions of a policy, a binding or a webhook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from allotment.apiserver.admission.attributes import Attributes
from allotment.apiserver.admission.expressions import Expression, Inputs, evaluate
from allotment.apiserver.kinds.field_validation import selector_matches
from allotment.apiserver.kinds.kind import StoreReader
from allotment.cel.evaluation.values import Value
from allotment.model.trees import Tree

_GROUP: Final = "admissionregistration.k8s.io"
_REVIEWS: Final = frozenset({"authentication.k8s.io", "authorization.k8s.io"})
_NAMESPACES: Final = "namespaces"
#: The cost limit of the matchConditions of a policy or a webhook.
_CONDITIONS_BUDGET: Final = 2_500_000


class ConditionsFailed(Exception):
    """Raised if matchConditions have errors, and none of them is false."""

    def __init__(self, errors: Iterable[str]) -> None:
        distinct = list(dict.fromkeys(errors))
        super().__init__(distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]")


def is_exempt(attributes: Attributes) -> bool:
    """Whether no policy applies: to policies themselves, so that a wrong one can be removed, and to reviews."""
    return attributes.kind.group == _GROUP or attributes.kind.group in _REVIEWS


def matched_version(attributes: Attributes, resources: Tree, reader: StoreReader) -> str | None:
    """The version in which a request matches a MatchResources; None if it does not match.

    That is the version of the request, else, with the policy ``Equivalent``, the first other one that the rules name.
    """
    if not _namespace_matches(attributes, resources.get("namespaceSelector"), reader):
        return None
    if not _object_matches(attributes, resources.get("objectSelector")):
        return None
    versions: Sequence[str] = (attributes.version,)
    if resources.get("matchPolicy") != "Exact":
        versions = (*versions, *(other for other in attributes.kind.versions if other != attributes.version))
    if _rule_version(attributes, resources.get("excludeResourceRules") or (), versions) is not None:
        return None
    rules = resources.get("resourceRules") or ()
    return _rule_version(attributes, rules, versions) if rules else attributes.version


def webhook_version(attributes: Attributes, webhook: Tree, reader: StoreReader) -> str | None:
    """The version in which a request matches a webhook; None if it does not match. Earlier rules come first."""
    rules: Sequence[Tree] = webhook.get("rules") or ()
    version: str | None = attributes.version
    if _rule_version(attributes, rules, (attributes.version,)) is None:
        others = [other for other in attributes.kind.versions if other != attributes.version]
        if webhook.get("matchPolicy") == "Exact" or not others:
            return None
        version = next((other for rule in rules for other in others if _matches(rule, attributes, other)), None)
    if version is None or not _namespace_matches(attributes, webhook.get("namespaceSelector"), reader):
        return None
    return version if _object_matches(attributes, webhook.get("objectSelector")) else None


def _namespace_matches(attributes: Attributes, selector: Tree | None, reader: StoreReader) -> bool:
    is_namespace = attributes.kind.bucket == _NAMESPACES
    if not selector or (not attributes.admission_namespace and not is_namespace):
        return True
    if is_namespace and not attributes.subresource and attributes.new is not None:
        labels = attributes.new["metadata"].get("labels")
    else:
        entry = reader.get(_NAMESPACES, "", attributes.admission_namespace)
        labels = entry.tree["metadata"].get("labels") if entry is not None else None
    return selector_matches(selector, labels or {})


def _object_matches(attributes: Attributes, selector: Tree | None) -> bool:
    if not selector:
        return True
    labels = ((tree.get("metadata") or {}).get("labels") or {} for tree in attributes.objects)
    return any(selector_matches(selector, values) for values in labels)


def _rule_version(attributes: Attributes, rules: Iterable[Tree], versions: Sequence[str]) -> str | None:
    return next((version for version in versions if any(_matches(rule, attributes, version) for rule in rules)), None)


def _matches(rule: Tree, attributes: Attributes, version: str) -> bool:
    names = rule.get("resourceNames")
    return (
        _in_scope(rule.get("scope"), attributes)
        and _is_among(rule.get("operations"), attributes.operation)
        and _is_among(rule.get("apiGroups"), attributes.kind.group)
        and _is_among(rule.get("apiVersions"), version)
        and any(_names_resource(written, attributes) for written in rule.get("resources") or ())
        and (not names or attributes.name in names)
    )


def _is_among(accepted: Sequence[str] | None, value: str) -> bool:
    return accepted is not None and ("*" in accepted or value in accepted)


def _in_scope(scope: str | None, attributes: Attributes) -> bool:
    if scope in (None, "*"):
        return True
    is_cluster_scoped = attributes.kind.bucket == _NAMESPACES or not attributes.admission_namespace
    return is_cluster_scoped == (scope == "Cluster")


def _names_resource(written: str, attributes: Attributes) -> bool:
    resource, _, subresource = written.partition("/")
    return resource in ("*", attributes.kind.plural) and subresource in ("*", attributes.subresource)


def meets_conditions(
    conditions: Sequence[Expression], values: Mapping[str, Value], params: Tree | None = None,
    variables: Sequence[tuple[str, Expression]] = (),
) -> bool:  # fmt: skip
    """Whether all matchConditions are true. Raises ConditionsFailed and OutOfBudget."""
    if not conditions:
        return True
    # Conditions cannot read the namespace.
    inputs = Inputs({**values, "namespaceObject": None}, params, variables)
    results, _ = evaluate(conditions, inputs, _CONDITIONS_BUDGET)
    if any(result.value is False for result in results):
        return False
    if errors := [result.error for result in results if result.error is not None]:
        raise ConditionsFailed(errors)
    return True
