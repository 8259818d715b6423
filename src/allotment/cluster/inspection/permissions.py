"""What somebody may do, asked of the cluster itself: roles, webhooks and whatever else decides there are all heard."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from allotment.cluster.client import Client, Resource
from allotment.cluster.errors import StatusError
from allotment.cluster.inspection.discovery import Discovery
from allotment.model.trees import Tree
from allotment.tools.permissions.access_reviews import AccessRequest, review_attributes

_GROUP: Final = "authorization.k8s.io"
_MINE: Final = Resource(_GROUP, "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False)
_THEIRS: Final = Resource(_GROUP, "v1", "subjectaccessreviews", "SubjectAccessReview", False)
_WHO: Final = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", False)
_ACCOUNT: Final = "system:serviceaccount:"
#: Questions at a time.
_AT_ONCE: Final = 16


async def missing(client: Client, requests: Iterable[AccessRequest], user: str = "") -> list[AccessRequest]:
    """What of it may not be done: by whoever the client is, or by ``user``, which only an administrator may ask.

    Service accounts, and nobody else, are taken to be in the groups that Kubernetes puts them in. Raises StatusError.
    """
    limit = asyncio.Semaphore(_AT_ONCE)
    requests = tuple(requests)
    subject: Tree = {"user": user, "groups": groups_of(user)} if user else {}

    async def allowed(ask: AccessRequest) -> bool:
        resource = _THEIRS if user else _MINE
        review = {"apiVersion": resource.api_version, "kind": resource.kind, "spec": {**subject, **review_attributes(ask)}}
        async with limit:
            answer = await client.create(resource, review)
        return bool((answer.get("status") or {}).get("allowed"))

    answers = await asyncio.gather(*map(allowed, requests), return_exceptions=True)  # none outlives the client
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return [ask for ask, yes in zip(requests, answers, strict=True) if not yes]


def groups_of(user: str) -> list[str]:
    """The groups that a user has by name.

    >>> groups_of("system:serviceaccount:shop:till")
    ['system:authenticated', 'system:serviceaccounts', 'system:serviceaccounts:shop']
    """
    found = ["system:authenticated"]
    if user.startswith(_ACCOUNT):
        namespace = user.removeprefix(_ACCOUNT).partition(":")[0]
        found += ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    return found


def served(discovery: Discovery, asked: Sequence[AccessRequest]) -> list[AccessRequest]:
    """Without what is about kinds that the cluster does not serve: nobody needs a permission for them there."""
    return [ask for ask in asked if ask.path or discovery.versions_of(ask.group, ask.resource)]


async def current_user(client: Client) -> str:
    """The name under which the cluster knows the client; empty where it does not say (before Kubernetes 1.28)."""
    try:
        answer = await client.create(_WHO, {"apiVersion": _WHO.api_version, "kind": _WHO.kind})
    except StatusError:
        return ""
    return str(((answer.get("status") or {}).get("userInfo") or {}).get("username", ""))
