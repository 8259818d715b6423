"""One thing that must hold before the new manifests are applied."""

from __future__ import annotations

from typing import Literal, TypeAlias

from allotment.model.meta import Value

#: ``ok``: it holds. ``to do``: it does not. ``cannot tell``: nothing that was given says it.
State: TypeAlias = Literal["ok", "to do", "cannot tell"]


class Check(Value, frozen=True, omit_defaults=False):
    """``title`` is what is looked at, in a few words; ``text`` what was found and what it means, in a sentence or two.

    ``look``: a command that tells, where what was given does not. ``commands``: what to run where it does not hold; a
    line may go on in the next one with a backslash. ``danger``: as it stands something goes wrong, migrated or not.
    ``usual``: it is to be looked at in every migration, so that a screen need not say why each time.
    """

    state: State
    title: str
    text: str
    look: str = ""
    commands: tuple[str, ...] = ()
    danger: bool = False
    usual: bool = False
