"""Simulates allocation of the files' objects in the given cluster: which get their devices, and which stay pending.

Only objects that the API server accepts are simulated, and only if it accepts those that they need: the result for a
pod whose template cannot be decoded would not match the author's intent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from msgspec.structs import replace

from allotment.explanation import Answer, explain
from allotment.explanation.subjects import ANY_POD, objects_to_explain, other_pods
from allotment.model.generated_claims import name_prefix
from allotment.model.loading import Document
from allotment.model.loading.marks import Path, split_path
from allotment.model.meta import Object, ObjectKey
from allotment.tools.check.bundle import Bundle, TargetCluster
from allotment.tools.check.claims.references import compute_domain_templates
from allotment.tools.check.objects.field_shapes import written_path
from allotment.tools.views import ClaimView, PodView, mapping, text

#: The maximum number of hypothetical changes that are tried in total to find one that helps.
_MAX_TRIES: Final = 1_000
#: Reasons that do not come from the allocator: the API server would reject an object.
_NOT_ALLOCATOR: Final = ("invalid-manifest", "selector-invalid", "admin-access-not-allowed")
#: A claim with errors of its own, as the subject of its message.
_ITSELF: Final = "it"


class SkippedObject(NamedTuple):
    """An object that was not simulated, where to report it, and the reason."""

    document: Document
    path: Path
    reason: str


class PendingObject(NamedTuple):
    """The pods of one object that stay pending for the same reason. ``pod_count`` is the number of all its pods."""

    document: Document
    path: Path
    answers: tuple[Answer, ...]
    pod_count: int


class SimulationOutcome(NamedTuple):
    """The result of a simulation. ``fitting`` is the number of pods and claims that got their devices."""

    pending: tuple[PendingObject, ...]
    skipped: tuple[SkippedObject, ...]
    fitting: int


def simulate(bundle: Bundle, cluster: TargetCluster, invalid: Collection[Document]) -> SimulationOutcome:
    """Simulate all objects except ``invalid`` documents and objects that need them."""
    index = _BundleIndex(bundle, invalid)
    skipped = tuple(index.skipped())
    excluded = {*invalid, *(group.document for group in skipped), *index.invalid_claims()}
    values = [_with_namespace(bundle, document) for document in bundle.manifests if document not in excluded]
    explained = objects_to_explain(cluster.objects, [v for v in values if v is not None])
    others = other_pods(cluster.objects, explained)
    answers = explain(
        explained, bundle.features, _MAX_TRIES, others, default_namespace=bundle.namespace, admitted=bundle.admitted
    ).answers
    grouped: dict[Document, list[Answer]] = {}
    for answer in answers:
        document = index.document_of(answer)
        if document is not None and document not in excluded:
            grouped.setdefault(document, []).append(answer)
    pending: list[PendingObject] = []
    rejected: list[SkippedObject] = []
    for document, document_answers in grouped.items():
        for group in index.pending(document, document_answers):
            reasons = group.answers[0].reasons
            if reasons is not None and reasons.headline.code in _NOT_ALLOCATOR:
                rejected.append(SkippedObject(document, _name_path(document), reasons.headline.summary))
            else:
                pending.append(group)
    return SimulationOutcome(
        tuple(pending),
        (*skipped, *rejected),
        sum(answer.fits for document_answers in grouped.values() for answer in document_answers),
    )


def _with_namespace(bundle: Bundle, document: Document) -> Object | None:
    """The object, in the namespace of ``-n`` if it is namespaced and sets none."""
    manifest = bundle.manifests[document]
    value = manifest.value
    if not isinstance(value, Object):
        return None
    namespace = text(mapping(document.tree.get("metadata")).get("namespace"))
    if namespace or not manifest.key.namespace:
        return value
    return replace(value, metadata=replace(value.metadata, namespace=bundle.namespace))


class _BundleIndex:
    """The documents of a bundle by object name, to map objects to documents and back."""

    def __init__(self, bundle: Bundle, invalid: Collection[Document]) -> None:
        self.bundle = bundle
        self.invalid = {*invalid, *(d for d in bundle.documents if d not in bundle.manifests)}
        self.pods = {f"{pod.kind} {pod.key}": pod for pod in bundle.pods}
        self.documents: dict[str, Document] = {name: pod.document for name, pod in self.pods.items()}
        self.documents.update({f"{view.kind} {view.key}": view.document for view in bundle.claims})
        self.documents.update({f"DeviceClass {view.name}": view.document for view in bundle.classes})

    # --- skipped objects -----------------------------------------------------------------------------------------

    def skipped(self) -> Iterator[SkippedObject]:
        """Pods, and claims and templates without a pod, that have errors or need objects with errors."""
        referenced: set[Document] = set()
        for pod in self.bundle.pods:
            if not pod.document.kind:
                continue
            for entry in pod.entries:
                view = self.bundle.claims_by_key.get((entry.kind, ObjectKey(pod.key.namespace, entry.refers_to)))
                referenced.update([view.document] if view is not None else [])
            yield from self._of_pod(pod)
        for view in self.bundle.claims:
            faulty = self._faulty(view)
            if faulty and view.document not in referenced:
                yield SkippedObject(view.document, _name_path(view.document), f"{faulty} has errors")

    def invalid_claims(self) -> Iterator[Document]:
        """Claims and templates that have errors, or whose class has errors."""
        return (view.document for view in self.bundle.claims if self._faulty(view))

    def _of_pod(self, pod: PodView) -> Iterator[SkippedObject]:
        if pod.document in self.invalid:
            yield SkippedObject(pod.document, _name_path(pod.document), "it has errors")
            return
        for entry in pod.entries:
            key = ObjectKey(pod.key.namespace, entry.refers_to)
            view = self.bundle.claims_by_key.get((entry.kind, key))
            faulty = self._faulty(view) if view is not None else ""
            reason = ""
            if faulty:
                claim = f"{entry.kind} {entry.refers_to}"
                subject = claim if faulty == _ITSELF else f"{faulty}, which {claim} requests,"
                reason = f"{subject} has errors"
            elif key in compute_domain_templates(self.bundle) and key not in self.bundle.cluster_templates:
                reason = f"template {key.name} does not exist until the ComputeDomain controller creates it"
            if reason:
                yield SkippedObject(pod.document, entry.name_path, reason)
                return

    def _faulty(self, view: ClaimView) -> str:
        """The object with errors that prevents simulation: the claim itself, or a class; empty without one."""
        if view.document in self.invalid:
            return _ITSELF
        for request in view.requests:
            document = self.documents.get(f"DeviceClass {request.class_name}")
            if document in self.invalid:
                return f"DeviceClass {request.class_name}"
        return ""

    # --- answers -------------------------------------------------------------------------------------------------

    def document_of(self, answer: Answer) -> Document | None:
        """The document of an answer; None for objects that are only in the cluster."""
        namespace, _, name = answer.name.partition("/")
        if answer.kind == "Pod" and name.startswith(ANY_POD):
            return self.documents.get(f"ResourceClaimTemplate {namespace}/{name.removeprefix(ANY_POD)}")
        document = self.documents.get(answer.owner or f"{answer.kind} {answer.name}")
        if document is None and answer.owner.startswith("Job "):  # a CronJob's Job has a name suffix
            job = answer.owner.removeprefix("Job ")
            return self.documents.get(f"CronJob {job.rpartition('-')[0]}")
        return document

    def pending(self, document: Document, answers: list[Answer]) -> Iterator[PendingObject]:
        """The pods and claims of a document that do not fit, grouped by reason."""
        by_reason: dict[tuple[str, str], list[Answer]] = {}
        for answer in answers:
            if answer.reasons is not None:
                headline = answer.reasons.headline
                by_reason.setdefault((headline.code, headline.summary), []).append(answer)
        for group in by_reason.values():
            location, path = self.location_of(document, group[0])
            yield PendingObject(location, path, tuple(group), len(answers))

    def location_of(self, document: Document, answer: Answer) -> tuple[Document, Path]:
        """Where to report an answer: at the smallest change, at the request, or at the pod's entry."""
        assert answer.reasons is not None
        headline = answer.reasons.headline
        for change in (*headline.changes, *headline.otherwise):
            changed = self.documents.get(change.object) if change.remedy != "wait" else None
            if changed is not None and change.path and changed not in self.invalid:
                return changed, written_path(changed, split_path(change.path))
        views = self._claims_of(document, answer, headline.claim)
        for view in views:
            for request in view.requests:
                if headline.request in (request.name, request.name.partition("/")[0]):
                    return view.document, request.path
        if len(views) == 1 and views[0].requests:
            return views[0].document, views[0].requests[0].path
        pod = next((pod for pod in self.pods.values() if pod.document is document), None)
        if pod is not None and pod.entries:
            return document, pod.entries[0].name_path
        return document, _name_path(document)

    def _claims_of(self, document: Document, answer: Answer, name: str) -> list[ClaimView]:
        """The claim that a reason names, or its template; all claims of the pod if it names none."""
        namespace, _, claim_name = name.rpartition("/")
        claim = self.bundle.claims_by_key.get(("ResourceClaim", ObjectKey(namespace, claim_name)))
        if claim is not None:
            return [claim]
        views = [view for view in self.bundle.claims if view.document is document]
        pod = next((pod for pod in self.pods.values() if pod.document is document), None)
        if pod is None:
            return views
        pod_name = answer.name.partition("/")[2]
        entries = [
            e for e in pod.entries if claim_name.startswith(name_prefix(pod_name, e.name)) or claim_name == e.name
        ]
        keys = [(e.kind, ObjectKey(pod.key.namespace, e.refers_to)) for e in entries or pod.entries]
        return [self.bundle.claims_by_key[key] for key in keys if key in self.bundle.claims_by_key]


def _name_path(document: Document) -> Path:
    return ("metadata", "name") if document.name else ()
