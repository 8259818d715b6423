"""The arguments of ``allot vocabulary`` and ``allot schema``."""

from __future__ import annotations

from allotment.cli.arguments.shared_options import Commands, add_output, lazy

_VOCABULARY = """\
The words of DRA drivers: attributes, capacities, DeviceClasses, feature gates,
parameters and what releases changed.

  allot vocabulary                             the drivers that are known
  allot vocabulary nvidia                      everything of a vendor's drivers
  allot vocabulary gpu.amd.com --version 0.1   in another release
  allot vocabulary nvidia memory               one name, and how to select by it

A name that is not here may be somebody's all the same; what counts is what the
drivers of a cluster publish: kubectl get resourceslices -o yaml.
"""

_SCHEMA = """\
A JSON Schema for claims, claim templates and DeviceClasses, for editors: fields
and what they mean, closed sets of values, and the known names of classes,
drivers, attributes and parameters.

  allot schema > dra.schema.json

docs/editors.md has the settings of VS Code, Neovim, JetBrains' editors and
pre-commit.
"""


def add_vocabulary(commands: Commands) -> None:
    """``vocabulary`` and ``schema``."""
    words = commands.add_parser(
        "vocabulary", help="the words of drivers: attributes, capacities, classes, …",
        description=_VOCABULARY,
    )  # fmt: skip
    words.add_argument("driver", nargs="?", metavar="DRIVER|VENDOR", help="gpu.nvidia.com, nvidia, amd, intel, …")
    words.add_argument("name", nargs="?", metavar="NAME", help="only what has this in its name")
    words.add_argument("--version", dest="release", default="", metavar="R", help="of this release (default: newest)")
    add_output(words, ("json", "yaml"))
    words.set_defaults(run=lazy("vocabulary"))

    schema = commands.add_parser(
        "schema", help="JSON Schema of claims and classes, for editors",
        description=_SCHEMA,
    )  # fmt: skip
    schema.add_argument("kinds", nargs="*", metavar="KIND", help="only these: ResourceClaim, DeviceClass, Pod, …")
    schema.add_argument(
        "--kube-version", default="1.36", metavar="1.36", help="only what this Kubernetes has by default (%(default)s)"
    )
    schema.add_argument("--id", default="", metavar="URL", help="the schema's $id, where it is served under a URL")
    schema.set_defaults(run=lazy("schema"))
