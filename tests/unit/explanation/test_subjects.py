"""Selection of the objects to explain, and trials without reasons."""

from __future__ import annotations

import pytest

from allotment.explanation import explain, fits
from allotment.explanation.subjects import ANY_POD, identity, objects_to_explain, other_pods
from allotment.fleet import cluster_of, parse_fleet
from allotment.model.features import Features
from allotment.model.meta import Object
from allotment.planning.pending_pods.selection import select_objects
from tests.unit.tools.check.bundles import world_of
from tests.unit.tools.check.rules.meaning.manifests import (
    by_claim,
    claim,
    gpu_request,
    pod,
    request_with_selector,
    template,
    workload,
)

FEATURES = Features(kube="1.36")


def objects(*texts: str) -> tuple[Object, ...]:
    """The objects in YAML documents."""
    world = world_of(cluster="---\n".join(texts))
    assert world is not None
    return world.objects


def test_an_unused_template_gets_a_pod() -> None:
    alone = objects_to_explain((), objects(template()))
    assert [str(identity(value)[1]) for value in alone] == ["default/gpu", f"default/{ANY_POD}gpu"]
    assert len(objects_to_explain((), objects(template(), pod()))) == 2


def test_requested_objects_replace_those_of_the_cluster() -> None:
    cluster = objects(template(gpu_request(count=1)), workload(), pod(name="waiting"))
    requested = objects(template(gpu_request(count=2)), pod())
    assert objects_to_explain(cluster, requested) == requested
    assert [type(value).__name__ for value in objects_to_explain(cluster, ())] == ["ResourceClaimTemplate", "Pod"]


def test_an_allocated_claim_keeps_its_allocation() -> None:
    text = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: gpu, namespace: default}
status: {allocation: {devices: {results: [{request: gpu, driver: d.example, pool: p, device: a}]}}}
"""
    cluster = objects(text)
    assert objects_to_explain(cluster, objects(claim(gpu_request(count=2)))) == cluster


@pytest.mark.parametrize(
    ("texts", "all_of_it"),
    [
        ((template(), workload(replicas=2)), True),
        ((template(), workload(replicas=3)), False),
        ((claim(gpu_request(count=2)),), True),
        ((claim(gpu_request(count=3)),), False),
        ((template(request_with_selector('device.driver == "gpu.amd.com"')), pod()), False),
        ((pod(resourceClaims=by_claim("missing")),), False),
        ((template(), pod(nodeSelector={"no": "node"})), False),
        ((), True),
    ],
)
def test_a_trial_agrees_with_the_explanation(texts: tuple[str, ...], all_of_it: bool) -> None:
    made = cluster_of(parse_fleet(["2xt4"]))
    values = objects_to_explain((*made.nodes, *made.slices, *made.classes), objects(*texts) if texts else ())
    assert fits(values, FEATURES) is all_of_it
    assert explain(values, FEATURES).fits is all_of_it


def running(name: str, owner: str) -> str:
    """A pod of a workload on a node, with the claim that was made for it."""
    return f"""\
apiVersion: v1
kind: Pod
metadata:
  {{name: {name}, namespace: default, uid: u-{name}, labels: {{pod-template-hash: 5d8c}}, ownerReferences: [{owner}]}}
spec: {{nodeName: a, containers: [{{name: main, image: pause}}]}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  name: {name}-gpu
  namespace: default
  uid: c-{name}
  ownerReferences: [{{apiVersion: v1, kind: Pod, name: {name}, uid: u-{name}, controller: true}}]
status: {{allocation: {{devices: {{results: [{{request: gpu, driver: d.example, pool: p, device: {name}}}]}}}}}}
"""


OF_JOB = "{apiVersion: batch/v1, kind: Job, name: training, uid: j-1, controller: true}"
OF_DEPLOYMENT = "{apiVersion: apps/v1, kind: ReplicaSet, name: training-5d8c, uid: r-1, controller: true}"
OF_ANOTHER = "{apiVersion: apps/v1, kind: ReplicaSet, name: training-2-5d8c, uid: r-2, controller: true}"


@pytest.mark.parametrize(("kind", "owner"), [("Job", OF_JOB), ("Deployment", OF_DEPLOYMENT)])
def test_running_pods_of_a_requested_workload_belong_to_it(kind: str, owner: str) -> None:
    """Their devices are those of the workload, which does not need them twice."""
    cluster = objects(running("first", owner), running("second", OF_ANOTHER))
    requested = objects(f"apiVersion: {'batch' if kind == 'Job' else 'apps'}/v1\nkind: {kind}\n"
                        "metadata: {name: training, namespace: default}\n")  # fmt: skip
    explained = objects_to_explain(cluster, requested)
    assert [value.metadata.name for value in explained] == ["second-gpu", "training"]
    assert [pod.metadata.name for pod in other_pods(cluster, explained)] == ["second"]
    planned = select_objects(cluster, requested).values
    assert [value.metadata.name for value in planned] == ["second", "second-gpu", "training"]


def test_a_requested_pod_that_runs_is_counted_once() -> None:
    cluster = objects(running("first", OF_JOB).replace(f"[{OF_JOB}]", "[]"))
    assert objects_to_explain(cluster, objects(pod(name="first"))) == objects(pod(name="first"))
    assert other_pods(cluster, objects(pod(name="first"))) == []
