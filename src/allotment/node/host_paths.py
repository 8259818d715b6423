"""The folders of ``hostPath`` volumes: each node has its own, for the pods of one node to share.

They are never those of the machine: a manifest from elsewhere must not read or change its files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from allotment.model.trees import Tree

#: The types of folders; files, sockets and devices of a node are not simulated.
_FOLDERS: Final = ("", "Directory", "DirectoryOrCreate")


def is_host_folder(volume: Tree) -> bool:
    """Whether a volume is a folder of the node."""
    source = volume.get("hostPath")
    return source is not None and (source.get("type") or "") in _FOLDERS


def host_folder(state: Path, node: Tree, path: str) -> Path:
    """The folder for a path of a node. ``state``: the folder of the node's agent.

    >>> host_folder(Path("/state"), {"metadata": {"name": "n1"}}, "/tmp/../data").as_posix()
    '/state/host-paths/n1/tmp/data'
    """
    parts = [part for part in path.split("/") if part not in ("", ".", "..")]
    return state.joinpath("host-paths", node["metadata"]["name"], *parts)
