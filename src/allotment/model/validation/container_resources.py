"""Names and amounts of resources: in containers, and the names that they share with quotas and limit ranges."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from allotment.model.quantity import Quantity
from allotment.model.validation import names
from allotment.model.validation.errors import Errors, forbidden, invalid, required

STANDARD_RESOURCES: Final = frozenset(
    {"cpu", "memory", "ephemeral-storage", "storage", "pods", "services", "replicationcontrollers", "resourcequotas",
     "secrets", "configmaps", "persistentvolumeclaims", "requests.cpu", "requests.memory", "requests.storage",
     "requests.ephemeral-storage", "limits.cpu", "limits.memory", "limits.ephemeral-storage", "services.nodeports",
     "services.loadbalancers"}
)  # fmt: skip
_CONTAINER_RESOURCES: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
#: Resources that are counted, so fractions are invalid.
_COUNTED_RESOURCES: Final = frozenset(
    {"pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps",
     "persistentvolumeclaims", "services.nodeports", "services.loadbalancers"}
)  # fmt: skip
_NANO: Final = 10**9


def is_overcommittable(name: str) -> bool:
    """Whether a limit can exceed the request: native resources except huge pages."""
    return names.is_native_resource(name) and not name.startswith("hugepages-")


def amount(name: str, text: Any, path: str) -> Errors:
    """The amount of a resource: >= 0, an integer for counted resources."""
    value = Quantity.parse(str(text))
    if value.nano < 0:
        yield invalid(path, str(value), "must be greater than or equal to 0")
    if value.nano % _NANO and (name in _COUNTED_RESOURCES or names.is_extended_resource(name)):
        yield invalid(path, value, "must be an integer")


@lru_cache(maxsize=4096)
def container_resource_problems(name: str) -> tuple[str, ...]:
    """The errors of a resource name in a container."""
    problems = names.label_key_problems(name)
    if problems:
        return tuple(problems)
    if "/" not in name:
        errors = []
        if name not in STANDARD_RESOURCES and not name.startswith("hugepages-"):
            errors.append("must be a standard resource type or fully qualified")
        if name not in _CONTAINER_RESOURCES and not name.startswith("hugepages-"):
            errors.append("must be a standard resource for containers")
        return tuple(errors)
    if not names.is_native_resource(name) and not names.is_extended_resource(name):
        return ("doesn't follow extended resource name standard",)
    return ()


def container_resources(limits: Mapping[str, Any], requests: Mapping[str, Any], path: str) -> Errors:
    """Requests within limits, equal for extended resources and huge pages. ``path``: to the container's resources."""
    for name in sorted(limits):
        item_path = f"{path}.limits[{name}]"
        for problem in container_resource_problems(name):
            yield invalid(item_path, name, problem)
        yield from amount(name, limits[name], item_path)
    for name in sorted(requests):
        item_path = f"{path}.requests[{name}]"
        for problem in container_resource_problems(name):
            yield invalid(item_path, name, problem)
        yield from amount(name, requests[name], item_path)
        yield from _request_within_limit(name, Quantity.parse(str(requests[name])), limits.get(name), path)
    huge = any(name.startswith("hugepages-") for name in (*limits, *requests))
    if huge and not any(name in ("cpu", "memory") for name in (*limits, *requests)):
        yield forbidden(path, "HugePages require cpu or memory")


def _request_within_limit(name: str, request: Quantity, limit_text: Any, path: str) -> Errors:
    can_overcommit = is_overcommittable(name)
    if limit_text is None:
        if not can_overcommit:
            yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")
        return
    limit = Quantity.parse(str(limit_text))
    if request != limit and not can_overcommit:
        yield invalid(f"{path}.requests", str(request), f"must be equal to {name} limit of {limit}")
    elif request > limit:
        yield invalid(f"{path}.requests", str(request), f"must be less than or equal to {name} limit of {limit}")
