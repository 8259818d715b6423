"""The parameters of ``compute-domain.nvidia.com``. The controller of ComputeDomains writes them, people seldom do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal, TypeAlias

from msgspec import Struct, field

from allotment.vocabulary.parameters.nvidia import VERSION
from allotment.vocabulary.parameters.problem import Problem
from allotment.vocabulary.parameters.problem import field as at_field

AllocationMode: TypeAlias = Literal["Single", "All"]

#: Fields that came with a later release than their kind.
SINCE: Final[Mapping[tuple[str, ...], str]] = {("allocationMode",): "25.8"}


class ComputeDomainChannelConfig(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Which domain a workload's claim is for. Written by the controller into the template."""

    domain_id: str = field(name="domainID")
    allocation_mode: AllocationMode = "Single"


class ComputeDomainDaemonConfig(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Which domain a daemon's claim is for."""

    domain_id: str = field(name="domainID")


Config: TypeAlias = ComputeDomainChannelConfig | ComputeDomainDaemonConfig

KINDS: Final[Mapping[tuple[str, str], type]] = {
    (VERSION, kind.__name__): kind for kind in (ComputeDomainChannelConfig, ComputeDomainDaemonConfig)
}


def problems(config: Config) -> Iterator[Problem]:
    """What is wrong with parameters by themselves: a domain must be named."""
    if not config.domain_id:
        yield at_field("domainID", "expected the uid of a ComputeDomain, found none")
