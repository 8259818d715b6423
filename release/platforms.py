"""The platforms and Python releases for which files with compiled modules are built."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Final, NamedTuple

PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")


class Platform(NamedTuple):
    """An operating system and a processor, named as in Go and krew. ``tags``: those of wheels that run there."""

    system: str
    processor: str
    machine: str
    tags: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.system}-{self.processor}"

    def environment(self, python: str) -> dict[str, str]:
        """The values of the markers of requirements."""
        return {
            "implementation_name": "cpython",
            "implementation_version": f"{python}.0",
            "os_name": "posix",
            "platform_machine": self.machine,
            "platform_python_implementation": "CPython",
            "platform_system": self.system.capitalize(),
            "python_full_version": f"{python}.0",
            "python_version": python,
            "sys_platform": self.system,
        }


def _linux(processor: str, machine: str) -> Platform:
    # The oldest glibc is that of Debian 10 and RHEL 8, because google-re2 has no wheels for older ones.
    tags = ("manylinux_2_28", "manylinux_2_17", "manylinux2014")
    return Platform("linux", processor, machine, tuple(f"{tag}_{machine}" for tag in tags))


PLATFORMS: Final[Mapping[str, Platform]] = {
    each.name: each
    for each in (
        _linux("amd64", "x86_64"),
        _linux("arm64", "aarch64"),
        Platform("darwin", "arm64", "arm64", ("macosx_14_0_arm64",)),
    )
}


def this_platform() -> Platform | None:
    """The platform of this machine, if files are built for it."""
    machine = platform.machine()
    return next(
        (each for each in PLATFORMS.values() if (each.system, each.machine) == (platform.system().lower(), machine)),
        None,
    )
