"""Pod requirements: requests, host ports, named nodes, and their cache."""

from __future__ import annotations

from collections.abc import Sequence

from allotment.node_fit.pod_requirements import HostPort, PodRequirements, PodRequirementsCache
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


def test_requests_of_containers_are_summed() -> None:
    assert _spec([{"cpu": "100m"}, {"cpu": "1", "memory": "1Gi"}]).requests == {"cpu": 1100, "memory": 2**30}


def test_init_containers_count_by_their_maximum() -> None:
    assert _spec([{"cpu": "1"}], [({"cpu": "3"}, False), ({"cpu": "2"}, False)]).requests == {"cpu": 3000}


def test_sidecars_add_to_containers_that_start_after_them() -> None:
    assert _spec([{"cpu": "1"}], [({"cpu": "1"}, True), ({"cpu": "3"}, False)]).requests == {"cpu": 4000}
    assert _spec([{"cpu": "1"}], [({"cpu": "3"}, False), ({"cpu": "1"}, True)]).requests == {"cpu": 3000}


def test_pod_level_requests_replace_the_sum_and_overhead_is_added() -> None:
    pod = requirements_of(requests={"cpu": "1"}, resources={"requests": {"cpu": "3"}}, overhead={"cpu": "500m"})
    assert pod.requests == {"cpu": 3500}


def test_limits_are_the_default_requests() -> None:
    assert requirements_of(limits={"example.com/gpu": "2"}).requests == {"example.com/gpu": 2}


def test_equal_scheduling_fields_share_one_requirements_object() -> None:
    cache = PodRequirementsCache()
    first = cache.of({"containers": [{"name": "a", "image": "x"}], "hostname": "h"})
    assert cache.of({"containers": [{"name": "b", "image": "y"}]}) is first
    assert cache.of({"containers": [{"name": "a"}], "nodeSelector": {"a": "b"}}) is not first


def test_host_ports_conflict_on_equal_or_wildcard_addresses() -> None:
    wildcard, address, other = (HostPort(ip, "TCP", 80) for ip in ("0.0.0.0", "10.0.0.1", "10.0.0.2"))
    assert wildcard.conflicts_with(address)
    assert address.conflicts_with(wildcard)
    assert not address.conflicts_with(other)
    assert not address.conflicts_with(HostPort("10.0.0.1", "UDP", 80))


def test_named_nodes_of_a_daemon_set_pod() -> None:
    field = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
    required = {"nodeSelectorTerms": [field]}
    bound = requirements_of(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}})
    assert bound.named_nodes() == ("a",)
    assert requirements_of().named_nodes() is None
