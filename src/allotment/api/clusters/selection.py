"""Selects a running cluster: a context of the kubeconfig, a running lab, or the current context.

Apart from reading, because commands that connect to a cluster only need this.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from allotment.cluster.remote.kubeconfig import ClusterTarget, KubeconfigError, contexts, default_paths, target
from allotment.lab.state import DEFAULT_NAME, Register, context_of

_LAB: Final = context_of(DEFAULT_NAME)


def selected(paths: Sequence[Path], context: str, prefer_lab: bool = True) -> ClusterTarget:
    """Return the cluster of a context of the kubeconfig; without one, that of a running lab or the current context.

    Raises KubeconfigError.
    """
    if context or not prefer_lab:
        return target(paths, context)
    known, current = contexts(paths) if any(path.exists() for path in paths or default_paths()) else ((), "")
    if current.startswith(_LAB) and current in (lab.context for lab in Register().running()):
        return target(paths, current)
    if _LAB in known:
        return target(paths, _LAB)
    if not paths and (lab := Register().status(DEFAULT_NAME)) and Register().runs(DEFAULT_NAME):
        return target([Path(lab.kubeconfig)], lab.context)
    return target(paths)


def selected_again(paths: Sequence[Path], found: ClusterTarget) -> ClusterTarget:
    """Return a cluster that was selected, with the address and credentials that its context has now.

    They are those that it had if there is no such context any more, or if it was selected without one.
    """
    if not found.context:
        return found
    try:
        return target(paths, found.context)
    except KubeconfigError:  # that of a running lab may be in a file of its own
        files = (Path(lab.kubeconfig) for lab in Register().running() if lab.context == found.context)
        return next((target([file], found.context) for file in files), found)
