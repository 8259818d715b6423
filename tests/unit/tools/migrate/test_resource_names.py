"""Resource names of device plugins are parsed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.fleet import accelerators
from allotment.tools.migrate.plugin_requests import ContainerRequests, PluginRequest, Role
from allotment.tools.migrate.resource_names import ParsedRequests, format_requests, mig_profile, parse_requests

WHOLE = PluginRequest(vendor="nvidia", usage="whole", resource="nvidia.com/gpu", count=1)


@pytest.mark.parametrize("profile", sorted({p.name for a in accelerators().values() if a.mig for p in a.mig.profiles}))
def test_every_mig_profile_is_parsed_from_its_resource_name(profile: str) -> None:
    resource = f"nvidia.com/mig-{profile.replace('+', '.')}"
    assert mig_profile(resource) == profile
    assert mig_profile(f"{resource}.shared") == profile


@pytest.mark.parametrize(
    ("amounts", "sort", "count"),
    [
        ({"nvidia.com/gpu": "2"}, "whole", 2),
        ({"nvidia.com/gpu.shared": 1}, "share", 1),
        ({"nvidia.com/mig-1g.5gb": 3}, "piece", 3),
        ({"nvidia.com/mig-1g.5gb.shared": 1}, "share", 1),
        ({"amd.com/gpu": 8}, "whole", 8),
        ({"amd.com/cpx_nps4": 2}, "piece", 2),
        ({"gpu.intel.com/xe": 1}, "whole", 1),
        ({"gpu.intel.com/i915_monitoring": 1}, "monitoring", 1),
        ({"gpu.intel.com/i915": 1, "gpu.intel.com/millicores": 500}, "fraction", 1),
        ({"nvidia.com/gpu": 2, "nvidia.com/gpumem": 3000}, "fraction", 2),
        ({"nvidia.com/gpucores": 30}, "fraction", 1),
        ({"volcano.sh/vgpu-number": 1}, "fraction", 1),
        ({"volcano.sh/vgpu-memory": 1024}, "fraction", 1),
    ],
)
def test_usage_of_requests(amounts: dict[str, object], sort: str, count: int) -> None:
    requests, used, unknown, _ = parse_requests({"cpu": "4", **amounts})
    assert [(request.usage, request.count) for request in requests] == [(sort, count)]
    assert sorted(used) == sorted(amounts)
    assert unknown == ()


def test_amounts_of_a_fraction() -> None:
    amounts = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000, "nvidia.com/gpucores": 30}
    (request,) = parse_requests(amounts).requests
    assert (request.memory_mib, request.memory_percent, request.cores) == (3000, 0, 30)
    assert format_requests([_container("main", "container", request)]) == "nvidia.com/gpu (3000Mi, 30% of cores): 1"


def test_amounts_without_requests() -> None:
    assert parse_requests({"nvidia.com/gpu": 0, "cpu": 8, "example.com/gpu": 1}) == ParsedRequests()


@pytest.mark.parametrize("amount", ["{{ .Values.gpus }}", "${GPUS}", "0.5", 0.5, "500m", "-1", True, None, "", [1]])
def test_amounts_that_are_not_integers_are_reported(amount: object) -> None:
    assert parse_requests({"nvidia.com/gpu": amount}) == ParsedRequests(unreadable=(f"nvidia.com/gpu: {amount}",))


def test_unknown_resources_of_a_vendor_are_reported() -> None:
    requests, used, unknown, _ = parse_requests({"nvidia.com/gpu": 1, "nvidia.com/hostdev": 1})
    assert len(requests) == 1
    assert used == ("nvidia.com/gpu",)
    assert unknown == ("nvidia.com/hostdev",)


def test_an_init_container_counts_only_beyond_the_other_containers() -> None:
    containers = [
        _container("a", "init", WHOLE),
        _container("b", "container", WHOLE),
        _container("c", "sidecar", WHOLE),
    ]
    assert format_requests(containers) == "nvidia.com/gpu: 2"


@given(
    st.dictionaries(st.text(max_size=30), st.none() | st.booleans() | st.integers() | st.text(max_size=9), max_size=5)
)
def test_any_value_can_be_parsed(amounts: dict[str, object]) -> None:
    requests, used, *_ = parse_requests(amounts)
    assert all(request.count > 0 for request in requests)
    assert set(used) <= set(amounts)


def _container(name: str, role: Role, *requests: PluginRequest) -> ContainerRequests:
    return ContainerRequests(
        path=(name,), name=name, role=role, requests=requests, resources=tuple(a.resource for a in requests)
    )
