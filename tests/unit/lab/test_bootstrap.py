"""The first objects of a lab stay as they are, and follow its address."""

from __future__ import annotations

import asyncio
from pathlib import Path

from allotment.cluster.resources import CLUSTER_ROLES, CONFIG_MAPS, ENDPOINT_SLICES, ENDPOINTS
from allotment.lab.control_plane import Plane, running
from allotment.lab.settings import Settings
from allotment.lab.state import DataFolder
from tests.polling import until


def test_the_certificates_of_a_namespace_are_restored_after_a_change() -> None:
    async def scenario() -> None:
        async with running(Settings(fleet=(), tls=False)) as plane:
            client = plane.client()
            original = (await client.get(CONFIG_MAPS, "kube-root-ca.crt", "default"))["data"]

            async def is_restored() -> bool:
                return bool((await client.get(CONFIG_MAPS, "kube-root-ca.crt", "default"))["data"] == original)

            await client.patch(CONFIG_MAPS, "kube-root-ca.crt", {"data": {"ca.crt": "other", "x": "y"}}, "default")
            await until(is_restored)
            await client.delete(CONFIG_MAPS, "kube-root-ca.crt", "default")

            async def is_created() -> bool:
                items = (await client.list(CONFIG_MAPS, "default")).items
                return [tree["data"] for tree in items] == [original]

            await until(is_created)

    asyncio.run(scenario())


def test_default_roles_get_back_the_rules_and_subjects_that_they_lack(tmp_path: Path) -> None:
    async def scenario() -> None:
        settings = Settings(fleet=(), tls=False, data=DataFolder(tmp_path))
        added = {"verbs": ["get"], "apiGroups": ["x.io"], "resources": ["foos"]}
        async with running(settings) as plane:
            client = plane.client()
            original = (await client.get(CLUSTER_ROLES, "system:basic-user"))["rules"]
            await client.patch(CLUSTER_ROLES, "system:basic-user", {"rules": [added]})
            off = {"metadata": {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}}, "rules": []}
            await client.patch(CLUSTER_ROLES, "system:public-info-viewer", off)
        async with running(settings) as plane:
            client = plane.client()
            assert (await client.get(CLUSTER_ROLES, "system:basic-user"))["rules"] == [added, *original]
            assert not (await client.get(CLUSTER_ROLES, "system:public-info-viewer")).get("rules")

    asyncio.run(scenario())


def test_the_service_of_the_api_server_has_endpoints_with_its_port(tmp_path: Path) -> None:
    async def ports(plane: Plane) -> tuple[int, int, str]:
        client = plane.client()
        endpoints = await client.get(ENDPOINTS, "kubernetes", "default")
        [endpoint_slice] = (
            await client.list(ENDPOINT_SLICES, "default", labels="kubernetes.io/service-name=kubernetes")
        ).items
        return (
            endpoints["subsets"][0]["ports"][0]["port"],
            endpoint_slice["ports"][0]["port"],
            endpoints["metadata"]["resourceVersion"],
        )

    async def scenario() -> None:
        settings = Settings(fleet=(), tls=False, data=DataFolder(tmp_path))
        for _ in range(2):
            async with running(settings) as plane:
                port = int(plane.access.server.rpartition(":")[2])
                assert (await ports(plane))[:2] == (port, port)

    asyncio.run(scenario())


def test_aggregated_servers_find_the_authorities_that_they_trust(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(Settings(fleet=(), data=DataFolder(tmp_path))) as plane:
            config = await plane.client().get(CONFIG_MAPS, "extension-apiserver-authentication", "kube-system")
            assert config["data"]["client-ca-file"] == plane.access.authority.decode()
            assert config["data"]["requestheader-allowed-names"] == '["front-proxy-client"]'
            front_proxy = tmp_path / "pki" / "front-proxy"
            assert config["data"]["requestheader-client-ca-file"] == (front_proxy / "ca.crt").read_text()
            assert (front_proxy / "client-front-proxy-client.crt").exists()

    asyncio.run(scenario())
