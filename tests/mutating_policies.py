"""MutatingAdmissionPolicies and requests that they change, for the lab and for Kubernetes.

Each case has a namespace of its name, to which its policies are limited.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from allotment.model.trees import Tree
from tests.admission_policies import MUTATING, MUTATING_BINDINGS, rule

_CHANGING: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[\d:]+Z")
_MAPS: Final = "/api/v1/namespaces/{}/configmaps"
_DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/{}/deployments"
MAP: Final[Tree] = {"metadata": {"name": "settings", "labels": {"tier": "web"}}, "data": {"a": "1"}}
DEPLOYMENT: Final[Tree] = {
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 1, "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "web"}]},
        },
    },
}  # fmt: skip


class Policy(NamedTuple):
    """A policy with one binding; ``name`` is appended to that of the case."""

    mutations: Sequence[Tree]
    spec: Tree = {}
    binding: Tree = {}
    name: str = "policy"


class Case(NamedTuple):
    """Policies, and requests as method, path and body."""

    name: str
    policies: Sequence[Policy]
    requests: Sequence[tuple[str, str, Tree | None]] = (("POST", _MAPS, MAP),)
    ignored: Sequence[str] = ()

    @property
    def resources(self) -> list[tuple[str, Tree]]:
        """The paths and objects of the policies and their bindings."""
        found: list[tuple[str, Tree]] = []
        selector = {"matchLabels": {"kubernetes.io/metadata.name": self.name}}
        for policy in self.policies:
            meta: Tree = {"metadata": {"name": f"{self.name}-{policy.name}"}}
            spec = {
                **rule("configmaps"), "mutations": policy.mutations, "reinvocationPolicy": "Never", **policy.spec,
            }  # fmt: skip
            constraints = spec["matchConstraints"]
            rules = [{**item, "operations": ["CREATE", "UPDATE"]} for item in constraints["resourceRules"]]
            spec["matchConstraints"] = {**constraints, "resourceRules": rules}
            bound = {
                "policyName": meta["metadata"]["name"], "matchResources": {"namespaceSelector": selector},
                **policy.binding,
            }  # fmt: skip
            found += [(MUTATING, {**meta, "spec": spec}), (MUTATING_BINDINGS, {**meta, "spec": bound})]
        return found

    def recorded(self, value: Any) -> Any:
        """A response without the values that differ from one server to the next."""
        if isinstance(value, dict):
            known = {key: item for key, item in value.items() if key not in (*self.ignored, "resourceVersion")}
            return {key: self.recorded(item) for key, item in known.items()}
        if isinstance(value, list):
            return [self.recorded(item) for item in value]
        return _CHANGING.sub("*", value) if isinstance(value, str) else value


def apply(expression: str) -> Tree:
    """A mutation that merges an object."""
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def json_patch(*operations: str) -> Tree:
    """A mutation by a JSON patch; ``operations``: the fields of each, in CEL."""
    items = ", ".join(f"JSONPatch{{{operation}}}" for operation in operations)
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": f"[{items}]"}}


def _label(name: str, value: str = '"yes"') -> Tree:
    labels = f'{{"{name}": {value}}}'
    return apply(f"Object{{metadata: Object.metadata{{labels: {labels}}}}}")


DEFINITION: Final[Tree] = {
    "metadata": {"name": "crons.example.com"},
    "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "crons", "kind": "Cron"},
        "versions": [
            {
                "name": "v1", "served": True, "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {
                    "type": "object", "properties": {
                        "times": {"type": "integer"}, "other": {"type": "integer"}, "zone": {"type": "string"},
                        "place": {"type": "string", "default": "here"},
                        "list": {"type": "array", "items": {"type": "string"}},
                    },
                }}}},
            }
        ],
    },
}  # fmt: skip
_OF_DEPLOYMENTS: Final = rule("deployments", group="apps")
_CREATE: Final = (("POST", _DEPLOYMENTS, DEPLOYMENT),)
_SIDECAR: Final = (
    "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: "
    "[Object.spec.template.spec.containers{name: 'proxy', image: 'proxy:1'}]}}}}"
)
_ARGUMENTS: Final = _SIDECAR.replace("image: 'proxy:1'", "args: ['-v']")
_SCALED: Final = (*_CREATE, ("PATCH", f"{_DEPLOYMENTS}/web/scale", {"spec": {"replicas": 2}}))
_PARAMS: Final = {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}

_CASES: Final = (
    Case("applied", [Policy([_label("added")])], [
        ("POST", _MAPS, MAP), ("PATCH", f"{_MAPS}/settings", {"data": {"b": "2"}}), ("PUT", f"{_MAPS}/settings", MAP),
    ]),
    Case("merged-by-key", [Policy([apply(_SIDECAR)], _OF_DEPLOYMENTS)], _CREATE),
    Case("number", [Policy([apply("Object{spec: Object.spec{replicas: object.spec.replicas + 2}}")], _OF_DEPLOYMENTS)],
         _CREATE),
    Case("atomic", [Policy([apply(_ARGUMENTS)], _OF_DEPLOYMENTS)], _CREATE),
    Case("unknown-field", [Policy([apply("Object{spec: Object.spec{wrong: 1}}")], _OF_DEPLOYMENTS)], _CREATE),
    Case("wrong-type", [Policy([apply("Object{spec: Object.spec{replicas: 'many'}}")], _OF_DEPLOYMENTS)], _CREATE),
    Case("wrong-name", [Policy([apply("Object{spec: Object.spec.wrong{replicas: 1}}")], _OF_DEPLOYMENTS)], _CREATE),
    Case("optional", [
        Policy([apply("Object{metadata: Object.metadata{?annotations: optional.none(), labels: {'a': 'b'}}}")])
    ]),
    Case("patched", [Policy([
        json_patch('op: "add", path: "/data/" + jsonpatch.escapeKey("a/b~c"), value: "x"',
                   'op: "remove", path: "/data/a"',
                   'op: "add", path: "/metadata/annotations", value: {"k": string(size(object.data))}'),
    ])], ignored=["causes", "message"]),
    Case("patched-by-object", [Policy([
        json_patch('op: "add", path: "/spec/template/spec/containers/-", '
                   'value: Object.spec.template.spec.containers{name: "proxy", image: "p", env: '
                   '[Object.spec.template.spec.containers.env{name: "A", value: "b"}]}'),
        json_patch('op: "replace", path: "/spec/replicas", value: 3', 'op: "copy", from: "/metadata/name", '
                   'path: "/spec/template/metadata/labels/name"'),
    ], _OF_DEPLOYMENTS)], _CREATE),
    Case("failed-test", [Policy([
        json_patch('op: "test", path: "/data/a", value: "2"', 'op: "add", path: "/data/b", value: "x"')
    ])]),
    Case("missing-path", [Policy([json_patch('op: "add", path: "/metadata/annotations/x", value: "y"')])]),
    Case("missing-key", [Policy([json_patch('op: "remove", path: "/data/none"')])]),
    Case("patch-of-wrong-type", [Policy([json_patch('op: "add", path: "/data/b", value: 2')])]),
    Case("patch-of-unknown-field", [Policy([json_patch('op: "add", path: "/wrong", value: 2')])]),
    Case("patch-of-wrong-name", [Policy([json_patch('op: "add", path: "/spec/template", value: '
                                                    'Object.spec.template{spec: Object.spec.other{}}')],
                                        _OF_DEPLOYMENTS)], _CREATE),
    Case("evaluation-error", [Policy([_label("added", "object.data.none")])]),
    Case("evaluation-error-ignored", [Policy([_label("added", "object.data.none")], {"failurePolicy": "Ignore"})]),
    Case("in-order", [
        Policy([_label("count", "string(size(object.metadata.labels))")], {"reinvocationPolicy": "IfNeeded"}, {}, "a"),
        Policy([_label("second")], {}, {}, "b"),
    ]),
    Case("reinvoked", [
        Policy([_label("count", "string(size(object.metadata.labels))")], {"reinvocationPolicy": "IfNeeded"}),
    ]),
    Case("two-mutations", [Policy([_label("first"), _label("second", "string('first' in object.metadata.labels)")])]),
    Case("conditions", [
        Policy([_label("added")], {"matchConditions": [{"name": "x", "expression": "object.data.a == '1'"}]}, {}, "a"),
        Policy([_label("other")], {"matchConditions": [{"name": "x", "expression": "object.data.a == '2'"}]}, {}, "b"),
    ]),
    Case("failing-condition", [
        Policy([_label("added")], {"matchConditions": [{"name": "x", "expression": "object.data.b == '1'"}]}),
    ]),
    Case("variables", [Policy([_label("added", "variables.text")], {"variables": [
        {"name": "count", "expression": "size(object.data)"},
        {"name": "text", "expression": "'n' + string(variables.count) + namespaceObject.metadata.name"},
    ]})]),
    Case("parameters", [
        Policy([_label("limit", "params.data.limit")],
               {**_PARAMS, "matchConditions": [{"name": "x", "expression": "object.metadata.name != 'limits'"}]},
               {"paramRef": {"name": "limits", "parameterNotFoundAction": "Deny"}}),
    ], [("POST", _MAPS, MAP),
        ("POST", _MAPS, {"metadata": {"name": "limits"}, "data": {"limit": "7"}}),
        ("POST", _MAPS, MAP)]),
    Case("no-parameters", [
        Policy([_label("limit", "params.data.limit")], _PARAMS,
               {"paramRef": {"name": "limits", "parameterNotFoundAction": "Allow"}}),
    ]),
    Case("to-invalid", [Policy([json_patch('op: "add", path: "/data/a b", value: "x"')])]),
    Case("scale", [Policy([apply("Object{spec: Object.spec{replicas: 3}}")], rule("deployments/scale", group="apps"))],
         _SCALED),
    Case("patched-scale", [
        Policy([json_patch('op: "replace", path: "/spec/replicas", value: 3')], rule("deployments/scale", group="apps"))
    ], _SCALED, ["managedFields"]),
    Case("custom", [Policy([
        apply("Object{spec: Object.spec{times: 2}}"), json_patch('op: "add", path: "/spec/zone", value: "x"'),
    ], rule("crons", group="example.com"))], [
        ("POST", "/apis/example.com/v1/namespaces/{}/crons",
         {"apiVersion": "example.com/v1", "kind": "Cron", "metadata": {"name": "x"}, "spec": {"other": 1}}),
    ]),
    Case("atomic-list-of-custom", [
        Policy([apply("Object{spec: Object.spec{list: ['a']}}")], rule("crons", group="example.com"))
    ], [
        ("POST", "/apis/example.com/v1/namespaces/{}/crons",
         {"apiVersion": "example.com/v1", "kind": "Cron", "metadata": {"name": "x"}, "spec": {"other": 1}}),
    ]),
)  # fmt: skip
#: Other tests on the same server have cases with the same names.
CASES: Final = tuple(case._replace(name=f"mutation-{case.name}") for case in _CASES)


def essence(code: int, body: Tree) -> list[Any]:
    """The parts of a response that the policies of the cases change, or the message of an error."""
    if code >= 400:
        return [code, body["message"]]
    spec = body.get("spec") or {}
    containers = ((spec.get("template") or {}).get("spec") or {}).get("containers") or ()
    metadata = body["metadata"]
    parts = {
        "labels": metadata.get("labels"), "annotations": metadata.get("annotations"), "data": body.get("data"),
        "replicas": spec.get("replicas"), "times": spec.get("times"), "zone": spec.get("zone"),
        "containers": [[each["name"], each.get("imagePullPolicy")] for each in containers],
    }  # fmt: skip
    return [code, {name: part for name, part in parts.items() if part}]
