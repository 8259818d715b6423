"""Requests for the other plugins that kube-apiserver enables by default."""

from __future__ import annotations

from typing import Any, Final

from allotment.model.trees import Tree
from tests.admission_requests.request import CORE, Request, certificate_request, container, namespace, pod

_PODS: Final = f"{CORE}/plugins/pods"
_CERTIFICATES: Final = "/apis/certificates.k8s.io/v1"
_SIGNING: Final = f"{_CERTIFICATES}/certificatesigningrequests"
_ZONE: Final = {"topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "r1"}


def _rejected(method: str, path: str, body: Tree, subject: str, problem: str) -> Request:
    resource, _, name = subject.partition(" ")
    return Request(method, path, body, 403, f'{resource} "{name}" is forbidden: {problem}')


def _signing(name: str, signer: str, *organizations: str) -> Tree:
    request = certificate_request("ann", *organizations)
    spec = {"request": request, "signerName": signer, "usages": ["client auth"]}
    return {"metadata": {"name": name}, "spec": spec}


def _labeled(name: str, labels: Tree) -> Request:
    return Request("GET", f"{_PODS}/{name}", code=200, shown={"metadata": {"labels": labels}})


def _with_account(name: str, **spec: Any) -> Tree:
    return pod(name, serviceAccountName="limited", **spec)


def _unlisted(name: str, subject: str, **spec: Any) -> Request:
    """A pod with a Secret that its service account does not list."""
    problem = f"{subject} is not allowed because service account limited does not reference that secret"
    return _rejected("POST", _PODS, _with_account(name, **spec), f"pods {name}", problem)


def _mirrored(name: str, problem: str, **spec: Any) -> Request:
    mirror = pod(name, nodeName="p1", **spec)
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    return _rejected("POST", _PODS, mirror, f"pods {name}", f"a mirror pod may not {problem}")


_DEPRECATED: Final = (
    "metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated in v1.32+; prefer separate namespaces "
    "to isolate access to mounted secrets"
)
_VARIABLE: Final = {"name": "A", "valueFrom": {"secretKeyRef": {"name": "other", "key": "a"}}}
_ALL: Final = {"secretRef": {"name": "other"}}
_TOKEN: Final = {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}

_SERVICE_ACCOUNTS: Final = (
    Request("POST", f"{CORE}/plugins/serviceaccounts", {
        "metadata": {"name": "limited", "annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}},
        "secrets": [{"name": "listed"}], "imagePullSecrets": [{"name": "pull"}],
    }, warnings=(_DEPRECATED,)),
    Request("POST", _PODS, _with_account("listed", volumes=[{"name": "a", "secret": {"secretName": "listed"}}])),
    _unlisted("volume", 'volume with secret.secretName="other"',
              volumes=[{"name": "a", "secret": {"secretName": "other"}}]),
    _unlisted("variable", 'container main with envVar A referencing secret.secretName="other"',
              containers=[container(env=[_VARIABLE])]),
    _unlisted("variables", 'init container i with envFrom referencing secret.secretName="other"',
              initContainers=[container("i", envFrom=[_ALL])]),
    _rejected("POST", _PODS, _with_account("image", imagePullSecrets=[{"name": "other"}]), "pods image",
              'imagePullSecrets[0].name="other" is not allowed because service account limited does not reference that '
              "imagePullSecret"),
    _mirrored("account", "reference service accounts", serviceAccountName="limited"),
    _mirrored("secret", "reference secrets", imagePullSecrets=[{"name": "a"}]),
    _mirrored("token", "use ServiceAccountToken volume projections", volumes=[_TOKEN]),
)  # fmt: skip

_NODE: Final = {"metadata": {"name": "p1", "labels": _ZONE}, "status": {"allocatable": {"cpu": "2", "memory": "1Gi"}}}

PLUGINS: Final = (
    namespace("plugins"),
    Request("POST", "/api/v1/nodes", _NODE),
    Request("POST", "/api/v1/nodes", {"metadata": {"name": "p2", "labels": {"kubernetes.io/os": "windows"}}}),
    # PodTopologyLabels
    Request("POST", _PODS, pod("preset", nodeName="p1")),
    _labeled("preset", _ZONE),
    Request("POST", _PODS, pod(
        "bound", containers=[container(resources={"requests": {"cpu": "1", "memory": "1Mi"}})]
    )),
    Request(
        "POST", f"{_PODS}/bound/binding",
        {"metadata": {"name": "bound", "labels": {"a": "b"}}, "target": {"kind": "Node", "name": "p1"}},
    ),
    _labeled("bound", {**_ZONE, "a": "b"}),
    # PodResizeValidator
    _rejected(
        "PATCH", f"{_PODS}/bound/resize",
        {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "3", "memory": "2Gi"}}}]}},
        "pods bound",
        "node didn't have enough allocatable resources: cpu, requested: 3000, allocatable: 2000; memory, requested: "
        "2147483648, allocatable: 1073741824",
    ),
    *_SERVICE_ACCOUNTS,
    # RuntimeClass
    _rejected(
        "POST", _PODS, pod("heavy", overhead={"cpu": "1"}), "pods heavy",
        "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
    ),
    # CertificateSubjectRestriction and ClusterTrustBundleAttest
    _rejected(
        "POST", _SIGNING, _signing("root", "kubernetes.io/kube-apiserver-client", "system:masters"),
        "certificatesigningrequests.certificates.k8s.io root",
        "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed",
    ),
    Request("POST", _SIGNING, _signing("ann", "kubernetes.io/kube-apiserver-client", "developers")),
    Request("POST", _SIGNING, _signing("other", "example.com/signer", "system:masters")),
)  # fmt: skip
