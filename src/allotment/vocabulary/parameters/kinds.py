"""Validates parameters of drivers, by the kinds that each driver and release knows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

from allotment.vocabulary.drivers import vocabulary
from allotment.vocabulary.parameters import amd, compute_domain, example, nvidia
from allotment.vocabulary.parameters.problem import ParameterProblem, Path
from allotment.vocabulary.parameters.strict_decoding import Kinds, ParameterError, decode_parameters, path_text
from allotment.vocabulary.terms import Vocabulary


class _DriverParameters(NamedTuple):
    """The kinds of a driver, and a check of their values beyond the types, given the disabled feature gates.

    ``since``: fields added after their kind; ``kind_gates``: kinds for devices published only with a feature gate.
    """

    kinds: Kinds
    problems: Callable[[Any, Collection[str]], Iterator[ParameterProblem]] = lambda config, off: iter(())
    since: Mapping[tuple[str, ...], str] = {}
    kind_gates: Mapping[str, str] = {}


_DRIVERS: Final[Mapping[str, _DriverParameters]] = {
    "gpu.nvidia.com": _DriverParameters(nvidia.KINDS, nvidia.problems, nvidia.SINCE, nvidia.KIND_GATES),
    "compute-domain.nvidia.com": _DriverParameters(
        compute_domain.KINDS, lambda config, off: compute_domain.problems(config), compute_domain.SINCE
    ),
    "gpu.amd.com": _DriverParameters(amd.KINDS, kind_gates=amd.KIND_GATES),
    "gpu.example.com": _DriverParameters(example.GPU_KINDS, lambda config, off: example.gpu_problems(config)),
    "net.example.com": _DriverParameters(example.NET_KINDS, lambda config, off: example.net_problems(config)),
    "cpu.example.com": _DriverParameters({}),
}


def kinds_of(driver: str, release: str = "") -> Kinds | None:
    """Return the kinds of a driver's parameters in a release, as types; None for a driver with unknown parameters.

    Raises ValueError for a release that is not known.
    """
    driver_parameters, words = _DRIVERS.get(driver), vocabulary(driver, release)
    if driver_parameters is None or words is None:
        return None
    return {key: kind for key, kind in driver_parameters.kinds.items() if "/".join(key) in words.configs}


def parameter_problems(
    driver: str, tree: Any, gates: Mapping[str, bool] | None = None, release: str = ""
) -> tuple[ParameterProblem, ...]:
    """Return the problems that a driver will find in parameters, or the decoding errors.

    ``gates``: the driver's feature gates that differ from their defaults. Drivers with unknown parameters have no
    problems. Raises ValueError for an unknown release.

    >>> mps = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "sharing": {"strategy": "MPS"}}
    >>> [problem.gate for problem in parameter_problems("gpu.nvidia.com", mps)]
    ['MPSSupport']
    >>> parameter_problems("gpu.nvidia.com", mps, {"MPSSupport": True})
    ()
    """
    driver_parameters, words = _DRIVERS.get(driver), vocabulary(driver, release)
    kinds = kinds_of(driver, release)
    if driver_parameters is None or words is None or kinds is None:
        return ()
    try:
        config = decode_parameters(tree, kinds)
    except ParameterError as error:
        return error.problems
    gate_values = gates or {}
    off = {gate.name for gate in words.gates if not gate_values.get(gate.name, gate.default)}
    return (
        *_too_new(tree, driver_parameters, words),
        *_kind_problems(tree, driver_parameters, off),
        *driver_parameters.problems(config, off),
    )


def _too_new(tree: Any, driver_parameters: _DriverParameters, words: Vocabulary) -> Iterator[ParameterProblem]:
    """Yield a problem for each field that the release does not have yet."""
    index = words.releases.index(words.release)
    for path, since in driver_parameters.since.items():
        if words.releases.index(since) > index and _has(tree, path):
            yield ParameterProblem(
                path,
                path_text(path),
                f"this field requires release {since} of the driver or later, found release {words.release}",
                key=True,
            )


def _kind_problems(tree: Any, driver_parameters: _DriverParameters, off: Collection[str]) -> Iterator[ParameterProblem]:
    kind = tree["kind"]
    gate = driver_parameters.kind_gates.get(kind, "")
    if gate in off:
        yield ParameterProblem(
            ("kind",), "kind",
            f"{kind} is for devices that the driver publishes only with its feature gate {gate}, which is off; "
            f"enable it (featureGates.{gate}=true)",
            gate=gate,
        )  # fmt: skip


def _has(tree: Any, path: Path) -> bool:
    for step in path:
        if not isinstance(tree, dict) or step not in tree:
            return False
        tree = tree[step]
    return tree is not None
