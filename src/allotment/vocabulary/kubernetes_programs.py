"""Kubernetes' own programs, by the images and flags of the pods in which kubeadm and others run them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

#: The registry of the published images.
REGISTRY: Final = "registry.k8s.io"
_IMAGE: Final = re.compile(
    r"(?:.*/)?(kube-(?:apiserver|scheduler|controller-manager))(?:-[a-z0-9]+)?:(v?1\.\d+\.[^@]*)(?:@.*)?"
)
_GATES: Final = "--feature-gates"


class ProgramImage(NamedTuple):
    """A program and its version: ``kube-scheduler`` and ``v1.37.2``."""

    name: str
    version: str


def program_of(image: str) -> ProgramImage | None:
    """The program of an image with a version as its tag.

    >>> program_of("registry.k8s.io/kube-scheduler:v1.37.2@sha256:0a"), program_of("kube-scheduler-simulator:v1")
    (ProgramImage(name='kube-scheduler', version='v1.37.2'), None)
    """
    found = _IMAGE.fullmatch(image)
    return ProgramImage(found[1], found[2]) if found else None


def feature_gates(words: Sequence[str]) -> dict[str, bool]:
    """The feature gates of a command line.

    >>> feature_gates(["kube-scheduler", "--feature-gates=A=true,B=false", "--feature-gates", "C=true"])
    {'A': True, 'B': False, 'C': True}
    """
    texts = [word.partition("=")[2] for word in words if word.startswith(f"{_GATES}=")]
    texts += [value for word, value in pairwise(words) if word == _GATES]
    pairs = (pair.partition("=") for text in texts for pair in text.split(",") if pair)
    return {name.strip(): value.strip().lower() == "true" for name, _, value in pairs}


def gates_flag(gates: dict[str, bool]) -> str:
    """The flag with these gates.

    >>> gates_flag({"A": True, "B": False})
    '--feature-gates=A=true,B=false'
    """
    return f"{_GATES}={','.join(f'{name}={str(on).lower()}' for name, on in gates.items())}"
