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
_BOOLEANS = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}


def release(text: str) -> str:
    """Return the release of a Kubernetes version: ``1.36`` for ``v1.36.2`` and ``v1.36.2-gke.100``.

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
        enabled = _BOOLEANS.get(value.strip().lower())
        if not equals or enabled is None:
            raise Mistake(f"--feature-gates: expected NAME=true or NAME=false, found {gate!r}")
        if name not in GATES:
            raise Mistake(f"--feature-gates: Kubernetes {kube} has no DRA gate {name!r}", suggestion(name, GATES))
        chosen[name] = enabled
    return Features(kube=kube, gates=chosen)


def features_among(version: str | None, gates: Iterable[str], values: Iterable[Object]) -> Features:
    """Return the features that a cluster reports, overridden by options of the command line.

    For another release than the server's, its gates are not used, only the fields it serves.
    """
    facts = facts_among(values)
    if facts is None:
        return features(version or _DEFAULT, gates)
    reported = features_of(facts)
    requested = features(version or reported.kube, gates)
    return Features(requested.kube, {**(reported.gates if version is None else served_gates(facts)), **requested.gates})
