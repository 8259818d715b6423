"""The CDI folders of container runtimes: resolves CDI IDs, and finds the files of a claim."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from allotment.cdi.lookup import CdiDevices, UnresolvableDevices
from allotment.cdi.naming import parse_name
from allotment.cdi.store import FolderStore
from allotment.drivers.verify.verdict import CheckFailed
from allotment.phrases import counted

_ROOT = "if the driver writes CDI files elsewhere, set --cdi-root"


class CdiFolders:
    """CDI folders; later ones have priority, as in a runtime."""

    def __init__(self, roots: Sequence[Path]) -> None:
        self._roots = roots
        self._devices = CdiDevices([FolderStore(root) for root in roots])

    def resolve(self, ids: Sequence[str]) -> str:
        """Return a summary of the edits for these IDs. Raises CheckFailed if a runtime would reject them."""
        for name in ids:
            if parse_name(name) is None:
                raise CheckFailed(
                    f"CDI ID {name!r}", "use the form vendor/class=device, e.g. k8s.gpu.example.com/claim=<uid>-gpu-0",
                    "IDs that a runtime accepts",
                )  # fmt: skip
        try:
            edits = self._devices.edits(ids)
        except UnresolvableDevices as error:
            reasons = "".join(f"; {text}" for text in error.reasons)
            raise CheckFailed(
                f"{error} in {self}{reasons}",
                f"write the CDI file before prepare returns; {_ROOT}",
                "every ID can be resolved",
            ) from None
        if not edits:
            raise CheckFailed(
                f"{', '.join(ids)} without edits", "omit IDs of devices without edits: runtimes reject them"
            )
        counts = {
            "variable": len(edits.env), "device node": len(edits.device_nodes), "mount": len(edits.mounts),
            "hook": len(edits.hooks), "network device": len(edits.net_devices),
        }  # fmt: skip
        summary = [counted(count, noun) for noun, count in counts.items() if count]
        return ", ".join(summary) or "edits"

    def names(self) -> frozenset[str]:
        """Return all IDs that can be resolved now."""
        return self._devices.names()

    def files(self) -> Mapping[Path, bytes]:
        """Return the content of all files, including hidden ones, which a crash may have left."""
        contents = {}
        for root in self._roots:
            for path in sorted(root.iterdir()) if root.is_dir() else ():
                try:
                    contents[path] = path.read_bytes()
                except OSError:  # a subfolder, or removed after the listing
                    continue
        return contents

    def files_of(self, uids: Collection[str], before: Mapping[Path, bytes] | None = None) -> Mapping[Path, bytes]:
        """Return the files with these claims in their names or contents, except those in ``before``."""
        return {
            path: data
            for path, data in self.files().items()
            if path not in (before or ()) and any(uid in path.name or uid.encode() in data for uid in uids)
        }

    def __str__(self) -> str:
        return " and ".join(map(str, self._roots))
