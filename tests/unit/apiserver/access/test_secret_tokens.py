"""Tokens in Secrets are valid as long as the Secret has them and the account exists."""

from __future__ import annotations

import asyncio
import base64

from allotment.apiserver.access import secret_tokens
from allotment.model.trees import Tree
from tests.unit.apiserver.served import Served

SECRETS = "/api/v1/namespaces/shop/secrets"
ACCOUNTS = "/api/v1/namespaces/shop/serviceaccounts"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"


async def account_with_token(served: Served) -> tuple[Tree, str]:
    """A service account, and its token in the Secret ``t``."""
    account = (await served.post(ACCOUNTS, {"metadata": {"name": "bob"}})).body
    token = secret_tokens.issue(b"k" * 32, account, "t")
    annotations = {"kubernetes.io/service-account.name": "bob"}
    secret = {
        "metadata": {"name": "t", "annotations": annotations}, "type": "kubernetes.io/service-account-token",
        "data": {"token": base64.b64encode(token.encode()).decode()},
    }  # fmt: skip
    assert (await served.post(SECRETS, secret)).code == 201
    return account, token


async def reviewed(served: Served, token: str, **spec: object) -> Tree:
    return dict((await served.post(REVIEWS, {"spec": {"token": token, **spec}})).body["status"])


def test_a_token_in_a_secret_is_that_of_its_account() -> None:
    async def scenario() -> None:
        served = await Served().started()
        account, token = await account_with_token(served)
        assert await reviewed(served, token) == {
            "authenticated": True,
            "audiences": ["https://kubernetes.default.svc"],
            "user": {
                "username": "system:serviceaccount:shop:bob",
                "uid": account["metadata"]["uid"],
                "groups": ["system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"],
            },
        }
        assert not (await reviewed(served, token, audiences=["other"])).get("authenticated")

    asyncio.run(scenario())


def test_the_secret_of_a_used_token_gets_the_date_once() -> None:
    async def scenario() -> None:
        served = await Served().started()
        _, token = await account_with_token(served)
        headers = {"authorization": f"Bearer {token}"}
        for _ in range(2):
            await served.send("GET", SECRETS, headers=headers, peer=None)
            secret = (await served.get(f"{SECRETS}/t")).body
            assert secret["metadata"]["labels"] == {"kubernetes.io/legacy-token-last-used": "2026-01-02"}
            managers = [entry["manager"] for entry in secret["metadata"]["managedFields"]]
            assert "kube-apiserver" in managers
        before = secret["metadata"]["resourceVersion"]
        served.clock.wait(86_400)
        await served.send("GET", SECRETS, headers=headers, peer=None)
        secret = (await served.get(f"{SECRETS}/t")).body
        assert secret["metadata"]["labels"] == {"kubernetes.io/legacy-token-last-used": "2026-01-03"}
        assert secret["metadata"]["resourceVersion"] != before

    asyncio.run(scenario())


def test_a_token_is_invalid_without_its_secret_or_account() -> None:
    async def scenario() -> None:
        served = await Served().started()
        _, token = await account_with_token(served)
        label = {"metadata": {"labels": {"kubernetes.io/legacy-token-invalid-since": "2026-01-02"}}}
        other = {"data": {"token": base64.b64encode(b"another").decode()}}
        original = (await served.get(f"{SECRETS}/t")).body["data"]
        for change in (label, other):
            await served.patch(f"{SECRETS}/t", change)
            assert not (await reviewed(served, token)).get("authenticated")
            undo = {"metadata": {"labels": {"kubernetes.io/legacy-token-invalid-since": None}}, "data": original}
            await served.patch(f"{SECRETS}/t", undo)
            assert (await reviewed(served, token))["authenticated"]
        await served.delete(f"{ACCOUNTS}/bob")
        assert not (await reviewed(served, token)).get("authenticated")
        await served.post(ACCOUNTS, {"metadata": {"name": "bob"}})  # another account of the same name
        assert not (await reviewed(served, token)).get("authenticated")
        await served.delete(f"{SECRETS}/t")
        assert not (await reviewed(served, token)).get("authenticated")

    asyncio.run(scenario())
