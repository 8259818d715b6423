"""The parameters of ``compute-domain.nvidia.com``, which the controller of ComputeDomains writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal, TypeAlias

from msgspec import Struct, field

from allotment.vocabulary.parameters.nvidia import VERSION
from allotment.vocabulary.parameters.problem import ParameterProblem, field_problem

AllocationMode: TypeAlias = Literal["Single", "All"]

#: Fields that were added in a later release than their kind.
SINCE: Final[Mapping[tuple[str, ...], str]] = {("allocationMode",): "25.8"}


class ComputeDomainChannelConfig(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The ComputeDomain of a workload's claim. The controller writes it to the claim template."""

    domain_id: str = field(name="domainID")
    allocation_mode: AllocationMode = "Single"


class ComputeDomainDaemonConfig(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The ComputeDomain of a daemon's claim."""

    domain_id: str = field(name="domainID")


Config: TypeAlias = ComputeDomainChannelConfig | ComputeDomainDaemonConfig

KINDS: Final[Mapping[tuple[str, str], type]] = {
    (VERSION, kind.__name__): kind for kind in (ComputeDomainChannelConfig, ComputeDomainDaemonConfig)
}


def problems(config: Config) -> Iterator[ParameterProblem]:
    """Yield a problem if the uid of the domain is missing."""
    if not config.domain_id:
        yield field_problem("domainID", "expected the uid of a ComputeDomain, found none")
