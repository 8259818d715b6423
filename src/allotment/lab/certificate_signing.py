"""Kubernetes' own signers of CertificateSigningRequests, and the automatic approval of kubelets' client certificates.

A lab has one authority, so that all signers use it: client certificates that they sign are valid for its server.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from allotment.cluster.cached_item import CachedItem
from allotment.cluster.client import Resource
from allotment.cluster.program import Program, ProgramContext, run_queues
from allotment.cluster.work_queue import WorkQueue
from allotment.model.trees import Tree

if TYPE_CHECKING:
    from allotment.lab.certificate_requests import CertificateRequest

REQUESTS: Final = Resource(
    "certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", False
)
_REVIEWS: Final = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False)
_KUBELET_CLIENT: Final = "kubernetes.io/kube-apiserver-client-kubelet"
_LONGEST: Final = timedelta(days=365)
_SHORTEST: Final = timedelta(minutes=10)
#: Subresources of requests whose "create" permission approves a kubelet's client certificate, and the messages.
_APPROVALS: Final = {
    "selfnodeclient": "Auto approving self kubelet client certificate after SubjectAccessReview.",
    "nodeclient": "Auto approving kubelet client certificate after SubjectAccessReview.",
}


def certificate_signing(folder: Path) -> Program:
    """The controllers that approve and sign requests. ``folder``: that of the authority, created when it is needed."""

    async def run(context: ProgramContext) -> None:
        await _Signing(context, folder).run()

    return run


class _Signing:
    def __init__(self, context: ProgramContext, folder: Path) -> None:
        self._client = context.client_for("certificate-controller")
        self._clock = context.clock
        self._folder = folder
        self._requests = context.caches.trees(REQUESTS)
        self._queue: WorkQueue[str] = WorkQueue(
            "certificate-signing", self._sync, clock=context.clock, random=context.random
        )

    async def run(self) -> None:
        await run_queues([self._queue], [(self._requests, self._changed)])

    def _changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        if new is not None and not new.status.get("certificate") and new.spec.get("signerName") in _SIGNERS:
            self._queue.add(new.name)

    async def _sync(self, name: str) -> None:
        item = self._requests.item("", name)
        if item is None or item.status.get("certificate"):
            return
        from allotment.lab import certificate_requests  # most labs sign nothing

        decisions = {each["type"] for each in item.status.get("conditions") or () if each["status"] == "True"}
        if "Failed" in decisions or "Denied" in decisions:
            return
        try:
            request = certificate_requests.read(base64.b64decode(item.spec["request"]))
        except ValueError:
            return
        if "Approved" not in decisions:
            await self._approve(item, request)
            return
        usages: Sequence[str] = item.spec.get("usages") or ()
        if problem := _SIGNERS[item.spec["signerName"]](request, usages):
            failed = {"type": "Failed", "status": "True", "reason": "SignerValidationFailure", "message": problem}
            await self._write(item, {"conditions": [*item.status["conditions"], failed]}, "status")
            return
        seconds = item.spec.get("expirationSeconds")
        lifetime = _LONGEST if seconds is None else min(max(timedelta(seconds=seconds), _SHORTEST), _LONGEST)
        signed = certificate_requests.sign(self._folder, request, usages, lifetime, self._clock.moment())
        await self._write(item, {"certificate": base64.b64encode(signed).decode()}, "status")

    async def _approve(self, item: CachedItem[Any], request: CertificateRequest) -> None:
        """Approve the client certificate of a kubelet if the user has the permission to get it."""
        spec = item.spec
        if spec["signerName"] != _KUBELET_CLIENT or _kubelet_client_problem(request, spec.get("usages") or ()):
            return
        for subresource, message in _APPROVALS.items():
            if subresource == "selfnodeclient" and spec.get("username") != request.common_name:
                continue
            attributes = {
                "group": REQUESTS.group, "resource": REQUESTS.plural, "verb": "create", "subresource": subresource,
                "version": "*",
            }  # fmt: skip
            user = {"user": spec.get("username"), "groups": spec.get("groups"), "uid": spec.get("uid")}
            review = {**user, "extra": spec.get("extra"), "resourceAttributes": attributes}
            body: Tree = {"spec": {name: value for name, value in review.items() if value}}
            if (await self._client.create(_REVIEWS, body))["status"]["allowed"]:
                approved = {"type": "Approved", "status": "True", "reason": "AutoApproved", "message": message}
                conditions = [*(item.status.get("conditions") or ()), approved]
                await self._write(item, {"conditions": conditions}, "approval")
                return

    async def _write(self, item: CachedItem[Any], status: Tree, subresource: str) -> None:
        tree = {**item.tree, "status": {**item.status, **status}}
        self._requests.record_write(await self._client.update(REQUESTS, tree, subresource=subresource))


# --- what signers require --------------------------------------------------------------------------------------------


def _client_problem(request: CertificateRequest, usages: Sequence[str]) -> str:
    # Admission refuses such requests, and reads them with another parser than the signer.
    if "system:masters" in request.organizations:
        return "use of the group system:masters is not allowed"
    for usage in usages:
        if usage not in ("digital signature", "key encipherment", "client auth"):
            return f"invalid usage for client certificate: {usage}"
    return "" if "client auth" in usages else "missing required usage for client certificate: client auth"


def _kubelet_client_problem(request: CertificateRequest, usages: Sequence[str]) -> str:
    if request.organizations != ("system:nodes",):
        return "subject organization is not system:nodes"
    for count, kind in (
        (request.dns_names, "DNS"), (request.emails, "Email"), (request.addresses, "IP"), (request.uris, "URI")
    ):  # fmt: skip
        if count:
            return f"{kind} subjectAltNames are not allowed"
    return _node_name_problem(request) or _usages_problem(usages, "client auth")


def _kubelet_serving_problem(request: CertificateRequest, usages: Sequence[str]) -> str:
    if request.organizations != ("system:nodes",):
        return "subject organization is not system:nodes"
    if not request.dns_names and not request.addresses:
        return "DNS or IP subjectAltName is required"
    for count, kind in ((request.emails, "Email"), (request.uris, "URI")):
        if count:
            return f"{kind} subjectAltNames are not allowed"
    return _usages_problem(usages, "server auth") or _node_name_problem(request)


def _node_name_problem(request: CertificateRequest) -> str:
    is_node = request.common_name.startswith("system:node:")
    return "" if is_node else "subject common name does not begin with system:node:"


def _usages_problem(usages: Sequence[str], purpose: str) -> str:
    """Kubelets' usages: key encipherment is optional, for keys that cannot encrypt."""
    if {*usages} - {"key encipherment"} == {"digital signature", purpose}:
        return ""
    return f"usages did not match [{' '.join(sorted(('digital signature', 'key encipherment', purpose)))}]"


_SIGNERS: Final[Mapping[str, Callable[[CertificateRequest, Sequence[str]], str]]] = {
    "kubernetes.io/kube-apiserver-client": _client_problem,
    _KUBELET_CLIENT: _kubelet_client_problem,
    "kubernetes.io/kubelet-serving": _kubelet_serving_problem,
}
