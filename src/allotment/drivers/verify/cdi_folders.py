"""The folders in which container runtimes look for CDI files: what ids mean there, and what a claim left in them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from allotment.cdi.lookup import CdiDevices, UnresolvableDevices
from allotment.cdi.naming import parse_name
from allotment.cdi.store import FolderStore
from allotment.drivers.verify.verdict import CheckFailed
from allotment.phrases import counted

_ROOT = "if the driver writes CDI files elsewhere, say where with --cdi-root"


class CdiFolders:
    """Some folders; later ones win, as for a runtime."""

    def __init__(self, roots: Sequence[Path]) -> None:
        self._roots = roots
        self._devices = CdiDevices([FolderStore(root) for root in roots])

    def resolve(self, ids: Sequence[str]) -> str:
        """What containers get by these ids, in words. Raises Wrong if a runtime could not make it."""
        for name in ids:
            if parse_name(name) is None:
                raise CheckFailed(
                    f"CDI id {name!r}", "use the form vendor/class=device, e.g. k8s.gpu.example.com/claim=<uid>-gpu-0",
                    "ids that a runtime takes",
                )  # fmt: skip
        try:
            edits = self._devices.edits(ids)
        except UnresolvableDevices as error:
            reasons = "".join(f"; {text}" for text in error.reasons)
            raise CheckFailed(
                f"{error} in {self}{reasons}",
                f"write the CDI file before prepare is answered; {_ROOT}",
                "every id resolves",
            ) from None
        if not edits:
            raise CheckFailed(
                f"no edits behind {', '.join(ids)}",
                "leave ids out for devices that need no edits: runtimes refuse them",
            )
        parts = {
            "variable": len(edits.env), "device node": len(edits.device_nodes), "mount": len(edits.mounts),
            "hook": len(edits.hooks), "network device": len(edits.net_devices),
        }  # fmt: skip
        told = [counted(count, what) for what, count in parts.items() if count]
        return ", ".join(told) or "edits"

    def names(self) -> frozenset[str]:
        """All ids that mean something now."""
        return self._devices.names()

    def files(self) -> Mapping[Path, bytes]:
        """All files, hidden ones, too: a crash may have left one."""
        found = {}
        for root in self._roots:
            for path in sorted(root.iterdir()) if root.is_dir() else ():
                try:
                    found[path] = path.read_bytes()
                except OSError:  # a folder, or gone meanwhile
                    continue
        return found

    def files_of(self, uids: Collection[str], before: Mapping[Path, bytes] | None = None) -> Mapping[Path, bytes]:
        """The files that speak of claims in their names or contents, and were not there before."""
        return {
            path: data
            for path, data in self.files().items()
            if path not in (before or ()) and any(uid in path.name or uid.encode() in data for uid in uids)
        }

    def __str__(self) -> str:
        return " and ".join(map(str, self._roots))
