"""Admission webhooks, requests for which they are called, and how these are recorded, for the lab and for Kubernetes.

Each case has a namespace of its name, to which its webhooks are limited. A case passes if the lab answers its requests
as kube-apiserver does, and calls the webhooks with the same reviews.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from allotment.model.trees import Tree
from tests.webhook_server import Handler, Reply, WebhookServer

API: Final = "/apis/admissionregistration.k8s.io/v1"
KINDS: Final = {"mutating": "MutatingWebhookConfiguration", "validating": "ValidatingWebhookConfiguration"}
_MERGE: Final = "application/merge-patch+json"
_APPLY: Final = "application/apply-patch+yaml"
#: Values that differ from one server to the next.
_CHANGING: Final = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[\d:]+Z|(?<=settings-)\w{5}\b|127\.0\.0\.1:\d+|10\.96\.\d+\.\d+"
)
#: Sent with all requests: it becomes the field manager.
USER_AGENT: Final = "test/1.0"
_UNKNOWN: Final = ("resourceVersion", "token", "expirationTimestamp", "creationTimestamp")


class Step(NamedTuple):
    """A request in the namespace of a case, whose name replaces ``{}``."""

    method: str
    path: str
    body: Tree | None = None
    media: str = ""


class Hook(NamedTuple):
    """A webhook: how it answers, and the fields in which it differs from the others."""

    handler: Handler
    fields: Tree = {}
    kind: str = "validating"
    #: The name of its configuration and of itself.
    name: str = "hook"


class Case(NamedTuple):
    """Webhooks and requests."""

    name: str
    hooks: Sequence[Hook]
    steps: Sequence[Step]
    #: Fields that the lab does not set as Kubernetes does.
    ignored: Sequence[str] = ()

    def recorded(self, value: Any) -> Any:
        """A response or a review without the values that differ from one server to the next."""
        if isinstance(value, dict):
            ignored = (*self.ignored, *(("uid",) if value.get("uid") == "admin" else ()))
            known = {key: item for key, item in value.items() if key not in ignored}
            return {key: "*" if key in _UNKNOWN else self.recorded(item) for key, item in known.items()}
        if isinstance(value, list):
            return [self.recorded(item) for item in value]
        return _CHANGING.sub("*", value) if isinstance(value, str) else value

    def configurations(self, server: WebhookServer) -> list[tuple[str, Tree]]:
        """The paths and objects that configure its webhooks."""
        return [self._configuration(hook, server) for hook in self.hooks]

    def _configuration(self, hook: Hook, server: WebhookServer) -> tuple[str, Tree]:
        path = f"/{self.name}/{hook.kind}/{hook.name}"
        server.handlers[path] = hook.handler
        selector = {"matchLabels": {"kubernetes.io/metadata.name": self.name}}
        tree = {
            "name": f"{hook.name}.{self.name}.example.com", "clientConfig": server.config(path),
            "rules": [rule("configmaps")], "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "namespaceSelector": selector, "timeoutSeconds": 10, **hook.fields,
        }  # fmt: skip
        if tree["clientConfig"] is UNTRUSTED:
            tree["clientConfig"] = {"url": server.config(path)["url"]}
        name = {"metadata": {"name": f"{self.name}-{hook.name}"}, "kind": KINDS[hook.kind]}
        return f"{API}/{KINDS[hook.kind].lower()}s", {**name, "webhooks": [tree]}


def rule(*resources: str, group: str = "", version: str = "v1", operations: Sequence[str] = ("*",)) -> Tree:
    """A rule for all operations."""
    return {
        "apiGroups": [group], "apiVersions": [version], "operations": list(operations), "resources": list(resources),
    }  # fmt: skip


def answer(**response: Any) -> Handler:
    """Answer a review with these fields; by default the request is allowed."""

    def handle(review: Tree) -> Tree:
        fields = {"uid": review["request"]["uid"], "allowed": True, **response}
        return {"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": fields}

    return handle


def patch(*operations: Tree) -> Handler:
    """Change the object with a JSON patch."""
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return answer(patch=encoded, patchType="JSONPatch")


def set_label(name: str, value: str = "yes") -> Handler:
    """Add a label to an object that has labels, if it is not set."""

    def handle(review: Tree) -> Tree | Reply:
        labels = review["request"]["object"]["metadata"].get("labels") or {}
        if name in labels:
            return answer()(review)
        return patch({"op": "add", "path": f"/metadata/labels/{name}", "value": value})(review)

    return handle


MAP: Final[Tree] = {"metadata": {"name": "settings", "labels": {"tier": "web"}}, "data": {"a": "1"}}
_MAPS: Final = "/api/v1/namespaces/{}/configmaps"
_POST: Final = Step("POST", _MAPS, MAP)
_DEPLOYMENT: Final[Tree] = {
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 1, "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "web"}]},
        },
    },
}  # fmt: skip
_DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/{}/deployments"
_HPA: Final[Tree] = {
    "metadata": {"name": "web", "labels": {"tier": "web"}},
    "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
}
_HPAS: Final = "/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers"
#: Stands for the URL of the server, without the authority of its certificate.
UNTRUSTED: Final[Tree] = {}
CLOSED: Final = {"url": "https://127.0.0.1:1/closed"}
_DENIED: Final = {
    "code": 409, "message": "not today", "reason": "Conflict", "details": {"name": "x", "kind": "y"},
    "metadata": {}, "status": "Failure",
}  # fmt: skip


def _mutating(handler: Handler, name: str = "hook", **fields: Any) -> Hook:
    return Hook(handler, fields, "mutating", name)


def _validating(handler: Handler, name: str = "hook", **fields: Any) -> Hook:
    return Hook(handler, fields, "validating", name)


def _raw(response: Tree) -> Callable[[Tree], Tree]:
    return lambda review: response


def _without_kind(review: Tree) -> Tree:
    return {"response": {"uid": review["request"]["uid"], "allowed": True}}


_REMOVE_MISSING: Final = patch({"op": "remove", "path": "/data/missing"})
_CONDITIONS: Final = {
    "true": "object.data.a == '1'", "false": "object.data.a == '2'", "error": "object.data.b == '2'",
    "user": "request.userInfo.username == 'admin' && authorizer.group('').resource('secrets').check('get').allowed()",
}  # fmt: skip

_CASES: Final[tuple[Case, ...]] = (
    Case("allowed", [_validating(answer())], [_POST]),
    Case("denied", [_validating(answer(allowed=False, status=_DENIED))], [_POST]),
    Case("denied-without-status", [_validating(answer(allowed=False))], [_POST]),
    Case("denied-with-reason", [_validating(answer(allowed=False, status={"reason": "Forbidden"}))], [_POST]),
    Case("denied-by-mutating", [_mutating(answer(allowed=False, status={"message": "no", "code": 200}))], [_POST]),
    Case("warned", [_validating(answer(warnings=["first", 'say "second"'])), _mutating(answer(warnings=["third"]))],
         [_POST]),
    Case("changed", [_mutating(set_label("added")), _validating(answer())], [
        _POST,
        Step("PATCH", f"{_MAPS}/settings", {"data": {"b": "2"}}, _MERGE),
        Step("PUT", f"{_MAPS}/settings", MAP),
        Step("PATCH", f"{_MAPS}/settings?fieldManager=me&force=true",
             {"apiVersion": "v1", "kind": "ConfigMap", "data": {"c": "3"}}, _APPLY),
        Step("PATCH", f"{_MAPS}/applied?fieldManager=me",
             {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"labels": {"x": "y"}}}, _APPLY),
        Step("GET", f"{_MAPS}/settings"),
    ]),
    Case("generated-name", [_mutating(set_label("added")), _validating(answer(allowed=False))],
         [Step("POST", _MAPS, {"metadata": {"generateName": "settings-", "labels": {"x": "y"}}})]),
    Case("applied-without-name", [], [
        Step("PATCH", f"{_MAPS}/applied?fieldManager=me", {"apiVersion": "v1", "kind": "ConfigMap"}, _APPLY),
    ]),
    Case("deleted", [_validating(answer()), _mutating(answer())], [
        _POST,
        Step("DELETE", f"{_MAPS}/settings", {"propagationPolicy": "Background", "gracePeriodSeconds": 0}),
        _POST,
        Step("DELETE", f"{_MAPS}?labelSelector=tier%3Dweb"),
    ]),
    Case("deletion-denied", [_validating(answer(allowed=False), rules=[rule("configmaps", operations=["DELETE"])])],
         [_POST, Step("DELETE", f"{_MAPS}/settings"), Step("GET", f"{_MAPS}/settings")]),
    Case("deletion-changed",
         [_mutating(patch({"op": "add", "path": "/data", "value": {}}),
                    rules=[rule("configmaps", operations=["DELETE"])])],
         [_POST, Step("DELETE", f"{_MAPS}/settings")]),
    Case("in-order", [
        _mutating(set_label("first"), "b", reinvocationPolicy="IfNeeded"), _mutating(set_label("second"), "a"),
        _mutating(set_label("third"), "c"),
    ], [_POST]),
    Case("defaulted", [
        _mutating(patch({"op": "add", "path": "/spec/template/spec/containers/-",
                         "value": {"name": "proxy", "image": "proxy"}}),
                  rules=[rule("deployments", group="apps")]),
        _validating(answer(), rules=[rule("deployments", group="apps")]),
    ], [Step("POST", _DEPLOYMENTS, _DEPLOYMENT)]),
    Case("patch-of-wrong-type", [_mutating(patch({"op": "add", "path": "/data/a", "value": 1}))], [_POST]),
    Case("patch-with-unknown-field", [_mutating(patch({"op": "add", "path": "/unknown", "value": 1}))], [_POST]),
    Case("patch-to-invalid", [_mutating(patch({"op": "add", "path": "/data/a b", "value": "1"}))], [_POST]),
    Case("patch-of-missing-key", [_mutating(_REMOVE_MISSING)], [_POST]),
    Case("patch-of-missing-path", [_mutating(patch({"op": "add", "path": "/spec/x", "value": 1}))], [_POST]),
    Case("patch-that-tests", [_mutating(patch({"op": "test", "path": "/data/a", "value": "2"}))], [_POST]),
    Case("patch-of-unknown-kind", [_mutating(patch({"op": "change", "path": "/data/a", "value": "2"}))], [_POST]),
    Case("patch-that-is-no-list", [_mutating(answer(patch="e30=", patchType="JSONPatch"))], [_POST]),
    Case("patch-of-other-type", [_mutating(answer(patch="W3t9XQ==", patchType="Merge"))], [_POST]),
    Case("patch-without-type", [_mutating(answer(patch="W10="))], [_POST]),
    Case("type-without-patch", [_mutating(answer(patchType="JSONPatch"))], [_POST]),
    Case("patch-by-validating", [_validating(answer(patch="W10=", patchType="JSONPatch"))], [_POST]),
    Case("wrong-uid", [_validating(answer(uid="other"))], [_POST]),
    Case("without-response", [_validating(_raw({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}))],
         [_POST]),
    Case("without-kind", [_validating(_without_kind)], [_POST]),
    Case("allowed-as-text", [_validating(answer(allowed="yes"))], [_POST]),
    Case("warning-as-text", [_validating(answer(warnings="none"))], [_POST]),
    Case("warning-as-number", [_validating(answer(warnings=[1]))], [_POST]),
    Case("patch-as-number", [_mutating(answer(patch=1, patchType="JSONPatch"))], [_POST]),
    Case("patch-not-in-base64", [_mutating(answer(patch="[]", patchType="JSONPatch"))], [_POST]),
    Case("status-as-text", [_validating(answer(status="no"))], [_POST]),
    Case("code-as-text", [_validating(answer(allowed=False, status={"code": "no"}))], [_POST]),
    Case("patch-that-is-no-json", [_mutating(answer(patch="eA==", patchType="JSONPatch"))], [_POST]),
    Case("list", [_validating(lambda review: Reply(b"[]"))], [_POST]),
    Case("error-code", [_validating(lambda review: Reply(b"on fire", 500, "text/plain"))], [_POST]),
    Case("not-found", [_validating(lambda review: Reply(b"", 404, "text/plain"))], [_POST]),
    Case("empty-response", [_validating(lambda review: Reply(b"", 200))], [_POST]),
    Case("closed", [_validating(answer(), clientConfig=CLOSED)], [_POST]),
    Case("closed-ignored", [_validating(answer(), clientConfig=CLOSED, failurePolicy="Ignore"),
                            _mutating(answer(uid="other"), failurePolicy="Ignore")], [_POST]),
    Case("no-service", [_validating(answer(), clientConfig={"service": {"namespace": "default", "name": "none"}})],
         [_POST]),
    Case("untrusted", [_validating(answer(), clientConfig=UNTRUSTED)], [_POST]),
    Case("dry-run", [_validating(answer()), _mutating(set_label("added"))],
         [Step("POST", f"{_MAPS}?dryRun=All", MAP), Step("GET", f"{_MAPS}/settings")]),
    Case("older-review", [_validating(answer(), admissionReviewVersions=["v3", "v1beta1"]),
                          _mutating(_raw({"response": {"allowed": True}}), admissionReviewVersions=["v1beta1"])],
         [_POST]),
    *(
        Case(f"condition-{name}", [
            _validating(answer(allowed=False), matchConditions=[{"name": "it", "expression": expression}])
        ], [_POST])
        for name, expression in _CONDITIONS.items()
    ),
    Case("condition-ignored", [
        _validating(answer(allowed=False), failurePolicy="Ignore",
                    matchConditions=[{"name": "it", "expression": _CONDITIONS["error"]}])
    ], [_POST]),
    Case("object-selector", [_validating(answer(), objectSelector={"matchLabels": {"tier": "db"}})],
         [_POST, Step("PATCH", f"{_MAPS}/settings", {"metadata": {"labels": {"tier": "db"}}}, _MERGE),
          Step("PATCH", f"{_MAPS}/settings", {"metadata": {"labels": {"tier": "web"}}}, _MERGE)]),
    Case("other-operation", [_validating(answer(allowed=False), rules=[rule("configmaps", operations=["UPDATE"])])],
         [_POST]),
    Case("other-scope", [_validating(answer(allowed=False), rules=[{**rule("configmaps"), "scope": "Cluster"}])],
         [_POST]),
    Case("equivalent-version", [
        _validating(answer(), rules=[rule("horizontalpodautoscalers", group="autoscaling", version="v1")]),
        _mutating(set_label("added"), rules=[rule("horizontalpodautoscalers", group="autoscaling", version="v1")]),
    ], [Step("POST", _HPAS, _HPA)], ["generation"]),
    Case("exact-version", [
        _validating(answer(allowed=False), matchPolicy="Exact",
                    rules=[rule("horizontalpodautoscalers", group="autoscaling", version="v1")]),
    ], [Step("POST", _HPAS, _HPA)], ["generation"]),
    Case("scale", [
        _mutating(patch({"op": "replace", "path": "/spec/replicas", "value": 3}),
                  rules=[rule("deployments/scale", group="apps")]),
        _validating(answer(), rules=[rule("deployments/*", group="apps")]),
    ], [
        Step("POST", _DEPLOYMENTS, _DEPLOYMENT),
        Step("PATCH", f"{_DEPLOYMENTS}/web/scale", {"spec": {"replicas": 2}}, _MERGE),
        Step("PATCH", f"{_DEPLOYMENTS}/web/status", {"status": {"replicas": 2}}, _MERGE),
    ], ["managedFields"]),
    Case("token", [_validating(answer(), rules=[rule("serviceaccounts/token")])], [
        Step("POST", "/api/v1/namespaces/{}/serviceaccounts", {"metadata": {"name": "robot"}}),
        Step("POST", "/api/v1/namespaces/{}/serviceaccounts/robot/token", {"spec": {"expirationSeconds": 3600}}),
    ], ["metadata", "spec", "status"]),
    Case("status-of-namespace", [_validating(answer(), rules=[rule("namespaces", "namespaces/*")])],
         [Step("PATCH", "/api/v1/namespaces/{}", {"metadata": {"labels": {"a": "b"}}}, _MERGE)]),
)  # fmt: skip
#: Other tests on the same server have cases with the same names.
CASES: Final = tuple(case._replace(name=f"webhook-{case.name}") for case in _CASES)
