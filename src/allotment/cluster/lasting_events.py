"""Events about states that last: written when a state changes, and repeated while it does not.

The API server deletes an event an hour after it was last written (``--event-ttl``). client-go's broadcaster therefore
writes a series that is still recorded again every 30 minutes (``refreshTime`` in ``tools/events/event_broadcaster.go``
of 0.36), and kube-scheduler records ``FailedScheduling`` at each attempt, which follows after five minutes at the
latest. A program that records a state only when it changes repeats it at the same interval, so that
``kubectl describe`` shows it as long as it lasts. The repetition has the latest message about the state, which may name
other nodes or amounts than the first one; the recorder counts it in the same event if the messages are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from functools import partial
from typing import Final, NamedTuple

from allotment.cluster.clock import Clock, Timer
from allotment.cluster.recorder import EventType, Recorder
from allotment.model.trees import Tree

#: Seconds between two records of an unchanged state.
REPEAT_SECONDS: Final = 1800.0


class StateEvent(NamedTuple):
    """An event about the state of an object; the parameters of `Recorder.event`."""

    about: Tree
    type: EventType
    reason: str
    message: str
    action: str = ""
    annotations: Mapping[str, str] = {}


class _Recorded(NamedTuple):
    state: Hashable
    event: StateEvent
    timer: Timer


class LastingEvents:
    """The last event about each object (uid). ``lasts``: whether the object is still in a state that is reported."""

    def __init__(self, recorder: Recorder, clock: Clock, lasts: Callable[[str], bool]) -> None:
        self._recorder = recorder
        self._clock = clock
        self._lasts = lasts
        self._last: dict[str, _Recorded] = {}

    def __contains__(self, uid: str) -> bool:
        return uid in self._last

    def state(self, uid: str) -> Hashable:
        """The state that the last event about an object tells; None without one."""
        last = self._last.get(uid)
        return last.state if last is not None else None

    def record(self, uid: str, state: Hashable, event: StateEvent) -> bool:
        """Record an event unless the last one about the object has an equal ``state``; return whether it did. If not,
        the event is the one to repeat."""
        last = self._last.get(uid)
        if last is not None and last.state == state:
            self._last[uid] = last._replace(event=event)
            return False
        self.resume(uid, state, event, REPEAT_SECONDS)
        self._recorder.event(*event)
        return True

    def resume(self, uid: str, state: Hashable, event: StateEvent, left: float) -> None:
        """Continue with an event that is recorded already, and repeat it in ``left`` seconds."""
        self.forget(uid)
        self._last[uid] = _Recorded(state, event, self._clock.later(left, partial(self._repeat, uid)))

    def forget(self, uid: str) -> None:
        """Forget the state of an object: the next one is recorded in any case."""
        last = self._last.pop(uid, None)
        if last is not None:
            last.timer.cancel()

    def keep(self, uids: Collection[str]) -> None:
        """Forget all other objects."""
        for uid in self._last.keys() - set(uids):
            self.forget(uid)

    def close(self) -> None:
        """Repeat nothing any more."""
        self.keep(())

    def _repeat(self, uid: str) -> None:
        last = self._last[uid]
        if self._lasts(uid):
            self.resume(uid, last.state, last.event, REPEAT_SECONDS)
            self._recorder.event(*last.event)
        else:
            del self._last[uid]
