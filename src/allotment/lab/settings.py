"""What a lab is started with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from allotment.lab.runtimes import RuntimeName
from allotment.lab.state import DEFAULT_NAME, DataFolder
from allotment.model.features import Features

if TYPE_CHECKING:
    from allotment.lab.autoscaling import Autoscale

#: What is modelled unless somebody asks for another release: the one that everything was compared with.
RELEASE = "1.36"


class Settings(NamedTuple):
    """See ``allot up --help``. Without ``data`` everything is in memory. ``fleet`` None: what is there already.

    With ``port`` 0 it is ``preferred_port`` if that is free, else any. ``without``: programs that do not run, by the
    names in :mod:`allotment.lab.programs`, because somebody else does their work. ``runtime`` and ``images``: see
    :mod:`allotment.lab.runtimes`. ``roots``: a folder of folders, one for each node's kubelet, in which drivers of
    other processes register; without it there are none. ``autoscale``: what can be bought for pods that wait, and how;
    None: nothing.
    """

    name: str = DEFAULT_NAME
    fleet: tuple[str, ...] | None = None
    data: DataFolder | None = None
    host: str = "127.0.0.1"
    port: int = 0
    preferred_port: int = 0
    tls: bool = True
    speed: float = 1.0
    features: Features = Features(kube=RELEASE)
    without: frozenset[str] = frozenset()
    runtime: RuntimeName = "simulated"
    images: Path | None = None
    roots: Path | None = None
    autoscale: Autoscale | None = None


def fleet_of(words: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """A fleet as a user gives it: words with commas, or a list of them.

    >>> fleet_of("dgx-a100-40gb:2,t4-4x-pcie"), fleet_of(""), fleet_of(None)
    (('dgx-a100-40gb:2', 't4-4x-pcie'), (), None)
    """
    if words is None:
        return None
    given = [words] if isinstance(words, str) else words
    return tuple(part.strip() for text in given for part in text.split(",") if part.strip())
