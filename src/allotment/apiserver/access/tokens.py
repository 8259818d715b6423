"""Service account tokens: JSON Web Tokens that the server signs with its own HMAC key.

HMAC is enough, for only this server verifies them. A token contains the UID of its account, so a new account of the
same name does not inherit it; a token bound to a pod is invalid once the pod is deleted.
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

from allotment.apiserver.kinds.kind import StoreReader, User
from allotment.model.trees import Tree

API_AUDIENCE: Final = "https://kubernetes.default.svc"
ACCOUNT_PREFIX: Final = "system:serviceaccount:"
#: Tolerated clock skew.
_LEEWAY_SECONDS: Final = 60
_HEADER: Final = {"alg": "HS256", "typ": "JWT"}
_CREDENTIAL_ID: Final = "authentication.kubernetes.io/credential-id"


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def _signature(key: bytes, signed: str) -> bytes:
    return hmac.digest(key, signed.encode(), hashlib.sha256)


def issue(
    key: bytes, account: Tree, *, now: datetime, seconds: int, token_id: str,
    audiences: Sequence[str] = (API_AUDIENCE,), pod: Tree | None = None, node: Tree | None = None,
) -> str:  # fmt: skip
    """Sign a token for a service account (its tree) that expires after ``seconds``; with ``pod``, bound to that pod.

    ``node``: name and UID of the pod's node, included in the token (KEP-4193).
    """
    meta, issued = account["metadata"], int(now.timestamp())
    details: Tree = {"namespace": meta["namespace"], "serviceaccount": {"name": meta["name"], "uid": meta["uid"]}}
    if pod is not None:
        details["pod"] = {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        if node is not None:
            details["node"] = node
    claims = {
        "aud": list(audiences), "exp": issued + seconds, "iat": issued, "iss": API_AUDIENCE, "jti": token_id,
        "kubernetes.io": details, "nbf": issued, "sub": f"{ACCOUNT_PREFIX}{meta['namespace']}:{meta['name']}",
    }  # fmt: skip
    return sign(key, claims)


def sign(key: bytes, claims: Tree) -> str:
    """A token with these claims."""
    signed = f"{_encode(msgspec.json.encode(_HEADER))}.{_encode(msgspec.json.encode(claims))}"
    return f"{signed}.{_encode(_signature(key, signed))}"


def signed_claims(key: bytes, token: str) -> Tree | None:
    """Return the claims of a token; None if it was not signed with the key."""
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
    return claims


def verify(
    claims: Tree, *, now: datetime, reader: StoreReader, audiences: Sequence[str] = (API_AUDIENCE,)
) -> User | None:  # fmt: skip
    """Return the user of a token with these claims; None if it is expired, or its account or pod is gone."""
    details, instant = claims["kubernetes.io"], now.timestamp()
    if not claims["nbf"] - _LEEWAY_SECONDS <= instant < claims["exp"] or not set(audiences) & set(claims["aud"]):
        return None
    namespace, account = details["namespace"], details["serviceaccount"]
    if not is_alive(reader, "serviceaccounts", namespace, account, instant):
        return None
    extra = {_CREDENTIAL_ID: (f"JTI={claims['jti']}",)}
    if pod := details.get("pod"):
        if not is_alive(reader, "pods", namespace, pod, instant):
            return None
        for kind, reference in (("pod", pod), ("node", details.get("node") or {})):
            extra |= {f"authentication.kubernetes.io/{kind}-{key}": (value,) for key, value in reference.items()}
    return account_user(namespace, account["name"], account["uid"])._replace(extra=extra)


def is_alive(reader: StoreReader, bucket: str, namespace: str, reference: Tree, instant: float) -> bool:
    """Whether an object with this UID exists and its deletion is at most the tolerated skew ago."""
    entry = reader.get(bucket, namespace, reference["name"])
    if entry is None or entry.tree["metadata"].get("uid") != reference["uid"]:
        return False
    end = entry.tree["metadata"].get("deletionTimestamp")
    return end is None or datetime.fromisoformat(end).timestamp() >= instant - _LEEWAY_SECONDS


def account_user(namespace: str, name: str, uid: str = "") -> User:
    """The user of a service account."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return User(f"{ACCOUNT_PREFIX}{namespace}:{name}", groups, uid)


def expiry(now: datetime, seconds: int) -> str:
    """The expiration time of a token issued now, as RFC 3339."""
    return datetime.fromtimestamp(int(now.timestamp()) + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
