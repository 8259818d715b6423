"""Secrets of the type service-account-token get the token of the account that they name."""

from __future__ import annotations

import base64
from typing import Any

from allotment.cluster.resources import SECRETS, SERVICE_ACCOUNTS
from allotment.controllers.account_tokens import account_tokens
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.controllers.world import World, world

TOKENS = account_tokens(lambda account, secret: f"{account['metadata']['uid']} in {secret}", "authority")


def secret(name: str, account: str, uid: str = "", **more: Any) -> Tree:
    annotations = {"kubernetes.io/service-account.name": account}
    annotations |= {"kubernetes.io/service-account.uid": uid} if uid else {}
    return {
        "metadata": {"name": name, "annotations": annotations}, "type": "kubernetes.io/service-account-token", **more,
    }  # fmt: skip


def data(cluster: World, name: str) -> dict[str, str]:
    stored = cluster.get(SECRETS, name).get("data") or {}
    return {key: base64.b64decode(value).decode() for key, value in stored.items()}


def test_a_secret_gets_a_token_the_authority_and_the_namespace() -> None:
    async def scenario() -> None:
        async with world(TOKENS) as cluster:
            cluster.put(SERVICE_ACCOUNTS, {"metadata": {"name": "bob", "uid": "b-1"}})
            cluster.put(SECRETS, secret("t", "bob", data={"extra": "eA=="}))
            complete = {"ca.crt": "authority", "extra": "x", "namespace": "ns", "token": "b-1 in t"}
            await cluster.until(lambda: data(cluster, "t") == complete)
            annotations = cluster.get(SECRETS, "t")["metadata"]["annotations"]
            assert annotations["kubernetes.io/service-account.uid"] == "b-1"
            cluster.change(SECRETS, "t", data={})
            del complete["extra"]
            await cluster.until(lambda: data(cluster, "t") == complete)

    idle.run(scenario())


def test_secrets_of_accounts_that_do_not_exist_are_deleted() -> None:
    async def scenario() -> None:
        async with world(TOKENS) as cluster:
            cluster.put(SERVICE_ACCOUNTS, {"metadata": {"name": "bob", "uid": "b-2"}})
            cluster.put(SECRETS, secret("absent", "nobody"))
            cluster.put(SECRETS, secret("earlier", "bob", uid="b-1"))
            cluster.put(SECRETS, secret("kept", "bob"))
            cluster.put(SECRETS, {"metadata": {"name": "opaque"}, "type": "Opaque"})
            await cluster.until(lambda: cluster.names(SECRETS) == ["kept", "opaque"])
            cluster.remove(SERVICE_ACCOUNTS, "bob")
            await cluster.until(lambda: cluster.names(SECRETS) == ["opaque"])

    idle.run(scenario())


def test_an_account_loses_its_reference_to_a_deleted_token() -> None:
    async def scenario() -> None:
        async with world(TOKENS) as cluster:
            references = [{"name": "t"}, {"name": "other"}]
            cluster.put(SERVICE_ACCOUNTS, {"metadata": {"name": "bob", "uid": "b-1"}, "secrets": references})
            cluster.put(SECRETS, secret("t", "bob"))
            await cluster.until(lambda: data(cluster, "t"))
            cluster.remove(SECRETS, "t")
            await cluster.until(lambda: cluster.get(SERVICE_ACCOUNTS, "bob")["secrets"] == [{"name": "other"}])

    idle.run(scenario())
