"""Finds the permissions that a scenario needs: its account starts without any, and is granted one after each rejection.

A permission is one verb on one resource of one name. A permission that was never missing at the end is not needed.
Until its absence causes a rejection, a permission makes no difference, so a scenario runs the same with few permissions
as with all but one.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from allotment.permissions.access_reviews import AccessRequest, access_requests
from allotment.permissions.roles import NAMESPACE
from allotment.permissions.rule import ComponentPermissions, PermissionRule
from tests.kube.permissions.environment import Account, ScenarioCluster

#: Seconds after a rejection in which a program retries.
_QUIET: Final = 1.0

Scenario = Callable[[ScenarioCluster, Account], Awaitable[None]]


async def unneeded_permissions(
    cluster: ScenarioCluster, account: Account, component: ComponentPermissions, play: Scenario
) -> list[AccessRequest]:
    """The permissions of a component that its scenario does not need.

    The scenario runs again when a rejection ended it. Raises the error of one that fails for another reason, because it
    proves nothing.
    """
    lacked = _MissingPermissions(cluster, account, component)
    while lacked.missing:
        await cluster.clear()
        playing = asyncio.ensure_future(play(cluster, account))
        last = math.inf
        try:
            while lacked.missing and not playing.done() and time.monotonic() < last + _QUIET:
                await asyncio.wait([playing], timeout=0.03)
                if await lacked.grant_missing():
                    last = time.monotonic()
        finally:
            playing.cancel()
            await asyncio.wait([playing])
        if last == math.inf and not await lacked.grant_missing():
            playing.result()
            break
    return lacked.missing


class _MissingPermissions:
    """``missing``: the permissions that the account has not been granted yet."""

    def __init__(self, cluster: ScenarioCluster, account: Account, component: ComponentPermissions) -> None:
        self._ground, self._account, self._part = cluster, account, component
        self._read = 0
        self.missing = list(access_requests(component))

    async def grant_missing(self) -> bool:
        """Grant the permissions that were missing since the last call; return whether there were any."""
        refused = self._ground.forbidden_requests(self._account)
        changed, self._read = refused[self._read :], len(refused)
        for request in changed:
            matching = [permission for permission in access_requests(self._part) if request.lacks(permission)]
            assert matching, f"the component has no permission for {request}"
            self.missing = [permission for permission in self.missing if permission not in matching]
        if changed:
            given = [permission for permission in access_requests(self._part) if permission not in self.missing]
            await self._ground.grant(self._account, limit_to(self._part, given))
        return bool(changed)


def limit_to(component: ComponentPermissions, given: Iterable[AccessRequest]) -> ComponentPermissions:
    """The component with these of its permissions."""
    given = tuple(given)
    return component._replace(
        cluster_wide=tuple(_rule(item) for item in given if item.namespace != NAMESPACE),
        in_namespace=tuple(_rule(item) for item in given if item.namespace == NAMESPACE),
    )


def _rule(request: AccessRequest) -> PermissionRule:
    if request.path:
        return PermissionRule((), (), (request.verb,), request.why, paths=(request.path,))
    whole = f"{request.resource}/{request.subresource}" if request.subresource else request.resource
    return PermissionRule(
        (request.group,), (whole,), (request.verb,), request.why, names=(request.name,) if request.name else ()
    )
