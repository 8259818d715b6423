"""What pods ask of their nodes."""

from __future__ import annotations

from collections.abc import Sequence

from allotment.node_fit.pod_requirements import PodRequirements, PodRequirementsCache, HostPort
from tests.unit.scheduler.machines import requirements_of


def _spec(containers: list[dict[str, str]], init: Sequence[tuple[dict[str, str], bool]] = ()) -> PodRequirements:
    return PodRequirementsCache().of(
        {
            "containers": [{"name": "c", "resources": {"requests": r}} for r in containers],
            "initContainers": [
                {"name": "i", "resources": {"requests": r}, **({"restartPolicy": "Always"} if sidecar else {})}
                for r, sidecar in init
            ],
        }
    )


def test_containers_add_up() -> None:
    assert _spec([{"cpu": "100m"}, {"cpu": "1", "memory": "1Gi"}]).requests == {"cpu": 1100, "memory": 2**30}


def test_init_containers_run_one_after_the_other() -> None:
    assert _spec([{"cpu": "1"}], [({"cpu": "3"}, False), ({"cpu": "2"}, False)]).requests == {"cpu": 3000}


def test_sidecars_run_beside_all_that_start_after_them() -> None:
    assert _spec([{"cpu": "1"}], [({"cpu": "1"}, True), ({"cpu": "3"}, False)]).requests == {"cpu": 4000}
    assert _spec([{"cpu": "1"}], [({"cpu": "3"}, False), ({"cpu": "1"}, True)]).requests == {"cpu": 3000}


def test_what_the_pod_asks_as_a_whole_replaces_the_sum_and_overhead_comes_on_top() -> None:
    asked = requirements_of(requests={"cpu": "1"}, resources={"requests": {"cpu": "3"}}, overhead={"cpu": "500m"})
    assert asked.requests == {"cpu": 3500}


def test_limits_stand_for_requests_that_are_not_given() -> None:
    assert requirements_of(limits={"example.com/gpu": "2"}).requests == {"example.com/gpu": 2}


def test_equal_specs_are_one_demand_whatever_else_the_pods_are() -> None:
    demands = PodRequirementsCache()
    first = demands.of({"containers": [{"name": "a", "image": "x"}], "hostname": "h"})
    assert demands.of({"containers": [{"name": "b", "image": "y"}]}) is first
    assert demands.of({"containers": [{"name": "a"}], "nodeSelector": {"a": "b"}}) is not first


def test_ports_clash_on_every_address_or_the_same() -> None:
    everywhere, one, other = (HostPort(ip, "TCP", 80) for ip in ("0.0.0.0", "10.0.0.1", "10.0.0.2"))
    assert everywhere.clashes(one)
    assert one.clashes(everywhere)
    assert not one.clashes(other)
    assert not one.clashes(HostPort("10.0.0.1", "UDP", 80))


def test_pods_of_a_daemon_set_name_their_node() -> None:
    field = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
    required = {"nodeSelectorTerms": [field]}
    bound = requirements_of(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}})
    assert bound.named_nodes() == ("a",)
    assert requirements_of().named_nodes() is None
