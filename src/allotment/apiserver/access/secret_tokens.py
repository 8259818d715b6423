"""Tokens of service accounts that are stored in Secrets: they do not expire, and are valid as long as the Secret is.

The Secret of a token that is used gets the date as a label, so that administrators find those that are not in use.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from allotment.apiserver.access.tokens import API_AUDIENCE, account_user, is_alive, sign
from allotment.apiserver.kinds.kind import StoreReader, User
from allotment.model.trees import Tree

ISSUER: Final = "kubernetes/serviceaccount"
LAST_USED: Final = "kubernetes.io/legacy-token-last-used"
_INVALID_SINCE: Final = "kubernetes.io/legacy-token-invalid-since"
_PREFIX: Final = "kubernetes.io/serviceaccount/"


def issue(key: bytes, account: Tree, secret: str) -> str:
    """Sign the token of a service account (its tree) for the Secret with this name."""
    meta = account["metadata"]
    claims = {
        "iss": ISSUER, f"{_PREFIX}namespace": meta["namespace"], f"{_PREFIX}secret.name": secret,
        f"{_PREFIX}service-account.name": meta["name"], f"{_PREFIX}service-account.uid": meta["uid"],
        "sub": account_user(meta["namespace"], meta["name"]).name,
    }  # fmt: skip
    return sign(key, claims)


def secret_of(claims: Tree) -> tuple[str, str]:
    """Namespace and name of the Secret that the claims of a token name."""
    return str(claims.get(f"{_PREFIX}namespace", "")), str(claims.get(f"{_PREFIX}secret.name", ""))


def verify(token: str, claims: Tree, *, now: datetime, reader: StoreReader, audiences: Sequence[str]) -> User | None:
    """Return the user of a signed token; None if its account is gone, or its Secret is, or has another token."""
    namespace, secret_name = secret_of(claims)
    entry = reader.get("secrets", namespace, secret_name)
    if entry is None or API_AUDIENCE not in audiences:
        return None
    meta = entry.tree["metadata"]
    if "deletionTimestamp" in meta or _INVALID_SINCE in (meta.get("labels") or {}):
        return None
    try:
        stored = base64.b64decode((entry.tree.get("data") or {}).get("token") or "")
    except binascii.Error:
        return None
    account = {part: str(claims.get(f"{_PREFIX}service-account.{part}", "")) for part in ("name", "uid")}
    user = account_user(namespace, account["name"], account["uid"])
    if not hmac.compare_digest(stored, token.encode()) or claims.get("sub") != user.name:
        return None
    return user if is_alive(reader, "serviceaccounts", namespace, account, now.timestamp()) else None


def lacks_date(secret: Tree, now: datetime) -> bool:
    """Whether the label with the last use of a Secret's token has neither today's date nor tomorrow's."""
    known = (secret["metadata"].get("labels") or {}).get(LAST_USED)
    return known not in (f"{now:%Y-%m-%d}", f"{now + timedelta(days=1):%Y-%m-%d}")
