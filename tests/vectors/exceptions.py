"""Recorded cases that we answer differently on purpose, each with its reason. The scores test holds this list exact."""

from __future__ import annotations

from collections.abc import Mapping

#: set -> file name -> case name -> why our answer differs.
EXCEPTIONS: Mapping[str, Mapping[str, Mapping[str, str]]] = {}
