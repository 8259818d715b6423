"""The state that ``state_after`` predicts equals the state after the allocation."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from allotment.engine.allocator import Allocator
from allotment.engine.cluster.inventory import Inventory
from allotment.engine.outcome import Allocated
from allotment.engine.search.verdict import Solution
from allotment.fleet.cluster import cluster_of
from allotment.fleet.description import parse_fleet
from allotment.model.features import Features
from allotment.model.meta import ObjectKey
from allotment.model.resource import ResourceClaim
from allotment.model.trees import to_value

_FORMS = (
    "2xt4",
    "2xt4/shared",
    "2xt4/consumable-shares=4",
    "h100/dynamic-mig",
    "a100-40gb/static-mig=1g.5gb:3+2g.10gb",
)
_REQUESTS = (
    {"deviceClassName": "gpu.nvidia.com", "count": 1},
    {"deviceClassName": "gpu.nvidia.com", "count": 2},
    {"deviceClassName": "gpu.nvidia.com", "count": 1, "adminAccess": True},
    {"deviceClassName": "gpu.nvidia.com", "count": 1, "capacity": {"requests": {"memory": "3Gi"}}},
    {"deviceClassName": "gpu.nvidia.com", "count": 1, "capacity": {"requests": {"shares": "2"}}},
    {"deviceClassName": "mig.nvidia.com", "count": 1},
    {"deviceClassName": "mig.nvidia.com", "count": 2},
)


def _claim(name: str, request: dict[str, object]) -> ResourceClaim:
    exactly = {"allocationMode": "ExactCount", **request}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    return to_value({"metadata": {"name": name, "namespace": "ns"}, "spec": spec}, ResourceClaim)


@given(form=st.sampled_from(_FORMS), requested=st.lists(st.sampled_from(_REQUESTS), min_size=1, max_size=8))
def test_predicted_states_equal_the_states_after_allocation(form: str, requested: list[dict[str, object]]) -> None:
    cluster = cluster_of(parse_fleet([f"node={form}"]))
    inventory = Inventory.of(
        Features(kube="1.36"), nodes=[("node", {})], slices=cluster.slices, classes=cluster.classes
    )
    allocator = Allocator(inventory)
    thought = inventory.view("node").state(inventory.usage)
    for number, request in enumerate(requested):
        claim = _claim(f"c{number}", request)
        work, view = allocator.cache_for([claim]), inventory.view("node")
        verdict = work.verdict_in(view, thought)
        outcome = allocator.allocate("node", [claim])
        assert isinstance(verdict, Solution) == isinstance(outcome, Allocated)
        if isinstance(verdict, Solution) and isinstance(outcome, Allocated):
            thought = work.state_after(view, thought, verdict)
            inventory.allocate(ObjectKey("ns", claim.metadata.name), outcome.results[0])
        assert thought == inventory.view("node").state(inventory.usage)
