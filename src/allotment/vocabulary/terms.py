"""The vocabulary of a driver in one release, as values: attributes, capacities, device types, classes, gates."""

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

    ``name`` includes the domain: ``gpu.nvidia.com/profile``, ``resource.kubernetes.io/pciBusID``. ``on``: for each
    device type that has it, always or sometimes. ``values``: the known ones; ``closed``: there are no others.
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
    """A name of another release. ``becomes``: the name to use now, empty if there is no replacement.

    ``redefined``: the name still exists with another meaning (AMD's deviceID). ``kind``: the kind of name.
    ``release``: the first one without the old meaning. ``meaning``: the old meaning.
    """

    name: str
    becomes: str
    release: str
    meaning: str
    kind: Literal["attribute", "capacity", "driver", "class"] = "attribute"
    redefined: bool = False


class DeviceType(Value, frozen=True):
    """A type of device: the value of attribute ``type``, empty if the driver has no such attribute.

    ``special``: exists only if the driver is configured for it (GPUs for virtual machines).
    """

    name: str
    meaning: str
    special: bool = False


class ClassTerm(Value, frozen=True):
    """A DeviceClass that the driver's chart installs, with the device types that it selects."""

    name: str
    types: tuple[str, ...]
    meaning: str
    extended_resource: str = ""


class Gate(Value, frozen=True):
    """A feature gate of the driver (not of Kubernetes): what needs it, and how to enable it."""

    name: str
    default: bool
    meaning: str
    switch: str


class Vocabulary(Value, frozen=True, dict=True):
    """The vocabulary of one driver in one release.

    ``domain``: the domain of names without one, the driver's name. ``releases``: the known ones, oldest first, and
    ``published``: their dates; ``release``: the one that this vocabulary describes. ``later``: the names that
    only a later release has (attributes and capacities with domain, classes, gates), with the first such one. ``helm``:
    the keys of the chart's values, dotted, with their meaning; below keys without known subkeys
    any value is possible (``kubeletPlugin.tolerations``). ``configs``: the kinds of parameters,
    ``apiVersion/kind`` -> the device types that they apply to.

    ``guessed``: wrong names that users write, without domain, each with the full name of the
    intended attribute or capacity; ``guessed_classes``: the same for DeviceClasses; ``mistaken``: wrong names of
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
    #: Wrong names that users write for the driver: ``nvidia.com``.
    mistaken: tuple[str, ...] = ()
    guessed: dict[str, str] = {}
    guessed_classes: dict[str, str] = {}
    later: dict[str, str] = {}
    published: dict[str, str] = {}

    @property
    def domain(self) -> str:
        """The domain of names without one."""
        return self.driver

    @property
    def terms(self) -> tuple[Attribute | Capacity, ...]:
        """The attributes, then the capacities, that devices publish."""
        return (*self.attributes, *self.capacities)

    def attribute(self, domain: str, name: str) -> Attribute | None:
        """Return the attribute with this name, if the driver has it."""
        return self.attributes_by_name.get(f"{domain}/{name}")

    def capacity(self, domain: str, name: str) -> Capacity | None:
        """Return the capacity with this name, if the driver has it."""
        return self.capacities_by_name.get(f"{domain}/{name}")

    def gate(self, name: str) -> Gate | None:
        """Return the feature gate with this name, if the driver has it."""
        return self.gates_by_name.get(name)

    def device_class(self, name: str) -> ClassTerm | None:
        """Return the DeviceClass with this name, if the driver's chart installs it."""
        return self.classes_by_name.get(name)

    def renaming(self, name: str, kind: str = "attribute") -> Renamed | None:
        """Return the replacement of a name of an earlier release: a full name, or that of a class or driver."""
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
        """The replacements of names of earlier releases, by kind and name."""
        return {(term.kind, term.name): term for term in self.renamed}
