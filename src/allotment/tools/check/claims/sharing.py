"""Determines whether a claim's devices are meant to be shared by several containers or pods, and how."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from allotment.explanation.container_devices import has_exclusive_name as has_exclusive_name
from allotment.tools.check.bundle import Bundle
from allotment.tools.views import ClaimView, ConfigView, RequestView, mapping

#: Drivers and attribute domains in an expression; other strings are arbitrary values (gpu0rdma0).
_DOMAIN: Final = re.compile(r"""["']([\w-]+(?:\.[\w-]+)+)["']""")


def sharing_configs(claim: ClaimView) -> Iterator[ConfigView]:
    """The configurations of a claim with sharing parameters (time-slicing, MPS, partitions)."""
    return (config for config in claim.configs if _has_sharing(config.parameters))


def allows_sharing(bundle: Bundle, claim: ClaimView) -> bool:
    """Whether the claim or a requested class has sharing parameters, or all requests use shares or admin access."""
    if any(True for _ in sharing_configs(claim)):
        return True
    if claim.requests and all(request.capacity or request.admin_access for request in claim.requests):
        return True
    classes = {request.class_name for request in claim.requests}
    return any(
        _has_sharing(config.parameters) for view in bundle.classes if view.name in classes for config in view.configs
    )


def is_exclusive(request: RequestView) -> bool:
    """Whether a request is for devices that several programs cannot use at the same time unless they are divided."""
    names = (name for selector in request.selectors for name in _DOMAIN.findall(selector.expression))
    return has_exclusive_name(request.class_name) or any(map(has_exclusive_name, names))


def sharing_strategy(config: ConfigView) -> str:
    """The driver's name for the sharing strategy: ``TimeSlicing``."""
    value = mapping(mapping(config.parameters).get("sharing")).get("strategy")
    return value if isinstance(value, str) else ""


def _has_sharing(parameters: dict[str, Any] | None) -> bool:
    return "sharing" in (parameters or {})
