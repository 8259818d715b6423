"""Carries out writes that wait for webhooks, although writes themselves are synchronous.

A write that needs the answer of a webhook is abandoned before it has changed anything, the webhook is called, and the
write is carried out again, with the same time, uids and random suffixes, and with the answer. If the object has changed
meanwhile, the webhook gets another object than before, so it is called again, as when kube-apiserver retries.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from allotment.apiserver import api_errors
from allotment.apiserver.outbound.client import OutboundClient
from allotment.apiserver.outbound.errors import CallFailed
from allotment.cluster.errors import StatusError
from allotment.model.trees import Tree
from allotment.model.validation.errors import failure_status

Result = TypeVar("Result")

#: Seconds for a write with its webhooks.
_SECONDS: Final = 34
_TIMED_OUT: Final = "Timeout: request did not complete within requested timeout - context deadline exceeded"
#: The most times that a write is carried out: each webhook takes one, each change of the object some more.
_MAX_ROUNDS: Final = 500


class IdSource(Protocol):
    """The source of uids and suffixes."""

    def uid(self) -> str:
        """A new UUID."""
        ...

    def suffix(self) -> str:
        """Five new random characters."""
        ...


class Call(NamedTuple):
    """A webhook to call. ``key``: what it decides on; ``config``: its clientConfig; ``uid``: that of the request."""

    key: bytes
    config: Tree
    body: bytes
    seconds: int
    uid: str


class CallsNeeded(Exception):
    """Raised by a write that needs the answers of webhooks."""

    def __init__(self, calls: Sequence[Call]) -> None:
        super().__init__(f"{len(calls)} webhooks have not been called")
        self.calls = calls


class Attempt:
    """The state that all rounds of a write share: the time, the identifiers, and the answers of webhooks by key."""

    def __init__(self, ids: IdSource, now: str) -> None:
        self.now = now
        #: The uid of each request, and the answer to it.
        self.answers: dict[bytes, tuple[str, Any | CallFailed]] = {}
        self._ids = ids
        self._uids, self._suffixes = _Recorded(ids.uid), _Recorded(ids.suffix)

    def begin_round(self) -> None:
        """Return the same identifiers again."""
        self._uids.rewind()
        self._suffixes.rewind()

    def uid(self) -> str:
        """The next uid of the round."""
        return self._uids.next()

    def suffix(self) -> str:
        """The next suffix of the round."""
        return self._suffixes.next()

    def request_uid(self) -> str:
        """A uid that belongs to no object."""
        return self._ids.uid()

    async def call(self, calls: Iterable[Call], outbound: OutboundClient) -> None:
        """Call webhooks at the same time, and keep their answers."""

        async def answer(call: Call) -> None:
            try:
                content = await outbound.post(call.config, call.body, call.seconds)
            except CallFailed as failure:
                content = failure
            self.answers[call.key] = (call.uid, content)

        await asyncio.gather(*map(answer, calls))


class _Recorded:
    def __init__(self, source: Callable[[], str]) -> None:
        self._source = source
        self._values: list[str] = []
        self._position = 0

    def next(self) -> str:
        if self._position == len(self._values):
            self._values.append(self._source())
        self._position += 1
        return self._values[self._position - 1]

    def rewind(self) -> None:
        self._position = 0


async def carry_out(
    act: Callable[[Attempt], Result], attempt: Attempt, outbound: OutboundClient, warnings: list[str]
) -> Result:
    """The result of a write, once all webhooks that it needs have answered. Raises StatusError.

    ``warnings``: those of rounds other than the last are removed.
    """
    kept = len(warnings)
    try:
        async with asyncio.timeout(_SECONDS):
            for _ in range(_MAX_ROUNDS):
                del warnings[kept:]
                attempt.begin_round()
                try:
                    return act(attempt)
                except CallsNeeded as needed:
                    await attempt.call(needed.calls, outbound)
    except TimeoutError:
        raise StatusError(failure_status(504, "Timeout", _TIMED_OUT)) from None
    raise api_errors.internal("the object changes each time that webhooks have decided about it")
