"""Where a lab keeps what outlives a command: which labs run, and the data of each.

Two places. The *register* (XDG state) has one small file per lab name: who runs it, where it listens, what it was
started with. The *data folder* (XDG data, or ``--data-dir``) has the database, the certificates and the log. A lab that is
only in memory has no data folder.

Whether a lab runs is a lock on its register file, held by its process: a lock cannot be left behind, a process id can
(and may then be somebody else's).
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec

from allotment.files import atomic_write, private

#: The lab that is meant when no name is given.
DEFAULT_NAME = "default"
#: Whoever asks whether a lab runs has the lock for a moment; a lab has it for good.
_LOOK_SECONDS = 0.2
_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,38}[a-z0-9])?")


class InvalidName(ValueError):
    """The name of a lab cannot be one."""

    def __init__(self, name: str) -> None:
        super().__init__(f"a lab's name is 1 to 40 small letters, digits and inner '-', found {name!r}")


class LabRunningError(Exception):
    """A lab of that name runs already: ``status``, if it has said anything yet."""

    def __init__(self, name: str, status: Status | None) -> None:
        who = f" (process {status.pid}, {status.url})" if status is not None else ""
        super().__init__(f"lab {name!r} is running already{who}")
        self.name = name
        self.status = status


class Status(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a running lab says of itself. ``previous_context``: what kubectl's current context was before it."""

    name: str
    pid: int
    url: str
    context: str
    kubeconfig: str
    started: str
    version: str
    data: str | None = None
    log: str | None = None
    fleet: tuple[str, ...] = ()
    speed: float = 1.0
    previous_context: str = ""


class DataFolder:
    """The files of one lab's data."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def database(self) -> Path:
        """The store."""
        return self.path / "lab.db"

    @property
    def certificates(self) -> Path:
        """The folder of the certificate authority and what it signed."""
        return self.path / "pki"

    @property
    def log(self) -> Path:
        """Where a detached lab writes what it would have printed."""
        return self.path / "lab.log"

    def keep_fleet(self, words: Sequence[str]) -> None:
        """Note what the nodes in the database were made from, to be told when a lab starts on them again."""
        atomic_write.replace(self.path / "fleet.json", msgspec.json.encode(list(words)))

    def fleet(self) -> tuple[str, ...]:
        """What was noted; nothing if nothing was."""
        try:
            return msgspec.json.decode((self.path / "fleet.json").read_bytes(), type=tuple[str, ...])
        except (FileNotFoundError, msgspec.DecodeError):
            return ()

    def make(self) -> None:
        """Create it, for its owner alone. Raises OSError.

        A folder that exists keeps its mode, but what a lab wrote to it becomes private: earlier versions left the
        database and the log readable by all users.
        """
        private.make_folder(self.path)
        private.make_folder(self.certificates)
        for path in (*self.path.glob("lab.*"), self.path / "fleet.json", *self.certificates.iterdir()):
            private.restrict(path)


def context_of(name: str) -> str:
    """The kubectl context of a lab.

    >>> context_of("default"), context_of("two")
    ('allotment', 'allotment-two')
    """
    return "allotment" if name == DEFAULT_NAME else f"allotment-{name}"


def checked_name(name: str) -> str:
    """The name, if it can be one. Raises BadName."""
    if not _NAME.fullmatch(name):
        raise InvalidName(name)
    return name


def default_data(name: str) -> DataFolder:
    """Where the data of a lab is, if nobody says otherwise."""
    return DataFolder(_folder("XDG_DATA_HOME", ".local/share") / "labs" / checked_name(name))


def default_folder(name: str) -> Path:
    """Where something else of this user's is kept that outlives a command."""
    return _folder("XDG_DATA_HOME", ".local/share") / name


class Register:
    """The labs of this user. ``folder`` is for tests; everybody else shares one."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or _folder("XDG_STATE_HOME", ".local/state")

    def log(self, name: str) -> Path:
        """Where a detached lab without a data folder writes what it would have printed."""
        return self.folder / f"{checked_name(name)}.log"

    @contextmanager
    def hold(self, name: str) -> Iterator[None]:
        """Be the lab of a name. Raises Running if there is one; its status is gone at the end."""
        private.make_folder(self.folder)
        with private.open_append(self._lock(name)) as file:
            patience = time.monotonic() + _LOOK_SECONDS
            while not _locked(file):
                if time.monotonic() > patience:
                    raise LabRunningError(name, self.status(name))
                time.sleep(0.02)
            self._file(name).unlink(missing_ok=True)
            try:
                yield
            finally:
                self._file(name).unlink(missing_ok=True)

    def write(self, status: Status) -> None:
        """Say what a held lab is; its readers see all of it or nothing."""
        atomic_write.replace(self._file(status.name), msgspec.json.format(msgspec.json.encode(status)))

    def status(self, name: str) -> Status | None:
        """What the lab of a name says of itself: None while it has not said anything."""
        try:
            return msgspec.json.decode(self._file(name).read_bytes(), type=Status)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def runs(self, name: str) -> bool:
        """Whether the lab of a name runs (perhaps it is still starting)."""
        try:
            with self._lock(name).open("rb+") as file:
                return not _locked(file)
        except FileNotFoundError:
            return False

    def running(self) -> tuple[Status, ...]:
        """All labs that run and are ready, by name."""
        names = sorted(path.stem for path in self.folder.glob("*.json"))
        found = (self.status(name) for name in names if _NAME.fullmatch(name) and self.runs(name))
        return tuple(status for status in found if status is not None)

    def _file(self, name: str) -> Path:
        return self.folder / f"{checked_name(name)}.json"

    def _lock(self, name: str) -> Path:
        return self.folder / f"{checked_name(name)}.lock"


def _folder(variable: str, below_home: str) -> Path:
    given = os.environ.get(variable) or (os.environ.get("LOCALAPPDATA") if sys.platform == "win32" else "")
    # The XDG rules: a path that is not absolute is to be ignored.
    base = Path(given) if given and Path(given).is_absolute() else _home() / below_home
    return base / "allotment"


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # a user without one, as in a pod, has no labs and cannot have any
        return Path("/nonexistent")


if sys.platform == "win32":
    import msvcrt

    def _locked(file: BinaryIO) -> bool:
        """Lock a file until it is closed; False if another has it."""
        try:
            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _locked(file: BinaryIO) -> bool:
        """Lock a file until it is closed; False if another has it."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
