"""M406: a claim or template in a different namespace from the pod."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from allotment.model.editing.edits import SetValue
from allotment.model.meta import ObjectKey
from allotment.model.resource import ResourceClaim
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.claims.references import (
    ClaimReference,
    candidates_of,
    claim_references,
    compute_domain_templates,
    has_namespace,
)
from allotment.tools.check.rule import Fix, Rule, RuleMatch
from allotment.tools.views import ClaimView


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    references = list(claim_references(bundle))
    controller_templates = compute_domain_templates(bundle)
    for reference in references:
        if reference.exists or reference.key in controller_templates:
            continue
        namespaces = candidates_of(bundle, reference).namespaces
        if not namespaces:
            continue
        view = bundle.claims_by_key.get((reference.entry.kind, ObjectKey(namespaces[0], reference.entry.refers_to)))
        # The namespace of objects that set none depends on kubectl's options.
        is_certain = has_namespace(reference.pod) and (view is None or has_namespace(view))
        yield RuleMatch(
            reference.pod.document,
            reference.entry.name_path,
            f"{reference.description} is in namespace {namespaces[0]}, but the pod is in {reference.key.namespace}; a "
            "pod can only reference objects in its own namespace",
            help=""
            if is_certain
            else "without metadata.namespace, an object is created in the namespace given by -n or the kubectl context",
            fix=_fix(bundle, reference, namespaces, references),
            level=None if is_certain else "warning",
        )


def _fix(
    bundle: Bundle, reference: ClaimReference, namespaces: Sequence[str], references: list[ClaimReference]
) -> Fix | None:
    """Move a pod without a namespace to its claim, otherwise the claim to the pod (as `explanation.references`).

    There is no fix if others use the claim where it is, or if pods of several namespaces reference it.
    """
    if len(namespaces) > 1:
        return None
    kind, name, namespace = reference.entry.kind, reference.entry.refers_to, reference.key.namespace
    view = bundle.claims_by_key.get((kind, ObjectKey(namespaces[0], name)))
    if view is None:
        return None
    if namespace == bundle.namespace:
        pod_references = [other for other in references if other.pod.document is reference.pod.document]
        if any(other.exists or namespaces != candidates_of(bundle, other).namespaces for other in pod_references):
            return None
        text = f"move the {reference.pod.kind} to namespace {namespaces[0]}"
        edit = SetValue(("metadata", "namespace"), namespaces[0], after="name")
        return Fix(text, ((reference.pod.document, edit),), safe=False)
    same_object = [other for other in references if other.entry.kind == kind and other.entry.refers_to == name]
    if _is_in_use(bundle, view) or any(other.key.namespace != namespace for other in same_object):
        return None
    text = f"move the {kind} to namespace {namespace}"
    edit = SetValue(("metadata", "namespace"), namespace, after="name")
    return Fix(text, ((view.document, edit),), safe=False)


def _is_in_use(bundle: Bundle, view: ClaimView) -> bool:
    """Whether a claim of the files is allocated or reserved, in its file or in the cluster."""
    manifest = bundle.manifests.get(view.document)
    return any(
        isinstance(claim, ResourceClaim) and bool(claim.status.allocation is not None or claim.status.reserved_for)
        for claim in (manifest.value if manifest else None, bundle.cluster_claims.get(view.key))
    )


RULE = Rule(
    code="M406",
    name="other-namespace",
    family="meaning",
    level="error",
    summary="the claim or template that a pod references is in another namespace",
    why=(
        "A pod references claims and templates without a namespace, and Kubernetes looks for them in the pod's own "
        "namespace. No claim is created from a template in another namespace, so the pod stays Pending, and kubectl "
        "describe shows neither a condition nor an event from the scheduler."
    ),
    bad=examples.join_documents(
        examples.template("mig-1g-5gb", namespace="demo-1", class_name="mig.nvidia.com", request="slice"),
        examples.pod("classifier", "resourceClaimTemplateName: mig-1g-5gb", namespace="demo", claim="slice"),
    ),
    good=examples.join_documents(
        examples.template("mig-1g-5gb", namespace="demo", class_name="mig.nvidia.com", request="slice"),
        examples.pod("classifier", "resourceClaimTemplateName: mig-1g-5gb", namespace="demo", claim="slice"),
    ),
    find=_find,
    fixable="unsafe",
    see="https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/",
)
