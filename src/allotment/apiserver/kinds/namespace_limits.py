"""ResourceQuotas and LimitRanges: validation of resource names, scopes and bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from allotment.apiserver.kinds.kind import Errors, KindRules, Write
from allotment.model.quantity import Quantity
from allotment.model.trees import Tree
from allotment.model.validation import container_resources, names
from allotment.model.validation.errors import duplicate, forbidden, invalid, required
from allotment.model.validation.gotext import GoNamedString, GoStruct

_POD_COUNT: Final = frozenset({"pods"})
_POD_RESOURCES: Final = frozenset(
    {"pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"}
)  # fmt: skip
_CLAIM_RESOURCES: Final = frozenset({"persistentvolumeclaims", "requests.storage"})
#: The resources that each quota scope supports.
_SCOPE_RESOURCES: Final[Mapping[str, frozenset[str]]] = {
    "Terminating": _POD_RESOURCES,
    "NotTerminating": _POD_RESOURCES,
    "BestEffort": _POD_COUNT,
    "NotBestEffort": _POD_RESOURCES,
    "PriorityClass": _POD_RESOURCES,
    "CrossNamespacePodAffinity": _POD_RESOURCES,
    "VolumeAttributesClass": _CLAIM_RESOURCES,
}
_CONFLICTING_SCOPES: Final = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))
_EXISTS_ONLY_SCOPES: Final = frozenset(_SCOPE_RESOURCES) - {"PriorityClass", "VolumeAttributesClass"}
_UNSUPPORTED_SCOPE: Final = "unsupported scope applied to resource"
_LIMIT_TYPES: Final = ("Pod", "Container", "PersistentVolumeClaim")
_NONSTANDARD_RESOURCE: Final = "must be a standard resource type or fully qualified"


# --- quotas ----------------------------------------------------------------------------------------------------------


def _quota(tree: Tree, write: Write) -> Errors:
    spec = tree.get("spec") or {}
    hard: Mapping[str, Any] = spec.get("hard") or {}
    for name, amount in sorted(hard.items()):
        path = f"spec.hard[{name}]"
        yield from _resource_name(name, path)
        if "/" not in name and not _is_quota_resource(name):
            yield invalid(path, GoNamedString(name), "must be a standard resource for quota")
        yield from container_resources.amount(name, amount, path)
    counted = sorted(name for name in hard if _is_quota_resource(name))
    yield from _scopes(spec.get("scopes") or (), counted)
    if spec.get("scopeSelector") is not None:
        yield from _scope_selector(spec, counted)


def _is_quota_resource(name: str) -> bool:
    return (name in container_resources.STANDARD_RESOURCES and name != "storage") or _is_huge_pages(name)


def _is_huge_pages(name: str) -> bool:
    return name.startswith(("hugepages-", "requests.hugepages-"))


def _resource_name(name: str, path: str) -> Errors:
    problems = names.label_key_problems(name)
    for problem in problems:
        yield invalid(path, GoNamedString(name), problem)
    if (
        not problems
        and "/" not in name
        and name not in container_resources.STANDARD_RESOURCES
        and not _is_huge_pages(name)
    ):
        yield invalid(path, GoNamedString(name), _NONSTANDARD_RESOURCE)


def _scopes(scopes: Sequence[str], counted: Sequence[str]) -> Errors:
    for scope in scopes:
        if scope not in _SCOPE_RESOURCES:
            yield invalid("spec.scopes", scopes, "unsupported scope")
        for name in counted:
            if name not in _SCOPE_RESOURCES.get(scope, counted):
                yield invalid("spec.scopes", scopes, _UNSUPPORTED_SCOPE)
    for pair in _CONFLICTING_SCOPES:
        if set(pair) <= set(scopes):
            yield invalid("spec.scopes", scopes, "conflicting scopes")


def _scope_selector(spec: Tree, counted: Sequence[str]) -> Errors:
    path = "spec.scopeSelector.matchExpressions"
    terms: Sequence[Tree] = spec["scopeSelector"].get("matchExpressions") or ()
    for term in terms:
        scope, operator, values = term.get("scopeName") or "", term.get("operator") or "", term.get("values") or ()
        if scope not in _SCOPE_RESOURCES:
            yield invalid(f"{path}.scopeName", GoNamedString(scope), "unsupported scope")
        for name in counted:
            if name not in _SCOPE_RESOURCES.get(scope, counted):
                yield invalid(path, _amounts_text(terms), _UNSUPPORTED_SCOPE)
        if scope in _EXISTS_ONLY_SCOPES and operator != "Exists":
            detail = (
                "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
                "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or "
                "ResourceQuotaScopeCrossNamespacePodAffinity"
            )
            yield invalid(f"{path}.operator", GoNamedString(operator), detail)
        if operator in ("In", "NotIn"):
            if not values:
                detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                yield required(f"{path}.values", detail)
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                yield invalid(f"{path}.values", values, detail)
        else:
            yield invalid(f"{path}.operator", GoNamedString(operator), "not a valid selector operator")
    for pair in _CONFLICTING_SCOPES:
        if set(pair) <= {term.get("scopeName") for term in terms}:
            yield invalid(path, spec.get("scopes"), "conflicting scopes")


def _amounts_text(terms: Sequence[Tree]) -> GoStruct:
    return GoStruct(
        MatchExpressions=[
            GoStruct(
                ScopeName=term.get("scopeName") or "", Operator=term.get("operator") or "", Values=term.get("values")
            )
            for term in terms
        ]
    )


def _quota_update(new: Tree, old: Tree, write: Write) -> Errors:
    if write.subresource:
        return
    yield from _quota(new, write)
    after, before = ((tree.get("spec") or {}).get("scopes") or [] for tree in (new, old))
    if set(after) != set(before):
        yield invalid("spec.scopes", after, "field is immutable")


# --- limit ranges ----------------------------------------------------------------------------------------------------


def _limit_range(tree: Tree, write: Write) -> Errors:
    seen: set[str] = set()
    for index, item in enumerate((tree.get("spec") or {}).get("limits") or ()):
        path, limit_type = f"spec.limits[{index}]", item.get("type") or ""
        problems = names.label_key_problems(limit_type)
        for problem in problems:
            yield invalid(f"{path}.type", GoNamedString(limit_type), problem)
        if not problems and "/" not in limit_type and limit_type not in _LIMIT_TYPES:
            yield invalid(f"{path}.type", GoNamedString(limit_type), "must be a standard limit type or fully qualified")
        if limit_type in seen:
            yield duplicate(f"{path}.type", GoNamedString(limit_type))
        seen.add(limit_type)
        yield from _limits(item, limit_type, path)


def _limits(item: Tree, limit_type: str, path: str) -> Errors:
    amounts_by_field: dict[str, dict[str, Quantity]] = {}
    for field in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
        if field == "maxLimitRequestRatio" and limit_type == "PersistentVolumeClaim":
            if not any("storage" in (item.get(bound) or {}) for bound in ("min", "max")):
                detail = "either minimum or maximum storage value is required, but neither was provided"
                yield required(f"{path}.limits", detail)
        amounts: Mapping[str, Any] = item.get(field) or {}
        if amounts and limit_type == "Pod" and field in ("default", "defaultRequest"):
            yield forbidden(f"{path}.{field}", "may not be specified when `type` is 'Pod'")
            continue
        for name in sorted(amounts):
            yield from _limit_resource_name(name, limit_type, f"{path}.{field}[{name}]")
        amounts_by_field[field] = {name: Quantity.parse(str(amount)) for name, amount in amounts.items()}
    for name in sorted({name for amounts in amounts_by_field.values() for name in amounts}):
        yield from _bounds_in_order(
            name, {field: amounts[name] for field, amounts in amounts_by_field.items() if name in amounts}, path
        )


def _limit_resource_name(name: str, limit_type: str, path: str) -> Errors:
    if limit_type in ("Pod", "Container"):
        yield from (
            invalid(path, GoNamedString(name), problem)
            for problem in container_resources.container_resource_problems(name)
        )
    else:
        yield from _resource_name(name, path)


#: Pairs of fields of which the first must not exceed the second: field and value of the error, and their labels.
_BOUNDS_ORDER: Final = (
    ("min", "max", "min", "min", "min", "max"),
    ("min", "defaultRequest", "defaultRequest", "defaultRequest", "min", "default request"),
    ("defaultRequest", "max", "defaultRequest", "defaultRequest", "default request", "max"),
    ("defaultRequest", "default", "defaultRequest", "defaultRequest", "default request", "default limit"),
    ("min", "default", "default", "min", "min", "default"),
    ("default", "max", "default", "max", "default", "max"),
)


def _bounds_in_order(name: str, amounts: Mapping[str, Quantity], path: str) -> Errors:
    for low, high, field, printed, low_label, high_label in _BOUNDS_ORDER:
        if low in amounts and high in amounts and amounts[low] > amounts[high]:
            detail = f"{low_label} value {amounts[low]} is greater than {high_label} value {amounts[high]}"
            yield invalid(f"{path}.{field}[{name}]", amounts[printed], detail)
    ratio, item_path = amounts.get("maxLimitRequestRatio"), f"{path}.maxLimitRequestRatio[{name}]"
    if ratio is not None:
        if ratio < Quantity.of_int(1):
            yield invalid(item_path, ratio, f"ratio {ratio} is less than 1")
        if "min" in amounts and "max" in amounts and amounts["min"].nano:
            maximum_ratio = amounts["max"].nano / amounts["min"].nano
            if ratio.nano / 10**9 > maximum_ratio:
                yield invalid(item_path, ratio, f"ratio {ratio} is greater than max/min = {maximum_ratio:f}")
    limit, request = amounts.get("default"), amounts.get("defaultRequest")
    if (
        limit is not None
        and request is not None
        and limit != request
        and not container_resources.is_overcommittable(name)
    ):
        detail = f"default value {limit} must equal to defaultRequest value {request} in {name}"
        yield invalid(f"{path}.defaultRequest[{name}]", request, detail)


def _limit_range_update(new: Tree, old: Tree, write: Write) -> Errors:
    return _limit_range(new, write)


RULES: Final[Mapping[str, KindRules]] = {
    "resourcequotas": KindRules(validate_create=_quota, validate_update=_quota_update),
    "limitranges": KindRules(validate_create=_limit_range, validate_update=_limit_range_update),
}
