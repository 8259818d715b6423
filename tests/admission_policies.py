"""Admission policies, requests that they decide on, and kube-apiserver's answers, for the lab and for Kubernetes."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from allotment.model.trees import Tree

API: Final = "/apis/admissionregistration.k8s.io/v1"
POLICIES: Final = f"{API}/validatingadmissionpolicies"
BINDINGS: Final = f"{API}/validatingadmissionpolicybindings"


class Case(NamedTuple):
    """A policy, and a request in a namespace of the same name to which alone it is bound.

    ``message``: the end of the message of a denied request, or empty if it is admitted.
    """

    name: str
    spec: Tree
    message: str = ""
    code: int = 422
    method: str = "POST"
    path: str = "/api/v1/namespaces/{}/configmaps"
    body: Tree | None = {"metadata": {"name": "settings"}, "data": {"a": "1", "b": "2"}}
    binding: Tree = {}
    #: Objects of the namespace that exist before the policy is bound.
    existing: tuple[tuple[str, Tree], ...] = ()

    @property
    def resources(self) -> list[Tree]:
        """The policy, its binding, and the namespace."""
        selector = {"matchLabels": {"kubernetes.io/metadata.name": self.name}}
        bound = {
            "policyName": self.name, "validationActions": ["Deny"], "matchResources": {"namespaceSelector": selector},
            **self.binding,
        }  # fmt: skip
        metadata = {"name": self.name}
        return [
            {"kind": "ValidatingAdmissionPolicy", "metadata": metadata, "spec": {**CONFIG_MAPS, **self.spec}},
            {"kind": "ValidatingAdmissionPolicyBinding", "metadata": metadata, "spec": bound},
        ]


def rule(*resources: str, group: str = "", version: str = "v1", **more: Any) -> Tree:
    """matchConstraints with one rule for all operations."""
    named = {"apiGroups": [group], "apiVersions": [version], "operations": ["*"], "resources": list(resources)}
    return {"matchConstraints": {"resourceRules": [named], **more}}


CONFIG_MAPS: Final = rule("configmaps")


def shows(*expressions: str) -> Tree:
    """A policy that denies all requests, with the values of expressions as the message."""
    return {"validations": [{"expression": "false", "messageExpression": " + ' ' + ".join(expressions)}]}


_MAPS: Final = "/api/v1/namespaces/{}/configmaps"
_MAP: Final[Tree] = {"metadata": {"name": "settings", "labels": {"tier": "web"}}, "data": {"limit": "1"}}
_HPA: Final[Tree] = {
    "metadata": {"name": "web"},
    "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
}
_CONTAINER: Final = {"name": "main", "image": "web"}
_DEPLOYMENT: Final[Tree] = {
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 1, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [_CONTAINER]}},
    },
}  # fmt: skip
_PARAMS: Final = {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}

CASES: Final = (
    Case(
        "variables",
        {
            "variables": [
                {"name": "count", "expression": "size(object.data)"},
                {"name": "text", "expression": "'too many: ' + string(variables.count)"},
            ],
            "validations": [{"expression": "variables.count < 2", "messageExpression": "variables.text"}],
        },
        "too many: 2",
    ),
    Case(
        "reason",
        {"validations": [{"expression": "size(object.data) < 2", "message": " at most one ", "reason": "Forbidden"}]},
        "at most one",
        403,
    ),
    Case("default-message", {"validations": [{"expression": " 1 == 2 "}]}, "failed expression: 1 == 2"),
    Case(
        "blank-message",
        {"validations": [{"expression": "false", "messageExpression": "'two\\nlines'", "message": "one line"}]},
        "one line",
    ),
    Case(
        "missing-key",
        {"validations": [{"expression": "object.data.c == '1'"}]},
        "expression 'object.data.c == '1'' resulted in error: no such key: c",
    ),
    Case(
        "wrong-type",
        {"validations": [{"expression": "object.data.a > 1"}]},
        "expression 'object.data.a > 1' resulted in error: no such overload",
    ),
    Case(
        "failing-variable",
        {
            "variables": [{"name": "c", "expression": "object.data.c"}],
            "validations": [{"expression": "variables.c == 1"}],
        },
        "expression 'variables.c == 1' resulted in error: composited variable \"c\" fails to evaluate: no such key: c",
    ),
    Case(
        "absorbed-error",
        {
            "variables": [{"name": "c", "expression": "object.data.c"}],
            "validations": [{"expression": "variables.c == 1 || true"}],
        },
    ),
    Case("ignored-error", {"failurePolicy": "Ignore", "validations": [{"expression": "object.data.c == '1'"}]}),
    Case(
        "unmatched-condition",
        {
            "matchConditions": [{"name": "other", "expression": "object.metadata.name == 'x'"}],
            "validations": [{"expression": "false"}],
        },
    ),
    Case(
        "failing-condition",
        {
            "matchConditions": [{"name": "other", "expression": "object.data.c == 'x'"}],
            "validations": [{"expression": "false"}],
        },
        "expression 'object.data.c == 'x'' resulted in error: no such key: c",
    ),
    Case(
        "parameter",
        {
            **_PARAMS,
            "validations": [
                {
                    "expression": "size(object.data) <= int(params.data.limit)",
                    "messageExpression": "'limit of ' + params.metadata.name",
                }
            ],
        },
        "limit of settings",
        body={"metadata": {"name": "new"}, "data": {"a": "1", "b": "2"}},
        binding={"paramRef": {"name": "settings", "parameterNotFoundAction": "Deny"}},
        existing=((_MAPS, _MAP),),
    ),
    Case(
        "selected-parameters",
        {**_PARAMS, "validations": [{"expression": "params.data.limit != '1'"}]},
        "failed expression: params.data.limit != '1'",
        body={"metadata": {"name": "new"}},
        binding={"paramRef": {"selector": {"matchLabels": {"tier": "web"}}, "parameterNotFoundAction": "Allow"}},
        existing=((_MAPS, _MAP),),
    ),
    Case(
        "missing-parameter",
        {**_PARAMS, "validations": [{"expression": "true"}]},
        "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction",
        binding={"paramRef": {"name": "none", "parameterNotFoundAction": "Deny"}},
    ),
    Case(
        "unneeded-parameter",
        {**_PARAMS, "validations": [{"expression": "false"}]},
        binding={"paramRef": {"name": "none", "parameterNotFoundAction": "Allow"}},
    ),
    Case("no-parameter", {**_PARAMS, "validations": [{"expression": "params == null"}]}),
    Case(
        "unknown-parameters",
        {
            **rule(
                "configmaps", namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "unknown-parameters"}}
            ),
            "paramKind": {"apiVersion": "shop.example.com/v1", "kind": "Limit"},
            "validations": [{"expression": "true"}],
        },
        "failed to find resource referenced by paramKind: 'shop.example.com/v1, Kind=Limit'",
    ),
    Case("warning", {"validations": [{"expression": "false"}]}, binding={"validationActions": ["Warn", "Audit"]}),
    Case(
        "authorizer",
        {
            "validations": [
                {"expression": "!authorizer.group('apps').resource('deployments').check('create').allowed()"}
            ]
        },
        "failed expression: !authorizer.group('apps').resource('deployments').check('create').allowed()",
    ),
    Case(
        "other-account",
        {
            "validations": [
                {
                    "expression": "authorizer.serviceAccount('shop', 'none').path('/metrics').check('get').allowed()",
                    "message": "not allowed",
                }
            ]
        },
        "not allowed",
    ),
    Case(
        "request-resource",
        {
            "validations": [
                {"expression": "!authorizer.requestResource.check('delete').allowed()", "message": "may delete"}
            ]
        },
        "may delete",
    ),
    Case(
        "request",
        shows(
            "request.operation",
            "request.name",
            "request.namespace",
            "request.kind.kind",
            "request.userInfo.username",
            "string(request.dryRun)",
            "string(has(request.subResource))",
            "string(has(request.options))",
            "request.options.kind",
        ),
        "CREATE settings request ConfigMap admin false false true CreateOptions",
    ),
    Case(
        "namespace-object",
        shows("namespaceObject.metadata.labels['kubernetes.io/metadata.name']", "namespaceObject.status.phase"),
        "namespace-object Active",
    ),
    Case(
        "old-object",
        shows(
            "string(oldObject == null)",
            "string(has(object.metadata.uid))",
            "string(has(object.metadata.managedFields))",
        ),
        "true true true",
    ),
    Case(
        "update",
        {
            "validations": [
                {
                    "expression": "object.data.limit == oldObject.data.limit",
                    "messageExpression": "request.operation + ' from ' + oldObject.data.limit",
                }
            ]
        },
        "UPDATE from 1",
        method="PATCH",
        path=f"{_MAPS}/settings",
        body={"data": {"limit": "2"}},
        existing=((_MAPS, _MAP),),
    ),
    Case(
        "deletion",
        shows("request.operation", "string(object == null)", "oldObject.metadata.name", "request.options.kind"),
        "DELETE true settings DeleteOptions",
        method="DELETE",
        path=f"{_MAPS}/settings",
        body=None,
        existing=((_MAPS, _MAP),),
    ),
    Case(
        "scale",
        {
            **rule("deployments/scale", group="apps"),
            **shows(
                "object.kind",
                "string(object.spec.replicas)",
                "request.kind.group",
                "request.resource.resource",
                "request.subResource",
            ),
        },
        "Scale 3 autoscaling deployments scale",
        method="PATCH",
        path="/apis/apps/v1/namespaces/{}/deployments/web/scale",
        body={"spec": {"replicas": 3}},
        existing=(("/apis/apps/v1/namespaces/{}/deployments", _DEPLOYMENT),),
    ),
    Case(
        "equivalent",
        {
            **rule("horizontalpodautoscalers", group="autoscaling"),
            **shows("request.resource.version", "request.requestResource.version", "object.apiVersion"),
        },
        "v1 v2 autoscaling/v1",
        path="/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers",
        body=_HPA,
    ),
    Case(
        "exact",
        {
            **rule("horizontalpodautoscalers", group="autoscaling", matchPolicy="Exact"),
            "validations": [{"expression": "false"}],
        },
        path="/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers",
        body=_HPA,
    ),
    Case(
        "object-selector",
        {
            **rule("configmaps", objectSelector={"matchLabels": {"tier": "web"}}),
            "validations": [{"expression": "false"}],
        },
    ),
    Case(
        "excluded",
        {
            **rule(
                "*",
                excludeResourceRules=[
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
                ],
            ),
            "validations": [{"expression": "false"}],
        },
    ),
    Case(
        "annotation",
        {"auditAnnotations": [{"key": "size", "valueExpression": "string(object.data.c)"}]},
        "expression 'string(object.data.c)' resulted in error: no such key: c",
    ),
    Case(
        "costly",
        {"validations": [{"expression": "['a', 'b', 'c'].all(x, authorizer.path('/' + x).check('get').allowed())"}]},
        "operation cancelled: actual cost limit exceeded",
    ),
)

#: Specs of policies that are refused, changed from a valid one, and the message of kube-apiserver.
_VALID: Final[Tree] = {**CONFIG_MAPS, "validations": [{"expression": "true"}]}
INVALID: Final[tuple[Tree, ...]] = (
    {"validations": [{"expression": "nothing.x"}, {"expression": "1"}, {"expression": " "}]},
    {"validations": [{"expression": "object.data"}]},
    {"validations": [{"expression": "true", "messageExpression": "1", "message": "a\nb", "reason": "No"}]},
    {"validations": [{"expression": "true", "messageExpression": "authorizer.path('/x').check('get').reason()"}]},
    {"validations": [{"expression": "variables.x == 1"}]},
    {"validations": [{"expression": "params.x == 1"}]},
    {"validations": [{"expression": "request.nothing == 1"}]},
    {"validations": []},
    {"matchConstraints": None},
    {"matchConstraints": {"resourceRules": []}},
    {"matchConstraints": {"resourceRules": [{}]}},
    {
        "matchConstraints": {
            "matchPolicy": "Near",
            "resourceRules": [
                {
                    "apiGroups": ["*", "a"],
                    "apiVersions": ["*", ""],
                    "operations": ["*", "GET"],
                    "resources": ["*", "pods"],
                    "scope": "None",
                    "resourceNames": ["a/b", "x", "x"],
                }
            ],
        }
    },
    {
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["*/*", "pods/*", "pods/log", "*/status", "a/status", ""],
                }
            ]
        }
    },
    {
        "matchConstraints": {
            **CONFIG_MAPS["matchConstraints"],
            "namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]},
            "objectSelector": {"matchLabels": {"a b": "c d"}},
        }
    },
    {"failurePolicy": "Maybe"},
    {"paramKind": {"apiVersion": "a/b/c", "kind": "X_y"}},
    {"paramKind": {"apiVersion": "A/", "kind": ""}},
    {"paramKind": {"apiVersion": "a/V1"}},
    {"paramKind": {}},
    {
        "matchConditions": [
            {"name": "a b", "expression": "1"},
            {"name": "", "expression": ""},
            {"name": "x", "expression": "true"},
            {"name": "x", "expression": "variables.y"},
        ]
    },
    {
        "variables": [
            {"name": "for", "expression": "1"},
            {"name": "a-b", "expression": "x"},
            {"name": "", "expression": ""},
        ]
    },
    {
        "variables": [{"name": "a", "expression": "1"}],
        "validations": [{"expression": "variables.a == 'x'"}, {"expression": "variables.b"}],
    },
    {
        "auditAnnotations": [
            {"key": "a b", "valueExpression": "1"},
            {"key": "c", "valueExpression": ""},
            {"key": "c", "valueExpression": "'x'"},
        ]
    },
    {"auditAnnotations": [{"key": "c", "valueExpression": "'" + "x" * 6000 + "'"}]},
)


def invalid_policy(change: Tree) -> Tree:
    """A policy that is refused."""
    spec = {name: value for name, value in {**_VALID, **change}.items() if value is not None}
    return {"metadata": {"name": "refused"}, "spec": spec}


INVALID_BINDINGS: Final[tuple[Tree, ...]] = (
    {},
    {"policyName": "A_b", "validationActions": ["Deny", "Warn", "Deny", "Log"]},
    {"policyName": "a", "validationActions": ["Deny"], "paramRef": {}},
    {
        "policyName": "a",
        "validationActions": ["Deny"],
        "paramRef": {"name": "a/b", "selector": {"matchLabels": {"a b": "c"}}, "parameterNotFoundAction": "Ask"},
    },
    {
        "policyName": "a",
        "validationActions": ["Deny"],
        "matchResources": {"matchPolicy": "Near", "resourceRules": [{"apiGroups": []}]},
    },
)

WEBHOOKS: Final = {
    "validating": f"{API}/validatingwebhookconfigurations",
    "mutating": f"{API}/mutatingwebhookconfigurations",
}
#: A valid webhook, and changes after which it is refused.
WEBHOOK: Final[Tree] = {
    "name": "a.example.com",
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
    "clientConfig": {"url": "https://example.com/check"},
}
_SERVICE: Final[Tree] = {"name": "hooks", "namespace": "shop"}
INVALID_WEBHOOKS: Final[tuple[Tree, ...]] = (
    {"name": ""},
    {"name": "a.b"},
    {"name": "A_b.example.com"},
    {"sideEffects": None, "admissionReviewVersions": []},
    {"sideEffects": "Some", "failurePolicy": "Maybe", "matchPolicy": "Near", "timeoutSeconds": 31},
    {"admissionReviewVersions": ["v2", "v2", "V1"]},
    {"clientConfig": {}},
    {"clientConfig": {"url": "https://example.com", "service": _SERVICE}},
    {"clientConfig": {"url": "http://me@/x?a=b#c"}},
    {"clientConfig": {"url": "https://example.com:port/x"}},
    {"clientConfig": {"service": {}}},
    {"clientConfig": {"service": {"name": "hooks"}}},
    {"clientConfig": {"service": {**_SERVICE, "path": "a//B/", "port": 70000}}},
    {"clientConfig": {"service": {**_SERVICE, "path": "//"}}},
    {"rules": [{"apiGroups": ["*", "a"], "operations": ["GET"], "resources": ["*", "pods"]}]},
    {"objectSelector": {"matchLabels": {"a b": "c d"}}},
    {"matchConditions": [{"name": "x", "expression": "params == null"}, {"name": "x", "expression": "1"}]},
)


def invalid_configuration(change: Tree) -> Tree:
    """A webhook configuration that is refused."""
    webhook = {name: value for name, value in {**WEBHOOK, **change}.items() if value is not None}
    return {"metadata": {"name": "refused"}, "webhooks": [webhook, {**WEBHOOK, "name": webhook["name"]}]}


MUTATING: Final = f"{API}/mutatingadmissionpolicies"
MUTATING_BINDINGS: Final = f"{API}/mutatingadmissionpolicybindings"


def apply_configuration(expression: str) -> Tree:
    """A mutation by server-side apply."""
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def json_patch(expression: str) -> Tree:
    """A mutation by JSON patches."""
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


MUTATION: Final[Tree] = {
    "matchConstraints": {
        "resourceRules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
        ]
    },
    "reinvocationPolicy": "Never",
    "mutations": [
        apply_configuration("Object{metadata: Object.metadata{labels: {'tier': object.metadata.name}}}"),
        json_patch("[JSONPatch{op: 'add', path: '/data/' + jsonpatch.escapeKey('a/b'), value: 'x'}]"),
    ],
}
INVALID_MUTATIONS: Final[tuple[Tree, ...]] = (
    {"mutations": []},
    {"reinvocationPolicy": "Always", "failurePolicy": "Maybe"},
    {"reinvocationPolicy": None},
    {"matchConstraints": CONFIG_MAPS["matchConstraints"] | {"resourceRules": [{"operations": ["DELETE", "GET"]}]}},
    {"variables": [{"name": "x", "expression": "nothing"}], "matchConditions": [{"name": "a", "expression": "1"}]},
    {"mutations": [{}, {"patchType": "Merge"}]},
    {"mutations": [{"patchType": "JSONPatch", "applyConfiguration": {"expression": "1"}}]},
    {"mutations": [{"patchType": "ApplyConfiguration", "jsonPatch": {"expression": "1"}}]},
    {"mutations": [apply_configuration(" "), json_patch("")]},
    {"mutations": [apply_configuration("1"), apply_configuration("Object.spec{}"), apply_configuration("Foo{}")]},
    {"mutations": [json_patch("[1]"), json_patch("[JSONPatch{op: 1, path: '/a'}]"), json_patch("Object{}")]},
    {"mutations": [apply_configuration("variables.x")]},
)


def invalid_mutation(change: Tree) -> Tree:
    """A MutatingAdmissionPolicy that is refused."""
    spec = {name: value for name, value in {**MUTATION, **change}.items() if value is not None}
    return {"metadata": {"name": "refused"}, "spec": spec}


INVALID_MUTATING_BINDINGS: Final[tuple[Tree, ...]] = (
    {},
    {"policyName": "a", "matchResources": {"resourceRules": [{"operations": ["DELETE"], "resources": ["pods"]}]}},
)
