"""Start parameters of a lab."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from allotment.errors import InputError
from allotment.fleet import parse_fleet
from allotment.fleet.errors import suggestion
from allotment.lab.runtimes import NAMES, RuntimeName
from allotment.lab.state import DEFAULT_NAME, DataFolder
from allotment.model import DEFAULT_RELEASE
from allotment.model.features import GATES, Features
from allotment.model.releases import RELEASES
from allotment.node.runtimes.images import read_images

if TYPE_CHECKING:
    from allotment.lab.autoscaling import Autoscale

#: Leaves room for ``/NODE/plugins_registry/DRIVER-reg.sock``.
LONGEST_ROOTS: Final = 50
#: Faster than this, periods become shorter than a step of the event loop, which then does nothing else.
MAX_SPEED: Final = 1_000_000


class ApiServerOptions(NamedTuple):
    """The options of a lab that is only an API server, without the controllers' objects; others issue certificates.

    ``certificate`` and ``key``: of the server. ``client_authority``: signs client certificates; None: no client has
    one. ``disabled_plugins``: admission plugins that do not run, by Kubernetes' names.
    """

    certificate: Path
    key: Path
    client_authority: Path | None = None
    disabled_plugins: frozenset[str] = frozenset()


#: What happens to simulated containers that have to end, and whose command is not known.
UnknownCommands = Literal["fail", "succeed"]


class Settings(NamedTuple):
    """The start parameters of a lab, as the options of ``allot up`` set them.

    Without ``data`` everything is in memory. ``fleet`` None: the stored fleet. ``runtime_config``: API versions to
    serve besides the release's defaults, as in :mod:`allotment.apiserver.runtime_config`. With ``port`` 0,
    ``preferred_port`` is used if it is free, else any port. ``without``: programs that do not run, by the names in
    :mod:`allotment.lab.programs`, because others do their work. ``runtime`` and ``images``: see
    :mod:`allotment.lab.runtimes`. ``unknown_commands``: simulated containers succeed with them. ``roots``: a folder
    with a subfolder for each node's kubelet, in which external drivers register; without it they cannot. ``autoscale``:
    instance types for pending pods, and options; None: no autoscaler. ``api_server``: the lab is only an API server;
    combine it with ``without`` all programs.
    """

    name: str = DEFAULT_NAME
    fleet: tuple[str, ...] | None = None
    data: DataFolder | None = None
    host: str = "127.0.0.1"
    port: int = 0
    preferred_port: int = 0
    tls: bool = True
    speed: float = 1.0
    features: Features = Features(kube=DEFAULT_RELEASE)
    runtime_config: tuple[str, ...] = ()
    without: frozenset[str] = frozenset()
    runtime: RuntimeName = "simulated"
    images: Path | None = None
    unknown_commands: bool = False
    roots: Path | None = None
    autoscale: Autoscale | None = None
    api_server: ApiServerOptions | None = None


def fleet_of(words: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """Normalize a fleet: comma-separated text, or a list.

    >>> fleet_of("dgx-a100-40gb:2,t4-4x-pcie"), fleet_of(""), fleet_of(None)
    (('dgx-a100-40gb:2', 't4-4x-pcie'), (), None)
    """
    if words is None:
        return None
    given = [words] if isinstance(words, str) else words
    return tuple(part.strip() for text in given for part in text.split(",") if part.strip())


def checked_fleet(words: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """Normalize a fleet. Raises FleetError."""
    fleet = fleet_of(words)
    parse_fleet(fleet or ())
    return fleet


def features_of(kube: str, gates: Mapping[str, bool]) -> Features:
    """Return the features of a release with these gates. Raises InputError."""
    if kube not in RELEASES:
        raise InputError(f"expected one of {', '.join(RELEASES)}, found {kube!r}", argument="kube")
    for gate in gates:
        if gate not in GATES:
            raise InputError(f"unrecognized feature gate: {gate}", suggestion(gate, GATES), argument="gates")
    return Features(kube, gates)


def checked_speed(speed: float) -> float:
    """Return the speed of a lab's clock. Raises InputError."""
    if not 0 < speed <= MAX_SPEED:
        raise InputError(f"expected a positive number up to {MAX_SPEED}, found {speed:g}", argument="speed")
    return speed


def checked_runtime(name: RuntimeName) -> RuntimeName:
    """Return the name of a runtime. Raises InputError."""
    if name not in NAMES:
        raise InputError(f"expected one of {', '.join(NAMES)}, found {name!r}", argument="runtime")
    return name


def checked_unknown_commands(name: UnknownCommands) -> bool:
    """Return whether unknown commands of simulated containers succeed. Raises InputError."""
    if name not in ("fail", "succeed"):
        raise InputError(f"expected fail or succeed, found {name!r}", argument="unknown_commands")
    return name == "succeed"


def checked_images(file: str | os.PathLike[str] | None, runtime: RuntimeName) -> Path | None:
    """Return the file that maps images to programs, if it is valid. Raises InputError."""
    if file is None:
        return None
    if not isinstance(file, str | os.PathLike):
        raise InputError(f"expected the path of a file, found {type(file).__name__}", argument="images")
    if runtime == "simulated":
        raise InputError("not allowed with simulated containers", 'use runtime="process"', argument="images")
    path = Path(file)
    read_images(path)
    return path


def made_roots(given: str | Path) -> Path:
    """Create and return the folder of the nodes' kubelets. Raises InputError."""
    path = Path(given).absolute()
    if (length := len(os.fsencode(path))) > LONGEST_ROOTS:
        raise InputError(
            f"{path} is {length} bytes long; socket paths below it are limited to 107 bytes",
            f"choose a path of at most {LONGEST_ROOTS} bytes",
            argument="kubelet_roots",
        )
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        problem = f"{error.filename or path}: {(error.strerror or str(error)).lower()}"
        raise InputError(problem, argument="kubelet_roots") from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise InputError(f"{path}: permission denied", argument="kubelet_roots")
    return path
