"""Lenient views of claims, templates and classes, with the paths of their fields."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from allotment.model.loading import Document
from allotment.model.loading.marks import Path
from allotment.model.meta import ObjectKey
from allotment.tools.views.trees import at, is_dra, items, key_of, mapping, strings, text

ClaimKind: TypeAlias = Literal["ResourceClaim", "ResourceClaimTemplate"]


class SelectorView(NamedTuple):
    """A CEL expression that selects devices. ``path`` is that of the string; ``class_name`` the request's class.

    ``where`` is the kind of its owner; for a fragment the owner is unknown.
    """

    document: Document
    path: Path
    expression: str
    where: Literal["request", "class", "fragment"]
    class_name: str = ""


@dataclass(frozen=True, slots=True)
class RequestView:
    """One request, or one alternative of a request (``firstAvailable``).

    ``path`` is the path of the request or alternative, ``body`` the path of its fields: ``path`` itself if they are
    next to the name, or the path of ``exactly``. ``name`` is ``main`` or ``main/alternative``.
    """

    path: Path
    body: Path
    name: str
    class_name: str
    mode: str
    count: int
    admin_access: bool
    selectors: tuple[SelectorView, ...]
    tolerations: tuple[dict[str, Any], ...]
    capacity: dict[str, Any]


class ConstraintView(NamedTuple):
    """One constraint. ``field`` is matchAttribute or distinctAttribute; no ``requests`` means all of them."""

    path: Path
    field: str
    attribute: str
    requests: tuple[str, ...]


class ConfigView(NamedTuple):
    """Parameters for a driver; ``parameters`` is None if they are not a mapping."""

    path: Path
    driver: str
    requests: tuple[str, ...]
    parameters: dict[str, Any] | None


class ClaimView(NamedTuple):
    """A ResourceClaim or ResourceClaimTemplate; ``devices`` is the path of ``spec.devices``."""

    document: Document
    kind: ClaimKind
    key: ObjectKey
    devices: Path
    requests: tuple[RequestView, ...]
    constraints: tuple[ConstraintView, ...]
    configs: tuple[ConfigView, ...]


class ClassView(NamedTuple):
    document: Document
    name: str
    selectors: tuple[SelectorView, ...]
    configs: tuple[ConfigView, ...]
    extended_resource: str


def claim_view(document: Document, namespace: str = "default") -> ClaimView | None:
    """The claim or template in a document, if it is one."""
    kind = document.kind
    if not is_dra(document) or kind not in ("ResourceClaim", "ResourceClaimTemplate"):
        return None
    devices: Path = ("spec", "devices") if kind == "ResourceClaim" else ("spec", "spec", "devices")
    tree = mapping(at(document.tree, devices))
    return ClaimView(
        document,
        "ResourceClaim" if kind == "ResourceClaim" else "ResourceClaimTemplate",
        key_of(document, namespace),
        devices,
        tuple(
            view
            for number, request in items(tree.get("requests"))
            for view in _requests(document, (*devices, "requests", number), request)
        ),
        tuple(
            view
            for number, constraint in items(tree.get("constraints"))
            for view in _constraint((*devices, "constraints", number), constraint)
        ),
        tuple(_configs((*devices, "config"), tree.get("config"))),
    )


def class_view(document: Document) -> ClassView | None:
    """The DeviceClass in a document, if it is one."""
    if not is_dra(document) or document.kind != "DeviceClass":
        return None
    spec = mapping(document.tree.get("spec"))
    selectors = tuple(_selectors(document, ("spec", "selectors"), spec.get("selectors"), "class"))
    configs = tuple(_configs(("spec", "config"), spec.get("config")))
    return ClassView(document, document.name, selectors, configs, text(spec.get("extendedResourceName")))


def selectors_of(document: Document, namespace: str = "default") -> Iterator[SelectorView]:
    """All selectors of a claim, template or class."""
    claim = claim_view(document, namespace)
    if claim is not None:
        for request in claim.requests:
            yield from request.selectors
    device_class = class_view(document)
    if device_class is not None:
        yield from device_class.selectors


def fragment_views(document: Document) -> Iterator[SelectorView]:
    """The selectors of a fragment of a claim: a document with selectors but without apiVersion and kind."""
    if not document.api_version and not document.kind:
        yield from _selectors(document, ("selectors",), document.tree.get("selectors"), "fragment")


def _requests(document: Document, path: Path, request: dict[str, Any]) -> Iterator[RequestView]:
    name = text(request.get("name"))
    alternatives = request.get("firstAvailable")
    if isinstance(alternatives, list):
        for number, alternative in items(alternatives):
            inner: Path = (*path, "firstAvailable", number)
            yield _request(document, inner, inner, f"{name}/{text(alternative.get('name'))}", alternative)
        return
    exactly = request.get("exactly")
    if isinstance(exactly, dict):
        # Fields next to `exactly` are misplaced, but still show the request that the author intended.
        misplaced = {key: value for key, value in request.items() if key not in ("name", "exactly")}
        body: Path = (*path, "exactly")
        yield _request(document, path, body, name, exactly if exactly or not misplaced else misplaced)
        return
    yield _request(document, path, path, name, request)


def _request(document: Document, path: Path, body: Path, name: str, fields: dict[str, Any]) -> RequestView:
    class_name = text(fields.get("deviceClassName"))
    count = fields.get("count")
    return RequestView(
        path,
        body,
        name,
        class_name,
        text(fields.get("allocationMode")) or "ExactCount",
        count if type(count) is int else 1,
        fields.get("adminAccess") is True,
        tuple(_selectors(document, (*body, "selectors"), fields.get("selectors"), "request", class_name)),
        tuple(toleration for _, toleration in items(fields.get("tolerations"))),
        mapping(mapping(fields.get("capacity")).get("requests")),
    )


def _selectors(
    document: Document, path: Path, selectors: Any, where: Literal["request", "class", "fragment"], class_name: str = ""
) -> Iterator[SelectorView]:
    for number, selector in items(selectors):
        expression = mapping(selector.get("cel")).get("expression")
        if isinstance(expression, str):
            inner: Path = (*path, number, "cel", "expression")
            yield SelectorView(document, inner, expression, where, class_name)


def _constraint(path: Path, constraint: dict[str, Any]) -> Iterator[ConstraintView]:
    requests = strings(constraint.get("requests"))
    for name in ("matchAttribute", "distinctAttribute"):
        if isinstance(constraint.get(name), str):
            yield ConstraintView(path, name, constraint[name], requests)


def _configs(path: Path, configs: Any) -> Iterator[ConfigView]:
    for number, config in items(configs):
        opaque = config.get("opaque")
        if isinstance(opaque, dict):
            parameters = opaque.get("parameters")
            yield ConfigView(
                (*path, number),
                text(opaque.get("driver")),
                strings(config.get("requests")),
                parameters if isinstance(parameters, dict) else None,
            )
