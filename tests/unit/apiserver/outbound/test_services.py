"""Services without a selector lead to the addresses that users write into EndpointSlices."""

from __future__ import annotations

import pytest

from allotment.apiserver.outbound.services import Endpoint, Service, resolve
from tests.unit.apiserver.shelf import Shelf


@pytest.mark.parametrize(("address", "host"), [("192.0.2.9", "192.0.2.9"), ("172.18.0.1", "127.0.0.1")])
def test_the_gateway_of_the_nodes_network_is_this_machine(address: str, host: str) -> None:
    service = {
        "metadata": {"name": "webhook", "namespace": "system"},
        "spec": {"clusterIP": "10.96.0.7", "ports": [{"name": "webhook", "port": 443}]},
    }
    labels = {"kubernetes.io/service-name": "webhook"}
    endpoints = {
        "metadata": {"name": "webhook-1", "namespace": "system", "labels": labels},
        "ports": [{"name": "webhook", "port": 9443}], "endpoints": [{"addresses": [address]}],
    }  # fmt: skip
    reader = Shelf([("services", service), ("endpointslices.discovery.k8s.io", endpoints)])
    assert resolve(Service("system", "webhook"), reader) == Endpoint(host, 9443, "10.96.0.7:443")
