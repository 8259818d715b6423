"""Resolution of CDI device names to container edits, as in a container runtime.

A runtime reads whole folders. An invalid file does not affect the others. A device that is in two files of one folder
is unusable; of two folders the later one has priority. Files are cached and read again after a change, so a lookup only
lists the folders.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

from allotment.cdi.naming import qualified_name
from allotment.cdi.spec import CdiDevice, ContainerEdits, InvalidSpec, Spec, merge
from allotment.cdi.store import SpecStore


class UnresolvableDevices(Exception):
    """Raised if no valid file contains a device; the text is that of container runtimes.

    ``names``: the devices. ``reasons``: problems with files, which may be the cause.
    """

    def __init__(self, names: Sequence[str], reasons: Sequence[str]) -> None:
        super().__init__(f"unresolvable CDI devices {', '.join(names)}")
        self.names = tuple(names)
        self.reasons = tuple(reasons)


class _LocatedDevice(NamedTuple):
    """A device, its store and file, and the specification with the common edits."""

    store: int
    file: str
    spec: Spec
    device: CdiDevice


class _StoreCache:
    """The files of one store, as last read."""

    def __init__(self, store: SpecStore) -> None:
        self._store = store
        self._stamps: Mapping[str, Hashable] = {}
        self.files: dict[str, Spec | str] = {}

    def refresh(self) -> bool:
        """Read the changed files; return whether there are any."""
        stamps = self._store.stamps()
        if stamps == self._stamps:
            return False
        self.files = {
            name: self.files[name] if name in self.files and self._stamps.get(name) == stamp else self._read(name)
            for name, stamp in stamps.items()
        }
        self._stamps = stamps
        return True

    def _read(self, name: str) -> Spec | str:
        try:
            return self._store.read(name) or f"{name}: removed while it was read"
        except (InvalidSpec, OSError) as error:
            return str(error)


class CdiDevices:
    """The devices of several stores; later stores have priority."""

    def __init__(self, stores: Sequence[SpecStore]) -> None:
        self._caches = [_StoreCache(store) for store in stores]
        self._devices: dict[str, _LocatedDevice] = {}
        self._conflicts: dict[str, str] = {}

    def names(self) -> frozenset[str]:
        """Return the qualified names of all usable devices."""
        self._refresh()
        return frozenset(self._devices)

    def problems(self) -> tuple[str, ...]:
        """Return the problems with files: invalid ones, and devices that are in two of them."""
        self._refresh()
        broken = (text for cache in self._caches for text in cache.files.values() if isinstance(text, str))
        return (*broken, *self._conflicts.values())

    def edits(self, ids: Sequence[str]) -> ContainerEdits:
        """Return the edits for these devices, merged in their order and without repetitions.

        The common edits of a file precede those of its first device. Raises UnresolvableDevices.
        """
        self._refresh()
        names = tuple(dict.fromkeys(ids))
        if missing := [name for name in names if name not in self._devices]:
            raise UnresolvableDevices(missing, self.problems())
        return merge(self._edits_of([self._devices[name] for name in names]))

    @staticmethod
    def _edits_of(devices: Sequence[_LocatedDevice]) -> Iterator[ContainerEdits]:
        seen: set[tuple[int, str]] = set()
        for device in devices:
            if (device.store, device.file) not in seen:
                seen.add((device.store, device.file))
                yield device.spec.container_edits
            yield device.device.container_edits

    def _refresh(self) -> None:
        changed = [cache.refresh() for cache in self._caches]
        if not any(changed):
            return
        self._devices, self._conflicts = {}, {}
        for number, cache in enumerate(self._caches):
            for file, spec in cache.files.items():
                if isinstance(spec, Spec):
                    for device in spec.devices:
                        self._add(qualified_name(spec.kind, device.name), _LocatedDevice(number, file, spec, device))
        for name in self._conflicts:
            del self._devices[name]

    def _add(self, name: str, device: _LocatedDevice) -> None:
        other = self._devices.get(name)
        if other is not None and other.store == device.store:
            self._conflicts[name] = f"conflicting device {name!r} (specs {other.file!r}, {device.file!r})"
        else:
            self._devices[name] = device
