"""Tokens of containers, and the share of a simulated GPU that a token grants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from allotment.drivers.nvidia.hardware import MpsDaemon
from allotment.drivers.nvidia.simulated.share import ComputeShare, Strategy
from allotment.drivers.nvidia.simulated.state import Card, profile_of
from allotment.fleet.nvidia import Gpu
from allotment.fleet.profiles import MIB

#: The profile id in a grant of a whole GPU.
_WHOLE = -1


class Grant(NamedTuple):
    """A device of a claim. The token contains all of it, so nothing has to be stored across restarts.

    The token is no secret: it identifies a device, and the share is looked up when a program makes a call.
    """

    hardware: str
    claim: str
    pci: str
    profile_id: int = _WHOLE
    start: int = _WHOLE
    daemon: str = ""

    @property
    def token(self) -> str:
        """The grant as text without spaces."""
        return "/".join((self.hardware, self.claim, self.pci, str(self.profile_id), str(self.start), self.daemon))

    @classmethod
    def parse(cls, token: str) -> Grant | None:
        """The grant in a token; None if the token is malformed."""
        match token.split("/"):
            case [hardware, claim, pci, profile_id, start, daemon]:
                try:
                    return cls(hardware, claim, pci, int(profile_id), int(start), daemon)
                except ValueError:
                    return None
        return None


def share_of(grant: Grant, gpu: Gpu, card: Card, daemons: Mapping[str, MpsDaemon]) -> ComputeShare | None:
    """The current share of a grant; None if its device or its daemon is gone."""
    strategy: Strategy
    if grant.profile_id == _WHOLE:
        if card.mig:
            return None
        engine, profile, strategy = gpu.uuid, "", "time-slicing" if card.interval else "exclusive"
        multiprocessors, memory = gpu.multiprocessors, gpu.memory_bytes or 0
    else:
        instance = card.find(grant.profile_id, grant.start)
        if instance is None or not instance.uuid:
            return None
        mig_profile = profile_of(gpu, grant.profile_id)
        engine, profile, strategy = instance.uuid, mig_profile.name, "mig"
        multiprocessors, memory = mig_profile.multiprocessors, mig_profile.memory_mib * MIB
    share = ComputeShare(
        claim=grant.claim,
        pci=gpu.pci,
        engine=engine,
        product=gpu.product,
        multiprocessors=multiprocessors,
        memory=memory,
        strategy=strategy,
        interval=card.interval,
        profile=profile,
        exclusive=not profile and card.mode == "EXCLUSIVE_PROCESS",
    )
    if not grant.daemon:
        return share
    daemon = daemons.get(grant.daemon)
    if daemon is None or engine not in daemon.uuids:
        return None
    limit = daemon.memory_limits.get(engine)
    return share._replace(
        strategy="mps",
        daemon=daemon.key,
        threads=daemon.threads,
        memory_limit=None if limit is None else limit * MIB,
        exclusive=False,
    )
