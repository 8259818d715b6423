"""S107: kinds that the cluster does not have: misspelled, in the wrong group, or of classic DRA."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.model.decoding import DecodingError
from allotment.model.editing.edits import SetValue
from allotment.model.fields import kinds_of, shape_of, version_key
from allotment.model.loading import Document
from allotment.model.loading.marks import Path
from allotment.model.releases import release_table
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.objects.api_versions import newest_version, versions_for
from allotment.tools.check.objects.classic_dra import CLASS_NAME, replacement_for
from allotment.tools.check.rule import Fix, Rule, RuleMatch
from allotment.tools.views import at, is_dra


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    """Objects of kinds that do not exist. Custom kinds are assumed to exist."""
    for document in bundle.documents:
        kind, version = document.kind, document.api_version
        if kind and not version:
            match = _report_missing_version(document, bundle.features.kube)
        elif replacement := replacement_for(document):
            match = _report_classic_dra(document, replacement)
        elif newest_version(document, bundle.features.kube) or (is_dra(document) and versions_for(document)):
            match = None  # S101 checks its version, S110 its gate
        else:
            match = _report_unknown_kind(bundle, document)
        if match is not None:
            yield match


def _report_classic_dra(document: Document, replacement: str) -> RuleMatch:
    kind, version = document.kind, document.api_version
    path: Path = ("spec",) if kind == "ResourceClaim" else ("spec", "spec")
    # In versions that classic DRA never had, only the field identifies it.
    if shape_of(version, kind) is not None and at(document.tree, (*path, CLASS_NAME)) is not None:
        message = f"{CLASS_NAME} is part of classic DRA, which was removed in Kubernetes 1.32"
        return RuleMatch(document, (*path, CLASS_NAME), message, help=replacement, at_key=True)
    message = f"{kind} in {version} is part of classic DRA, which was removed in Kubernetes 1.32"
    return RuleMatch(document, ("kind",), message, help=replacement)


def _report_missing_version(document: Document, release: str) -> RuleMatch | None:
    """An object without apiVersion: API clients can work without it, kubectl cannot."""
    kind = document.kind
    versions = _served_versions(kind, release)
    if not versions:
        return None
    best = _preferred(versions)
    edit = SetValue(("apiVersion",), best, first=True)
    return RuleMatch(
        document,
        ("kind",),
        f"{kind} has no apiVersion: kubectl rejects the file",
        fix=Fix(
            f"write apiVersion: {best}", ((document, edit),), safe=len({v.rpartition("/")[0] for v in versions}) == 1
        ),
        level="warning",  # the API server accepts it from clients that use the right URL
    )


def _served_versions(kind: str, release: str) -> list[str]:
    """The API versions in which a release serves a kind, in the order of its discovery document."""
    return [
        f"{group}/{version}" if group else version
        for group, versions in release_table(release).groups.items()
        for version, served in versions.items()
        if any(resource.kind == kind and "/" not in name for name, resource in served.resources.items())
    ]


def _preferred(versions: list[str]) -> str:
    """A stable version if there is one, else the newest."""
    stable = [version for version in versions if _is_stable_version(version)]
    return stable[0] if stable else max(versions, key=version_key)


def _is_stable_version(api_version: str) -> bool:
    """Whether a version is neither alpha nor beta."""
    return not any(word in api_version.rpartition("/")[2] for word in ("alpha", "beta"))


def _report_unknown_kind(bundle: Bundle, document: Document) -> RuleMatch | None:
    decoded = bundle.decoded[document]
    if not isinstance(decoded, DecodingError):
        return None
    problem = next((error for error in decoded.problems if error.code == "no-such-kind"), None)
    if problem is None:
        return None
    kube, version, kind = bundle.features.kube, document.api_version, document.kind
    field, suggestion = problem.path or "kind", problem.suggestion
    if field == "apiVersion" and suggestion:
        served = _served_versions(kind, kube)
        suggestion = _preferred(served) if served else ""
    fix = Fix(f"write {suggestion}", ((document, SetValue((field,), suggestion)),), safe=False) if suggestion else None
    if kind in kinds_of(version):
        return RuleMatch(
            document, (field,), f"Kubernetes {kube} has no {kind} in {version}", help=problem.hint, fix=fix
        )
    return RuleMatch(document, (field,), f"{version} has no kind {kind}", fix=fix)


RULE = Rule(
    code="S107",
    name="no-such-kind",
    family="shape",
    level="error",
    summary="Kubernetes does not define this kind, or no longer defines it",
    why=(
        "kubectl looks up the kind in the cluster and finds no match: the kind is misspelled, belongs to another "
        "group or version, or is part of classic DRA (KEP-3063). In classic DRA, drivers allocated devices, using "
        "ResourceClass, PodSchedulingContext and vendor-specific parameter kinds. Classic DRA was withdrawn in favor "
        "of structured parameters (KEP-4381), and its kinds were removed in 1.32. Kinds in groups that Kubernetes "
        "does not define are assumed to be custom resources."
    ),
    bad=examples.claim("inference").replace("resource.k8s.io/v1", "v1"),
    good=examples.claim("inference"),
    find=_find,
    fixable="safe or unsafe",
    see="https://kep.k8s.io/3063",
)
