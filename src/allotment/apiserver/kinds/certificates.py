"""Validation of CertificateSigningRequests and their approval conditions; controllers sign them, not the server.

The server sets the requesting user from the authenticated user. The spec is immutable; the status changes only through
the subresources approval and status.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Final

from allotment.apiserver.kinds.kind import Errors, KindRules, Write
from allotment.model.trees import Tree
from allotment.model.validation import names
from allotment.model.validation.errors import duplicate, forbidden, invalid, not_supported, required

_USAGES: Final = (
    "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment",
    "decipher only", "digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel",
    "ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime",
    "server auth", "signing", "timestamping",
)  # fmt: skip
_MIN_SECONDS: Final = 600
_DECISIONS: Final = ("Approved", "Denied")
_PEM_HEADER: Final = b"-----BEGIN CERTIFICATE REQUEST-----"


def _any_name(_: str) -> list[str]:
    return []


def _prepare_create(tree: Tree, write: Write) -> Tree:
    user = write.user
    user_fields = ("username", "uid", "groups", "extra")
    spec = {name: value for name, value in (tree.get("spec") or {}).items() if name not in user_fields}
    requester: Tree = {"username": user.name, "uid": user.uid, "groups": list(user.groups)}
    if user.extra:
        requester["extra"] = {name: list(values) for name, values in user.extra.items()}
    return {**tree, "spec": {**spec, **{name: value for name, value in requester.items() if value}}, "status": {}}


def _prepare_update(new: Tree, old: Tree, write: Write) -> Tree:
    """Each subresource changes its own part of the status; missing condition times are set."""
    before, after = old.get("status") or {}, new.get("status") or {}
    if write.subresource == "approval":
        after = {**before, "conditions": after.get("conditions") or []}
    if write.subresource and after.get("conditions"):
        after = {
            **after,
            "conditions": _with_timestamps(after["conditions"], before.get("conditions") or (), write.now),
        }
    spec = {"spec": old["spec"]} if "spec" in old else {}
    return {**new, **spec, "status": after if write.subresource else before}


def _with_timestamps(conditions: Sequence[Tree], before: Sequence[Tree], now: str) -> list[Tree]:
    since = {(item.get("type"), item.get("status")): item.get("lastTransitionTime") for item in before}
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


def _validate_create(tree: Tree, write: Write) -> Errors:
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
    if seconds is not None and seconds < _MIN_SECONDS:
        detail = "may not specify a duration less than 600 seconds (10 minutes)"
        yield invalid("spec.expirationSeconds", seconds, detail)


def _is_request(encoded: str) -> bool:
    try:
        return base64.b64decode(encoded).lstrip().startswith(_PEM_HEADER)
    except binascii.Error:
        return False


def _signer(name: str) -> Errors:
    if not name:
        yield required("spec.signerName")
    elif name == "kubernetes.io/legacy-unknown":
        yield invalid("spec.signerName", name, "the legacy signerName is not allowed via this API version")
    elif name.count("/") != 1:
        detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        yield invalid("spec.signerName", name, detail)


def _validate_update(tree: Tree, old: Tree, write: Write) -> Errors:
    path = "status.conditions"
    after, before = _by_type(tree), _by_type(old)
    for condition_type in (*_DECISIONS, "Failed"):
        if condition_type in before and condition_type not in after:
            yield forbidden(path, f'updates may not remove a condition of type "{condition_type}"')
    if write.subresource != "approval":
        for condition_type in _DECISIONS:
            if condition_type in after and condition_type not in before:
                yield forbidden(path, f'updates may not add a condition of type "{condition_type}"')
    if all(condition_type in after for condition_type in _DECISIONS):
        yield invalid(path, "Denied", "Approved and Denied conditions are mutually exclusive")
    for index, condition in enumerate((tree.get("status") or {}).get("conditions") or ()):
        if condition.get("type") in (*_DECISIONS, "Failed") and condition.get("status") != "True":
            yield not_supported(f"{path}[{index}].status", condition.get("status") or "", ("True",))


def _by_type(tree: Tree) -> Mapping[str, Tree]:
    return {item.get("type") or "": item for item in (tree.get("status") or {}).get("conditions") or ()}


RULES: Final[Mapping[str, KindRules]] = {
    "certificatesigningrequests.certificates.k8s.io": KindRules(
        name=_any_name,
        prepare_create=_prepare_create,
        validate_create=_validate_create,
        prepare_update=_prepare_update,
        validate_update=_validate_update,
    )
}


def bundle_name_problems(name: str) -> list[str]:
    """The errors of a ClusterTrustBundle's name: a DNS subdomain, after its signer's name with colons if it has one.

    >>> bundle_name_problems("kubernetes.io:kube-apiserver-serving:1a"), bundle_name_problems("own")
    ([], [])
    """
    return [problem for part in name.split(":") for problem in names.subdomain_problems(part)]
