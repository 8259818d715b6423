"""A Kubernetes version and feature gates as the engine's ``Features``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from allotment.errors import InputError
from allotment.fleet.errors import suggestion
from allotment.model import DEFAULT_RELEASE
from allotment.model.features import GATES, STAGES, Features, with_stages
from allotment.model.meta import Object
from allotment.model.releases import RELEASES, Gate, release_key, release_table
from allotment.model.server_facts import facts_among, features_of, served_gates

_VERSION = re.compile(r"v?(1\.[0-9]+)(?:\.[0-9]+.*)?")
_BOOLEANS = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}


def release(text: str) -> str:
    """Return the release of a Kubernetes version: ``1.36`` for ``v1.36.2`` and ``v1.36.2-gke.100``.

    >>> release("v1.35.4-eks-1")
    '1.35'
    """
    found = _VERSION.fullmatch(text)
    if found is None or found[1] not in RELEASES:
        raise InputError(f"expected one of {', '.join(RELEASES)}, found {text!r}", argument="kube")
    return found[1]


def features(version: str, gates: Iterable[str], reported: Mapping[str, bool] | None = None) -> Features:
    """Return the features of a release with feature gates such as ``"A=true,B=false"``. Raises InputError.

    The errors are those of Kubernetes' own ``--feature-gates``. Gates that have no effect on devices and workloads are
    accepted, and ignored. ``reported``: the gates of the cluster that differ from the defaults.
    """
    kube, chosen = release(version), _chosen(gates)
    known = release_table(kube).gates
    for name, enabled in chosen.items():
        if name in STAGES:
            continue
        if name not in known:
            raise InputError(f"unrecognized feature gate: {name}", _unknown_gate_hint(name, kube), argument="gates")
        if known[name].locked and enabled != known[name].default:
            values = f"{name} to {_text(enabled)}, feature is locked to {_text(known[name].default)}"
            raise InputError(f"cannot set feature gate {values}", f"in Kubernetes {kube}", argument="gates")
    changed = with_stages(chosen, kube)
    _require_dependencies(changed, {**(reported or {}), **changed}, known)
    return Features(kube, {**(reported or {}), **{name: on for name, on in changed.items() if name in GATES}})


def _chosen(gates: Iterable[str]) -> dict[str, bool]:
    chosen: dict[str, bool] = {}
    for gate in (part.strip() for text in gates for part in text.split(",") if part.strip()):
        name, equals, value = (part.strip() for part in gate.partition("="))
        enabled = _BOOLEANS.get(value.lower())
        if not equals or enabled is None:
            raise InputError(f"expected NAME=true or NAME=false, found {gate!r}", argument="gates")
        chosen[name] = enabled
    return chosen


def _text(enabled: bool) -> str:
    return "true" if enabled else "false"


def _unknown_gate_hint(name: str, kube: str) -> str:
    """The releases that have the gate, or a similar name."""
    others = [known for known in RELEASES if name in release_table(known).gates]
    if not others:
        return suggestion(name, [gate for gate in GATES if kube in GATES[gate]])
    if release_key(others[-1]) < release_key(kube):
        return f"Kubernetes {others[-1]} was the last release that had it"
    return f"Kubernetes has it since {others[0]}"


def _require_dependencies(changed: Mapping[str, bool], values: Mapping[str, bool], known: Mapping[str, Gate]) -> None:
    """Raise InputError if a changed gate, or a gate that requires it, is on without a gate that it requires."""

    def is_on(name: str) -> bool:
        return values.get(name, known[name].default)

    for name, gate in known.items():
        if is_on(name) and not changed.keys().isdisjoint((name, *gate.requires)):
            missing = [required for required in gate.requires if required in known and not is_on(required)]
            if missing:
                text = f"{name} is enabled, but depends on features that are disabled: [{' '.join(missing)}]"
                add = ",".join(f"{required}=true" for required in missing)
                raise InputError(text, f"add {add}, or {name}=false", argument="gates")


def features_among(version: str | None, gates: Iterable[str], values: Iterable[Object]) -> Features:
    """Return the features that a cluster reports, overridden by a stated release and gates.

    For another release than the server's, its gates are not used, only the fields it serves.
    """
    facts = facts_among(values)
    if facts is None:
        return features(version or DEFAULT_RELEASE, gates)
    reported = features_of(facts)
    return features(version or reported.kube, gates, reported.gates if version is None else served_gates(facts))
