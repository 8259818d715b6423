"""The attribution of node prices to claims."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.exporter.costs import NodePrices
from allotment.exporter.families import families
from allotment.fleet.catalog import catalog
from allotment.model.meta import Object
from allotment.model.resource import ResourceSlice
from tests.unit.exporter.clusters import FEATURES, claim, fleet
from tests.unit.exporter.exposition import values_of

TYPE = "node.kubernetes.io/instance-type"
REGION = "topology.kubernetes.io/region"
T4S = {TYPE: "g4dn.12xlarge", REGION: "us-east-1"}
"""The labels of a node with four T4 GPUs."""
T4S_PRICE = 3.912
A100S = {TYPE: "p4d.24xlarge", REGION: "us-east-1"}


def values(name: str, *objects: Object, per_claim: bool = False) -> dict[tuple[str, ...], float]:
    return values_of(families(objects, FEATURES, catalog(), per_claim=per_claim), name)


def test_a_claim_accounts_for_its_devices_share_of_the_node() -> None:
    cluster = (*fleet("a=4xt4", labels=T4S), claim("one", "gpu-0"), claim("two", "gpu-1", "gpu-2", namespace="web"))
    assert values("allotment_node_cost_dollars_per_hour", *cluster) == {
        ("a", "g4dn.12xlarge", "on-demand", "us-east-1"): T4S_PRICE
    }
    assert values("allotment_claims_cost_dollars_per_hour", *cluster) == pytest.approx(
        {("ml", "gpu.nvidia.com"): T4S_PRICE / 4, ("web", "gpu.nvidia.com"): T4S_PRICE / 2}
    )
    assert values("allotment_idle_cost_dollars_per_hour", *cluster) == pytest.approx({("a",): T4S_PRICE / 4})
    assert values("allotment_claim_cost_dollars_per_hour", *cluster, per_claim=True) == pytest.approx(
        {("web", "two"): T4S_PRICE / 2, ("ml", "one"): T4S_PRICE / 4}
    )


def test_the_cost_of_a_detached_claim_is_attributed_to_the_current_holder() -> None:
    cluster = (*fleet("a=4xt4", labels=T4S), claim("theirs", "gpu-0", namespace="web"))
    expected = pytest.approx({("web", "gpu.nvidia.com"): T4S_PRICE / 4})
    assert values("allotment_claims_cost_dollars_per_hour", *cluster, claim("ours", "gpu-0", aside=True)) == expected


@pytest.mark.parametrize(
    ("hardware", "device", "part"),
    [
        ("8xa100-40gb/dynamic-mig", "gpu-0-mig-1g5gb-19-0", 1 / 7),
        ("8xa100-40gb/dynamic-mig", "gpu-0-mig-3g20gb-9-4", 4 / 8),
        ("8xa100-40gb/dynamic-mig", "gpu-0-mig-7g40gb-0-0", 1),
        ("8xa100-40gb/static-mig=1g.5gb:7", "gpu-0-mig-1g5gb-19-0", 1 / 7),
        ("8xa100-40gb", "gpu-0", 1),
    ],
)
def test_a_partition_accounts_for_its_share_of_the_gpu(hardware: str, device: str, part: float) -> None:
    cluster = (*fleet(f"a={hardware}", labels=A100S), claim("one", device))
    (price,) = values("allotment_node_cost_dollars_per_hour", *cluster).values()
    (cost,) = values("allotment_claims_cost_dollars_per_hour", *cluster).values()
    assert cost == pytest.approx(price * part / 8)


def test_shares_account_for_their_consumption_or_equal_parts() -> None:
    labels = {TYPE: "p5.4xlarge", REGION: "us-east-1"}
    shared = fleet("a=1xh100/shared", labels=labels)
    quarter = f"{81559 // 4}Mi"
    cluster = (
        *shared,
        claim("one", "gpu-0", shares={"memory": quarter}),
        claim("two", "gpu-0", namespace="web", shares={}),
    )
    (price,) = values("allotment_node_cost_dollars_per_hour", *cluster).values()
    found = values("allotment_claims_cost_dollars_per_hour", *cluster)
    assert found["ml", "gpu.nvidia.com"] == pytest.approx(price / 4, rel=1e-3)
    assert found["web", "gpu.nvidia.com"] == pytest.approx(price / 2)


@pytest.mark.parametrize(
    "labels", [{}, {TYPE: "no.such.type"}, {TYPE: "g4dn.12xlarge", "eks.amazonaws.com/capacityType": "SPOT"}]
)
def test_nodes_without_a_price_are_counted_as_unknown(labels: dict[str, str]) -> None:
    types = tuple(instance for instance in catalog() if instance.price("spot") is None)
    cluster = (*fleet("a=4xt4", labels={**labels, TYPE: labels.get(TYPE, "")}), claim("one", "gpu-0"))
    found = families(cluster, FEATURES, types)
    assert values_of(found, "allotment_node_cost_dollars_per_hour") == {}
    assert values_of(found, "allotment_claims_cost_dollars_per_hour") == {}
    assert values_of(found, "allotment_idle_cost_dollars_per_hour") == {}
    assert values_of(found, "allotment_claims_priced") == {("ml", "known"): 0, ("ml", "unknown"): 1}
    assert values_of(found, "allotment_nodes") == {("region",): 0, ("elsewhere",): 0, ("unknown",): 1}


def test_a_claim_with_a_device_of_unknown_price_is_unknown() -> None:
    cluster = (
        *fleet("a=4xt4", labels=T4S), *fleet("b=4xt4"), claim("both", "gpu-0"), claim("here", "gpu-1"),
        claim("there", "gpu-0", pool="b"),
    )  # fmt: skip
    assert values("allotment_claims_priced", *cluster) == {("ml", "known"): 2, ("ml", "unknown"): 1}


def test_a_price_of_another_region_is_marked() -> None:
    assert values("allotment_nodes", *fleet("a=4xt4", labels={**T4S, REGION: "eu-west-1"}))["elsewhere",] == 1
    assert values("allotment_nodes", *fleet("a=4xt4", labels=T4S))["region",] == 1


def test_a_host_with_attached_gpus_is_identified_by_their_number() -> None:
    prices = NodePrices(catalog())
    assert prices.of({TYPE: "n1-standard-8"}, 1).usd is not None
    assert prices.of({TYPE: "n1-standard-8"}, 2).usd is None


def test_other_devices_account_for_nothing_if_there_are_accelerators() -> None:
    """Compute domain channels and network cards do not count: the node is provisioned for its GPUs."""
    cluster = (*fleet("a=4xt4", labels=T4S), claim("channel", "gpu-0", driver="compute-domain.nvidia.com", pool="x"))
    extra = [
        type(slice_)(
            metadata=type(slice_.metadata)(name="domain"),
            spec=type(slice_.spec)(
                driver="compute-domain.nvidia.com", node_name="a",
                pool=type(slice_.spec.pool)(name="x", generation=1, resource_slice_count=1),
                devices=tuple(type(d)(name=d.name) for d in slice_.spec.devices or ()),
            ),
        )
        for slice_ in cluster
        if isinstance(slice_, ResourceSlice)
    ]  # fmt: skip
    assert values("allotment_claims_cost_dollars_per_hour", *cluster, *extra) == {}
    assert values("allotment_claims_priced", *cluster, *extra) == {}
    assert values("allotment_idle_cost_dollars_per_hour", *cluster, *extra) == pytest.approx({("a",): T4S_PRICE})


@given(st.data())
def test_held_and_idle_cost_add_up_to_the_price(data: st.DataObject) -> None:
    hardware = data.draw(st.sampled_from(("8xa100-40gb/dynamic-mig", "8xa100-40gb", "8xa100-40gb/static-mig=1g.5gb:7")))
    cluster = fleet(f"a={hardware}", labels=A100S)
    devices = [d.name for value in cluster if isinstance(value, ResourceSlice) for d in value.spec.devices or ()]
    taken = data.draw(st.lists(st.sampled_from(devices), max_size=30))
    claims = [claim(f"c{number}", device) for number, device in enumerate(taken)]
    found = families((*cluster, *claims), FEATURES, catalog())
    (price,) = values_of(found, "allotment_node_cost_dollars_per_hour").values()
    held = sum(values_of(found, "allotment_claims_cost_dollars_per_hour").values())
    idle = sum(values_of(found, "allotment_idle_cost_dollars_per_hour").values())
    assert held + idle == pytest.approx(price)
    assert min(held, idle) >= 0
