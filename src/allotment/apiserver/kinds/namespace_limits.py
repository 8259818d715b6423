"""What bounds a namespace: which resources a quota or a limit range may name, and which numbers fit each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from allotment.apiserver.kinds import field_validation
from allotment.apiserver.kinds.kind import Errors, Rules, Write
from allotment.model.quantity import Quantity
from allotment.model.trees import Tree
from allotment.model.validation import names
from allotment.model.validation.errors import duplicate, forbidden, invalid, required
from allotment.model.validation.gotext import GoNamedString, GoStruct

_PODS: Final = frozenset({"pods"})
_OF_PODS: Final = frozenset(
    {"pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"}
)  # fmt: skip
_OF_CLAIMS: Final = frozenset({"persistentvolumeclaims", "requests.storage"})
#: Scope -> the resources that it can bound.
_SCOPES: Final[Mapping[str, frozenset[str]]] = {
    "Terminating": _OF_PODS, "NotTerminating": _OF_PODS, "BestEffort": _PODS, "NotBestEffort": _OF_PODS,
    "PriorityClass": _OF_PODS, "CrossNamespacePodAffinity": _OF_PODS, "VolumeAttributesClass": _OF_CLAIMS,
}  # fmt: skip
_OPPOSITES: Final = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))
_ONLY_EXISTS: Final = frozenset(_SCOPES) - {"PriorityClass", "VolumeAttributesClass"}
_UNFIT: Final = "unsupported scope applied to resource"
_LIMITED: Final = ("Pod", "Container", "PersistentVolumeClaim")
_STANDARD: Final = "must be a standard resource type or fully qualified"


# --- quotas ----------------------------------------------------------------------------------------------------------


def _quota(tree: Tree, write: Write) -> Errors:
    spec = tree.get("spec") or {}
    hard: Mapping[str, Any] = spec.get("hard") or {}
    for name, amount in sorted(hard.items()):
        at = f"spec.hard[{name}]"
        yield from _resource_name(name, at)
        if "/" not in name and not _is_counted(name):
            yield invalid(at, GoNamedString(name), "must be a standard resource for quota")
        yield from field_validation.amount(name, amount, at)
    counted = sorted(name for name in hard if _is_counted(name))
    yield from _scopes(spec.get("scopes") or (), counted)
    if spec.get("scopeSelector") is not None:
        yield from _scope_selector(spec, counted)


def _is_counted(name: str) -> bool:
    return (name in field_validation.STANDARD and name != "storage") or _is_huge(name)


def _is_huge(name: str) -> bool:
    return name.startswith(("hugepages-", "requests.hugepages-"))


def _resource_name(name: str, path: str) -> Errors:
    problems = names.label_key_problems(name)
    for problem in problems:
        yield invalid(path, GoNamedString(name), problem)
    if not problems and "/" not in name and name not in field_validation.STANDARD and not _is_huge(name):
        yield invalid(path, GoNamedString(name), _STANDARD)


def _scopes(scopes: Sequence[str], counted: Sequence[str]) -> Errors:
    for scope in scopes:
        if scope not in _SCOPES:
            yield invalid("spec.scopes", scopes, "unsupported scope")
        for name in counted:
            if name not in _SCOPES.get(scope, counted):
                yield invalid("spec.scopes", scopes, _UNFIT)
    for pair in _OPPOSITES:
        if set(pair) <= set(scopes):
            yield invalid("spec.scopes", scopes, "conflicting scopes")


def _scope_selector(spec: Tree, counted: Sequence[str]) -> Errors:
    at = "spec.scopeSelector.matchExpressions"
    terms: Sequence[Tree] = spec["scopeSelector"].get("matchExpressions") or ()
    for term in terms:
        scope, operator, values = term.get("scopeName") or "", term.get("operator") or "", term.get("values") or ()
        if scope not in _SCOPES:
            yield invalid(f"{at}.scopeName", GoNamedString(scope), "unsupported scope")
        for name in counted:
            if name not in _SCOPES.get(scope, counted):
                yield invalid(at, _shown(terms), _UNFIT)
        if scope in _ONLY_EXISTS and operator != "Exists":
            detail = (
                "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
                "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or "
                "ResourceQuotaScopeCrossNamespacePodAffinity"
            )
            yield invalid(f"{at}.operator", GoNamedString(operator), detail)
        if operator in ("In", "NotIn"):
            if not values:
                detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                yield required(f"{at}.values", detail)
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                yield invalid(f"{at}.values", values, detail)
        else:
            yield invalid(f"{at}.operator", GoNamedString(operator), "not a valid selector operator")
    for pair in _OPPOSITES:
        if set(pair) <= {term.get("scopeName") for term in terms}:
            yield invalid(at, spec.get("scopes"), "conflicting scopes")


def _shown(terms: Sequence[Tree]) -> GoStruct:
    return GoStruct(
        MatchExpressions=[
            GoStruct(
                ScopeName=term.get("scopeName") or "", Operator=term.get("operator") or "", Values=term.get("values")
            )
            for term in terms
        ]
    )


def _quota_updated(new: Tree, old: Tree, write: Write) -> Errors:
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
        at, sort = f"spec.limits[{index}]", item.get("type") or ""
        problems = names.label_key_problems(sort)
        for problem in problems:
            yield invalid(f"{at}.type", GoNamedString(sort), problem)
        if not problems and "/" not in sort and sort not in _LIMITED:
            yield invalid(f"{at}.type", GoNamedString(sort), "must be a standard limit type or fully qualified")
        if sort in seen:
            yield duplicate(f"{at}.type", GoNamedString(sort))
        seen.add(sort)
        yield from _limits(item, sort, at)


def _limits(item: Tree, sort: str, path: str) -> Errors:
    given: dict[str, dict[str, Quantity]] = {}
    for part in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
        if part == "maxLimitRequestRatio" and sort == "PersistentVolumeClaim":
            if not any("storage" in (item.get(bound) or {}) for bound in ("min", "max")):
                detail = "either minimum or maximum storage value is required, but neither was provided"
                yield required(f"{path}.limits", detail)
        amounts: Mapping[str, Any] = item.get(part) or {}
        if amounts and sort == "Pod" and part in ("default", "defaultRequest"):
            yield forbidden(f"{path}.{part}", "may not be specified when `type` is 'Pod'")
            continue
        for name in sorted(amounts):
            yield from _limited_name(name, sort, f"{path}.{part}[{name}]")
        given[part] = {name: Quantity.parse(str(amount)) for name, amount in amounts.items()}
    for name in sorted({name for amounts in given.values() for name in amounts}):
        yield from _in_order(name, {part: amounts[name] for part, amounts in given.items() if name in amounts}, path)


def _limited_name(name: str, sort: str, path: str) -> Errors:
    if sort in ("Pod", "Container"):
        yield from (
            invalid(path, GoNamedString(name), problem) for problem in field_validation.container_resource_problems(name)
        )
    else:
        yield from _resource_name(name, path)


#: Of two amounts the first may not exceed the second: where that is told, which of them is shown, and their words.
_ORDER: Final = (
    ("min", "max", "min", "min", "min", "max"),
    ("min", "defaultRequest", "defaultRequest", "defaultRequest", "min", "default request"),
    ("defaultRequest", "max", "defaultRequest", "defaultRequest", "default request", "max"),
    ("defaultRequest", "default", "defaultRequest", "defaultRequest", "default request", "default limit"),
    ("min", "default", "default", "min", "min", "default"),
    ("default", "max", "default", "max", "default", "max"),
)


def _in_order(name: str, amounts: Mapping[str, Quantity], path: str) -> Errors:
    for low, high, where, shown, less, more in _ORDER:
        if low in amounts and high in amounts and amounts[low] > amounts[high]:
            detail = f"{less} value {amounts[low]} is greater than {more} value {amounts[high]}"
            yield invalid(f"{path}.{where}[{name}]", amounts[shown], detail)
    ratio, at = amounts.get("maxLimitRequestRatio"), f"{path}.maxLimitRequestRatio[{name}]"
    if ratio is not None:
        if ratio < Quantity.of_int(1):
            yield invalid(at, ratio, f"ratio {ratio} is less than 1")
        if "min" in amounts and "max" in amounts and amounts["min"].nano:
            most = amounts["max"].nano / amounts["min"].nano
            if ratio.nano / 10**9 > most:
                yield invalid(at, ratio, f"ratio {ratio} is greater than max/min = {most:f}")
    limit, request = amounts.get("default"), amounts.get("defaultRequest")
    if limit is not None and request is not None and limit != request and not field_validation.overcommittable(name):
        detail = f"default value {limit} must equal to defaultRequest value {request} in {name}"
        yield invalid(f"{path}.defaultRequest[{name}]", request, detail)


def _limit_range_updated(new: Tree, old: Tree, write: Write) -> Errors:
    return _limit_range(new, write)


RULES: Final[Mapping[str, Rules]] = {
    "resourcequotas": Rules(validate_create=_quota, validate_update=_quota_updated),
    "limitranges": Rules(validate_create=_limit_range, validate_update=_limit_range_updated),
}
