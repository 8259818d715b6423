"""The tutorial's folder: the manifests that the reader works with, the lab's data, and the progress.

``.tutorial`` in the folder has the lab's data and the progress, with a digest of each manifest as the program last
wrote it. Other files are never changed, and a manifest that the reader has edited is kept under another name.
"""

from __future__ import annotations

import hashlib
import shutil
from importlib import resources
from pathlib import Path
from typing import Final

import msgspec

from allotment.cli.output.console import from_home
from allotment.decoding import decodable
from allotment.errors import InputError
from allotment.files import atomic_write, private
from allotment.files.atomic_write import PUBLIC, Sync
from allotment.lab.state import DataFolder

_OWN: Final = ".tutorial"
_MANIFESTS: Final = resources.files("allotment.cli.tutorial").joinpath("manifests")
#: The suffix of the reader's version of a manifest that is written again.
_KEPT: Final = ".old"


class Progress(msgspec.Struct):
    """The names of the completed steps, and the digest of each file as it was last written."""

    done: list[str] = []
    files: dict[str, str] = {}


def packaged(name: str) -> str:
    """Return the text of a manifest at the start of its step."""
    return _MANIFESTS.joinpath(name).read_text("utf-8")


class Folder:
    """An existing or new folder of the tutorial. Raises InputError if the path is used for something else."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.shown = from_home(path) if path.is_absolute() else str(path)
        self.progress = self._read()

    @property
    def is_new(self) -> bool:
        """Whether no step is completed and no file is written."""
        return not self._record.exists()

    @property
    def data(self) -> DataFolder:
        """The data of the lab."""
        return DataFolder(self.path / _OWN / "lab")

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig file for the reader's commands."""
        return self.path / "kubeconfig"

    @property
    def _record(self) -> Path:
        return self.path / _OWN / "progress.json"

    def make(self) -> None:
        """Create the folder, and record that it is the tutorial's. Raises OSError."""
        self.path.mkdir(parents=True, exist_ok=True)
        if self.is_new:  # a reset that was interrupted may have left the data of the lab
            shutil.rmtree(self.path / _OWN, ignore_errors=True)
        private.make_folder(self.path / _OWN)
        self._save()

    def complete(self, step: str) -> None:
        """Record that a step is completed."""
        self.progress.done.append(step)
        self._save()

    def add(self, name: str) -> None:
        """Write a manifest, unless it was written before. Raises InputError for a file that is not the tutorial's."""
        path = self.path / name
        if name in self.progress.files and path.exists():
            return
        if path.exists() and not self.is_at_start(name):  # an interrupted run may have written it without a record
            raise InputError(
                f"{self.shown}/{name} exists, and the tutorial did not write it",
                "move it, or use another folder with --dir",
            )
        self.write(name, packaged(name))

    def write(self, name: str, text: str) -> None:
        """Write a manifest, and record its content. Raises OSError."""
        atomic_write.replace(self.path / name, text.encode(), mode=PUBLIC, sync=Sync.CONTENT)
        self.record(name)

    def record(self, name: str) -> None:
        """Record the content of a manifest that a command of the tutorial may have changed."""
        self.progress.files[name] = _digest((self.path / name).read_bytes())
        self._save()

    def is_at_start(self, name: str) -> bool:
        """Return whether a manifest is as at the start of its step."""
        path = self.path / name
        return path.exists() and path.read_bytes() == packaged(name).encode()

    def restore(self, name: str) -> str:
        """Write a manifest as at the start of its step. Returns the name of the kept version, if one was edited."""
        kept = self._keep(name)
        self.write(name, packaged(name))
        return kept

    def reset(self) -> list[str]:
        """Delete everything that the tutorial wrote. Returns the names of kept versions of edited manifests."""
        kept = []
        for name in self.progress.files:
            if edited := self._keep(name):
                kept.append(edited)
            else:
                (self.path / name).unlink(missing_ok=True)
        self.kubeconfig.unlink(missing_ok=True)
        shutil.rmtree(self.path / _OWN, ignore_errors=True)
        self.progress = Progress()
        return kept

    def _keep(self, name: str) -> str:
        """Rename a manifest that differs from its last recorded content, and return its new name."""
        path = self.path / name
        if not path.exists() or _digest(path.read_bytes()) == self.progress.files.get(name):
            return ""
        kept = f"{name}{_KEPT}"
        number = 1
        while (self.path / kept).exists():
            number += 1
            kept = f"{name}{_KEPT}{number}"
        path.rename(self.path / kept)
        return kept

    def _read(self) -> Progress:
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.shown} is not a folder", "use another one with --dir")
        try:
            return msgspec.json.decode(self._record.read_bytes(), type=decodable(Progress))
        except FileNotFoundError:
            if self.path.exists() and any(path.name != _OWN for path in self.path.iterdir()):
                raise InputError(
                    f"the folder {self.shown} is not empty, and the tutorial did not make it",
                    "use another one with --dir",
                ) from None
            return Progress()
        except msgspec.DecodeError:
            raise InputError(
                f"{self._record} is damaged", f"delete the folder {self.shown}, or use another one with --dir"
            ) from None

    def _save(self) -> None:
        atomic_write.replace(self._record, msgspec.json.encode(self.progress), sync=Sync.CONTENT)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
