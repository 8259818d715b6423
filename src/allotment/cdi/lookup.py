"""From the CDI names that a container was given to the edits that it needs, as a container runtime finds them.

A runtime reads whole folders. One broken file does not spoil the others; the same device in two files of one folder
makes both unusable, and in two folders the later folder wins. Files are read once and again only after a change, so
that asking costs a look at the folders.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

from allotment.cdi.naming import qualified_name
from allotment.cdi.spec import CdiDevice, ContainerEdits, InvalidSpec, Spec, merge
from allotment.cdi.store import SpecStore


class UnresolvableDevices(Exception):
    """Raised when no usable file has a device; the text is what container runtimes say.

    ``names``: the devices. ``reasons``: what is wrong with files, which may be why.
    """

    def __init__(self, names: Sequence[str], reasons: Sequence[str]) -> None:
        super().__init__(f"unresolvable CDI devices {', '.join(names)}")
        self.names = tuple(names)
        self.reasons = tuple(reasons)


class _FoundDevice(NamedTuple):
    """A device, where it stands, and what it shares with the others of its file."""

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
        """Read what changed; whether anything did."""
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
    """The devices of some stores; later ones win."""

    def __init__(self, stores: Sequence[SpecStore]) -> None:
        self._caches = [_StoreCache(store) for store in stores]
        self._found: dict[str, _FoundDevice] = {}
        self._conflicts: dict[str, str] = {}

    def names(self) -> frozenset[str]:
        """The qualified names of all usable devices."""
        self._refresh()
        return frozenset(self._found)

    def problems(self) -> tuple[str, ...]:
        """What is wrong with files: unreadable ones, and devices that stand in two."""
        self._refresh()
        broken = (text for shelf in self._caches for text in shelf.files.values() if isinstance(text, str))
        return (*broken, *self._conflicts.values())

    def edits(self, ids: Sequence[str]) -> ContainerEdits:
        """What a container needs for these devices, merged in their order; one named twice counts once.

        The common edits of a file come once, before those of its first device. Raises Unresolvable.
        """
        self._refresh()
        wanted = tuple(dict.fromkeys(ids))
        if missing := [name for name in wanted if name not in self._found]:
            raise UnresolvableDevices(missing, self.problems())
        return merge(self._edits_of([self._found[name] for name in wanted]))

    @staticmethod
    def _edits_of(found: Sequence[_FoundDevice]) -> Iterator[ContainerEdits]:
        begun: set[tuple[int, str]] = set()
        for each in found:
            if (each.store, each.file) not in begun:
                begun.add((each.store, each.file))
                yield each.spec.container_edits
            yield each.device.container_edits

    def _refresh(self) -> None:
        changed = [shelf.refresh() for shelf in self._caches]
        if not any(changed):
            return
        self._found, self._conflicts = {}, {}
        for number, shelf in enumerate(self._caches):
            for file, spec in shelf.files.items():
                if isinstance(spec, Spec):
                    for device in spec.devices:
                        self._add(qualified_name(spec.kind, device.name), _FoundDevice(number, file, spec, device))
        for name in self._conflicts:
            del self._found[name]

    def _add(self, name: str, found: _FoundDevice) -> None:
        other = self._found.get(name)
        if other is not None and other.store == found.store:
            self._conflicts[name] = f"conflicting device {name!r} (specs {other.file!r}, {found.file!r})"
        else:
            self._found[name] = found
