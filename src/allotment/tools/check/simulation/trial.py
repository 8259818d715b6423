"""The files tried on the engine, in the cluster that was given: what of them gets its devices, and what stays pending.

Only what is free of errors is tried, with nothing in it that is not: the answer for a pod whose template cannot be read
would be about something else than what its author wrote.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from msgspec.structs import replace

from allotment.model.generated_claims import name_prefix
from allotment.model.loading import Document
from allotment.model.loading.marks import Path, split_path
from allotment.model.meta import Object, ObjectKey
from allotment.tools.check.bundle import Bundle, World
from allotment.tools.check.objects.field_shapes import written
from allotment.tools.explain import Answer, explain
from allotment.tools.explain.subjects import ANY_POD, to_try
from allotment.tools.views import ClaimView, PodView, mapping, text

#: Changed clusters that are tried in all to find what would help: enough for what somebody reads at once.
_TRIES: Final = 1_000
#: Reasons that are no answer of the allocator: the API server would not take what is needed.
_REFUSED: Final = ("invalid-manifest", "selector-invalid", "admin-access-not-allowed")


class Left(NamedTuple):
    """What was not tried, where that is to be told, and why; without a reason where it names what nobody gave."""

    document: Document
    path: Path
    why: str


class Pending(NamedTuple):
    """Answers of one kind for one object of the files. ``of`` is how many pods the object has in all."""

    document: Document
    path: Path
    answers: tuple[Answer, ...]
    of: int


class Proof(NamedTuple):
    """What came of it. ``fits`` is how many pods and claims got their devices."""

    pending: tuple[Pending, ...]
    left: tuple[Left, ...]
    fits: int


def prove(bundle: Bundle, world: World, flawed: Collection[Document]) -> Proof:
    """Try everything but ``flawed`` documents, and what needs them."""
    trial = _Trial(bundle, flawed)
    left = tuple(trial.left())
    out = {*flawed, *(one.document for one in left), *trial.flawed_claims()}
    values = [_placed(bundle, document) for document in bundle.manifests if document not in out]
    answers = explain(to_try(world.objects, [v for v in values if v is not None]), bundle.features, _TRIES).answers
    grouped: dict[Document, list[Answer]] = {}
    for answer in answers:
        document = trial.document_of(answer)
        if document is not None and document not in out:
            grouped.setdefault(document, []).append(answer)
    pending: list[Pending] = []
    refused: list[Left] = []
    for document, given in grouped.items():
        for one in trial.pending(document, given):
            told = one.answers[0].reasons
            if told is not None and told.headline.code in _REFUSED:
                refused.append(Left(document, _name_path(document), told.headline.summary))
            else:
                pending.append(one)
    return Proof(tuple(pending), (*left, *refused), sum(answer.fits for given in grouped.values() for answer in given))


def _placed(bundle: Bundle, document: Document) -> Object | None:
    """The object, in the namespace of ``-n`` if it is of a namespaced kind and names none itself."""
    manifest = bundle.manifests[document]
    value = manifest.value
    if not isinstance(value, Object):
        return None
    written = text(mapping(document.tree.get("metadata")).get("namespace"))
    if written or not manifest.key.namespace:
        return value
    return replace(value, metadata=replace(value.metadata, namespace=bundle.namespace))


class _Trial:
    """The bundle by name, for going from objects to documents and back."""

    def __init__(self, bundle: Bundle, flawed: Collection[Document]) -> None:
        self.bundle = bundle
        self.flawed = {*flawed, *(d for d in bundle.documents if d not in bundle.manifests)}
        self.pods = {f"{pod.kind} {pod.key}": pod for pod in bundle.pods}
        self.documents: dict[str, Document] = {name: pod.document for name, pod in self.pods.items()}
        self.documents.update({f"{view.kind} {view.key}": view.document for view in bundle.claims})
        self.documents.update({f"DeviceClass {view.name}": view.document for view in bundle.classes})

    # --- what cannot be tried ------------------------------------------------------------------------------------

    def left(self) -> Iterator[Left]:
        """Pods, and claims and templates that no pod names, that have errors or need what has."""
        named: set[Document] = set()
        for pod in self.bundle.pods:
            if not pod.document.kind:
                continue
            for entry in pod.entries:
                view = self.bundle.claims_by_key.get((entry.kind, ObjectKey(pod.key.namespace, entry.refers_to)))
                named.update([view.document] if view is not None else [])
            yield from self._of_pod(pod)
        for view in self.bundle.claims:
            why = self._flaw(view)
            if why and view.document not in named:
                yield Left(view.document, _name_path(view.document), why)

    def flawed_claims(self) -> Iterator[Document]:
        """Claims and templates that have errors, or whose class has."""
        return (view.document for view in self.bundle.claims if self._flaw(view))

    def _of_pod(self, pod: PodView) -> Iterator[Left]:
        if pod.document in self.flawed:
            yield Left(pod.document, _name_path(pod.document), "it has errors")
            return
        for entry in pod.entries:
            key = ObjectKey(pod.key.namespace, entry.refers_to)
            view = self.bundle.claims_by_key.get((entry.kind, key))
            stored = self.bundle.cluster_claims if entry.kind == "ResourceClaim" else self.bundle.cluster_templates
            why = self._flaw(view) if view is not None else ""
            if why or (view is None and key not in stored):
                why = f"{entry.kind} {entry.refers_to}: {why}" if why else ""
                yield Left(pod.document, entry.name_path, why)
                return

    def _flaw(self, view: ClaimView) -> str:
        if view.document in self.flawed:
            return "it has errors"
        for request in view.requests:
            document = self.documents.get(f"DeviceClass {request.class_name}")
            if document in self.flawed:
                return f"DeviceClass {request.class_name} has errors"
        return ""

    # --- answers -------------------------------------------------------------------------------------------------

    def document_of(self, answer: Answer) -> Document | None:
        """The document that an answer is about; None for what only the cluster has."""
        namespace, _, name = answer.name.partition("/")
        if answer.kind == "Pod" and name.startswith(ANY_POD):
            return self.documents.get(f"ResourceClaimTemplate {namespace}/{name.removeprefix(ANY_POD)}")
        found = self.documents.get(answer.owner or f"{answer.kind} {answer.name}")
        if found is None and answer.owner.startswith("Job "):  # of a CronJob, with an end to its name
            job = answer.owner.removeprefix("Job ")
            return self.documents.get(f"CronJob {job.rpartition('-')[0]}")
        return found

    def pending(self, document: Document, answers: list[Answer]) -> Iterator[Pending]:
        """What of a document's pods and claims does not fit, by reason."""
        alike: dict[tuple[str, str], list[Answer]] = {}
        for answer in answers:
            if answer.reasons is not None:
                told = answer.reasons.headline
                alike.setdefault((told.code, told.summary), []).append(answer)
        for refused in alike.values():
            where, path = self.place(document, refused[0])
            yield Pending(where, path, tuple(refused), len(answers))

    def place(self, document: Document, answer: Answer) -> tuple[Document, Path]:
        """Where to look: what the smallest change is to, or the request, or the entry of the pod."""
        assert answer.reasons is not None
        told = answer.reasons.headline
        for change in (*told.changes, *told.otherwise):
            changed = self.documents.get(change.object) if change.remedy != "wait" else None
            if changed is not None and change.path and changed not in self.flawed:
                return changed, written(changed, split_path(change.path))
        views = self._claims_of(document, answer, told.claim)
        for view in views:
            for request in view.requests:
                if told.request in (request.name, request.name.partition("/")[0]):
                    return view.document, request.path
        if len(views) == 1 and views[0].requests:
            return views[0].document, views[0].requests[0].path
        pod = next((pod for pod in self.pods.values() if pod.document is document), None)
        if pod is not None and pod.entries:
            return document, pod.entries[0].name_path
        return document, _name_path(document)

    def _claims_of(self, document: Document, answer: Answer, name: str) -> list[ClaimView]:
        """The claim that a reason speaks of, or the template that it was made from; all of the pod where it is none."""
        namespace, _, last = name.rpartition("/")
        own = self.bundle.claims_by_key.get(("ResourceClaim", ObjectKey(namespace, last)))
        if own is not None:
            return [own]
        views = [view for view in self.bundle.claims if view.document is document]
        pod = next((pod for pod in self.pods.values() if pod.document is document), None)
        if pod is None:
            return views
        pod_name = answer.name.partition("/")[2]
        entries = [e for e in pod.entries if last.startswith(name_prefix(pod_name, e.name)) or last == e.name]
        keys = [(e.kind, ObjectKey(pod.key.namespace, e.refers_to)) for e in entries or pod.entries]
        return [self.bundle.claims_by_key[key] for key in keys if key in self.bundle.claims_by_key]


def _name_path(document: Document) -> Path:
    return ("metadata", "name") if document.name else ()
