"""M404: a reference to a request that the claim does not have."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.engine.diagnosis.published_names import similar_names
from allotment.explanation import missing_request_text
from allotment.model.editing.edits import SetValue
from allotment.model.loading import Document
from allotment.model.loading.marks import Path
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.claims.references import (
    RequestNames,
    as_label,
    claim_references,
    names_in_claim,
    references_of_pod,
    request_names,
)
from allotment.tools.check.rule import Fix, Rule, RuleMatch
from allotment.tools.views import ClaimView, PodView, at, items


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    for claim in bundle.claims:
        yield from _check_claim(claim)
    for pod in bundle.pods:
        yield from _check_alternatives(bundle, pod)
    for reference in claim_references(bundle):
        names = request_names(reference)
        if names is None:
            continue
        for container in reference.pod.containers:
            for use in container.uses:
                if use.name == reference.entry.name and use.request not in ("", *names) and "/" not in use.request:
                    document, path = reference.pod.document, (*use.path, "request")
                    message = missing_request_text(container.name, use.request, reference.description, names)
                    yield RuleMatch(document, path, message, fix=_suggest(document, path, use.request, names))


def _check_alternatives(bundle: Bundle, pod: PodView) -> Iterator[RuleMatch]:
    """Containers that name an alternative of a request."""
    for container in pod.containers:
        for use in container.uses:
            main, slash, alternative = use.request.partition("/")
            if slash:
                path = (*use.path, "request")
                message = f"a container can only name a whole request: {main}, not its alternative {alternative}"
                references = (
                    reference for reference in references_of_pod(bundle, pod) if reference.entry.name == use.name
                )
                is_known = any(main in (request_names(reference) or ()) for reference in references)
                fix = _rename(pod.document, path, main) if is_known else None
                message += f"; the API server rejects the {pod.document.kind or 'pod'}"
                yield RuleMatch(pod.document, path, message, fix=fix)


def _check_claim(claim: ClaimView) -> Iterator[RuleMatch]:
    """Names in constraints and config, which may also name alternatives."""
    names = names_in_claim(claim)
    if names is None:
        return
    known = [*names, *(f"{main}/{alternative}" for main in names for alternative in names[main])]
    corrected = {as_label(main) for main in names}  # S105 changes the request's name to the intended one
    for field in ("constraints", "config"):
        for number, item in items(at(claim.document.tree, (*claim.devices, field))):
            requests = item.get("requests")
            for index, name in enumerate(requests if isinstance(requests, list) else ()):
                if not isinstance(name, str) or name in known or name in corrected:
                    continue
                path = (*claim.devices, field, number, "requests", index)
                noun = "a constraint" if field == "constraints" else "configuration"
                yield RuleMatch(
                    claim.document,
                    path,
                    f"{noun} names request {name}, which the claim does not have (it has {', '.join(names)}); "
                    f"the API server rejects the {claim.document.kind or 'claim'}",
                    fix=_suggest(claim.document, path, name, dict.fromkeys(known, ())),
                )


def _suggest(document: Document, path: Path, name: str, known: RequestNames) -> Fix | None:
    """The fix with the only similar request, or the only request."""
    similar = similar_names(name, known)
    candidates = similar or tuple(known)
    return _rename(document, path, candidates[0]) if len(candidates) == 1 else None


def _rename(document: Document, path: Path, name: str) -> Fix:
    return Fix(f"name request {name}", ((document, SetValue(path, name)),), safe=False)


RULE = Rule(
    code="M404",
    name="no-such-request",
    family="meaning",
    level="error",
    summary="a container, constraint or configuration names a request that the claim does not have",
    why=(
        "Constraints and configuration may name only requests of their own claim, or alternatives of such requests; "
        "the API server rejects all other names. The request that a container names is not validated: the pod is "
        "scheduled and its claim is allocated, but the kubelet finds no devices for the request and starts the "
        "container without any. This causes neither an event nor an error (KEP-4381)."
    ),
    bad=examples.join_documents(
        examples.claim("shared-gpu", request="mps-gpu"),
        examples.pod("server", "resourceClaimName: shared-gpu", resources="claims:\n- name: gpu\n  request: ts-gpu"),
    ),
    good=examples.join_documents(
        examples.claim("shared-gpu", request="mps-gpu"),
        examples.pod("server", "resourceClaimName: shared-gpu", resources="claims:\n- name: gpu\n  request: mps-gpu"),
    ),
    find=_find,
    fixable="unsafe",
    see="https://kubernetes.io/docs/tasks/configure-pod-container/assign-resources/allocate-devices-dra/",
)
