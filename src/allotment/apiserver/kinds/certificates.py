"""Requests for certificates: kept, approved or denied, and signed by whoever watches them; this server signs nothing.

A request says who asked, and that is what the server knows of him, not what he wrote. Nothing of it changes later
except by the side for approvals and the side for the certificate.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Final

from allotment.apiserver.kinds.kind import Errors, Rules, Write
from allotment.model.trees import Tree
from allotment.model.validation.errors import duplicate, forbidden, invalid, not_supported, required

_USAGES: Final = (
    "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment",
    "decipher only", "digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel",
    "ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime",
    "server auth", "signing", "timestamping",
)  # fmt: skip
_SHORTEST_SECONDS: Final = 600
_JUDGEMENTS: Final = ("Approved", "Denied")
_BLOCK: Final = b"-----BEGIN CERTIFICATE REQUEST-----"


def _any_name(_: str) -> list[str]:
    return []


def _prepared(tree: Tree, write: Write) -> Tree:
    user = write.user
    kept = ("username", "uid", "groups", "extra")
    spec = {name: value for name, value in (tree.get("spec") or {}).items() if name not in kept}
    asked: Tree = {"username": user.name, "uid": user.uid, "groups": list(user.groups)}
    if user.extra:
        asked["extra"] = {name: list(values) for name, values in user.extra.items()}
    return {**tree, "spec": {**spec, **{name: value for name, value in asked.items() if value}}, "status": {}}


def _changed(new: Tree, old: Tree, write: Write) -> Tree:
    """Each side changes its own part of the status; of conditions it says when."""
    before, after = old.get("status") or {}, new.get("status") or {}
    if write.subresource == "approval":
        after = {**before, "conditions": after.get("conditions") or []}
    if write.subresource and after.get("conditions"):
        after = {**after, "conditions": _timed(after["conditions"], before.get("conditions") or (), write.now)}
    spec = {"spec": old["spec"]} if "spec" in old else {}
    return {**new, **spec, "status": after if write.subresource else before}


def _timed(conditions: Sequence[Tree], before: Sequence[Tree], now: str) -> list[Tree]:
    since = {(known.get("type"), known.get("status")): known.get("lastTransitionTime") for known in before}
    return [
        {
            **condition,
            "lastUpdateTime": condition.get("lastUpdateTime") or now,
            "lastTransitionTime": condition.get("lastTransitionTime")
            or since.get((condition.get("type"), condition.get("status")))
            or now,
        }
        for condition in conditions
    ]


def _request(tree: Tree, write: Write) -> Errors:
    spec: Tree = tree.get("spec") or {}
    if not _is_request(spec.get("request") or ""):
        yield invalid("spec.request", spec.get("request") or "", "PEM block type must be CERTIFICATE REQUEST")
    usages: Sequence[str] = spec.get("usages") or ()
    if not usages:
        yield required("spec.usages")
    for index, usage in enumerate(usages):
        if usage not in _USAGES:
            yield not_supported(f"spec.usages[{index}]", usage, _USAGES)
    for index, usage in enumerate(usages):
        if usage in usages[:index]:
            yield duplicate(f"spec.usages[{index}]", usage)
    yield from _signer(spec.get("signerName") or "")
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < _SHORTEST_SECONDS:
        why = "may not specify a duration less than 600 seconds (10 minutes)"
        yield invalid("spec.expirationSeconds", seconds, why)


def _is_request(encoded: str) -> bool:
    try:
        return base64.b64decode(encoded).lstrip().startswith(_BLOCK)
    except binascii.Error:
        return False


def _signer(name: str) -> Errors:
    if not name:
        yield required("spec.signerName")
    elif name.count("/") != 1:
        why = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        yield invalid("spec.signerName", name, why)


def _conditions(tree: Tree, old: Tree, write: Write) -> Errors:
    path = "status.conditions"
    found, before = _by_type(tree), _by_type(old)
    for sort in (*_JUDGEMENTS, "Failed"):
        if sort in before and sort not in found:
            yield forbidden(path, f'updates may not remove a condition of type "{sort}"')
    if write.subresource != "approval":
        for sort in _JUDGEMENTS:
            if sort in found and sort not in before:
                yield forbidden(path, f'updates may not add a condition of type "{sort}"')
    if all(sort in found for sort in _JUDGEMENTS):
        yield invalid(path, "Denied", "Approved and Denied conditions are mutually exclusive")
    for index, condition in enumerate((tree.get("status") or {}).get("conditions") or ()):
        if condition.get("type") in (*_JUDGEMENTS, "Failed") and condition.get("status") != "True":
            yield not_supported(f"{path}[{index}].status", condition.get("status") or "", ("True",))


def _by_type(tree: Tree) -> Mapping[str, Tree]:
    return {item.get("type") or "": item for item in (tree.get("status") or {}).get("conditions") or ()}


RULES: Final[Mapping[str, Rules]] = {
    "certificatesigningrequests.certificates.k8s.io": Rules(
        name=_any_name,
        prepare_create=_prepared,
        validate_create=_request,
        prepare_update=_changed,
        validate_update=_conditions,
    )
}
