"""``--kube-version`` and ``--feature-gates`` as the engine's ``Features``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from allotment.cli.output.errors import Mistake
from allotment.fleet.errors import suggestion
from allotment.model.features import GATES, RELEASES, Features
from allotment.model.meta import Object
from allotment.tools.doctor.server_facts import facts_among, features_of, served_gates

#: The default release without a cluster.
_DEFAULT: Final = "1.36"
_VERSION = re.compile(r"v?(1\.[0-9]+)(?:\.[0-9]+.*)?")
_TRUTH = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}


def release(text: str) -> str:
    """The modelled release of a Kubernetes version: ``1.36``, ``v1.36.2`` and ``v1.36.2-gke.100`` are one.

    >>> release("v1.35.4-eks-1")
    '1.35'
    """
    found = _VERSION.fullmatch(text)
    if found is None or found[1] not in RELEASES:
        raise Mistake(f"--kube-version: expected one of {', '.join(RELEASES)}, found {text!r}")
    return found[1]


def features(version: str, gates: Iterable[str]) -> Features:
    """Return the features of the cluster by the options of the command line. Raises Mistake."""
    kube, chosen = release(version), dict[str, bool]()
    for gate in (part.strip() for text in gates for part in text.split(",") if part.strip()):
        name, equals, value = gate.partition("=")
        truth = _TRUTH.get(value.strip().lower())
        if not equals or truth is None:
            raise Mistake(f"--feature-gates: expected NAME=true or NAME=false, found {gate!r}")
        if name not in GATES:
            raise Mistake(f"--feature-gates: Kubernetes {kube} has no DRA gate {name!r}", suggestion(name, GATES))
        chosen[name] = truth
    return Features(kube=kube, gates=chosen)


def features_among(version: str | None, gates: Iterable[str], values: Iterable[Object]) -> Features:
    """Return the features that a cluster reports, overridden by options of the command line.

    Of another release than the server's own only what the server shows is taken, not its gates.
    """
    facts = facts_among(values)
    if facts is None:
        return features(version or _DEFAULT, gates)
    told = features_of(facts)
    asked = features(version or told.kube, gates)
    return Features(asked.kube, {**(told.gates if version is None else served_gates(facts)), **asked.gates})
