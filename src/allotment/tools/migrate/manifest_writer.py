"""Writes new objects as YAML, with comments for their purpose and the origin of each selector."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from allotment.tools.migrate.claim_plan import ClaimPlan, ClaimRequest

_WIDTH: Final = 80
_PLAIN: Final = re.compile(r"[A-Za-z0-9/][A-Za-z0-9./_-]*")


def claim_text(kind: str, name: str, namespace: str, plan: ClaimPlan, why: str) -> str:
    """A ResourceClaim or ResourceClaimTemplate; an empty namespace is omitted."""
    template = kind == "ResourceClaimTemplate"
    indent = "    " if template else "  "
    lines = [*_comment(why), *_head(kind, name, namespace), "spec:", *(["  spec:"] if template else [])]
    lines += [indent + line for line in _devices(plan)]
    return "\n".join(lines) + "\n"


def class_text(name: str, expression: str, extended_resource: str, why: str) -> str:
    """A DeviceClass that serves an extended resource."""
    lines = [*_comment(why), *_head("DeviceClass", name, ""), "spec:", f"  extendedResourceName: {extended_resource}"]
    lines += ["  selectors:", "  - cel:", *_expression(expression, "      ")]
    return "\n".join(lines) + "\n"


def _head(kind: str, name: str, namespace: str) -> list[str]:
    where = [f"  namespace: {_scalar(namespace)}"] if namespace else []
    return ["apiVersion: resource.k8s.io/v1", f"kind: {kind}", "metadata:", f"  name: {_scalar(name)}", *where]


def _devices(plan: ClaimPlan) -> Iterator[str]:
    yield "devices:"
    yield "  requests:"
    for request in plan.requests:
        yield from (f"  {line}" for line in _request(request))
    if plan.same:
        yield "  constraints:"
    for name, attribute in plan.same:
        yield f"  - matchAttribute: {attribute}"
        yield f"    requests: [{_scalar(name)}]"
    if plan.configs:
        yield "  config:"
    for config in plan.configs:
        yield from _comment(config.why, "  ")
        yield "  - opaque:"
        yield f"      driver: {_scalar(config.driver)}"
        yield "      parameters:"
        yield from _tree(config.parameters, "        ")


def _request(request: ClaimRequest) -> Iterator[str]:
    kind = request.kind
    yield f"- name: {_scalar(request.name)}"
    yield "  exactly:"
    yield f"    deviceClassName: {_scalar(kind.class_name)}"
    if kind.admin:
        yield "    adminAccess: true"
        yield "    allocationMode: All"
    elif request.number > 1:
        yield f"    count: {request.number}"
    if kind.conditions:
        yield "    selectors:"
    for condition in kind.conditions:
        yield from _comment(f"instead of {condition.instead_of}", "    ")
        yield "    - cel:"
        yield from _expression(condition.expression, "        ")
    if kind.capacity:
        yield "    capacity:"
        yield "      requests:"
    for name, amount in kind.capacity:
        yield f"        {_scalar(name)}: {_scalar(amount)}"


def _expression(text: str, indent: str) -> Iterator[str]:
    """The expression in single quotes; a long one is folded before its operators, which YAML joins with spaces."""
    line = f"{indent}expression: '{_in_quotes(text)}'"
    if len(line) <= _WIDTH + 20 or not re.search(r" (?:&&|\|\|) ", text):
        yield line
        return
    yield f"{indent}expression: >-"
    yield from (f"{indent}  {part}" for part in re.split(r" (?=(?:&&|\|\|) )", text))


def _tree(tree: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield f"{indent}{_scalar(key)}:"
            yield from _tree(value, indent + "  ")
        else:
            yield f"{indent}{_scalar(key)}: {_scalar(value)}"


def _scalar(value: str | int) -> str:
    """A value as YAML: numbers plain, and strings quoted if YAML would not read them as strings."""
    if isinstance(value, int):
        return str(value)
    plain = _PLAIN.fullmatch(value) and not re.fullmatch(
        r"[0-9.eE+_-]+|(?i:true|false|null|yes|no|on|off|y|n)|0[xXoObB].*", value
    )
    return value if plain else f"'{_in_quotes(value)}'"


def _in_quotes(text: str) -> str:
    return text.replace("'", "''")


def _comment(text: str, indent: str = "") -> Iterable[str]:
    width = _WIDTH - len(indent) - 2
    return [f"{indent}# {line}" for line in textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)]
