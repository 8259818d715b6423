"""OpenAPI v3 documents, one per group version, with paths from kinds and schemas from type shapes.

Custom resources have schemas of their own (``ServedKind.schemas``), which are extended with the common fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

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
    found: dict[str, Tree] = {}
    path, item = resources_path(group, version, components.reference(_meta("APIResourceList")))
    found[path] = item
    for kind in kinds:
        found |= paths(kind, version, _schemas(components, kind, version))
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": release},
        "paths": dict(sorted(found.items())),
        "components": {"schemas": dict(sorted(components.schemas.items())), "securitySchemes": _SECURITY},
    }


def openapi_v3_version(release: str) -> Tree:
    """The document of /version."""
    needed = (
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
        "required": list(needed),
        "properties": {name: {"type": "string"} for name in sorted((*needed, *optional))},
    }
    name = "io.k8s.apimachinery.pkg.version.Info"
    operation = {
        "tags": ["version"],
        "description": "which release the server stands for",
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
    about = {"group": kind.group, "version": version, "kind": kind.kind}
    custom = kind.schemas.get(version)
    shape = shape_of(api_version, kind.kind)
    if custom is not None:
        reference = _custom(components, kind, version, custom)
    elif shape is not None:
        reference = components.reference(shape)
    else:
        raise LookupError(f"{api_version} {kind.kind} has no shape")
    name = reference["$ref"].removeprefix(PREFIX)
    components.schemas[name]["x-kubernetes-group-version-kind"] = [about]
    below = {}
    for sub in subresources(kind):
        other = shape_of(group_version(sub.group or kind.group, sub.version or version), sub.kind)
        if other is not None and other is not shape:
            below[sub.name] = components.reference(other)
            _say_kind(components, below[sub.name], sub.group or kind.group, sub.version or version, sub.kind)
        elif sub.name in _STREAMS:
            below[sub.name] = {"type": "string"}
    options = components.reference(_meta("DeleteOptions"))
    _say_kind(components, options, kind.group, version, "DeleteOptions")
    status = components.reference(_meta("Status"))
    _say_kind(components, status, "", "v1", "Status")
    return Schemas(
        object=reference,
        list=_list(components, name, about),
        options=options,
        status=status,
        patch=_named(components, "Patch"),
        subresources=below,
    )


def _meta(kind: str) -> TypeShape:
    shape = shape_of("meta.k8s.io/v1", kind)
    assert shape is not None
    return shape


def _say_kind(components: Components, reference: Tree, group: str, version: str, kind: str) -> None:
    schema = components.schemas[reference["$ref"].removeprefix(PREFIX)]
    schema["x-kubernetes-group-version-kind"] = [{"group": group, "version": version, "kind": kind}]


def _list(components: Components, name: str, about: Tree) -> Tree:
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
        "x-kubernetes-group-version-kind": [{**about, "kind": f"{about['kind']}List"}],
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
    name = ".".join((*reversed(kind.group.split(".")), version, kind.kind))
    known = schema.get("properties") or {}
    always: Tree = {
        "apiVersion": {"type": "string", "description": "The API group and version that this object is written in."},
        "kind": {"type": "string", "description": "What this object is, in CamelCase."},
        "metadata": {"allOf": [metadata], "description": "Name, labels and other data that every object has."},
    }
    components.schemas[name] = {"type": "object", **schema, "properties": {**known, **always}}
    return {"$ref": PREFIX + name}
