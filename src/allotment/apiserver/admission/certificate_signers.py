"""The admission plugins CertificateSubjectRestriction and ClusterTrustBundleAttest."""

from __future__ import annotations

from typing import Final

from allotment.apiserver import api_errors
from allotment.apiserver.access.authorization import MASTERS_GROUP
from allotment.apiserver.access.certificate_approval import is_permitted
from allotment.apiserver.admission.attributes import Attributes
from allotment.apiserver.kinds.certificate_subject import subject_of
from allotment.apiserver.kinds.kind import StoreReader
from allotment.model.quoting import quote
from allotment.model.trees import Tree

_CLIENT_SIGNER: Final = "kubernetes.io/kube-apiserver-client"
#: Metadata that the garbage collector changes, and metadata that each write changes.
_COLLECTOR_METADATA: Final = ("ownerReferences", "finalizers", "managedFields", "resourceVersion", "generation")


def check_subject(attributes: Attributes, reader: StoreReader, kube: str) -> None:
    """Raise StatusError (403) if the signer of client certificates would make a user a cluster administrator."""
    if attributes.old is not None or attributes.new is None or attributes.subresource:
        return
    spec: Tree = attributes.new.get("spec") or {}
    if spec.get("signerName") != _CLIENT_SIGNER:
        return
    subject = subject_of(spec.get("request") or "")
    if subject is None:
        reason = "failed to parse CSR: PEM block type must be CERTIFICATE REQUEST"
        raise api_errors.forbidden(attributes.kind, attributes.name, reason)
    if MASTERS_GROUP in subject.organizations:
        reason = f"use of {_CLIENT_SIGNER} signer with {MASTERS_GROUP} group is not allowed"
        raise api_errors.forbidden(attributes.kind, attributes.name, reason)


def check_bundle(attributes: Attributes, reader: StoreReader, kube: str) -> None:
    """Raise StatusError (403) if the user may not attest for the signer of a ClusterTrustBundle."""
    new = attributes.new
    signer = ((new or {}).get("spec") or {}).get("signerName")
    if new is None or not signer or _is_collection(new, attributes.old):
        return
    if not is_permitted(reader, attributes.user, "attest", signer):
        reason = f"user not permitted to attest for signerName {quote(signer)}"
        raise api_errors.forbidden(attributes.kind, attributes.name, reason)


def _is_collection(new: Tree, old: Tree | None) -> bool:
    """Whether an update changes only what the garbage collector changes."""
    return old is not None and _without_collector_metadata(new) == _without_collector_metadata(old)


def _without_collector_metadata(tree: Tree) -> Tree:
    metadata = {key: value for key, value in tree["metadata"].items() if key not in _COLLECTOR_METADATA}
    return {**tree, "metadata": metadata}
