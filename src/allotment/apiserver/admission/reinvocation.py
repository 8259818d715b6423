"""Which mutating webhooks and policies run in the second round, because others changed the object after them.

There are at most two rounds. Each plugin, the policies and the webhooks, has its own :class:`Reinvocation`.
"""

from __future__ import annotations

from collections.abc import Hashable

from allotment.model.trees import Tree


class Rounds:
    """The round of a request. ``is_second_needed``: a plugin changed the object in the first one."""

    def __init__(self) -> None:
        self.is_second = False
        self.is_second_needed = False


class Reinvocation:
    """The calls of one plugin, by any key, in the rounds of a request."""

    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds
        self._last: Tree | None = None
        self._called: set[Hashable] = set()
        self._repeated: set[Hashable] = set()

    @property
    def round(self) -> int:
        """The number of the round, from 0."""
        return 1 if self._rounds.is_second else 0

    def begin_round(self, new: Tree | None) -> bool:
        """Begin a round with an object, which others may have changed since this plugin's last call.

        Returns whether any call is to be made.
        """
        if self._rounds.is_second and new != self._last:
            self.repeat_all()
        return not self._rounds.is_second or bool(self._repeated)

    def end_round(self, new: Tree | None) -> None:
        """End a round with the object that results."""
        self._last = new

    def includes(self, key: Hashable) -> bool:
        """Whether a call is made in this round."""
        return not self._rounds.is_second or key in self._repeated

    def record_call(self, key: Hashable, *, changed: bool, is_repeatable: bool) -> None:
        """Record a call; ``is_repeatable``: its reinvocationPolicy is IfNeeded."""
        if changed:
            self.repeat_all()
            self._rounds.is_second_needed = True
        if is_repeatable:
            self._called.add(key)

    def repeat_all(self) -> None:
        """Include all repeatable calls up to now in the second round."""
        self._repeated |= self._called
        self._called = set()
