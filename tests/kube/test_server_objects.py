"""A lab starts with the objects of Kubernetes' API server, and completes others in the same way."""

from __future__ import annotations

import asyncio
import base64
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from allotment import Lab
from allotment.apiserver.access.default_roles import default_bindings, default_roles
from allotment.cluster.resources import CLUSTER_ROLES
from allotment.lab.control_plane import running
from allotment.lab.settings import Settings
from allotment.model.features import Features
from allotment.model.trees import Tree
from bench import real_kube
from tests.polling import until, wait_until
from tests.unit.apiserver.aggregated_server import AggregatedServer, aggregated_server
from tests.unit.apiserver.custom_resources import test_conversion as conversions
from tests.unit.lab.test_certificate_signing import request, signing_request

pytestmark = pytest.mark.every_release

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_CONTROLLERS = (
    "clusterrole-aggregation-controller,serviceaccount-controller,serviceaccount-token-controller,"
    "certificatesigningrequest-signing-controller"
)
_AGGREGATED = ("admin", "edit", "view")


@pytest.fixture(scope="module")
def server(paths: dict[str, str]) -> Iterator[real_kube.ApiServer]:
    with real_kube.plane(paths, controllers=_CONTROLLERS, scheduler=False) as running:
        yield running


def _essentials(tree: Tree) -> Tree:
    metadata = {name: tree["metadata"].get(name) for name in ("name", "namespace", "labels", "annotations")}
    lists = {name: tree.get(name) or [] for name in ("rules", "subjects")}
    return {**metadata, **lists, **{name: tree.get(name) for name in ("roleRef", "aggregationRule")}}


def _by_name(trees: list[Tree]) -> dict[tuple[str, str], Tree]:
    return {(tree["metadata"].get("namespace", ""), tree["metadata"]["name"]): _essentials(tree) for tree in trees}


def test_the_same_roles_and_bindings_exist(server: real_kube.ApiServer, release: str) -> None:
    features = Features(release)
    written = [*default_roles(features), *default_bindings(features)]
    for kind in ("ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding"):
        expected = _by_name(server.send_request("GET", f"{_RBAC}/{kind.lower()}s")[1]["items"])
        if kind == "ClusterRole":
            for name in _AGGREGATED:  # what the controller writes is the subject of the next test
                expected["", name]["rules"] = []
        assert _by_name([tree for tree in written if tree["kind"] == kind]) == expected


def test_the_same_rules_are_aggregated(server: real_kube.ApiServer, release: str) -> None:
    expected = {name: server.send_request("GET", f"{_RBAC}/clusterroles/{name}")[1]["rules"] for name in _AGGREGATED}

    async def scenario() -> None:
        async with running(Settings(features=Features(release), fleet=(), tls=False)) as plane:
            client = plane.client()

            async def are_equal() -> bool:
                found = {name: (await client.get(CLUSTER_ROLES, name)).get("rules") for name in _AGGREGATED}
                return found == expected

            await until(are_equal)

    asyncio.run(scenario())


Send = Callable[[str, str, "Tree | None"], tuple[int, Tree]]

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
_CORE = "/api/v1/namespaces/default"
_API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
_FLOW_CONTROL = "/apis/flowcontrol.apiserver.k8s.io/v1"


@pytest.fixture(scope="module")
def lab(release: str) -> Iterator[Send]:
    """Sends requests to a lab."""
    with Lab(fleet="", kube=release) as running:

        def send(method: str, path: str, body: Tree | None) -> tuple[int, Tree]:
            kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
            headers = {"Content-Type": kind, "Accept": "application/json"}
            data = None if body is None else json.dumps(body).encode()
            request = urllib.request.Request(f"{running.url}{path}", data, headers, method=method)
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    return answer.status, json.loads(answer.read())
            except urllib.error.HTTPError as error:
                with error:
                    return error.code, json.loads(error.read())

        yield send


def _poll(send: Send, path: str, true: Callable[[int, Tree], object]) -> Tree:
    """The object at a path once a condition is true of the response."""
    found: list[Tree] = []

    def is_true() -> object:
        code, tree = send("GET", path, None)
        found.append(tree)
        return true(code, tree)

    wait_until(is_true)
    return found[-1]


def _condition(tree: Tree, name: str) -> Tree:
    """A condition without its times."""
    conditions = (tree.get("status") or {}).get("conditions") or ()
    found: Tree = next((each for each in conditions if each["type"] == name), {})
    return {key: value for key, value in found.items() if not key.endswith("Time")}


# --- flows, each of which returns what must be equal -----------------------------------------------------------------


def _signed(send: Send) -> list[Tree]:
    """The conditions of requests that the signers accept and refuse."""
    results: list[Tree] = []
    node = "system:node:n1", "system:nodes"
    for number, (signer, usages, pem) in enumerate(
        (
            ("kube-apiserver-client", ["client auth"], request("bob", "team")),
            ("kube-apiserver-client", ["server auth"], request("bob")),
            ("kube-apiserver-client-kubelet", ["client auth", "digital signature"], request(*node, dns=["n1"])),
            ("kubelet-serving", ["server auth", "digital signature"], request(*node)),
            ("kubelet-serving", ["server auth", "digital signature"], request(*node, dns=["n1"])),
        )
    ):
        name = f"request-{number}"
        _, tree = send("POST", _REQUESTS, signing_request(name, signer, usages, pem))
        approved = {"type": "Approved", "status": "True", "reason": "Tested", "message": "by a test"}
        send("PUT", f"{_REQUESTS}/{name}/approval", {**tree, "status": {"conditions": [approved]}})
        decided = _poll(
            send,
            f"{_REQUESTS}/{name}",
            lambda code, tree: "certificate" in tree["status"] or _condition(tree, "Failed"),
        )
        results.append({"failed": _condition(decided, "Failed"), "signed": "certificate" in decided["status"]})
    return results


def _token(send: Send) -> Tree:
    """The keys of a Secret with the token of an account, and the user of the token."""
    send("POST", f"{_CORE}/serviceaccounts", {"metadata": {"name": "bob"}})
    annotations = {"kubernetes.io/service-account.name": "bob"}
    secret = {"metadata": {"name": "t", "annotations": annotations}, "type": "kubernetes.io/service-account-token"}
    send("POST", f"{_CORE}/secrets", secret)
    found = _poll(send, f"{_CORE}/secrets/t", lambda code, tree: "token" in (tree.get("data") or {}))
    token = base64.b64decode(found["data"]["token"]).decode()
    _, review = send("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": token}})
    used = _poll(send, f"{_CORE}/secrets/t", lambda code, tree: tree["metadata"].get("labels"))
    user = {name: value for name, value in review["status"]["user"].items() if name != "uid"}
    send("DELETE", f"{_CORE}/serviceaccounts/bob", None)
    _poll(send, f"{_CORE}/secrets/t", lambda code, tree: code == 404)
    return {"data": sorted(set(found["data"]) - {"ca.crt"}), "user": user, "labels": sorted(used["metadata"]["labels"])}


def _definition_deleted(send: Send) -> list[object]:
    """The conditions of a definition that waits for an object, and the answer to a new object."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {"group": "x.io", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"}, "versions": [version]}
    send("POST", _DEFINITIONS, {"metadata": {"name": "foos.x.io"}, "spec": spec})
    foos = "/apis/x.io/v1/namespaces/default/foos"
    held = {"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "held", "finalizers": ["x.io/f"]}}
    path = f"{_DEFINITIONS}/foos.x.io"
    _poll(send, path, lambda code, tree: _condition(tree, "Established"))
    wait_until(lambda: send("POST", foos, held)[0] in (201, 409))
    _, deleted = send("DELETE", path, None)
    progress = _poll(send, path, lambda code, tree: "InProgress" in _condition(tree, "Terminating")["reason"])
    refused = send("POST", foos, {"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "new"}})
    wait_until(lambda: "deletionTimestamp" in send("GET", f"{foos}/held", None)[1]["metadata"])
    send("PATCH", f"{foos}/held", {"metadata": {"finalizers": None}})
    _poll(send, path, lambda code, tree: code == 404)
    return [
        deleted["metadata"]["finalizers"],
        *(_condition(tree, "Terminating") for tree in (deleted, progress)),
        refused,
    ]


def _converted(send: Send, config: Tree) -> list[object]:
    """Objects that a webhook converts, and the errors of a webhook that does not answer."""
    body = conversions.definition(config)
    send("POST", _DEFINITIONS, body)
    _poll(send, f"{_DEFINITIONS}/bars.x.io", lambda code, tree: _condition(tree, "Established"))
    v1, v2 = (f"/apis/x.io/{version}/namespaces/default/bars" for version in ("v1", "v2"))
    wait_until(lambda: send("POST", v1, conversions.bar("v1", "a", hostPort="db:5432"))[0] in (201, 409))
    answers = [
        send("GET", f"{v2}/a", None),
        send("POST", v2, conversions.bar("v2", "b", host="web")),
        send("GET", f"{v1}/b", None),
        send("PATCH", f"{v2}/a", {"spec": {"host": "cache"}}),
        send("PATCH", f"{v2}/a", {"spec": {"host": "x"}}),
    ]
    results: list[object] = [
        (code, tree.get("spec"), (tree.get("metadata") or {}).get("annotations"), tree.get("message"))
        for code, tree in answers
    ]
    conversion = {"webhook": {"clientConfig": {"url": "https://127.0.0.1:9/conv", "caBundle": None}}}
    send("PATCH", f"{_DEFINITIONS}/bars.x.io", {"spec": {"conversion": conversion}})
    wait_until(lambda: send("POST", v2, conversions.bar("v2", "c", host="web"))[0] == 500)
    results.append(send("POST", v2, conversions.bar("v2", "c", host="web")))
    return results


def _aggregated(send: Send, server: AggregatedServer) -> list[object]:
    """The availability of APIServices, and answers through one of them."""
    spec = {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": server.port}]}
    send("POST", f"{_CORE}/services", {"metadata": {"name": "own"}, "spec": spec})
    results: list[object] = []
    for group, service in (
        ("absent.example.com", {"namespace": "default", "name": "absent"}),
        ("own.example.com", {"namespace": "default", "name": "own", "port": server.port}),
    ):
        fields = {"group": group, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10}
        fields |= {"service": service, "insecureSkipTLSVerify": True}
        send("POST", _API_SERVICES, {"metadata": {"name": f"v1.{group}"}, "spec": fields})
        found = _poll(send, f"{_API_SERVICES}/v1.{group}", lambda code, tree: _condition(tree, "Available"))
        results.append(_condition(found, "Available"))
    path = "/apis/own.example.com/v1/namespaces/default/sizes/a"
    wait_until(lambda: send("GET", "/apis/own.example.com/v1", None)[0] == 200)
    results += [send("GET", path, None), send("GET", f"{path}-missing", None), send("POST", path, {"kind": "Size"})]
    _, groups = send("GET", "/apis", None)
    results.append([group for group in groups["groups"] if group["name"].endswith("example.com")])
    send("DELETE", f"{_API_SERVICES}/v1.own.example.com", None)
    send("DELETE", f"{_API_SERVICES}/v1.absent.example.com", None)
    return results


def _flow_control(send: Send) -> Tree:
    """The specs of flow control, and the conditions of the schemas."""
    _poll(send, f"{_FLOW_CONTROL}/flowschemas/catch-all", lambda code, tree: _condition(tree, "Dangling"))
    listed = {kind: send("GET", f"{_FLOW_CONTROL}/{kind}", None)[1]["items"] for kind in (
        "flowschemas", "prioritylevelconfigurations"
    )}  # fmt: skip
    return {
        kind: {tree["metadata"]["name"]: (tree["spec"], _condition(tree, "Dangling")) for tree in trees}
        for kind, trees in listed.items()
    }


@pytest.mark.parametrize("flow", [_signed, _token, _definition_deleted, _flow_control])
def test_objects_are_completed_in_the_same_way(
    server: real_kube.ApiServer, lab: Send, flow: Callable[[Send], object]
) -> None:
    assert flow(lab) == flow(server.send_request)


def test_custom_resources_are_converted_in_the_same_way(server: real_kube.ApiServer, lab: Send, tmp_path: Path) -> None:
    with conversions.webhook(tmp_path) as webhook:
        config = webhook.config("/convert")
        assert _converted(lab, config) == _converted(server.send_request, config)


def test_other_api_servers_are_offered_in_the_same_way(server: real_kube.ApiServer, lab: Send, tmp_path: Path) -> None:
    with aggregated_server(tmp_path, "own.default.svc") as other:
        assert _aggregated(lab, other) == _aggregated(server.send_request, other)
