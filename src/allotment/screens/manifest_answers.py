"""Answers for manifests and pending pods in a cluster that is kept in memory: what did not change is used again."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from allotment.api.explain import answer
from allotment.api.load import Manifests
from allotment.api.question import Evaluation, Question
from allotment.explanation.prepared_devices import PreparedDevices
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
    """Return the answers for the manifests of a question, or for all pending objects if it has none."""
    queried, cluster = question.inputs.queried, question.inputs.cluster
    values = objects_to_explain(cluster, queried)
    # Manifests may take long; the pending pods of the page do not wait for them.
    prepared = prepared_devices(view, "manifests" if queried else "pending")
    found = prepared.explain(
        values, other_pods(cluster, values), default_namespace=question.namespace or "default", readers=question.readers
    )
    return Evaluation(found, values)


def prepared_devices(view: ClusterView, purpose: Literal["manifests", "pending"]) -> PreparedDevices:
    """Return the devices of the cluster, which later views use again."""
    features = view.inputs.features
    return view.carried.of((PreparedDevices, purpose, features), lambda: PreparedDevices(features))
