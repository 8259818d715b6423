"""The words of one driver in one release, as values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Literal, TypeAlias

from allotment.model.meta import Value

AttributeKind: TypeAlias = Literal["string", "version", "int", "bool"]

#: ``always``: every device of the type has it; ``sometimes``: it depends on the machine, the mode or a gate.
Presence: TypeAlias = Literal["always", "sometimes"]


class Attribute(Value, frozen=True):
    """An attribute that the driver publishes.

    ``name`` is the full one: ``gpu.nvidia.com/profile``, ``resource.kubernetes.io/pciBusID``. ``on`` says for each
    device type that has it whether always or sometimes. ``values`` are those known; ``closed``: there are no others.
    ``shared``: devices of one kind have one value (productName), so that selecting by it makes sense; others tell
    devices apart (uuid). ``meaning`` is one line.
    """

    name: str
    kind: AttributeKind
    on: dict[str, Presence]
    meaning: str
    values: tuple[str, ...] = ()
    closed: bool = False
    shared: bool = True


class Capacity(Value, frozen=True):
    """A capacity that the driver publishes; ``on`` as for attributes. ``consumable``: in a mode that shares devices."""

    name: str
    on: dict[str, Presence]
    meaning: str
    consumable: bool = False


class Renamed(Value, frozen=True):
    """A name of another release. ``becomes`` is what to write now, empty where nothing took its place.

    ``redefined``: the name is still there and means something else (AMD's deviceID). ``kind``: where it stands.
    ``release``: the first that no longer has the old meaning. ``meaning``: what it was.
    """

    name: str
    becomes: str
    release: str
    meaning: str
    kind: Literal["attribute", "capacity", "driver", "class"] = "attribute"
    redefined: bool = False


class DeviceType(Value, frozen=True):
    """A type of device, as attribute ``type`` has it (empty where the driver has no such attribute).

    ``special``: there are none of it unless somebody set the driver up for them (GPUs for virtual machines).
    """

    name: str
    meaning: str
    special: bool = False


class ClassTerm(Value, frozen=True):
    """A DeviceClass that the driver's chart installs: which of the driver's device types it selects."""

    name: str
    types: tuple[str, ...]
    meaning: str
    extended_resource: str = ""


class Gate(Value, frozen=True):
    """A feature gate of the driver (not of Kubernetes): what needs it, and how to switch it on."""

    name: str
    default: bool
    meaning: str
    switch: str


class Vocabulary(Value, frozen=True, dict=True):
    """The words of one driver in one release.

    ``domain`` is that of names without one: the driver's name. ``releases`` are those known, oldest first, and
    ``published`` says when each came out; ``release`` is the one that these words are of. ``later`` are the names that
    only a later release has (attributes and capacities in full, classes, gates), with the first that does. ``helm``
    are the keys of the chart's values, dotted, with what they do; below those that end in nothing but themselves
    anything may stand (``kubeletPlugin.tolerations``). ``configs`` are the kinds of parameters,
    ``apiVersion/kind`` -> the device types that they are for.

    ``guessed`` are names that people write and no release ever had, without domain, each with the full name of the
    attribute or capacity that they mean; ``guessed_classes`` the same of DeviceClasses; ``mistaken`` other names of
    the driver itself.
    """

    driver: str
    vendor: str
    title: str
    release: str
    releases: tuple[str, ...]
    types: tuple[DeviceType, ...]
    attributes: tuple[Attribute, ...]
    capacities: tuple[Capacity, ...]
    classes: tuple[ClassTerm, ...]
    renamed: tuple[Renamed, ...] = ()
    gates: tuple[Gate, ...] = ()
    configs: dict[str, tuple[str, ...]] = {}
    helm: dict[str, str] = {}
    #: Other names that people write for the driver, by mistake: ``nvidia.com``.
    mistaken: tuple[str, ...] = ()
    guessed: dict[str, str] = {}
    guessed_classes: dict[str, str] = {}
    later: dict[str, str] = {}
    published: dict[str, str] = {}

    @property
    def domain(self) -> str:
        """The domain of names that are written without one."""
        return self.driver

    @property
    def terms(self) -> tuple[Attribute | Capacity, ...]:
        """What devices publish: attributes, then capacities."""
        return (*self.attributes, *self.capacities)

    def attribute(self, domain: str, name: str) -> Attribute | None:
        """The attribute of that name, if the driver has it."""
        return self.attributes_by_name.get(f"{domain}/{name}")

    def capacity(self, domain: str, name: str) -> Capacity | None:
        """The capacity of that name, if the driver has it."""
        return self.capacities_by_name.get(f"{domain}/{name}")

    def gate(self, name: str) -> Gate | None:
        """The feature gate of that name, if the driver has it."""
        return self.gates_by_name.get(name)

    def device_class(self, name: str) -> ClassTerm | None:
        """The DeviceClass of that name, if the driver's chart installs it."""
        return self.classes_by_name.get(name)

    def renaming(self, name: str, kind: str = "attribute") -> Renamed | None:
        """What became of a name of an earlier release: a full one, or a class's or driver's."""
        return self.renamed_by_name.get((kind, name))

    @cached_property
    def attributes_by_name(self) -> Mapping[str, Attribute]:
        """The attributes by their full names."""
        return {term.name: term for term in self.attributes}

    @cached_property
    def capacities_by_name(self) -> Mapping[str, Capacity]:
        """The capacities by their full names."""
        return {term.name: term for term in self.capacities}

    @cached_property
    def gates_by_name(self) -> Mapping[str, Gate]:
        """The feature gates by name."""
        return {term.name: term for term in self.gates}

    @cached_property
    def classes_by_name(self) -> Mapping[str, ClassTerm]:
        """The DeviceClasses by name."""
        return {term.name: term for term in self.classes}

    @cached_property
    def renamed_by_name(self) -> Mapping[tuple[str, str], Renamed]:
        """What became of the names of earlier releases, by kind and name."""
        return {(term.kind, term.name): term for term in self.renamed}
