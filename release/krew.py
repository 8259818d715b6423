"""The krew plugin ``allot`` (``kubectl allot``): an archive for each platform, and the manifest that names them.

Install it from files: ``kubectl krew install --manifest=allot.yaml --archive=kubectl-allot-linux-amd64.tar.gz``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from release.archive import Member, tar_gz
from release.platforms import Platform
from release.source_tree import ROOT

#: krew requires that the file has the name of the plugin.
MANIFEST: Final = "allot.yaml"
_PROGRAM: Final = "kubectl-allot"
_LICENSE: Final = "LICENSE"
_DESCRIPTION: Final = """\
Shows which devices a pod gets with Dynamic Resource Allocation (DRA), or why it
gets none and what to change. Finds mistakes in manifests, lists free devices,
examines a cluster, plans machines, and runs a local cluster with simulated GPUs.
"""
_CAVEATS: Final = """\
Requires Python 3.11 to 3.14 as python3. Start with:
  kubectl allot
"""


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:str", data, style="|" if "\n" in data else None)


_Dumper.add_representer(str, _Dumper.represent_str)


def plugin_archive(platform: Platform, zipapp: Path, timestamp: int) -> tuple[str, bytes]:
    """The name and content of the archive for a platform."""
    members = (Member(_PROGRAM, zipapp.read_bytes(), executable=True), Member(_LICENSE, (ROOT / _LICENSE).read_bytes()))
    return f"kubectl-allot-{platform.name}.tar.gz", tar_gz(members, timestamp)


def plugin_manifest(version: str, url: str, archives: Mapping[Platform, tuple[str, bytes]]) -> str:
    """The manifest. ``url``: of the folder from which krew downloads the archives."""
    platforms = [
        {
            "selector": {"matchLabels": {"os": platform.system, "arch": platform.processor}},
            "uri": f"{url}/{name}",
            "sha256": hashlib.sha256(content).hexdigest(),
            "bin": _PROGRAM,
            "files": [{"from": file, "to": "."} for file in (_PROGRAM, _LICENSE)],
        }
        for platform, (name, content) in archives.items()
    ]
    manifest: dict[str, Any] = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": MANIFEST.removesuffix(".yaml")},
        "spec": {
            "version": f"v{version}",
            "homepage": url,
            "shortDescription": "Explain which GPUs pods get, or why none",
            "description": _DESCRIPTION,
            "caveats": _CAVEATS,
            "platforms": platforms,
        },
    }
    return yaml.dump(manifest, Dumper=_Dumper, sort_keys=False)
