"""What a story needs: an account that may nothing plays it, and is given a permission once the server has refused it.

A permission is one verb on one resource of one name. Whatever was never refused by the end, nothing asked for. Until it
is refused a permission makes no difference, so a story finds its way with few of them as with all but one.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from allotment.tools.permissions.access_reviews import AccessRequest, access_requests
from allotment.tools.permissions.roles import NAMESPACE
from allotment.tools.permissions.rule import ComponentPermissions, PermissionRule
from tests.kube.permitted.ground import Account, Ground

#: Seconds after a refusal: what is not tried again by then is never.
_QUIET: Final = 1.0

Play = Callable[[Ground, Account], Awaitable[None]]


async def never_refused(
    ground: Ground, account: Account, part: ComponentPermissions, play: Play
) -> list[AccessRequest]:
    """The permissions of a part that its story does without.

    It is played again when it was ended by a refusal. One that fails for another reason proves nothing: raises that.
    """
    lacked = _Lacked(ground, account, part)
    while lacked.asks:
        await ground.clear()
        playing = asyncio.ensure_future(play(ground, account))
        last = math.inf
        try:
            while lacked.asks and not playing.done() and time.monotonic() < last + _QUIET:
                await asyncio.wait([playing], timeout=0.03)
                if await lacked.given():
                    last = time.monotonic()
        finally:
            playing.cancel()
            await asyncio.wait([playing])
        if last == math.inf and not await lacked.given():
            playing.result()
            break
    return lacked.asks


class _Lacked:
    """``asks``: what the account has not been given yet."""

    def __init__(self, ground: Ground, account: Account, part: ComponentPermissions) -> None:
        self._ground, self._account, self._part = ground, account, part
        self._read = 0
        self.asks = list(access_requests(part))

    async def given(self) -> bool:
        """Give what was refused since the last time; whether there was anything."""
        refused = self._ground.refused(self._account)
        news, self._read = refused[self._read :], len(refused)
        for request in news:
            meant = [ask for ask in access_requests(self._part) if request.lacks(ask)]
            assert meant, f"the part has no permission for {request}"
            self.asks = [ask for ask in self.asks if ask not in meant]
        if news:
            given = [ask for ask in access_requests(self._part) if ask not in self.asks]
            await self._ground.grant(self._account, with_only(self._part, given))
        return bool(news)


def with_only(part: ComponentPermissions, given: Iterable[AccessRequest]) -> ComponentPermissions:
    """The part with these of its permissions."""
    given = tuple(given)
    return part._replace(
        cluster_wide=tuple(_rule(one) for one in given if one.namespace != NAMESPACE),
        in_namespace=tuple(_rule(one) for one in given if one.namespace == NAMESPACE),
    )


def _rule(one: AccessRequest) -> PermissionRule:
    if one.path:
        return PermissionRule((), (), (one.verb,), one.why, paths=(one.path,))
    whole = f"{one.resource}/{one.subresource}" if one.subresource else one.resource
    return PermissionRule((one.group,), (whole,), (one.verb,), one.why, names=(one.name,) if one.name else ())
