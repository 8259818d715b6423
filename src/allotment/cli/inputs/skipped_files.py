"""The files of folders that were skipped because they must be rendered first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from allotment.phrases import counted


def passed_over(templates: Sequence[str], patches: Sequence[str], command: str) -> Iterator[str]:
    """Report the skipped files, and how to pass their output to ``check`` or ``migrate``."""
    if templates:
        files = counted(len(templates), "template")
        made = f"{command} their output with: helm template … | allot {command} -"
        yield f"Skipped {files} ({_first(templates)}); {made}"
    if patches:
        files = f"{len(patches)} patch{'es' if len(patches) > 1 else ''}"
        made = f"{command} the complete output with: kubectl kustomize … | allot {command} -"
        yield f"Skipped {files} ({_first(patches)}); {made}"


def _first(paths: Sequence[str]) -> str:
    return f"{paths[0]}, …" if len(paths) > 1 else paths[0]
