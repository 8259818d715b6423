"""The arguments of ``allot vocabulary`` and ``allot schema``."""

from __future__ import annotations

from allotment.cli.arguments.shared_options import Commands, add_output, lazy
from allotment.model import DEFAULT_RELEASE

_VOCABULARY = """\
Show what DRA drivers define: attributes, capacities, DeviceClasses, feature
gates and parameters, and how they changed between releases.

  allot vocabulary                             list the known drivers
  allot vocabulary nvidia                      all drivers of a vendor
  allot vocabulary gpu.amd.com --version 0.1   another release
  allot vocabulary nvidia memory               one name, with a CEL selector

The list may not be complete. The names that the drivers of a cluster publish
are authoritative: kubectl get resourceslices -o yaml.
"""

_SCHEMA = """\
Print a JSON Schema of claims, claim templates and DeviceClasses, for editors:
fields with descriptions, enumerations, and the known names of classes, drivers,
attributes and parameters.

  allot schema > dra.schema.json

docs/how-to/editors.md describes the settings for VS Code, Neovim, JetBrains
IDEs and pre-commit.
"""


def add_vocabulary(commands: Commands) -> None:
    """Add ``vocabulary`` and ``schema``."""
    vocabulary = commands.add_parser(
        "vocabulary", help="show attributes, capacities, classes and parameters of DRA drivers",
        description=_VOCABULARY,
    )  # fmt: skip
    vocabulary.add_argument(
        "driver", nargs="?", metavar="DRIVER|VENDOR", help="gpu.nvidia.com, nvidia, amd, intel, … (default: list all)"
    )
    vocabulary.add_argument("name", nargs="?", metavar="NAME", help="only entries whose name contains this text")
    vocabulary.add_argument(
        "--version", dest="release", default="", metavar="RELEASE", help="driver release (default: the newest)"
    )
    add_output(vocabulary, ("json", "yaml"))
    vocabulary.set_defaults(run=lazy("vocabulary"))

    schema = commands.add_parser(
        "schema", help="print a JSON Schema of claims and classes, for editors",
        description=_SCHEMA,
    )  # fmt: skip
    schema.add_argument(
        "kinds", nargs="*", metavar="KIND", help="kinds: ResourceClaim, DeviceClass, Pod, … (default: all)"
    )
    schema.add_argument(
        "--kube-version", default=DEFAULT_RELEASE, metavar=DEFAULT_RELEASE,
        help="Kubernetes version, with its default feature gates (default: %(default)s)",
    )  # fmt: skip
    schema.add_argument("--id", default="", metavar="URL", help="$id of the schema, if it is served at a URL")
    schema.set_defaults(run=lazy("schema"))
