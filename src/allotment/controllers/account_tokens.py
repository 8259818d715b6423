"""Tokens of service accounts in Secrets of the type ``kubernetes.io/service-account-token``.

A Secret that names an account gets a token of it, the namespace and the cluster's authority. It is deleted with the
account.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from typing import Any, Final

from allotment.cluster.cached_item import CachedItem
from allotment.cluster.client import Client, Resource
from allotment.cluster.errors import StatusError
from allotment.cluster.program import Program, ProgramContext, run_queues
from allotment.cluster.resources import SECRETS, SERVICE_ACCOUNTS
from allotment.cluster.work_queue import WorkQueue
from allotment.model.trees import Tree

_TYPE: Final = "kubernetes.io/service-account-token"
_NAME: Final = "kubernetes.io/service-account.name"
_UID: Final = "kubernetes.io/service-account.uid"

Key = tuple[str, str]


def account_tokens(issue: Callable[[Tree, str], str], authority: str) -> Program:
    """The tokens controller. ``issue``: signs a token for an account and the name of a Secret; ``authority``: PEM."""

    async def run(context: ProgramContext) -> None:
        await _AccountTokens(context, issue, authority).run()

    return run


class _AccountTokens:
    def __init__(self, context: ProgramContext, issue: Callable[[Tree, str], str], authority: str) -> None:
        self._client = context.client_for("tokens-controller")
        self._issue = issue
        self._authority = authority
        self._accounts = context.caches.trees(SERVICE_ACCOUNTS)
        self._secrets = context.caches.trees(SECRETS)
        self._named = self._secrets.index("service account", _account_of)
        self._queue: WorkQueue[Key] = WorkQueue(
            "account-tokens", self._sync, clock=context.clock, random=context.random
        )
        self._deleted: WorkQueue[Key] = WorkQueue(
            "references to tokens", self._remove_reference, clock=context.clock, random=context.random
        )

    async def run(self) -> None:
        queues: list[WorkQueue[Key]] = [self._queue, self._deleted]
        await run_queues(queues, [(self._secrets, self._secret_changed), (self._accounts, self._account_changed)])

    def _secret_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        if new is not None and new.tree.get("type") == _TYPE:
            self._queue.add(new.key)
        elif new is None and old is not None and old.tree.get("type") == _TYPE:
            self._deleted.add(old.key)

    def _account_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        account = new or old
        if account is not None and (old is None or new is None or old.uid != new.uid):
            for secret in self._named[account.key]:
                self._queue.add(secret.key)

    async def _sync(self, key: Key) -> None:
        secret = self._secrets.item(*key)
        if secret is None or secret.tree.get("type") != _TYPE:
            return
        try:
            account = await self._account(secret)
            if account is None:
                await self._client.delete(SECRETS, secret.name, secret.namespace, uid=secret.uid)
            elif (changed := self._completed(secret.tree, account)) is not secret.tree:
                self._secrets.record_write(await self._client.update(SECRETS, changed))
        except StatusError as error:
            if error.code not in (404, 409):  # a conflict is another write, after which the Secret is read again
                raise

    async def _account(self, secret: CachedItem[Any]) -> Tree | None:
        """The account that a Secret names, also by its uid if it has one; None if it does not exist."""
        annotations = secret.metadata.get("annotations") or {}
        uid = annotations.get(_UID) or ""
        item = self._accounts.item(secret.namespace, annotations.get(_NAME) or "")
        account = item.tree if item is not None and uid in ("", item.uid) else None
        if account is None:  # it may have been created just now
            account = await _read(self._client, SERVICE_ACCOUNTS, annotations.get(_NAME) or "", secret.namespace)
        return account if account is not None and uid in ("", account["metadata"]["uid"]) else None

    def _completed(self, secret: Tree, account: Tree) -> Tree:
        """A Secret with all its data; the same tree if it is complete."""
        data = secret.get("data") or {}
        metadata = secret["metadata"]
        wanted = {"ca.crt": _encoded(self._authority)} if self._authority else {}
        if not data.get("namespace"):
            wanted["namespace"] = _encoded(metadata["namespace"])
        if not data.get("token"):
            wanted["token"] = _encoded(self._issue(account, metadata["name"]))
        if all(data.get(name) == value for name, value in wanted.items()):
            return secret
        owner = {_NAME: account["metadata"]["name"], _UID: account["metadata"]["uid"]}
        annotations = {**(metadata.get("annotations") or {}), **owner}
        return {**secret, "metadata": {**metadata, "annotations": annotations}, "data": {**data, **wanted}}

    async def _remove_reference(self, key: Key) -> None:
        """Remove a deleted Secret from the accounts that refer to it."""
        for account in self._accounts.items():
            references = account.tree.get("secrets") or ()
            if account.namespace == key[0] and any(reference.get("name") == key[1] for reference in references):
                kept = [reference for reference in references if reference.get("name") != key[1]]
                await self._client.update(SERVICE_ACCOUNTS, {**account.tree, "secrets": kept})


def _account_of(secret: CachedItem[Any]) -> Iterable[Key]:
    """The key of the account that a Secret with a token names."""
    name = (secret.metadata.get("annotations") or {}).get(_NAME)
    return ((secret.namespace, name),) if name and secret.tree.get("type") == _TYPE else ()


async def _read(client: Client, resource: Resource, name: str, namespace: str) -> Tree | None:
    try:
        return await client.get(resource, name, namespace)
    except StatusError as error:
        if error.code != 404:
            raise
        return None


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
