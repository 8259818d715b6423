"""Persistent state of labs: the register of running labs, and the data folder of each.

The *register* (XDG state) has one small file per lab name: its process, its address and its start parameters. The *data
folder* (XDG data, or ``--data-dir``) has the database, the certificates and the log. An in-memory lab has no data
folder.

A running lab holds a lock on its register file: unlike a process id, which another process may reuse, a lock cannot be
left behind.
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

from allotment.decoding import decodable
from allotment.errors import InputError
from allotment.files import atomic_write, private

#: The default lab name.
DEFAULT_NAME = "default"
#: A check whether a lab runs holds the lock briefly; a lab holds it while it runs.
_LOOK_SECONDS = 0.2
_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,38}[a-z0-9])?")


class InvalidName(ValueError):
    """Raised for an invalid lab name."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"lab name: expected 1 to 40 lower-case letters, digits or '-', not starting or ending with '-'; "
            f"found {name!r}"
        )


class LabRunningError(Exception):
    """Raised if a lab of that name is already running: ``status``, if it is available."""

    def __init__(self, name: str, status: Status | None) -> None:
        process = f" (process {status.pid}, {status.url})" if status is not None else ""
        super().__init__(f"lab {name!r} is already running{process}")
        self.name = name
        self.status = status


class Status(msgspec.Struct, frozen=True, omit_defaults=True):
    """The register entry of a running lab.

    ``previous_context``: kubectl's current context before it. ``web``: the address of its page with the token; empty if
    it could not be served, None if it was not requested or is not served yet.
    """

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
    web: str | None = None


class DataFolder:
    """The data files of one lab."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def database(self) -> Path:
        """The database of the store."""
        return self.path / "lab.db"

    @property
    def certificates(self) -> Path:
        """The folder of the certificate authority and its certificates."""
        return self.path / "pki"

    @property
    def volumes(self) -> Path:
        """The folder of persistent volumes, where containers are real."""
        return self.path / "volumes"

    @property
    def log(self) -> Path:
        """The output of a detached lab."""
        return self.path / "lab.log"

    def keep_fleet(self, words: Sequence[str]) -> None:
        """Record the fleet of the nodes in the database, for the next start."""
        atomic_write.replace(self.path / "fleet.json", msgspec.json.encode(list(words)))

    def fleet(self) -> tuple[str, ...]:
        """The recorded fleet; empty if there is none."""
        try:
            return msgspec.json.decode((self.path / "fleet.json").read_bytes(), type=tuple[str, ...])
        except (FileNotFoundError, msgspec.DecodeError):
            return ()

    def make(self) -> None:
        """Create the folder, private to its owner. Raises OSError.

        An existing folder keeps its mode, but the files in it become private: earlier versions left the database and
        the log readable by all users. Raises InputError if the database was lost, or if another user could have placed
        a file: that user's key or token would give access to the lab, and a link to the file it leads to.
        """
        private.make_folder(self.path)
        private.make_folder(self.certificates)
        for problem in self.unsafe():
            raise InputError(problem, "use a folder that only you can write to")
        self._check_database()
        for path in self._files():
            private.restrict(path)

    def unsafe(self) -> Iterator[str]:
        """Files that another user could have placed, each with the reason. Raises OSError."""
        folders = [self.path, *(Path(folder) for folder, _, _ in os.walk(self.certificates))]
        reasons = [(path, private.folder_problem(path)) for path in folders if path.is_dir()]
        if self.certificates.is_symlink():
            reasons.append((self.certificates, "it is a symbolic link"))
        reasons += [(path, private.file_problem(path)) for path in self._files()]
        for path, reason in reasons:
            if reason:
                yield f"{path} is not safe for the data of a lab: {reason}"

    def _files(self) -> list[Path]:
        return [*self.path.glob("lab.*"), *self.path.glob("fleet.json"), *self.certificate_files()]

    def certificate_files(self) -> Iterator[Path]:
        """The files of the certificates, and links, which are not followed."""
        for folder, folders, files in os.walk(self.certificates):
            links = [name for name in folders if Path(folder, name).is_symlink()]
            yield from (Path(folder, name) for name in sorted((*files, *links)))

    def _check_database(self) -> None:
        """Reject an empty database of a lab that has run: as a new cluster, it would hide the loss."""
        later = (self.path / "fleet.json", self.certificates / "accounts.key")
        if self.database.exists() and not self.database.stat().st_size and any(path.exists() for path in later):
            raise InputError(
                f"{self.database}: expected the objects of the lab, found an empty file",
                "restore it from a backup, or remove it to start with an empty cluster",
            )


def context_of(name: str) -> str:
    """The kubectl context of a lab.

    >>> context_of("default"), context_of("two")
    ('allotment', 'allotment-two')
    """
    return "allotment" if name == DEFAULT_NAME else f"allotment-{name}"


def checked_name(name: str) -> str:
    """Return a valid name. Raises InvalidName."""
    if not _NAME.fullmatch(name):
        raise InvalidName(name)
    return name


def default_data(name: str) -> DataFolder:
    """The default data folder of a lab."""
    return DataFolder(_folder("XDG_DATA_HOME", ".local/share") / "labs" / checked_name(name))


def default_folder(name: str) -> Path:
    """The default folder of other persistent data of this user."""
    return _folder("XDG_DATA_HOME", ".local/share") / name


class Register:
    """The labs of this user. ``folder`` is for tests; by default all labs share one."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or _folder("XDG_STATE_HOME", ".local/state")

    def log(self, name: str) -> Path:
        """The output of a detached lab without a data folder."""
        return self.folder / f"{checked_name(name)}.log"

    @contextmanager
    def hold(self, name: str) -> Iterator[None]:
        """Lock a lab name. Raises LabRunningError if it is in use; the status is removed at exit."""
        private.make_folder(self.folder)
        with private.open_append(self._lock(name)) as file:
            deadline = time.monotonic() + _LOOK_SECONDS
            while not _locked(file):
                if time.monotonic() > deadline:
                    raise LabRunningError(name, self.status(name))
                time.sleep(0.02)
            self._file(name).unlink(missing_ok=True)
            try:
                yield
            finally:
                self._file(name).unlink(missing_ok=True)

    def write(self, status: Status) -> None:
        """Write the status of a locked lab atomically."""
        atomic_write.replace(self._file(status.name), msgspec.json.format(msgspec.json.encode(status)))

    def status(self, name: str) -> Status | None:
        """The status of a lab; None if it has not written one."""
        try:
            return msgspec.json.decode(self._file(name).read_bytes(), type=decodable(Status))
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def runs(self, name: str) -> bool:
        """Whether the lab of a name is running or starting."""
        try:
            with self._lock(name).open("rb+") as file:
                return not _locked(file)
        except FileNotFoundError:
            return False

    def running(self) -> tuple[Status, ...]:
        """All running labs that are ready, by name."""
        names = sorted(path.stem for path in self.folder.glob("*.json"))
        found = (self.status(name) for name in names if _NAME.fullmatch(name) and self.runs(name))
        return tuple(status for status in found if status is not None)

    def _file(self, name: str) -> Path:
        return self.folder / f"{checked_name(name)}.json"

    def _lock(self, name: str) -> Path:
        return self.folder / f"{checked_name(name)}.lock"


def _folder(variable: str, below_home: str) -> Path:
    given = os.environ.get(variable) or (os.environ.get("LOCALAPPDATA") if sys.platform == "win32" else "")
    # XDG: a path that is not absolute is ignored.
    base = Path(given) if given and Path(given).is_absolute() else _home() / below_home
    return base / "allotment"


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # a user without a home folder, as in a pod, has no labs
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
