"""The result of a pre-flight check."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from msgspec import field

from allotment.model.meta import Value

#: ``ok``: passed. ``to do``: failed. ``UNKNOWN``: the input does not contain the answer.
State: TypeAlias = Literal["ok", "to do", "cannot tell"]
UNKNOWN: Final = "cannot tell"


class Check(Value, frozen=True, omit_defaults=False):
    """A check: ``title`` names its subject, ``text`` is the result in one or two sentences.

    ``look``: a command that finds the answer if the input does not contain it. ``commands``: the fix; a backslash
    continues a line. ``danger``: the cluster is already at risk, with or without the migration. ``routine``: the check
    is part of every migration, so the text output only lists its title.
    """

    state: State
    title: str
    text: str
    look: str = ""
    commands: tuple[str, ...] = ()
    danger: bool = False
    routine: bool = field(name="usual", default=False)
