"""The smallest known hardware on which objects fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from allotment.explanation import explain
from allotment.explanation.subjects import objects_to_explain
from allotment.fleet import cluster_of, parse_fleet
from allotment.model.features import Features
from allotment.model.meta import Object
from allotment.tools.check.hardware.smallest_fleet import smallest_fleet, without_node_rules
from tests.unit.tools.check.bundles import bundle_of
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


def objects(*texts: str) -> list[Object]:
    """The decoded objects of documents."""
    manifests = bundle_of("---\n".join(texts)).manifests.values()
    return [manifest.value for manifest in manifests if isinstance(manifest.value, Object)]


@pytest.mark.parametrize(
    ("texts", "fleet"),
    [
        ((template(), pod()), "t4"),
        ((template(gpu_request(count=8)), pod()), "8xt4"),
        ((template(), workload(replicas=4)), "t4-4x-pcie"),
        ((template(gpu_request(count=8)), workload(replicas=2)), "8xt4:2"),
        ((template(gpu_request(count=16)), workload(replicas=2)), "16xv100-32gb:2"),
        ((template(gpu_request(count=17)), pod()), None),
        (
            (
                template(request_with_selector('device.attributes["gpu.nvidia.com"].productName.contains("H100")')),
                pod(),
            ),
            "h100",
        ),
        ((template(gpu_request(deviceClassName="mig.nvidia.com")), pod()), "a30/dynamic-mig"),
        ((template(gpu_request(deviceClassName="gpu.amd.com")), pod()), "mi250x"),
        ((claim(gpu_request(deviceClassName="gpu.example.com")), pod(resourceClaims=by_claim())), "example"),
        ((claim(gpu_request("a"), gpu_request("b", deviceClassName="gpu.amd.com")),), None),  # no machine has both
        ((template(gpu_request(deviceClassName="nobodys")), pod()), None),
        ((), None),
    ],
)
def test_smallest_fleet_for_objects(texts: tuple[str, ...], fleet: str | None) -> None:
    assert smallest_fleet(objects(*texts), FEATURES) == fleet


def test_several_vendors_need_machines_of_each() -> None:
    amd = template(gpu_request(deviceClassName="gpu.amd.com"), name="amd")
    both = [template(), pod(), amd, pod(name="b", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "amd"}])]
    assert smallest_fleet(objects(*both), FEATURES) == "t4,mi250x"


def test_static_mig_if_no_other_mode_matches() -> None:
    mig = 'device.attributes["gpu.nvidia.com"]'
    selector = {"cel": {"expression": f'{mig}.profile == "1g.10gb" && "uuid" in {mig}'}}
    text = template(gpu_request(deviceClassName="mig.nvidia.com", selectors=[selector]))
    assert smallest_fleet(objects(text, pod()), FEATURES) == "a100-40gb/static-mig=1g.10gb:4"


@pytest.mark.parametrize(
    ("file", "fleet"),
    [
        ("castai/04-mig.yaml", "a100-40gb/dynamic-mig"),
        ("amd/auto-partition-spx.yaml", "mi300x/auto"),
        ("amd/example-partitions-same-parent.yaml", "mi300x/cpx"),
        ("nvidia/quickstart/v1/gpu-test-vfiopci.yaml", "t4/vfio"),
        ("nvidia/quickstart/v1/imex-test1.yaml", None),
        ("example/native-resource-request.yaml", "example/numa=2"),
    ],
)
def test_vendor_examples(file: str, fleet: str | None, shared: Callable[[str], Path]) -> None:
    values = objects(shared(f"manifests/{file}").read_text("utf-8"))
    assert smallest_fleet(values, FEATURES) == fleet
    if fleet:
        cluster = cluster_of(parse_fleet([fleet]))
        state = (*cluster.nodes, *cluster.slices, *cluster.classes)
        assert explain(objects_to_explain(state, values), FEATURES).fits


def test_rules_for_nodes_that_no_known_hardware_meets_are_left_out() -> None:
    labelled = objects(template(), pod(nodeSelector={"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80G"}))
    assert smallest_fleet(labelled, FEATURES) is None
    free = without_node_rules(labelled)
    assert free is not None
    assert smallest_fleet(free, FEATURES) == "t4"
    replicas = without_node_rules(objects(template(), workload(replicas=2, nodeSelector={"pool": "a"})))
    assert replicas is not None
    assert smallest_fleet(replicas, FEATURES) == "2xt4"
    assert without_node_rules(objects(template(), pod())) is None
