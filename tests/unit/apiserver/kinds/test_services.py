from copy import deepcopy
from typing import Any

import pytest

from allotment.cluster.errors import StatusError
from allotment.model.trees import Tree
from tests.unit.apiserver.shelf import Shelf, created, manifest, updated, write


def service(**spec: Any) -> Tree:
    return manifest(
        spec={
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
            "type": "ClusterIP",
            "sessionAffinity": "None",
            **spec,
        }
    )


def test_services_get_unique_addresses() -> None:
    shelf = Shelf()
    taken = set()
    for number in range(20):
        tree = service()
        tree["metadata"].update(name=f"s{number}", uid=f"u{number}")
        result, errors = created("services", tree, write(shelf))
        assert errors == []
        assert result["spec"]["clusterIPs"] == [result["spec"]["clusterIP"]]
        assert result["spec"]["clusterIP"].startswith("10.96.")
        taken.add(result["spec"]["clusterIP"])
        shelf.put("services", result)
    assert len(taken) == 20


def test_node_ports_are_allocated_from_their_range() -> None:
    result, errors = created("services", service(type="NodePort"), write())
    assert errors == []
    assert 30000 <= result["spec"]["ports"][0]["nodePort"] <= 32767


def test_requested_addresses_must_be_in_range_and_free() -> None:
    other = service(clusterIP="10.96.0.10")
    other["metadata"]["uid"] = "other"
    refused = r'spec.clusterIPs: Invalid value: \["10.96.0.10"\]: failed to allocate IP 10.96.0.10: provided IP is alr'
    with pytest.raises(StatusError, match=refused):
        created("services", service(clusterIP="10.96.0.10"), write(Shelf([("services", other)])))
    with pytest.raises(StatusError, match=r"the provided network does not match the current range"):
        created("services", service(clusterIP="1.2.3.4"), write())
    with pytest.raises(StatusError, match="range of valid ports is 30000-32767"):
        created("services", service(type="NodePort", ports=[{"port": 80, "protocol": "TCP", "nodePort": 80}]), write())


def test_changing_the_type_of_a_service_keeps_applicable_fields() -> None:
    old, _ = created("services", service(type="LoadBalancer", externalTrafficPolicy="Local"), write())
    assert old["spec"]["healthCheckNodePort"]
    new = deepcopy(old)
    new["spec"]["type"] = "NodePort"
    result, errors = updated("services", new, old, write())
    assert errors == []
    assert result["spec"]["ports"] == old["spec"]["ports"]
    assert "healthCheckNodePort" not in result["spec"]
    new["spec"]["type"] = "ClusterIP"
    result, errors = updated("services", new, old, write())
    assert errors == []
    assert "nodePort" not in result["spec"]["ports"][0]
    assert result["spec"]["clusterIP"] == old["spec"]["clusterIP"]
    external_name = {"type": "ExternalName", "externalName": "a.example"}
    result, errors = updated("services", manifest(spec={**new["spec"], **external_name}), old, write())
    assert errors == []
    assert not {"clusterIP", "clusterIPs", "ipFamilies"} & result["spec"].keys()


def test_a_headless_service_without_selector_has_both_families() -> None:
    result, errors = created("services", service(clusterIP="None", ports=[]), write())
    assert errors == []
    assert result["spec"]["ipFamilies"] == ["IPv4", "IPv6"]
    result, errors = created("services", service(clusterIP="None", selector={"a": "b"}), write())
    assert result["spec"]["ipFamilies"] == ["IPv4"]


def test_services_warn_about_ignored_fields() -> None:
    warnings: list[str] = []
    tree = service(externalIPs=["1.2.3.4"], externalName="x", internalTrafficPolicy="Cluster")
    tree["spec"]["externalTrafficPolicy"] = "Cluster"
    assert created("services", tree, write()._replace(warn=warnings.append))[1] == []
    assert warnings == [
        "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
        'spec.externalName is ignored when spec.type is not "ExternalName"',
    ]


def test_an_update_without_an_address_keeps_it() -> None:
    old, _ = created("services", service(), write())
    result, errors = updated("services", service(), old, write())
    assert errors == []
    assert result["spec"]["clusterIP"] == old["spec"]["clusterIP"]
    moved = service(clusterIP="10.96.9.9")
    assert updated("services", moved, old, write())[1] == [
        'spec.clusterIPs[0]: Invalid value: ["10.96.9.9"]: may not change once set'
    ]
