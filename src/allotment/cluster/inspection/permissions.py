"""Access reviews: the permissions of a user as the cluster's authorizers decide, including roles and webhooks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from allotment.cluster.client import Client, Resource
from allotment.cluster.errors import StatusError
from allotment.cluster.inspection.discovery import Discovery
from allotment.model.trees import Tree
from allotment.permissions.access_reviews import AccessRequest, review_attributes

_GROUP: Final = "authorization.k8s.io"
_SELF_ACCESS_REVIEWS: Final = Resource(_GROUP, "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False)
_ACCESS_REVIEWS: Final = Resource(_GROUP, "v1", "subjectaccessreviews", "SubjectAccessReview", False)
_SELF_REVIEWS: Final = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", False)
_ACCOUNT: Final = "system:serviceaccount:"
#: Concurrent reviews.
_CONCURRENCY: Final = 16


async def missing(client: Client, requests: Iterable[AccessRequest], user: str = "") -> list[AccessRequest]:
    """The requests that are denied to the client's user, or to ``user``, which only an administrator may check.

    Service accounts get the groups that Kubernetes assigns; other users get none. Raises StatusError.
    """
    limit = asyncio.Semaphore(_CONCURRENCY)
    requests = tuple(requests)
    subject: Tree = {"user": user, "groups": groups_of(user)} if user else {}

    async def allowed(request: AccessRequest) -> bool:
        resource = _ACCESS_REVIEWS if user else _SELF_ACCESS_REVIEWS
        spec = {**subject, **review_attributes(request)}
        review = {"apiVersion": resource.api_version, "kind": resource.kind, "spec": spec}
        async with limit:
            answer = await client.create(resource, review)
        return bool((answer.get("status") or {}).get("allowed"))

    answers = await asyncio.gather(*map(allowed, requests), return_exceptions=True)  # none outlives the client
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return [request for request, yes in zip(requests, answers, strict=True) if not yes]


def groups_of(user: str) -> list[str]:
    """The groups that follow from a user name.

    >>> groups_of("system:serviceaccount:shop:till")
    ['system:authenticated', 'system:serviceaccounts', 'system:serviceaccounts:shop']
    """
    found = ["system:authenticated"]
    if user.startswith(_ACCOUNT):
        namespace = user.removeprefix(_ACCOUNT).partition(":")[0]
        found += ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    return found


def served(discovery: Discovery, requests: Sequence[AccessRequest]) -> list[AccessRequest]:
    """The requests for kinds that the cluster serves; the others need no permission."""
    return [request for request in requests if request.path or discovery.versions_of(request.group, request.resource)]


async def current_user(client: Client) -> str:
    """The user name of the client; empty if the cluster does not report it (before Kubernetes 1.28)."""
    try:
        answer = await client.create(
            _SELF_REVIEWS, {"apiVersion": _SELF_REVIEWS.api_version, "kind": _SELF_REVIEWS.kind}
        )
    except StatusError:
        return ""
    return str(((answer.get("status") or {}).get("userInfo") or {}).get("username", ""))
