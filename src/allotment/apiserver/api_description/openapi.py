"""OpenAPI v3 documents, one per group version, with paths from kinds and schemas from type shapes.

Custom resources have schemas of their own (``ServedKind.schemas``), which are extended with the common fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from allotment.apiserver.api_description.custom_schemas import complete, definition_name
from allotment.apiserver.api_description.groups import group_version, subresources
from allotment.apiserver.api_description.operations import Schemas, paths, resources_path
from allotment.apiserver.api_description.schemas import META, PREFIX, Components
from allotment.apiserver.kinds.kind import ServedKind
from allotment.model.fields import TypeShape, shape_of
from allotment.model.trees import Tree

_SECURITY: Final = {
    "BearerToken": {"type": "apiKey", "description": "A token", "name": "authorization", "in": "header"}
}
#: Subresources that are streams and have no object.
_STREAMS: Final = frozenset({"attach", "exec", "log", "portforward"})


def openapi_v3(kinds: Sequence[ServedKind], group: str, version: str, release: str) -> Tree:
    """The document of a group version with the given kinds."""
    components = Components()
    path_items: dict[str, Tree] = {}
    path, item = resources_path(group, version, components.reference(_meta("APIResourceList")))
    path_items[path] = item
    for kind in kinds:
        path_items |= paths(kind, version, _schemas(components, kind, version))
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": release},
        "paths": dict(sorted(path_items.items())),
        "components": {"schemas": dict(sorted(components.schemas.items())), "securitySchemes": _SECURITY},
    }


def openapi_v3_version(release: str) -> Tree:
    """The document of /version."""
    required = (
        "major",
        "minor",
        "gitVersion",
        "gitCommit",
        "gitTreeState",
        "buildDate",
        "goVersion",
        "compiler",
        "platform",
    )
    optional = ("emulationMajor", "emulationMinor", "minCompatibilityMajor", "minCompatibilityMinor")
    info: Tree = {
        "type": "object",
        "required": list(required),
        "properties": {name: {"type": "string"} for name in sorted((*required, *optional))},
    }
    name = "io.k8s.apimachinery.pkg.version.Info"
    operation = {
        "tags": ["version"],
        "description": "get the version of the server",
        "operationId": "getCodeVersion",
        "responses": {
            "200": {"description": "OK", "content": {"application/json": {"schema": {"$ref": PREFIX + name}}}},
            "401": {"description": "Unauthorized"},
        },
    }
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": release},
        "paths": {"/version/": {"get": operation}},
        "components": {"schemas": {name: info}, "securitySchemes": _SECURITY},
    }


def _schemas(components: Components, kind: ServedKind, version: str) -> Schemas:
    api_version = group_version(kind.group, version)
    gvk = {"group": kind.group, "version": version, "kind": kind.kind}
    custom = kind.schemas.get(version)
    shape = shape_of(api_version, kind.kind, kind.release)
    if custom is not None:
        reference = _custom(components, kind, version, custom)
    elif shape is not None:
        reference = components.reference(shape)
    else:
        raise LookupError(f"{api_version} {kind.kind} has no shape")
    name = reference["$ref"].removeprefix(PREFIX)
    components.schemas[name]["x-kubernetes-group-version-kind"] = [gvk]
    subresource_schemas = {}
    for sub in subresources(kind):
        other = shape_of(group_version(sub.group or kind.group, sub.version or version), sub.kind, kind.release)
        if other is not None and other is not shape:
            subresource_schemas[sub.name] = components.reference(other)
            _set_kind(
                components, subresource_schemas[sub.name], sub.group or kind.group, sub.version or version, sub.kind
            )
        elif sub.name in _STREAMS:
            subresource_schemas[sub.name] = {"type": "string"}
    options = components.reference(_meta("DeleteOptions"))
    _set_kind(components, options, kind.group, version, "DeleteOptions")
    status = components.reference(_meta("Status"))
    _set_kind(components, status, "", "v1", "Status")
    return Schemas(
        object=reference,
        list=_list(components, name, gvk),
        options=options,
        status=status,
        patch=_named(components, "Patch"),
        subresources=subresource_schemas,
    )


def _meta(kind: str) -> TypeShape:
    shape = shape_of("meta.k8s.io/v1", kind)
    assert shape is not None
    return shape


def _set_kind(components: Components, reference: Tree, group: str, version: str, kind: str) -> None:
    schema = components.schemas[reference["$ref"].removeprefix(PREFIX)]
    schema["x-kubernetes-group-version-kind"] = [{"group": group, "version": version, "kind": kind}]


def _list(components: Components, name: str, gvk: Tree) -> Tree:
    status = _meta("Status")
    metadata = components.reference(status.fields["metadata"].shape)
    components.schemas[f"{name}List"] = {
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "items": {"type": "array", "items": {"$ref": PREFIX + name}},
            "kind": {"type": "string"},
            "metadata": {"allOf": [metadata], "default": {}},
        },
        "x-kubernetes-group-version-kind": [{**gvk, "kind": f"{gvk['kind']}List"}],
    }
    return {"$ref": f"{PREFIX}{name}List"}


def _named(components: Components, name: str) -> Tree:
    """Add a schema that no field refers to."""
    components.schemas.setdefault(f"{META}.{name}", {"type": "object"})
    return {"$ref": f"{PREFIX}{META}.{name}"}


def _custom(components: Components, kind: ServedKind, version: str, schema: Tree) -> Tree:
    """The schema of a custom resource with the fields that every object has."""
    pod = shape_of("v1", "Pod")
    assert pod is not None
    metadata = components.reference(pod.fields["metadata"].shape)
    name = definition_name(kind, version)
    common: Tree = {
        "apiVersion": {"type": "string", "description": "APIVersion defines the API group and version of this object."},
        "kind": {"type": "string", "description": "The type of this object, in CamelCase."},
        "metadata": {
            "allOf": [metadata],
            "description": "Standard object's metadata: name, labels, annotations and so on.",
        },
    }
    published = complete(schema, common)
    properties = published.get("properties") or {}
    components.schemas[name] = {"type": "object", **published, "properties": {**properties, **common}}
    return {"$ref": PREFIX + name}
