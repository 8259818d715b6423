"""Errors of the binding cycle."""

from __future__ import annotations

from typing import Final

from allotment.model.meta import ObjectKey

#: Prefix of Kubernetes' errors that concern claims.
PRE_BIND: Final = 'running PreBind plugin "DynamicResources": '


class BindError(Exception):
    """Raised when a decision cannot be carried out; the text is Kubernetes'."""


class DeviceBindingError(BindError):
    """Raised when devices do not become ready; the next attempt frees the claim and reports it."""


class ContestedError(BindError):
    """Raised when a device of ``claim`` was also allocated to another scheduler's claim."""

    def __init__(self, claim: ObjectKey, text: str) -> None:
        super().__init__(text)
        self.claim = claim
