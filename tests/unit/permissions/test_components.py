"""Invariants of the table of permissions."""

from __future__ import annotations

from collections import Counter

import pytest

from allotment.permissions.access_reviews import access_requests
from allotment.permissions.components import COMPONENTS, lease_of
from allotment.permissions.rule import ComponentPermissions

LEADING = ("scheduler", "claims", "taints", "autoscaler", "annotator")
SERVING = tuple(name for name in COMPONENTS if name not in ("reader", "cluster-autoscaler"))


@pytest.fixture(params=COMPONENTS)
def component(request: pytest.FixtureRequest) -> ComponentPermissions:
    return COMPONENTS[request.param]


def test_every_permission_is_granted_once(component: ComponentPermissions) -> None:
    granted = Counter(request._replace(why="") for request in access_requests(component))
    assert [request for request, times in granted.items() if times > 1] == []


def test_no_rule_uses_wildcards(component: ComponentPermissions) -> None:
    for rule in (*component.cluster_wide, *component.in_namespace):
        assert "*" not in "".join((*rule.groups, *rule.resources, *rule.verbs, *rule.names, *rule.paths))


def test_every_rule_has_a_purpose_in_lower_case_without_a_period(component: ComponentPermissions) -> None:
    for rule in (*component.cluster_wide, *component.in_namespace):
        assert rule.why
        assert rule.why[0].islower()
        assert not rule.why.endswith(".")


def test_no_component_reads_secrets_or_grants_permissions(component: ComponentPermissions) -> None:
    for request in access_requests(component):
        assert request.resource not in ("secrets", "serviceaccounts", "roles", "clusterroles")
        assert request.verb not in ("impersonate", "bind", "escalate")


def test_read_only_tools_have_only_read_verbs() -> None:
    assert {request.verb for request in access_requests(COMPONENTS["reader"])} == {"get", "list", "watch"}


@pytest.mark.parametrize("name", LEADING)
def test_a_component_with_leader_election_has_only_its_own_lease(name: str) -> None:
    about = [request for request in access_requests(COMPONENTS[name], "gpu") if request.resource == "leases"]
    assert {request.namespace for request in about} == {"gpu"}
    assert {(request.verb, request.name) for request in about} == {
        ("create", ""), ("get", lease_of(name)), ("update", lease_of(name))
    }  # fmt: skip


@pytest.mark.parametrize("name", SERVING)
def test_a_component_with_metrics_can_authenticate_clients(name: str) -> None:
    assert {"tokenreviews", "subjectaccessreviews"} <= {
        request.resource for request in access_requests(COMPONENTS[name])
    }


def test_components_that_allocate_have_the_binding_permission() -> None:
    """KEP-4817's granular authorization: writes that change an allocation need a separate permission."""
    writers = {
        component.name
        for component in COMPONENTS.values()
        for request in access_requests(component)
        if str(request).endswith("resourceclaims.resource.k8s.io/binding")
    }
    assert writers == {"scheduler", "claims"}


def test_a_driver_updates_only_devices_on_its_own_node() -> None:
    requested = [request for request in access_requests(COMPONENTS["driver"]) if request.subresource == "driver"]
    assert {request.verb for request in requested} == {"associated-node:patch"}
    assert {request.name for request in requested} == {"gpu.amd.com", "gpu.nvidia.com"}
