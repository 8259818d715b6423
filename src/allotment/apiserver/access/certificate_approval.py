"""Who may judge requests for certificates: to write to one is not enough, its signer must be in the user's hands, too.

Approving and denying take the verb ``approve`` for the request's signer, its certificate takes ``sign``; both may be
given for all signers of a domain at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from allotment.apiserver.access.authorization import MASTERS
from allotment.apiserver.access.rbac import granted
from allotment.apiserver.kinds import certificates
from allotment.apiserver.kinds.admission_errors import forbidden as refused
from allotment.apiserver.kinds.kind import Errors, Rules, Write
from allotment.model.quoting import quote
from allotment.model.trees import Tree

_GROUP: Final = "certificates.k8s.io"
_BUCKET: Final = f"certificatesigningrequests.{_GROUP}"
_JUDGED: Final = ("certificate", "conditions")


def _may(write: Write, verb: str, signer: str) -> bool:
    if MASTERS in write.user.groups:
        return True
    names = (signer, f"{signer.partition('/')[0]}/*")
    held = granted(write.reader, write.user, "")
    return any(rule.allows(verb, _GROUP, "signers", "", name) for rule in held.rules for name in names)


def _verb(new: Tree, old: Tree, write: Write) -> str:
    """What a write does for the signer; empty if nothing."""
    if write.subresource == "approval":
        return "approve"
    before, after = old.get("status") or {}, new.get("status") or {}
    judged = any(before.get(part) != after.get(part) for part in _JUDGED)
    return "sign" if write.subresource == "status" and judged else ""


def _update(new: Tree, old: Tree, write: Write) -> Errors:
    problems = tuple(_KIND.validate_update(new, old, write))
    verb, signer = _verb(new, old, write), (old.get("spec") or {}).get("signerName") or ""
    if verb and not problems and not _may(write, verb, signer):
        why = f"user not permitted to {verb} requests with signerName {quote(signer)}"
        raise refused(_BUCKET, old["metadata"]["name"], why)
    return problems


_KIND: Final = certificates.RULES[_BUCKET]
RULES: Final[Mapping[str, Rules]] = {_BUCKET: _KIND._replace(validate_update=_update)}
