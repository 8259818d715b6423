"""Who may read metrics: the cluster is asked whose a token is, and whether that user may get ``/metrics``.

As Kubernetes' own components do it: TokenReview, then SubjectAccessReview. Answers are kept for a moment, because a
Prometheus asks the same every few seconds; and only a few questions are asked at a time, so that whoever tries tokens
does not make the API server busy.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from typing import Final, Literal

from allotment.cluster.client import Client, Resource
from allotment.cluster.errors import StatusError, Unreachable

_TOKENS: Final = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", False)
_ACCESS: Final = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False)

_KEPT_SECONDS: Final = 10.0
_MOST_KEPT: Final = 1024
_AT_ONCE: Final = 4

#: unknown: nobody knows the token. unsure: the cluster did not say.
Verdict = Literal["allowed", "forbidden", "unknown", "unsure"]


class Access:
    """Asks a cluster on behalf of those who come with tokens."""

    def __init__(self, client: Client, path: str = "/metrics", kept: float = _KEPT_SECONDS) -> None:
        self._client = client
        self._path = path
        self._kept = kept
        self._known: OrderedDict[bytes, tuple[float, Verdict]] = OrderedDict()
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def of(self, token: str) -> Verdict:
        """Whether who has the token may get the path."""
        key = hashlib.sha256(token.encode()).digest()  # tokens themselves are not kept
        async with self._turns:
            until, verdict = self._known.get(key, (0.0, "unsure"))
            if time.monotonic() < until:
                return verdict
            try:
                verdict = await self._asked(token)
            except (StatusError, Unreachable):
                return "unsure"
            self._known[key] = time.monotonic() + self._kept, verdict
            self._known.move_to_end(key)
            if len(self._known) > _MOST_KEPT:
                self._known.popitem(last=False)
            return verdict

    async def _asked(self, token: str) -> Verdict:
        review = {"kind": "TokenReview", "apiVersion": _TOKENS.api_version, "spec": {"token": token}}
        told = (await self._client.create(_TOKENS, review)).get("status") or {}
        if not told.get("authenticated"):
            return "unknown"
        user = told.get("user") or {}
        spec = {
            "user": user.get("username", ""), "groups": user.get("groups") or [], "uid": user.get("uid", ""),
            "extra": user.get("extra") or {}, "nonResourceAttributes": {"path": self._path, "verb": "get"},
        }  # fmt: skip
        review = {"kind": "SubjectAccessReview", "apiVersion": _ACCESS.api_version, "spec": spec}
        answer = (await self._client.create(_ACCESS, review)).get("status") or {}
        return "allowed" if answer.get("allowed") else "forbidden"
