"""The Helm package of the chart, with the members of ``helm package`` in its order.

It is written without helm, which is not always installed and adds the times of the files in the checkout. helm puts the
metadata, the values and the templates first, and the other files after them, each sorted by path.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import yaml

from release.archive import Member, tar_gz
from release.source_tree import ROOT

CHART: Final = ROOT / "deploy" / "helm" / "allotment"
_FIRST: Final = ("Chart.yaml", "values.yaml", "values.schema.json")


def chart_package(version: str, timestamp: int) -> tuple[str, bytes]:
    """The name and content of the package of a version."""
    metadata: dict[str, Any] = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    metadata |= {"version": version, "appVersion": version}
    name = metadata["name"]
    members = [
        Member(f"{name}/{file.relative_to(CHART).as_posix()}", file.read_bytes())
        for file in sorted(_files(), key=_place)
    ]
    # helm rewrites the metadata: without comments, with sorted keys.
    members[0] = Member(f"{name}/Chart.yaml", yaml.safe_dump(metadata, sort_keys=True, width=1000).encode())
    return f"{name}-{version}.tgz", tar_gz(members, timestamp)


def _files() -> list[Path]:
    """The files of the chart that helm does not ignore."""
    ignored = (CHART / ".helmignore").read_text(encoding="utf-8").split()
    return [
        file
        for file in CHART.rglob("*")
        if file.is_file()
        and not any(fnmatchcase(part, pattern) for part in file.relative_to(CHART).parts for pattern in ignored)
    ]


def _place(file: Path) -> tuple[int, tuple[str, ...]]:
    """The sort key of a file in the package."""
    parts = file.relative_to(CHART).parts
    if parts[0] in _FIRST:
        return _FIRST.index(parts[0]), parts
    return len(_FIRST) + (parts[0] != "templates"), parts
