"""Pods and Services answer HTTP requests through the API server."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

from allotment import Lab
from allotment.model.trees import Tree
from tests.polling import wait_until

MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers: [{name: main, image: nginx, ports: [{containerPort: 8080}]}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: empty}
spec: {selector: {app: other}, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: outside}
spec: {type: ExternalName, externalName: localhost, ports: [{port: 80}]}
"""


def _get(lab: Lab, path: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(f"{lab.url}/api/v1/namespaces/default/{path}", timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def _status(lab: Lab, path: str) -> Tree:
    tree: Tree = json.loads(_get(lab, path)[1])
    return {name: tree[name] for name in ("code", "reason", "message")}


def test_pods_and_services_are_reached_through_the_api_server() -> None:
    with Lab(fleet="t4-4x-pcie") as lab:
        lab.apply(MANIFEST)
        lab.wait("pod/web")
        code, page = _get(lab, "pods/web/proxy/")
        assert (code, b"web" in page) == (200, True)
        assert _get(lab, "pods/http:web:8080/proxy/")[0] == 200
        # The endpoints of a Service follow its pods.
        wait_until(lambda: _get(lab, "services/web/proxy/")[0] == 200, lambda: _get(lab, "services/web/proxy/"))
        for path in ("services/web/proxy/", "services/web:80/proxy/", "services/http:web:80/proxy/index.html?x=1"):
            assert _get(lab, path)[0] == 200, path
        assert _status(lab, "services/web:81/proxy/") == {
            "code": 503, "reason": "ServiceUnavailable", "message": 'no service port 81 found for service "web"',
        }  # fmt: skip
        assert _status(lab, "services/empty:http/proxy/") == {
            "code": 503, "reason": "ServiceUnavailable", "message": 'no endpoints available for service "empty"',
        }  # fmt: skip
        assert _status(lab, "services/outside:80/proxy/") == {
            "code": 503, "reason": "ServiceUnavailable", "message": 'no endpoints available for service "outside"',
        }  # fmt: skip
        assert _status(lab, "pods/absent/proxy/") == {
            "code": 404, "reason": "NotFound", "message": 'pods "absent" not found',
        }  # fmt: skip
        code, body = _get(lab, "pods/web:9/proxy/")
        assert (code, body.startswith(b"error trying to reach service: dial tcp ")) == (503, True)
