"""The answers of ``explain`` about the pending pod of a world."""

from __future__ import annotations

from collections.abc import Sequence

from allotment.explanation import Answer, explain, run
from allotment.explanation.input import Readers, reads_everything
from allotment.explanation.subjects import objects_to_explain, other_pods
from allotment.model.trees import Tree
from tests.storm.advice.worlds import FEATURES, NAMESPACE, POD, World, values_of


def explained(
    cluster: Sequence[Tree], own: Sequence[Tree] = (), *, readers: Readers = reads_everything, tries: int | None = None
) -> Answer:
    """The answer for the pending pod. ``own``: objects that are not in the cluster yet; ``tries``: see `explain`."""
    objects, requested = values_of(cluster), values_of(own)
    values = objects_to_explain(objects, requested)
    answers = explain(values, FEATURES, tries, other_pods(objects, values), readers=readers).answers
    return next(answer for answer in answers if answer.kind == "Pod" and answer.name == f"{NAMESPACE}/{POD}")


def fits(world: World) -> bool:
    """Whether the pod and its claims fit."""
    return run.fits(objects_to_explain(values_of(world.cluster), values_of(world.own)), FEATURES)


def place_of(world: World) -> Answer | None:
    """Where the pod and its claims are placed; None if they do not fit. No reason is searched."""
    return explained(world.cluster, world.own, tries=0) if fits(world) else None


def code_of(answer: Answer) -> str:
    """The code of the first reason, or ``fits``."""
    return answer.reasons.headline.code if answer.reasons is not None else "fits"
