"""M413: an existing template, claim, pod or Job is edited although its spec is immutable."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.cel.validation_context import validation_context
from allotment.model.core import Pod
from allotment.model.generated_claims import POD_CLAIM_NAME, is_owned_by
from allotment.model.loading import Document
from allotment.model.meta import ObjectKey
from allotment.model.resource import ResourceClaim, ResourceClaimTemplate
from allotment.model.validation import create
from allotment.model.workloads import Job
from allotment.shell_words import shell_line
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.objects.immutable_pod_fields import changed_field
from allotment.tools.check.rule import Rule, RuleMatch
from allotment.tools.views import ClaimView, PodView, at

_NOW = "2000-01-01T00:00:00Z"


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    if bundle.cluster is None:
        return
    for view in bundle.claims:
        claim, template = bundle.cluster_claims.get(view.key), bundle.cluster_templates.get(view.key)
        stored = claim if view.kind == "ResourceClaim" else template
        if stored is None or not _differs(bundle, view, stored):
            continue
        noun = "claim" if isinstance(stored, ResourceClaim) else "template"
        yield RuleMatch(
            view.document,
            ("spec",) if "spec" in view.document.tree else (),
            f"{noun} {view.key} already exists with a different spec, and specs are immutable: the API server rejects "
            "the change",
            help=_claim_help(stored, view.document)
            if isinstance(stored, ResourceClaim)
            else _template_help(_claims_created_from(bundle, view.key), view.document),
            at_key=True,
        )
    yield from _edited_pods(bundle)


def _edited_pods(bundle: Bundle) -> Iterator[RuleMatch]:
    assert bundle.cluster is not None
    existing = {(type(v), v.key): v for v in (*bundle.cluster.of(Pod), *bundle.cluster.of(Job))}
    for view in bundle.pods:
        manifest = bundle.manifests.get(view.document)
        if manifest is None or not isinstance(manifest.value, Pod | Job):
            continue
        stored = existing.get((type(manifest.value), view.key))
        path = changed_field(view, manifest.value, stored) if stored is not None else None
        if path is None:
            continue
        yield RuleMatch(
            view.document,
            path if at(view.document.tree, path) is not None else view.spec,
            f"{view.kind} {view.key} already exists with a different {path[-1]}, which is immutable: the API server "
            "rejects the change",
            help=_pod_help(view),
            at_key=True,
        )


def _pod_help(view: PodView) -> str:
    generated = any(entry.kind == "ResourceClaimTemplate" for entry in view.entries)
    claims = ", and with it the claims that are generated from its templates" if generated else ""
    return f"delete the {view.kind} and create it again{claims} ({_command(view.document)})"


def _command(document: Document) -> str:
    """The command that deletes the objects of a file, waits until they are gone, and creates them again."""
    return shell_line(("kubectl", "replace", "--force", "-f", document.file))


def _claim_help(stored: ResourceClaim, document: Document) -> str:
    users = len(stored.status.reserved_for)
    pods = "the pod that uses it has" if users == 1 else f"the {users} pods that use it have"
    wait = f"; it is not deleted until {pods} terminated" if users else ""
    return f"delete the claim and create it again ({_command(document)}){wait}"


def _template_help(claim_count: int, document: Document) -> str:
    advice = f"delete the template and create it again ({_command(document)}), or use a different name"
    if not claim_count:
        return advice
    if claim_count == 1:
        claims = "a claim created from it keeps the old spec until its pod is"
    else:
        claims = f"{claim_count} claims created from it keep the old spec until their pods are"
    return f"{advice}; {claims} replaced (kubectl rollout restart)"


def _differs(bundle: Bundle, view: ClaimView, stored: ResourceClaim | ResourceClaimTemplate) -> bool:
    """Whether the spec differs after defaulting."""
    manifest = bundle.manifests.get(view.document)
    if manifest is None or not isinstance(manifest.value, ResourceClaim | ResourceClaimTemplate):
        return False
    version = manifest.api_version.rpartition("/")[2]
    new = create(manifest.value, validation_context(bundle.features), version=version, now=_NOW).value
    return bool(new.spec != stored.spec)


def _claims_created_from(bundle: Bundle, key: ObjectKey) -> int:
    """The number of the cluster's claims that were created from a template."""
    assert bundle.cluster is not None
    count = 0
    for pod in bundle.cluster.of(Pod):
        if pod.metadata.namespace != key.namespace:
            continue
        entries = {e.name for e in pod.spec.resource_claims if e.resource_claim_template_name == key.name}
        count += sum(
            claim.metadata.annotations.get(POD_CLAIM_NAME) in entries and is_owned_by(claim, pod)
            for claim in bundle.cluster_claims.values()
        )
    return count


def _training(count: int) -> str:
    more = f"allocationMode: ExactCount\ncount: {count}"
    return examples.template("training", namespace="default", request="gpus", request_extra=more)


RULE = Rule(
    code="M413",
    name="template-edited",
    family="meaning",
    level="error",
    summary="the object already exists in the cluster with a different spec, and its spec is immutable",
    why=(
        "The specs of ResourceClaims and ResourceClaimTemplates are immutable (KEP-4381), and so are the containers, "
        "claims and node selector of a pod or of a Job's pods: to change one, delete the object and create it again. "
        "`kubectl replace --force -f FILE` does both, and waits until the object is gone. Claims created from a "
        "template are copies that keep their original spec until their pods are gone, so a changed template also "
        "requires new pods: those in the same file are replaced with it, others need a rollout."
    ),
    bad=_training(4),
    good=_training(2),
    find=_find,
    see="https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/",
    cluster=_training(2),
)
