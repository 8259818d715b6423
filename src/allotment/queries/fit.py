"""``would-fit``: whether pods would get their devices now, and how many of them at the same time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from allotment.api.claim import requirements, written_claim
from allotment.api.claim_context import ClaimContext
from allotment.api.cluster import Cluster
from allotment.api.load import text_manifests
from allotment.engine.refusal import Diagnosis
from allotment.errors import InputError
from allotment.explanation.report import Answer
from allotment.queries.answers import FitAnswer, FittingPod, RefusedPods
from allotment.queries.questions import explanation
from allotment.queries.requests import FitRequest
from allotment.tools.claims.request import LackingDevices
from allotment.watched.view import ClusterView

#: The workload that gets the requested devices; its pods have no other needs.
_WORKLOAD: Final = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: would-fit}
spec:
  replicas: COPIES
  selector: {matchLabels: {app: would-fit}}
  template:
    metadata: {labels: {app: would-fit}}
    spec:
      containers: [{name: main, image: any}]
"""


def would_fit(view: ClusterView, request: FitRequest) -> dict[str, Any]:
    """Return a `FitAnswer` as data. Raises InputError, InvalidManifests."""
    written = _written(view, request)
    if written and request.manifests:
        raise InputError("expected manifests or devices, found both", "omit one of them", argument="manifests")
    text = request.manifests or written
    if not text:
        raise InputError("expected manifests or devices, found neither", "for example gpus: 2", argument="manifests")
    found = explanation(view, text, request.namespace)
    fitting = [answer for answer in found.answers if answer.fits]
    answer = FitAnswer(
        fits=found.fits,
        pods=len(found.answers),
        fitting=len(fitting),
        placements=tuple(
            FittingPod(pod=each.name, node=each.node, claims=each.claims, waits=each.waits) for each in fitting
        ),
        refused=tuple(refused_pods(found.answers)),
        notes=found.notes,
        manifests=written,
    )
    return answer.to_dict()


def refused_pods(answers: Iterable[Answer]) -> Iterable[RefusedPods]:
    """Return the pods that do not get their devices, by reason and remedy, in the order of the answers."""
    groups: dict[tuple[str, str, tuple[str, ...]], list[Answer]] = {}
    for answer in answers:
        if answer.reasons is not None:
            headline = answer.reasons.headline
            groups.setdefault((headline.code, headline.summary, remedies(answer.reasons)), []).append(answer)
    for (code, summary, texts), members in groups.items():
        first = members[0]
        assert first.reasons is not None
        yield RefusedPods(
            code=code,
            summary=summary,
            count=len(members),
            first=first.name,
            remedies=texts,
            kubernetes=first.reasons.headline.kubernetes,
            next=first.next,
        )


def remedies(reasons: Diagnosis) -> tuple[str, ...]:
    """Return the texts of the first remedy: what would help, all of it together."""
    return tuple(change.text for change in reasons.headline.changes)


def _written(view: ClusterView, request: FitRequest) -> str:
    """Return manifests of pods with the requested devices; empty if the request names none. Raises InputError."""
    named = (request.memory, request.model, request.vendor, request.mig, request.share)
    if not request.gpus and not any(named):
        if request.copies > 1:
            problem = f"expected devices for {request.copies} pods, found none"
            raise InputError(problem, "manifests state the number of pods themselves", argument="copies")
        return ""
    workload = text_manifests(_WORKLOAD.replace("COPIES", str(request.copies)))
    for cluster in (view.cluster, Cluster()):
        context = ClaimContext.of(workload, cluster)
        required = requirements(
            context.supply,
            gpus=request.gpus or 1,
            memory=request.memory,
            model=request.model,
            vendor=request.vendor,
            mig=request.mig or None,
            share=request.share or None,
        )
        try:
            # Not tried: the answer is that of the explanation, which names the reason.
            return written_claim(
                context, required, namespace=request.namespace, workload="deploy/would-fit", comments=False,
                is_tried=False,
            ).text  # fmt: skip
        except LackingDevices:
            # The claim is written for other hardware, so that the refusal has the code of its reason.
            if not context.supply.given:
                raise
    raise AssertionError("a claim for all known hardware lacks none")
