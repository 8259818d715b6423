"""Tokens of service accounts: JSON Web Tokens that this server signs for itself with a key of its own.

HMAC is enough, for nobody else checks them. A token names its account by uid: a new account of the same name does not
inherit it; one bound to a pod ends with the pod.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from allotment.apiserver.kinds.kind import Reader, User
from allotment.model.trees import Tree

AUDIENCE: Final = "https://kubernetes.default.svc"
ACCOUNT_PREFIX: Final = "system:serviceaccount:"
#: Clocks may differ by so many seconds.
_LEEWAY: Final = 60
_HEADER: Final = {"alg": "HS256", "typ": "JWT"}
_CREDENTIAL: Final = "authentication.kubernetes.io/credential-id"


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def _signature(key: bytes, signed: str) -> bytes:
    return hmac.digest(key, signed.encode(), hashlib.sha256)


def issue(
    key: bytes, account: Tree, *, now: datetime, seconds: int, token_id: str, audiences: Sequence[str] = (AUDIENCE,),
    pod: Tree | None = None, node: Tree | None = None,
) -> str:  # fmt: skip
    """A token for a service account (its tree), which ends after ``seconds``; with ``pod``, bound to that pod.

    ``node``: name and UID of where the pod is, which the token tells (KEP-4193).
    """
    meta, issued = account["metadata"], int(now.timestamp())
    about: Tree = {"namespace": meta["namespace"], "serviceaccount": {"name": meta["name"], "uid": meta["uid"]}}
    if pod is not None:
        about["pod"] = {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        if node is not None:
            about["node"] = node
    claims = {
        "aud": list(audiences), "exp": issued + seconds, "iat": issued, "iss": AUDIENCE, "jti": token_id,
        "kubernetes.io": about, "nbf": issued, "sub": f"{ACCOUNT_PREFIX}{meta['namespace']}:{meta['name']}",
    }  # fmt: skip
    signed = f"{_encode(msgspec.json.encode(_HEADER))}.{_encode(msgspec.json.encode(claims))}"
    return f"{signed}.{_encode(_signature(key, signed))}"


def read(
    key: bytes, token: str, *, now: datetime, reader: Reader, audiences: Sequence[str] = (AUDIENCE,)
) -> User | None:
    """Whose token it is; None if it is not ours, has ended, or its account or pod is no more."""
    signed, _, signature = token.rpartition(".")
    try:
        if not hmac.compare_digest(_decode(signature), _signature(key, signed)):
            return None
        header, _, payload = signed.partition(".")
        if msgspec.json.decode(_decode(header)).get("alg") != _HEADER["alg"]:
            return None
        claims: Tree = msgspec.json.decode(_decode(payload))
    except (ValueError, binascii.Error, msgspec.DecodeError, AttributeError):
        return None
    about, instant = claims["kubernetes.io"], now.timestamp()
    if not claims["nbf"] - _LEEWAY <= instant < claims["exp"] or not set(audiences) & set(claims["aud"]):
        return None
    namespace, account = about["namespace"], about["serviceaccount"]
    if not _lives(reader, "serviceaccounts", namespace, account, instant):
        return None
    extra = {_CREDENTIAL: (f"JTI={claims['jti']}",)}
    if pod := about.get("pod"):
        if not _lives(reader, "pods", namespace, pod, instant):
            return None
        for what, one in (("pod", pod), ("node", about.get("node") or {})):
            extra |= {f"authentication.kubernetes.io/{what}-{key}": (text,) for key, text in one.items()}
    return account_user(namespace, account["name"], account["uid"])._replace(extra=extra)


def _lives(reader: Reader, bucket: str, namespace: str, reference: Tree, instant: float) -> bool:
    """Whether the very object is there, and not long past its end though something still holds it."""
    entry = reader.get(bucket, namespace, reference["name"])
    if entry is None or entry.tree["metadata"].get("uid") != reference["uid"]:
        return False
    end = entry.tree["metadata"].get("deletionTimestamp")
    return end is None or datetime.fromisoformat(end).timestamp() >= instant - _LEEWAY


def account_user(namespace: str, name: str, uid: str = "") -> User:
    """The user that a service account is."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return User(f"{ACCOUNT_PREFIX}{namespace}:{name}", groups, uid)


def expiry(now: datetime, seconds: int) -> str:
    """When a token issued now ends, as RFC 3339."""
    return datetime.fromtimestamp(int(now.timestamp()) + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
