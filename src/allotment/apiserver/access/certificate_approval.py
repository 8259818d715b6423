"""Admission of CertificateSigningRequest updates: the user also needs a permission for the request's signer.

Approval and denial require the verb ``approve`` on the signer, issuing the certificate requires ``sign``. Either can be
granted for all signers of a domain (``example.com/*``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from allotment.apiserver.access.authorization import MASTERS_GROUP
from allotment.apiserver.access.rbac import resolve_rules
from allotment.apiserver.kinds import certificates
from allotment.apiserver.kinds.admission_errors import forbidden as forbidden
from allotment.apiserver.kinds.kind import Errors, KindRules, StoreReader, User, Write
from allotment.model.quoting import quote
from allotment.model.trees import Tree

_GROUP: Final = "certificates.k8s.io"
_BUCKET: Final = f"certificatesigningrequests.{_GROUP}"
_SIGNER_FIELDS: Final = ("certificate", "conditions")


def is_permitted(reader: StoreReader, user: User, verb: str, signer: str) -> bool:
    """Whether a user may ``approve``, ``sign`` or ``attest`` for a signer."""
    if MASTERS_GROUP in user.groups:
        return True
    names = (signer, f"{signer.partition('/')[0]}/*")
    resolved = resolve_rules(reader, user, "")
    return any(rule.allows(verb, _GROUP, "signers", "", name) for rule in resolved.rules for name in names)


def _required_verb(new: Tree, old: Tree, write: Write) -> str:
    """The verb on the signer that a write requires; empty if none."""
    if write.subresource == "approval":
        return "approve"
    before, after = old.get("status") or {}, new.get("status") or {}
    changed = any(before.get(part) != after.get(part) for part in _SIGNER_FIELDS)
    return "sign" if write.subresource == "status" and changed else ""


def _update(new: Tree, old: Tree, write: Write) -> Errors:
    problems = tuple(_KIND.validate_update(new, old, write))
    verb, signer = _required_verb(new, old, write), (old.get("spec") or {}).get("signerName") or ""
    if verb and not problems and not is_permitted(write.reader, write.user, verb, signer):
        reason = f"user not permitted to {verb} requests with signerName {quote(signer)}"
        raise forbidden(_BUCKET, old["metadata"]["name"], reason)
    return problems


_KIND: Final = certificates.RULES[_BUCKET]
RULES: Final[Mapping[str, KindRules]] = {_BUCKET: _KIND._replace(validate_update=_update)}
