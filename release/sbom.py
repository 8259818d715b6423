"""The software bill of materials in CycloneDX: Allotment, its locked dependencies, and the dependencies of each.

A dependency is required if a plain installation contains it, and optional if an extra does. It describes the locked
releases, which the zipapps contain; pip installs the newest that ``pyproject.toml`` allows.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Final
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.utils import canonicalize_name

from release.lock_file import LOCK, LockedRelease, installed_with, requirements

EXTRAS: Final = ("all",)


def bill_of_materials(version: str, timestamp: int) -> str:
    """The document as JSON."""
    always = {release.name for release in installed_with()}
    releases = installed_with(*EXTRAS)
    root = _component("allotment", version, ComponentType.APPLICATION)
    root.licenses.add(LicenseExpression("Apache-2.0"))
    # A package may be locked in several releases, for different releases of Python.
    components = {
        (release.name, release.version): _component(release.name, release.version, ComponentType.LIBRARY)
        for release in releases
    }
    for (name, _), component in components.items():
        component.scope = ComponentScope.REQUIRED if name in always else ComponentScope.OPTIONAL
    # The same release has the same identifier whenever it is built.
    identity = f"allotment {version} {hashlib.sha256(LOCK.read_bytes()).hexdigest()}"
    bom = Bom(serial_number=uuid5(NAMESPACE_URL, identity), components=components.values())
    bom.metadata.component = root
    bom.metadata.timestamp = datetime.fromtimestamp(timestamp, UTC)
    direct = {canonicalize_name(requirement.name) for requirement in requirements(*EXTRAS)}
    bom.register_dependency(root, [component for (name, _), component in components.items() if name in direct])
    for (name, _), component in components.items():
        required = {(other.name, other.version) for other in releases if _requires(name, other)}
        bom.register_dependency(component, [components[key] for key in sorted(required)])
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


def _requires(name: str, other: LockedRelease) -> bool:
    return name in other.required_by


def _component(name: str, version: str, kind: ComponentType) -> Component:
    url = PackageURL("pypi", None, name, version)
    return Component(name=name, version=version, type=kind, purl=url, bom_ref=url.to_string())
