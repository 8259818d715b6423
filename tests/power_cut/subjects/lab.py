"""A new lab and its restart: after a power cut it starts, has the acknowledged objects, and accepts its credentials.

It prints ``K key`` when it is ready, with the key of the service accounts, and ``A name`` when an object is created.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Final

from allotment import InputError
from allotment.cluster.resources import CONFIG_MAPS
from allotment.lab.control_plane import running
from allotment.lab.programs import NAMES, excluded_programs
from allotment.lab.secret_files import DamagedFile
from allotment.lab.settings import Settings
from allotment.lab.state import DataFolder
from tests.power_cut.faults import plant

_OBJECTS: Final = 3


def main(folder: Path, fault: str) -> None:
    """Start a lab twice, and create objects."""
    plant(fault)
    for session in range(2):
        asyncio.run(_session(folder, session))


async def _session(folder: Path, session: int) -> None:
    async with running(_settings(folder)) as plane:
        os.write(1, f"K {_key(folder)}\n".encode())
        for number in range(_OBJECTS):
            name = f"s{session}-{number}"
            await plane.client().create(CONFIG_MAPS, {"metadata": {"name": name}}, "default")
            os.write(1, f"A {name}\n".encode())


def _settings(folder: Path) -> Settings:
    return Settings(fleet=(), data=DataFolder(folder / "labs" / "default"), without=excluded_programs(NAMES))


def _key(folder: Path) -> str:
    return (folder / "labs" / "default" / "pki" / "accounts.key").read_bytes().hex()


class LabSubject:
    """The acknowledged objects, and the key."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._key = ""

    def printed(self, line: str) -> None:
        verb, value = line.split(" ")
        if verb == "A":
            self._names.add(value)
        else:
            self._key = value

    def problem(self, folder: Path) -> str:
        try:
            return asyncio.run(self._continued(folder))
        except (OSError, InputError, DamagedFile) as error:
            return str(error)

    async def _continued(self, folder: Path) -> str:
        async with running(_settings(folder)) as plane:
            if self._key and _key(folder) != self._key:
                return "the key of the service accounts is another one"
            objects = (await plane.client().list(CONFIG_MAPS, "default")).items
            missing = self._names - {str(item["metadata"]["name"]) for item in objects}
            return f"the objects {sorted(missing)} were acknowledged, and are missing" if missing else ""


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
