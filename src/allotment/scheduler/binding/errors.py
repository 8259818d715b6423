"""Why a decision was not carried out."""

from __future__ import annotations

from typing import Final

from allotment.model.meta import ObjectKey

#: How Kubernetes begins to say so, where it is about claims.
PRE_BIND: Final = 'running PreBind plugin "DynamicResources": '


class NotBound(Exception):
    """A decision could not be carried out; the text is Kubernetes'."""


class Contested(NotBound):
    """Somebody else was given a device of a claim, too. ``claim`` is ours."""

    def __init__(self, claim: ObjectKey, text: str) -> None:
        super().__init__(text)
        self.claim = claim
