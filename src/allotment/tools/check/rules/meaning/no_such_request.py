"""M404: a request by a name that the claim does not have."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.engine.diagnosis.published_names import near
from allotment.model.editing.edits import SetValue
from allotment.model.loading import Document
from allotment.model.loading.marks import Path
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.claims.references import RequestNames, names_of, request_names, targets, targets_of
from allotment.tools.check.rule import Fix, Found, Rule
from allotment.tools.explain import lacking
from allotment.tools.views import ClaimView, PodView, at, items


def _find(bundle: Bundle) -> Iterator[Found]:
    for claim in bundle.claims:
        yield from _in_claim(claim)
    for pod in bundle.pods:
        yield from _of_alternatives(bundle, pod)
    for target in targets(bundle):
        names = request_names(target)
        if names is None:
            continue
        for container in target.pod.containers:
            for use in container.uses:
                if use.name == target.entry.name and use.request not in ("", *names) and "/" not in use.request:
                    document, path = target.pod.document, (*use.path, "request")
                    told = lacking(container.name, use.request, target.what, names)
                    yield Found(document, path, told, fix=_meant(document, path, use.request, names))


def _of_alternatives(bundle: Bundle, pod: PodView) -> Iterator[Found]:
    """Containers that name an alternative of a request."""
    for container in pod.containers:
        for use in container.uses:
            main, slash, alternative = use.request.partition("/")
            if slash:
                path = (*use.path, "request")
                message = f"a container can only name a whole request: {main}, not its alternative {alternative}"
                own = (target for target in targets_of(bundle, pod) if target.entry.name == use.name)
                known = any(main in (request_names(target) or ()) for target in own)
                fix = _renamed(pod.document, path, main) if known else None
                yield Found(pod.document, path, f"{message}; the API server refuses it", fix=fix)


def _in_claim(claim: ClaimView) -> Iterator[Found]:
    """Names in constraints and config, where an alternative may be named, too."""
    mains = names_of(claim)
    if mains is None:
        return
    known = [*mains, *(f"{main}/{alternative}" for main in mains for alternative in mains[main])]
    for field in ("constraints", "config"):
        for number, item in items(at(claim.document.tree, (*claim.devices, field))):
            listed = item.get("requests")
            for index, name in enumerate(listed if isinstance(listed, list) else ()):
                if not isinstance(name, str) or name in known:
                    continue
                path = (*claim.devices, field, number, "requests", index)
                what = "a constraint" if field == "constraints" else "configuration"
                yield Found(
                    claim.document,
                    path,
                    f"{what} is for request {name}, which the claim does not have (it has {', '.join(mains)}); "
                    "the API server refuses it",
                    fix=_meant(claim.document, path, name, dict.fromkeys(known, ())),
                )


def _meant(document: Document, path: Path, name: str, known: RequestNames) -> Fix | None:
    """The one request that can be meant: the only one that is near, or the only one."""
    close = near(name, known)
    meant = close or tuple(known)
    return _renamed(document, path, meant[0]) if len(meant) == 1 else None


def _renamed(document: Document, path: Path, name: str) -> Fix:
    return Fix(f"name request {name}", ((document, SetValue(path, name)),), safe=False)


RULE = Rule(
    code="M404",
    name="no-such-request",
    family="meaning",
    level="error",
    summary="a container, constraint or configuration names a request that the claim does not have",
    why=(
        "Constraints and configuration may only name requests of their own claim, or alternatives of one; the API "
        "server refuses others. A container that names a request is checked by nobody: the pod is scheduled, its claim "
        "is allocated, and the kubelet, which looks for that request's devices, finds none and starts the container "
        "without any. There is neither an event nor an error (KEP-4381)."
    ),
    bad=examples.together(
        examples.claim("shared-gpu", request="mps-gpu"),
        examples.pod("server", "resourceClaimName: shared-gpu", resources="claims:\n- name: gpu\n  request: ts-gpu"),
    ),
    good=examples.together(
        examples.claim("shared-gpu", request="mps-gpu"),
        examples.pod("server", "resourceClaimName: shared-gpu", resources="claims:\n- name: gpu\n  request: mps-gpu"),
    ),
    find=_find,
    fixable="unsafe",
    see="https://kubernetes.io/docs/tasks/configure-pod-container/assign-resources/allocate-devices-dra/",
)
