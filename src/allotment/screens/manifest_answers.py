"""Answers for manifests in a cluster that is kept in memory: its devices are prepared once for all of them."""

from __future__ import annotations

from dataclasses import replace

from allotment.api.explain import answer, evaluated
from allotment.api.load import Manifests
from allotment.api.question import Evaluation, Question
from allotment.explanation.prepared_devices import PreparedDevices, are_usable
from allotment.explanation.report import Explanation
from allotment.explanation.subjects import objects_to_explain, other_pods
from allotment.screens.visibility import readers_of
from allotment.watched.view import ClusterView


def explanation_of(view: ClusterView, manifests: Manifests) -> Explanation:
    """Return the answers of `allot explain` for manifests. Raises InputError, InvalidManifests."""
    question = Question.of(manifests, view.cluster, None)
    prepared = replace(question, evaluated=lambda of: evaluated_on(view, of), readers=readers_of(view))
    return answer(prepared.with_cluster(view.inputs))


def evaluated_on(view: ClusterView, question: Question) -> Evaluation:
    """Return the answers for the manifests of a question, which must have some.

    Manifests that change devices are evaluated like those of a command.
    """
    queried, cluster = question.inputs.queried, question.inputs.cluster
    if not are_usable(queried):
        return evaluated(question)
    values = objects_to_explain(cluster, queried)
    devices = view.remember("screens.devices", lambda: PreparedDevices(view.inputs.cluster, view.inputs.features))
    found = devices.explain(
        values, other_pods(cluster, values), default_namespace=question.namespace or "default", readers=question.readers
    )
    return Evaluation(found, values)
