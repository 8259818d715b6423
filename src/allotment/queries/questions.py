"""The questions about a cluster, manifests and codes: each is one call of the Python API, and returns what its command
prints with ``-o json``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any, Final

from msgspec.structs import replace as with_fields

from allotment.api.check import check as check_manifests
from allotment.api.check import fix as fix_manifests
from allotment.api.cluster import Cluster
from allotment.api.explain import answer, is_pending, last_prepare_error
from allotment.api.explain_classes import class_answers, only_classes
from allotment.api.free import free as report_devices
from allotment.api.load import Manifests
from allotment.api.plan import plan as plan_machines
from allotment.api.question import Evaluation, Question
from allotment.engine.refusal import CODES
from allotment.errors import InputError
from allotment.explanation.prepare_errors import PrepareError
from allotment.explanation.report import Answer, Explanation
from allotment.explanation.subjects import objects_to_explain
from allotment.fleet.catalog import catalog
from allotment.fleet.errors import suggestion
from allotment.model.core import Pod
from allotment.model.meta import ObjectKey
from allotment.phrases import counted, listed, split_words
from allotment.queries.requests import (
    LONGEST_SEARCH,
    CheckRequest,
    CodeRequest,
    FixRequest,
    FreeRequest,
    PlanRequest,
    WhyRequest,
)
from allotment.reference.check_rules import rules
from allotment.reference.cluster_checks import checks
from allotment.screens.manifest_answers import evaluated_on
from allotment.screens.manifest_size import load_limited
from allotment.screens.pending import answer_of
from allotment.screens.pending_pods import pending_pods
from allotment.screens.visibility import readers_of
from allotment.screens.what_if import WhatIfRequest
from allotment.screens.what_if import what_if as what_happens
from allotment.watched.view import ClusterView

_CODES_HINT: Final = "codes are those of answers: of reasons (devices-in-use), rules (M401) and checks of doctor (D301)"
#: The most pending pods that are tried one by one; each takes as long as a command.
_MOST_TRIED: Final = 100

# --- the cluster -----------------------------------------------------------------------------------------------------


def why(view: ClusterView, request: WhyRequest) -> dict[str, Any]:
    """Return what ``allot explain`` prints. Raises InputError, InvalidManifests.

    Of many pending pods, equal ones are explained once, with a note.
    """
    is_about_cluster = not request.manifests
    if is_about_cluster and not request.name:
        return _all_pending(view).to_dict()
    question = question_of(view, request.manifests, request.namespace)
    if not request.name and only_classes(question.inputs):
        return class_answers(question).to_dict()
    if is_about_cluster:
        question = replace(question, prepare_errors=_prepare_errors(view))
    return answer(question, request.name).to_dict()


def _all_pending(view: ClusterView) -> Explanation:
    """Return the answers for all pending pods, or for each kind of pod if there are many."""
    if not _has_many(view):
        is_any = any(map(is_pending, view.inputs.cluster))
        return view.cached("queries.all pending", lambda: answer(question_of(view, "")) if is_any else Explanation())
    groups = pending_pods(view).groups
    answers = tuple(answer for group in groups for answer in group.answers)
    count = sum(len(group.pods) for group in groups)
    note = f"{counted(count, 'pod')} of {counted(len(answers), 'kind')} are pending: equal pods are explained once"
    return Explanation(answers=answers, notes=(note, *view.inputs.notes), unread=dict(view.unread))


def _evaluated(view: ClusterView, question: Question) -> Evaluation:
    """Return the answers for manifests, or for all pending objects, which are tried once for each state of the cluster.

    The devices of the cluster are prepared once, unless manifests change them.
    """
    queried = question.inputs.queried
    if queried:
        return evaluated_on(view, question)
    # Objects of a running cluster have a namespace; those of a snapshot may get that of the question.
    namespace = "" if question.is_live else question.namespace or ""
    if not _has_many(view):
        if namespace not in ("", "default"):  # programs may send any number of names
            return evaluated_on(view, question)
        return view.cached(("queries.evaluated", namespace), lambda: evaluated_on(view, question))
    return view.cached("queries.equal", lambda: _by_kind(view))


def _by_kind(view: ClusterView) -> Evaluation:
    """Return the answer for each pending pod: that of the first pod that is equal."""
    answers: list[Answer] = []
    for group in pending_pods(view).groups:
        if not group.pods:
            answers += group.answers
        for pod in group.pods:
            found, name = answer_of(group, str(pod.key)), str(pod.key)
            if found.name != name:
                note = f"explained with pod {found.name}, which is equal; the names of claims are those of its claims"
                found = with_fields(found, name=name, notes=(*found.notes, note))
            answers.append(found)
    return Evaluation(Explanation(answers=tuple(answers)), objects_to_explain(view.inputs.cluster, ()))


def _has_many(view: ClusterView) -> bool:
    pending = sum(isinstance(value, Pod) and is_pending(value) for value in view.inputs.cluster)
    return pending > _MOST_TRIED


def _prepare_errors(view: ClusterView) -> Mapping[ObjectKey, PrepareError]:
    """Return the last error of each pod whose devices cannot be prepared on its node."""
    return view.cached("queries.prepare errors", lambda: dict(_errors_in(view.events)))


def _errors_in(events: Iterable[Mapping[str, Any]]) -> Iterator[tuple[ObjectKey, PrepareError]]:
    by_pod: dict[ObjectKey, list[Mapping[str, Any]]] = {}
    for event in events:
        about = event.get("involvedObject") or event.get("regarding") or {}
        if about.get("kind") == "Pod":
            by_pod.setdefault(ObjectKey(about.get("namespace") or "", about.get("name") or ""), []).append(event)
    for pod, own in by_pod.items():
        if (error := last_prepare_error(own)) is not None:
            yield pod, error


def explanation(view: ClusterView, manifests: str, namespace: str = "") -> Explanation:
    """Return the answers for manifests. Raises InputError, InvalidManifests."""
    return answer(question_of(view, manifests, namespace))


def question_of(view: ClusterView, manifests: str, namespace: str = "") -> Question:
    """Return a question about manifests in the cluster, or about the cluster itself. Raises InvalidManifests."""
    question = Question.of(manifests_of(manifests), view.cluster, namespace or None)
    prepared = replace(question, evaluated=partial(_evaluated, view), readers=readers_of(view))
    return prepared.with_cluster(view.inputs)


def free(view: ClusterView, request: FreeRequest) -> dict[str, Any]:
    """Return what ``allot free`` prints. Raises InputError, InvalidManifests."""
    objects = manifests_of(request.manifests)
    if objects is None and not request.tolerations:
        return view.free.to_dict()
    namespace = request.namespace or None
    return report_devices(
        view.cluster, objects=objects, tolerations=request.tolerations, namespace=namespace
    ).to_dict()  # fmt: skip


def what_if(view: ClusterView, request: WhatIfRequest) -> dict[str, Any]:
    """Return what happens after changes; without changes, their possible targets. Raises InputError."""
    found = what_happens(view, request).to_dict()
    return {name: value for name, value in found.items() if name != "targets" or not request.changes}


# --- manifests -------------------------------------------------------------------------------------------------------


def check(view: ClusterView, request: CheckRequest) -> dict[str, Any]:
    """Return what ``allot check`` prints; configuration files of the server do not matter. Raises InputError."""
    report = check_manifests(
        *_files_of(request),
        cluster=_where(view),
        select=request.select,
        ignore=request.ignore,
        drivers=request.drivers or None,
        namespace=request.namespace,
        isolated=True,
    )
    return report.to_dict()


def fix(view: ClusterView, request: FixRequest) -> dict[str, Any]:
    """Return what ``allot check --fix`` prints, and the texts that it would write. Raises InputError."""
    report = fix_manifests(
        *_files_of(request),
        unsafe=request.unsafe,
        cluster=_where(view),
        select=request.select,
        ignore=request.ignore,
        drivers=request.drivers or None,
        namespace=request.namespace,
        isolated=True,
    )
    return {**report.to_dict(), "texts": dict(report.texts)}


def manifests_of(text: str) -> Manifests | None:
    """Return the manifests of a text, which never names a file; None for an empty one, which means that there are none.

    Raises InputError for a text of white space only, and for too many pods.
    """
    if not text:
        return None
    if not text.strip():
        raise InputError("expected manifests, found an empty text", argument="manifests")
    return load_limited(text)


def _files_of(request: CheckRequest) -> list[Manifests]:
    """Return the files to check, with the text of ``manifests`` as the first. Raises InputError for none."""
    loaded = manifests_of(request.manifests)
    texts = [] if loaded is None else [loaded]
    found = [*texts, *(load_limited(text, name) for name, text in request.files.items())]
    if not found:
        raise InputError("expected manifests, found none", "state their text", argument="manifests")
    return found


def _where(view: ClusterView) -> Cluster:
    """Return the cluster in which workloads are tried; a view without objects has only a release."""
    return view.cluster if view.place != "none" else Cluster(kube=view.kube, gates=view.gates)


# --- machines --------------------------------------------------------------------------------------------------------


def plan(view: ClusterView, request: PlanRequest) -> dict[str, Any]:
    """Return what ``allot plan`` prints. Raises InputError, InvalidManifests, MissingExtraError."""
    _require_providers(split_words(request.catalog))
    if request.time_limit is not None and request.time_limit > LONGEST_SEARCH:
        problem = f"expected at most {LONGEST_SEARCH} seconds, found {request.time_limit:g}"
        raise InputError(problem, "allot plan has no limit", argument="time_limit")
    return plan_machines(
        manifests_of(request.manifests),
        view.cluster,
        only=request.only,
        catalog=request.catalog,
        types=request.types,
        exclude_types=request.exclude_types,
        zones=request.zones,
        capacity_type=request.capacity_type,
        max_spot=request.max_spot or None,
        budget=request.budget or None,
        max_machines=request.max_machines,
        max_per_type=request.max_per_type,
        modes=request.modes,
        time_limit=request.time_limit,
        seed=request.seed,
        compare=request.compare,
        namespace=request.namespace or None,
    ).to_dict()


def _require_providers(names: Iterable[str]) -> None:
    """Raise InputError for the name of a file: programs of other machines must not read those of the server."""
    known = list(dict.fromkeys(instance_type.provider for instance_type in catalog()))
    for name in names:
        if name not in known:
            hint = suggestion(name, known) or f"expected {listed(known)}"
            raise InputError(f"unknown provider {name!r}", hint, argument="catalog")


# --- codes -----------------------------------------------------------------------------------------------------------


def explain_code(view: ClusterView, request: CodeRequest) -> dict[str, Any]:
    """Return the meaning of a code, with the keys that ``allot rule`` and ``allot doctor --list`` print.

    Raises InputError for an unknown code.
    """
    wanted = request.code.strip()
    found = meanings().get(wanted.lower())
    if found is not None:
        return dict(found)
    hint = suggestion(wanted, [each["code"] for each in meanings().values()]) if wanted else ""
    raise InputError(f"unknown code {wanted!r}", hint or _CODES_HINT, argument="code")


@cache
def meanings() -> Mapping[str, Mapping[str, Any]]:
    """Return all codes by their lower-case form: reasons in the order of their table, then rules and checks."""
    every = (
        *({"code": code, "kind": "reason", **reason._asdict()} for code, reason in CODES.items()),
        *({"code": rule["code"], "kind": "rule", **rule} for rule in rules()),
        *({"code": check["code"], "kind": "check", **check} for check in checks()),
    )
    return {each["code"].lower(): each for each in every}
