"""The state at the end of a recorded flow as a cluster, and what explain says about the pods that are pending then.

The cluster consists of the objects with which every recording starts, those that the requests of the flow created, and
the pods, claims and groups of the last snapshot.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from allotment.api.clusters.live import values_of
from allotment.explanation import Answer, explain
from allotment.explanation.subjects import objects_to_explain, other_pods
from allotment.model.features import Features
from allotment.model.trees import Tree
from tests.vectors.apiserver.recording import FIXTURES, Row, rows

#: Kinds of which the last snapshot contains all objects of the flow.
_IN_SNAPSHOT = frozenset(
    {"Pod", "DeviceTaintRule", "ResourceClaim", "PodGroup", "CompositePodGroup", "Job", "Workload"}
)
#: Kinds that explain does not read.
_UNREAD = frozenset({"Workload", "CompositePodGroup", "ResourcePoolStatusRequest", "PriorityClass", "ConfigMap"})


class PendingPod(NamedTuple):
    """A pod that has no node at the end of a flow, and the answer about it."""

    flow: str
    pod: Tree
    answer: Answer

    @property
    def name(self) -> str:
        return f"{self.flow}: {self.pod['metadata']['name']}"

    @property
    def is_grouped(self) -> bool:
        return bool(self.pod["spec"].get("schedulingGroup"))

    @property
    def message(self) -> str:
        """Kubernetes' message in the pod's condition."""
        conditions = self.pod["status"].get("conditions") or ()
        return next((str(c.get("message", "")) for c in conditions if c["type"] == "PodScheduled"), "")


def pending_pods(flow: Row, features: Features) -> Iterator[PendingPod]:
    """The pods that Kubernetes left pending, with the answers of explain."""
    last = flow["snapshots"][-1]
    pending = [pod for pod in last["pods"] if not pod["spec"].get("nodeName")]
    if not pending:
        return
    values = values_of(_trees(flow), flow["flow"])
    subjects = objects_to_explain(values, ())
    found = explain(subjects, features, others=other_pods(values, subjects)).answers
    answers = {answer.name: answer for answer in found if answer.kind == "Pod"}
    for pod in pending:
        yield PendingPod(flow["flow"], pod, answers[f"{flow['namespace']}/{pod['metadata']['name']}"])


def _trees(flow: Row) -> list[Tree]:
    found: dict[tuple[str, str], Tree] = {}

    def put(tree: Tree, path: str) -> None:
        namespace = re.search(r"/namespaces/([^/]+)/", path)
        metadata = {**tree["metadata"], **({"namespace": namespace[1]} if namespace else {})}
        found[tree["kind"], tree["metadata"]["name"]] = {**tree, "metadata": metadata}

    for row in rows(FIXTURES):
        if row["request"]["method"] == "POST":
            put(row["request"]["body"], row["request"]["path"])
    for step in flow["steps"]:
        if "object" in step and step["code"] < 400:
            put(step["object"], step["path"])
        for request in step.get("requests") or ():
            if request.get("method") == "POST" and request.get("body", {}).get("kind"):
                put(request["body"], request["path"])
            elif request.get("method") == "DELETE":
                name = request["path"].rpartition("/")[2]
                for kind, known in list(found):
                    if known == name and f"/{kind.lower()}" in request["path"]:
                        del found[kind, known]
    last = flow["snapshots"][-1]
    kept = [tree for (kind, _), tree in found.items() if kind not in _IN_SNAPSHOT]
    pods = ({**pod, "apiVersion": "v1", "kind": "Pod"} for pod in last["pods"])
    claims = ({**c, "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"} for c in last["resourceclaims"])
    return [tree for tree in (*kept, *last["others"], *claims, *pods) if tree["kind"] not in _UNREAD]
