"""Which driver has which kinds of parameters, and the judgement of given ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

from allotment.vocabulary.drivers import vocabulary
from allotment.vocabulary.parameters import amd, compute_domain, example, nvidia
from allotment.vocabulary.parameters.problem import Path, Problem
from allotment.vocabulary.parameters.strict_decoding import Kinds, Misread, place_of, read
from allotment.vocabulary.terms import Vocabulary


class _Parameters(NamedTuple):
    """A driver's kinds; what is wrong with a value of them beyond its type, given the gates that are off.

    ``since``: fields that came later than their kind; ``kind_gates``: kinds for devices that only a gate brings.
    """

    kinds: Kinds
    problems: Callable[[Any, Collection[str]], Iterator[Problem]] = lambda config, off: iter(())
    since: Mapping[tuple[str, ...], str] = {}
    kind_gates: Mapping[str, str] = {}


_DRIVERS: Final[Mapping[str, _Parameters]] = {
    "gpu.nvidia.com": _Parameters(nvidia.KINDS, nvidia.problems, nvidia.SINCE, nvidia.KIND_GATES),
    "compute-domain.nvidia.com": _Parameters(
        compute_domain.KINDS, lambda config, off: compute_domain.problems(config), compute_domain.SINCE
    ),
    "gpu.amd.com": _Parameters(amd.KINDS, kind_gates=amd.KIND_GATES),
    "gpu.example.com": _Parameters(example.GPU_KINDS, lambda config, off: example.gpu_problems(config)),
    "net.example.com": _Parameters(example.NET_KINDS, lambda config, off: example.net_problems(config)),
    "cpu.example.com": _Parameters({}),
}


def kinds_of(driver: str, release: str = "") -> Kinds | None:
    """The kinds of a driver's parameters in a release, as types; None of a driver whose parameters are not known.

    Raises ValueError for a release that is not known.
    """
    known, words = _DRIVERS.get(driver), vocabulary(driver, release)
    if known is None or words is None:
        return None
    return {key: kind for key, kind in known.kinds.items() if "/".join(key) in words.configs}


def parameters_of(
    driver: str, tree: Any, gates: Mapping[str, bool] | None = None, release: str = ""
) -> tuple[Problem, ...]:
    """What a driver will find wrong with parameters: all of it where they can be read, else why they cannot.

    ``gates``: the driver's feature gates that differ from their defaults. Nothing is said of drivers whose parameters
    are not known. Raises ValueError for a release that is not known.

    >>> mps = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "sharing": {"strategy": "MPS"}}
    >>> [problem.gate for problem in parameters_of("gpu.nvidia.com", mps)]
    ['MPSSupport']
    >>> parameters_of("gpu.nvidia.com", mps, {"MPSSupport": True})
    ()
    """
    known, words = _DRIVERS.get(driver), vocabulary(driver, release)
    kinds = kinds_of(driver, release)
    if known is None or words is None or kinds is None:
        return ()
    try:
        config = read(tree, kinds)
    except Misread as error:
        return error.problems
    given = gates or {}
    off = {gate.name for gate in words.gates if not given.get(gate.name, gate.default)}
    return (*_too_new(tree, known, words), *_kind_problems(tree, known, off), *known.problems(config, off))


def _too_new(tree: Any, known: _Parameters, words: Vocabulary) -> Iterator[Problem]:
    """Fields that the release does not have yet."""
    at = words.releases.index(words.release)
    for path, since in known.since.items():
        if words.releases.index(since) > at and _has(tree, path):
            yield Problem(path, place_of(path), f"the driver has it since {since}, not in {words.release}", key=True)


def _kind_problems(tree: Any, known: _Parameters, off: Collection[str]) -> Iterator[Problem]:
    kind = tree["kind"]
    gate = known.kind_gates.get(kind, "")
    if gate in off:
        yield Problem(
            ("kind",), "kind",
            f"{kind} is for devices that the driver publishes with its feature gate {gate}, which is off; switch it on "
            f"(featureGates.{gate}=true)",
            gate=gate,
        )  # fmt: skip


def _has(tree: Any, path: Path) -> bool:
    for step in path:
        if not isinstance(tree, dict) or step not in tree:
            return False
        tree = tree[step]
    return tree is not None
