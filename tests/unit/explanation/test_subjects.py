"""Selection of the objects to explain, and trials without reasons."""

from __future__ import annotations

import pytest

from allotment.explanation import explain, fits
from allotment.explanation.subjects import ANY_POD, identity, objects_to_explain
from allotment.fleet import cluster_of, parse_fleet
from allotment.model.features import Features
from allotment.model.meta import Object
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
