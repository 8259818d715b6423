"""M405: a pod references a claim or template that is neither in the files nor in the cluster."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.explanation.references import REFERENCE_FIELDS, Candidates
from allotment.model.core import Pod
from allotment.model.editing.edits import RenameKey, SetValue
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.claims.references import (
    ClaimReference,
    candidates_of,
    claim_references,
    compute_domain_templates,
)
from allotment.tools.check.rule import Fix, Rule, RuleMatch
from allotment.tools.views import ClaimKind


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    controller_templates = compute_domain_templates(bundle)
    for reference in claim_references(bundle):
        entry = reference.entry
        if reference.exists or (entry.kind == "ResourceClaimTemplate" and reference.key in controller_templates):
            continue
        candidates = candidates_of(bundle, reference)
        if candidates.namespaces:
            continue  # M406
        has_namespace = bool(reference.pod.document.kind)  # the namespace of a fragment is unknown
        where = f"namespace {reference.key.namespace}" if has_namespace else "the pod's namespace"
        is_absent = _cluster_has_claims(bundle)
        fix, guess = _suggest(reference, candidates)
        if is_absent:
            message = (
                f"{reference.description} is neither in the files nor in {where} of the cluster: the pod stays pending"
            )
        else:
            message = f"{reference.description} is not in the files: until it exists in {where}, the pod stays pending"
        yield RuleMatch(
            reference.pod.document,
            entry.name_path,
            message,
            help=guess or _help(entry.kind, is_absent=is_absent),
            fix=fix,
            level="error" if is_absent else "warning" if fix is not None else "note",
        )


def _cluster_has_claims(bundle: Bundle) -> bool:
    """Whether the given cluster includes claims; a snapshot without claims and pods may have left them out."""
    cluster = bundle.cluster
    if cluster is None or cluster.fleet_only:
        return False
    return bool(bundle.cluster_claims or bundle.cluster_templates or cluster.of(Pod))


def _suggest(reference: ClaimReference, candidates: Candidates) -> tuple[Fix | None, str]:
    """The fix with the object that was probably intended, and a sentence about it."""
    entry, document = reference.entry, reference.pod.document
    if candidates.other_kind:
        field = REFERENCE_FIELDS[candidates.other_kind]
        fix = Fix(f"reference it with {field}", ((document, RenameKey(entry.name_path, field)),), safe=False)
        return fix, f"{entry.refers_to} is a {candidates.other_kind}"
    if not candidates.similar:
        return None, ""
    guess = f"did you mean {' or '.join(candidates.similar)}?"
    if len(candidates.similar) > 1:
        return None, guess
    name = candidates.similar[0]
    return Fix(f"write {name}", ((document, SetValue(entry.name_path, name)),), safe=False), guess


def _help(kind: ClaimKind, *, is_absent: bool) -> str:
    if is_absent:
        return f"create the {kind}, or check the file that defines it together with this one"
    return f"check this file together with the one that defines the {kind}, or pass --cluster"


RULE = Rule(
    code="M405",
    name="claim-not-given",
    family="meaning",
    level="warning",
    summary="a pod references a claim or template that is neither in the files nor in the cluster",
    why=(
        "The API server accepts a pod whose claim or template does not exist. The pod then waits outside the "
        "scheduling queue: it stays Pending, with neither a condition nor an event from the scheduler. The finding "
        "is a note if only files are given, because the object may be created elsewhere; a warning if the files "
        "contain a name that is so similar that a typo is likely; and an error if the object does not exist in the "
        "given cluster."
    ),
    bad=examples.join_documents(
        examples.template("single-gpu"), examples.pod("server", "resourceClaimTemplateName: singel-gpu")
    ),
    good=examples.join_documents(
        examples.template("single-gpu"), examples.pod("server", "resourceClaimTemplateName: single-gpu")
    ),
    find=_find,
    fixable="unsafe",
    see="https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/",
)
