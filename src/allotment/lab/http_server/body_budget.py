"""The memory for request bodies: a total, and the share of each client.

One client cannot use the memory that the requests of all other clients need; all clients without credentials are one.
The client of a request is determined only when its body becomes large: small bodies cannot use up the total, and most
requests have one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from allotment.apiserver.http_messages import Request

#: Returns the name of the client that sent a request, from its head.
Identify = Callable[[Request], str]
#: Bytes of a body up to which it is not attributed to a client.
_SMALL: Final = 16 * 1024


class BodyBudget:
    """Remaining bytes of bodies that the server may hold: ``left`` of all clients, ``per_client`` of each."""

    def __init__(self, left: int, per_client: int) -> None:
        self.left = left
        self._per_client = per_client
        self._held: Counter[str] = Counter()
        #: All requests have one client, unless the application tells them apart.
        self.identify: Identify = lambda _: ""


class BodySize:
    """The size of one body, as it is received; part of the budget until it is released."""

    __slots__ = ("_budget", "_client", "size")

    def __init__(self, budget: BodyBudget) -> None:
        self._budget = budget
        self._client: str | None = None
        self.size = 0

    def add(self, size: int, head: Callable[[], Request]) -> None:
        """Add received bytes. ``head``: the request without its body."""
        budget = self._budget
        self.size += size
        budget.left -= size
        if self._client is not None:
            budget._held[self._client] += size
        elif self.size > _SMALL:
            self._client = budget.identify(head())
            budget._held[self._client] += self.size

    @property
    def is_over(self) -> bool:
        """Whether the total or the share of the client is used up."""
        budget = self._budget
        return budget.left < 0 or (self._client is not None and budget._held[self._client] > budget._per_client)

    def release(self) -> None:
        """Return the body to the budget. Can be called more than once."""
        budget = self._budget
        budget.left += self.size
        if self._client is not None:
            budget._held[self._client] -= self.size
            if not budget._held[self._client]:
                del budget._held[self._client]
        self.size, self._client = 0, None
