"""The rights of visitors of the page in a cluster, as the cluster's own authorizers decide.

The reviews are requested with the visitor's token, never with the server's own: of the user (SelfSubjectReview), of the
kinds to list everywhere (SelfSubjectAccessReview), or else of those to list in each namespace (SelfSubjectRulesReview).
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from base64 import urlsafe_b64decode
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import Final, NamedTuple

import msgspec

from allotment.cluster.client import Client, Resource
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.remote.http_client import HttpClient
from allotment.cluster.remote.kubeconfig import ClusterTarget
from allotment.model.core import Namespace
from allotment.model.trees import Tree
from allotment.screens.visibility import VisitorRights
from allotment.watched.kinds import KINDS
from allotment.watched.view import ClusterView
from allotment.web.access import unauthorized
from allotment.web.problems import ProblemError, rejected

_USERS: Final = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", False)
_ACCESS: Final = Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False)
_RULES: Final = Resource("authorization.k8s.io", "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", False)

#: Seconds after which rights are reviewed again.
_KEPT: Final = 30.0
#: Seconds for which they are used while the cluster does not respond.
_KEPT_WITHOUT_CLUSTER: Final = 120.0
_MAX_KEPT: Final = 1024
_CONCURRENCY: Final = 16
#: Tokens that are reviewed at the same time, or anyone could have the server open any number of connections.
_MOST_REVIEWED: Final = 16
#: Without these, a namespace is not shown: answers about its pods would be wrong.
_NEEDED: Final = frozenset({"Pod", "ResourceClaim", "ResourceClaimTemplate"})
_HINT: Final = "send the header Authorization: Bearer TOKEN; kubectl create token NAME prints one"
#: Tokens are this long at most; headers are limited as well.
_MAX_TOKEN: Final = 16 * 1024


class _Review(NamedTuple):
    at: float
    namespaces: frozenset[str]
    """The namespaces of the cluster when the rights were reviewed."""
    rights: VisitorRights


class VisitorAccess:
    """Access with tokens of a cluster. Only digests of tokens are kept."""

    def __init__(self, target: ClusterTarget, now: Callable[[], float] = time.time) -> None:
        self.cookie = "allotment-token"
        self._target = target
        self._now = now
        self._known: OrderedDict[bytes, _Review] = OrderedDict()
        self._running: dict[bytes, asyncio.Task[VisitorRights]] = {}
        self._connections = asyncio.Semaphore(_MOST_REVIEWED)

    async def rights(self, token: str, view: ClusterView) -> VisitorRights:
        """Return what the owner of a token may see. Raises ProblemError if the token is missing or not valid."""
        if not token or len(token) > _MAX_TOKEN or not token.isprintable():
            raise unauthorized("a token of the cluster is required", _HINT)
        if self._now() >= expiry_of(token):
            raise unauthorized("the token has expired", _HINT)
        namespaces = view.cached(
            "web.namespaces", lambda: frozenset(value.metadata.name for value in view.inputs.of(Namespace))
        )
        key = hashlib.sha256(token.encode()).digest()
        known = self._known.get(key)
        if known is not None and self._now() - known.at < _KEPT and known.namespaces == namespaces:
            return known.rights
        running = self._running.get(key)
        if running is None:
            running = self._running[key] = asyncio.create_task(self._reviewed(token, namespaces))
            running.add_done_callback(lambda _: self._running.pop(key, None))
        try:
            rights = await asyncio.shield(running)
        except Unreachable as error:
            if known is not None and self._now() - known.at < _KEPT_WITHOUT_CLUSTER:
                return known.rights
            detail = f"the token cannot be verified: {error}"
            raise rejected(503, "unreachable", "The cluster does not respond", detail) from None
        except StatusError as error:
            self._known.pop(key, None)
            raise _refused(error) from None
        self._known[key] = _Review(self._now(), namespaces, rights)
        self._known.move_to_end(key)
        if len(self._known) > _MAX_KEPT:
            self._known.popitem(last=False)
        return rights

    async def _reviewed(self, token: str, namespaces: Iterable[str]) -> VisitorRights:
        """Return the rights as the cluster states them now. Raises StatusError and Unreachable."""
        target = self._target._replace(
            token=token, token_file=None, certificate=b"", key=b"", certificate_file=None, key_file=None, user="",
            password="", plugin=None, impersonation=(),
        )  # fmt: skip
        async with self._connections, HttpClient(target, agent="allot-web", retry_seconds=0) as client:
            await client.create(_USERS, {"apiVersion": _USERS.api_version, "kind": _USERS.kind})
            return await rights_of(client, namespaces)


def expiry_of(token: str) -> float:
    """Return the time until which a token claims to be valid, in seconds since the epoch; infinite if it does not.

    >>> expiry_of("e30.eyJleHAiOjE3NjQwMDAwMDB9.x"), expiry_of("opaque"), expiry_of("a.b.c")
    (1764000000.0, inf, inf)
    >>> from base64 import urlsafe_b64encode
    >>> expiry_of("e30." + urlsafe_b64encode(b'{"exp": 1' + b"0" * 400 + b"}").decode() + ".x")
    inf
    """
    payload = token.split(".")[1:2]
    try:
        claims = msgspec.json.decode(urlsafe_b64decode(payload[0] + "==")) if payload else {}
    except (ValueError, msgspec.DecodeError, RecursionError):
        return inf
    expiry = claims.get("exp") if isinstance(claims, dict) else None
    return float(expiry) if isinstance(expiry, int | float) and abs(expiry) < 2**63 else inf


async def rights_of(client: Client, namespaces: Iterable[str]) -> VisitorRights:
    """Return what the user of a client may read. Raises StatusError and Unreachable."""
    limit = asyncio.Semaphore(_CONCURRENCY)

    async def may_list(resource: Resource) -> bool:
        attributes = {"group": resource.group, "resource": resource.plural, "verb": "list"}
        async with limit:
            answer = await client.create(_ACCESS, _review(_ACCESS, {"resourceAttributes": attributes}))
        return bool((answer.get("status") or {}).get("allowed"))

    async def inside(namespace: str) -> frozenset[str]:
        async with limit:
            answer = await client.create(_RULES, _review(_RULES, {"namespace": namespace}))
        return kinds_listed(answer.get("status") or {})

    allowed = await asyncio.gather(*(may_list(kind.resource) for kind in KINDS))
    everywhere = frozenset(kind.resource.kind for kind, yes in zip(KINDS, allowed, strict=True) if yes)
    if everywhere >= frozenset(kind.resource.kind for kind in KINDS):
        return VisitorRights()
    if everywhere >= frozenset(kind.resource.kind for kind in KINDS if kind.resource.namespaced):
        return VisitorRights(kinds=everywhere)
    names = sorted(namespaces)
    listed = dict(zip(names, await asyncio.gather(*map(inside, names)), strict=True))
    shown = {name: kinds | everywhere for name, kinds in listed.items() if kinds | everywhere >= _NEEDED}
    namespaced = {kind.resource.kind for kind in KINDS if kind.resource.namespaced}
    hidden = frozenset((name, kind) for name, kinds in shown.items() for kind in namespaced - kinds)
    return VisitorRights(frozenset(shown), everywhere, hidden)


def kinds_listed(status: Mapping[str, object]) -> frozenset[str]:
    """Return the kinds that the rules of a SelfSubjectRulesReview allow to list.

    Rules for single objects do not allow that, and incomplete reviews contain fewer rules than there are.
    """
    found: set[str] = set()
    rules = status.get("resourceRules")
    for rule in rules if isinstance(rules, list) else ():
        verbs, groups, resources = (frozenset(rule.get(name) or ()) for name in ("verbs", "apiGroups", "resources"))
        if rule.get("resourceNames") or not verbs & {"list", "*"}:
            continue
        found.update(
            kind.resource.kind
            for kind in KINDS
            if groups & {kind.resource.group, "*"} and resources & {kind.resource.plural, "*"}
        )
    return frozenset(found)


def _review(resource: Resource, spec: Tree) -> Tree:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "spec": spec}


def _refused(error: StatusError) -> ProblemError:
    if error.code == 401:
        return unauthorized("the cluster does not accept this token, or it has expired", _HINT)
    return rejected(502, "cluster", "The cluster rejected a request", f"the token cannot be verified: {error}")
