"""Completion of kubeconfig contexts and labs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from allotment.cli.completion.candidate import Candidate
from allotment.cli.completion.command_line import Line


def contexts(line: Line) -> Iterator[Candidate]:
    """Yield the contexts of the selected kubeconfig."""
    from allotment.cluster.remote.kubeconfig import contexts as read

    file = line.last("kubeconfig")
    known, current = read([Path(file).expanduser()] if file else [])
    return (Candidate(name, "the current context" if name == current else "") for name in known)


def labs(line: Line) -> Iterator[Candidate]:
    """Yield the running labs."""
    from allotment.lab.state import Register

    return (Candidate(lab.name, ",".join(lab.fleet)) for lab in Register().running())
