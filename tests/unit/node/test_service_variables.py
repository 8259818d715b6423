"""The variables of Services in containers, and variables with unusual names."""

from __future__ import annotations

from typing import Any

from allotment.cluster.resources import CONFIG_MAPS, SERVICES
from allotment.model.trees import Tree
from tests.unit.node.test_pods import run_scenario
from tests.unit.node.world import NAMESPACE, World


def service(name: str, namespace: str, address: str, port: int = 80, **more: Any) -> Tree:
    ports = [{"name": "web", "port": port, "protocol": "TCP"}]
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"clusterIP": address, "ports": ports, **more}}


async def environment(on: World, name: str = "p") -> dict[str, str]:
    await on.until(lambda: on.phase(name) == "Running")
    return dict(on.runtime.containers["main"].sandbox.environment)


def test_containers_find_the_services_of_their_namespace_and_the_api_server() -> None:
    async def scenario(on: World) -> None:
        on.client.put(SERVICES, service("kubernetes", "default", "10.96.0.1", 443))
        on.client.put(SERVICES, service("elsewhere", "default", "10.96.0.2"))
        on.client.put(SERVICES, service("my-db", NAMESPACE, "10.96.0.3", 5432))
        on.client.put(SERVICES, service("headless", NAMESPACE, "None"))
        on.pod(main={"env": [{"name": "URL", "value": "db:$(MY_DB_SERVICE_PORT)"}]})
        found = await environment(on)
        assert found["KUBERNETES_SERVICE_HOST"] == "10.96.0.1"
        assert found["KUBERNETES_PORT_443_TCP_ADDR"] == "10.96.0.1"
        assert found["MY_DB_PORT_5432_TCP"] == "tcp://10.96.0.3:5432"
        assert found["URL"] == "db:5432"
        assert not [name for name in found if name.startswith(("ELSEWHERE", "HEADLESS"))]

    run_scenario(scenario)


def test_service_links_can_be_disabled_except_to_the_api_server() -> None:
    async def scenario(on: World) -> None:
        on.client.put(SERVICES, service("kubernetes", "default", "10.96.0.1", 443))
        on.client.put(SERVICES, service("db", NAMESPACE, "10.96.0.3"))
        on.pod(enableServiceLinks=False)
        found = await environment(on)
        assert "KUBERNETES_SERVICE_HOST" in found
        assert "DB_SERVICE_HOST" not in found

    run_scenario(scenario)


def test_a_variable_of_the_manifest_replaces_that_of_a_service() -> None:
    async def scenario(on: World) -> None:
        on.client.put(SERVICES, service("db", NAMESPACE, "10.96.0.3"))
        on.pod(main={"env": [{"name": "DB_SERVICE_HOST", "value": "own"}]})
        assert (await environment(on))["DB_SERVICE_HOST"] == "own"

    run_scenario(scenario)


def test_names_of_variables_may_have_any_printable_character_but_the_equals_sign() -> None:
    main = {
        "envFrom": [{"configMapRef": {"name": "map"}, "prefix": prefix} for prefix in ("", "1-", "$_-")],
        "env": [{"name": "ALL", "value": "$(1-a) $($_-a)"}],
    }

    async def scenario(on: World) -> None:
        on.client.put(CONFIG_MAPS, {"metadata": {"name": "map", "namespace": NAMESPACE}, "data": {"a": "x", "1": "y"}})
        on.pod(main=main)
        found = await environment(on)
        assert {name: found.get(name) for name in ("a", "1", "1-a", "1-1", "$_-a", "ALL")} == {
            "a": "x", "1": "y", "1-a": "x", "1-1": "y", "$_-a": "x", "ALL": "x x",
        }  # fmt: skip

    run_scenario(scenario)
