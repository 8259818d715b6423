"""Kubernetes objects as values: kinds, versions, defaults, validation, quantities and versions."""

from typing import Final

#: The Kubernetes release that is assumed where nothing names one. Defined here so that ``--help`` imports no table.
DEFAULT_RELEASE: Final = "1.37"
