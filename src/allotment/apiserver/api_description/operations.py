"""OpenAPI operations and paths of resources.

kubectl looks for three things here: the PATCH operation and its ``fieldValidation`` parameter (otherwise it requests
OpenAPI v2 in protobuf), the supported patch types, and ``x-kubernetes-group-version-kind``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from allotment.apiserver.api_description.groups import group_version, subresources
from allotment.apiserver.kinds.kind import ServedKind
from allotment.model.trees import Tree

_MEDIA_TYPES: Final = ("application/json", "application/yaml")
_PATCHES: Final = ("application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json")
_STRATEGIC: Final = "application/strategic-merge-patch+json"


def _query(name: str, description: str, schema_type: str = "string") -> Tree:
    schema = {"type": schema_type, "uniqueItems": True}
    return {"name": name, "in": "query", "description": description, "schema": schema}


_PRETTY: Final = _query("pretty", "Whether the response is indented.")
_WRITE: Final = (
    _query("dryRun", "All: validate the request and respond as usual, but store nothing."),
    _query("fieldManager", "The name of the client or component that makes the change; required for apply."),
    _query(
        "fieldValidation",
        "How unknown and duplicate fields are handled: Strict rejects the request, Warn (the default) drops the fields "
        "with a warning, Ignore drops them silently.",
    ),
)
_FORCE: Final = _query("force", "Whether apply takes over fields from other managers.", "boolean")
_DELETE: Final = (
    _WRITE[0],
    _query("gracePeriodSeconds", "The time in seconds that the object has to terminate gracefully.", "integer"),
    _query("orphanDependents", "Deprecated: use propagationPolicy.", "boolean"),
    _query("propagationPolicy", "How dependents are deleted: Background, Foreground or Orphan."),
)
_SELECT: Final = (
    _query("continue", "The continue token from the previous page."),
    _query("fieldSelector", "Return only objects with these field values."),
    _query("labelSelector", "Return only objects with these labels."),
    _query("limit", "The maximum number of objects to return; further objects are on the next page.", "integer"),
    _query("resourceVersion", "The resource version to read at or to watch from."),
    _query("resourceVersionMatch", "How resourceVersion is interpreted: Exact or NotOlderThan."),
)
_WATCH: Final = (
    _query(
        "allowWatchBookmarks", "Whether a watch can send BOOKMARK events with the current resource version.", "boolean"
    ),
    _query("sendInitialEvents", "Whether a watch begins with ADDED events for the existing objects.", "boolean"),
    _query("timeoutSeconds", "The time in seconds after which the server ends the request.", "integer"),
    _query("watch", "Whether to stream changes instead of returning a list.", "boolean"),
)


class Schemas(NamedTuple):
    """References to the schemas used by a resource's operations."""

    object: Tree
    list: Tree
    options: Tree
    status: Tree
    patch: Tree
    subresources: Mapping[str, Tree]


def paths(kind: ServedKind, version: str, schemas: Schemas) -> dict[str, Tree]:
    """All paths of a resource with their operations."""
    return dict(_paths(kind, version, schemas))


def _paths(kind: ServedKind, version: str, schemas: Schemas) -> Iterator[tuple[str, Tree]]:
    root = f"/apis/{kind.group}/{version}" if kind.group else f"/api/{version}"
    collection = f"{root}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else f"{root}/{kind.plural}"
    target = _OperationTarget(kind, version)
    if item := {
        method: target.operation(method, schemas)
        for method, verb in (("get", "list"), ("post", "create"), ("delete", "deletecollection"))
        if verb in kind.verbs
    }:
        yield collection, {**item, "parameters": target.parameters(named=False)}
    if item := {
        method: target.operation(method, schemas, named=True)
        for method, verb in (("get", "get"), ("put", "update"), ("patch", "patch"), ("delete", "delete"))
        if verb in kind.verbs
    }:
        yield f"{collection}/{{name}}", {**item, "parameters": target.parameters(named=True)}
    for sub in subresources(kind):
        methods = {"get": "get", "update": "put", "patch": "patch", "create": "post"}
        sub_target = _OperationTarget(
            kind, version, sub.name, (sub.group or kind.group, sub.version or version, sub.kind)
        )
        sub_schemas = schemas._replace(object=schemas.subresources.get(sub.name, schemas.object))
        yield (
            f"{collection}/{{name}}/{sub.name}",
            {
                **{methods[verb]: sub_target.operation(methods[verb], sub_schemas, named=True) for verb in sub.verbs},
                "parameters": sub_target.parameters(named=True),
            },
        )
    if kind.namespaced and "list" in kind.verbs:
        everywhere = target.operation("get", schemas)
        everywhere["operationId"] = target.identifier("list", everywhere=True)
        yield f"{root}/{kind.plural}", {"get": everywhere, "parameters": [_PRETTY]}


class _OperationTarget(NamedTuple):
    """The target of an operation. ``body_kind``: group, version and kind in bodies, if not the resource's own."""

    kind: ServedKind
    version: str
    subresource: str = ""
    body_kind: tuple[str, str, str] | None = None

    def parameters(self, *, named: bool) -> list[Tree]:
        result = []
        if named:
            result.append(_in_path("name", f"name of the {self.kind.kind}"))
        if self.kind.namespaced:
            result.append(_in_path("namespace", "namespace of the object"))
        return [*result, _PRETTY]

    def operation(self, method: str, schemas: Schemas, *, named: bool = False) -> Tree:
        action, verb = _ACTIONS[(method, named)]
        group, version, name = self.body_kind or (self.kind.group, self.version, self.kind.kind)
        response = schemas.object
        if method == "get" and not named:
            response = schemas.list
        elif method == "delete":
            response = schemas.object if named and self.kind.deletion_returns_object(self.version) else schemas.status
        result: Tree = {
            "tags": [f"{self.kind.group.partition('.')[0] or 'core'}_{self.version}"],
            "description": f"{verb} {self.kind.kind}{f' ({self.subresource})' if self.subresource else ''}",
            "operationId": self.identifier(verb),
            "parameters": self.query(method, named),
        }
        if method in ("post", "put"):
            result["requestBody"] = {"content": {"*/*": {"schema": schemas.object}}, "required": True}
        elif method == "delete":
            result["requestBody"] = {"content": {"*/*": {"schema": schemas.options}}}
        elif method == "patch":
            types = (*_PATCHES, _STRATEGIC) if not self.kind.shapes else _PATCHES
            content = {media: {"schema": schemas.patch} for media in types}
            result["requestBody"] = {"content": content, "required": True}
        codes = {"post": ("200", "201", "202"), "put": ("200", "201"), "patch": ("200", "201")}.get(method, ("200",))
        result["responses"] = {code: _response(code, response) for code in codes} | {
            "401": {"description": "Unauthorized"}
        }
        result["x-kubernetes-action"] = action
        result["x-kubernetes-group-version-kind"] = {"group": group, "version": version, "kind": name}
        return result

    def query(self, method: str, named: bool) -> list[Tree]:
        if method == "get":
            return [] if named else [*_SELECT, *_WATCH]
        if method == "delete":
            return [*_DELETE] if named else [*_DELETE, *_SELECT]
        return [*_WRITE, _FORCE] if method == "patch" else [*_WRITE]

    def identifier(self, verb: str, *, everywhere: bool = False) -> str:
        group = self.kind.group.removesuffix(".k8s.io").removesuffix(".authorization") or "core"
        title = "".join(part[:1].upper() + part[1:] for part in (*group.replace("-", ".").split("."), self.version))
        scope = "Namespaced" if self.kind.namespaced and not everywhere else ""
        collection = "Collection" if verb == "deletecollection" else ""
        rest = self.subresource[:1].upper() + self.subresource[1:]
        tail = "ForAllNamespaces" if everywhere else ""
        return f"{verb.removesuffix('collection')}{title}{collection}{scope}{self.kind.kind}{rest}{tail}"


_ACTIONS: Final = {
    ("get", False): ("list", "list"), ("post", False): ("post", "create"),
    ("delete", False): ("deletecollection", "deletecollection"), ("get", True): ("get", "read"),
    ("put", True): ("put", "replace"), ("patch", True): ("patch", "patch"), ("delete", True): ("delete", "delete"),
    ("post", True): ("post", "create"),
}  # fmt: skip


def _in_path(name: str, description: str) -> Tree:
    schema = {"type": "string", "uniqueItems": True}
    return {"name": name, "in": "path", "description": description, "required": True, "schema": schema}


def _response(code: str, schema: Tree) -> Tree:
    text = {"200": "OK", "201": "Created", "202": "Accepted"}[code]
    return {"description": text, "content": {media: {"schema": schema} for media in _MEDIA_TYPES}}


def resources_path(group: str, version: str, schema: Tree) -> tuple[str, Tree]:
    """The path of a group version."""
    root = "/apis/" if group else "/api/"
    operation: Tree = {
        "tags": [f"{group.partition('.')[0] or 'core'}_{version}"],
        "description": "get available resources",
        "operationId": f"get{_camel(group or 'core')}{_camel(version)}APIResources",
        "responses": {"200": _response("200", schema), "401": {"description": "Unauthorized"}},
    }
    return f"{root}{group_version(group, version)}/", {"get": operation}


def _camel(text: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in text.removesuffix(".k8s.io").replace("-", ".").split("."))
