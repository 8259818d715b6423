"""The arguments of ``allot envtest``."""

from __future__ import annotations

import argparse

from allotment.cli.arguments.shared_options import Commands, lazy

_DESCRIPTION = """\
Create the folder of programs that controller-runtime's envtest starts, kube-apiserver,
etcd and kubectl, and print its path. The API server is a lab without controllers and
nodes, as envtest expects. The command replaces setup-envtest:

  allot envtest use 1.36 -p path
  KUBEBUILDER_ASSETS="$(allot envtest)" go test ./...
  make test ENVTEST="allot envtest"
"""


def add_envtest(commands: Commands) -> None:
    """Add ``envtest``."""
    parser = commands.add_parser(
        "envtest", help="run the envtest suites of operators on a lab", description=_DESCRIPTION
    )
    parser.add_argument(
        "selector", nargs="*", metavar="use [VERSION]",
        help="Kubernetes version, as for setup-envtest: 1.36, 1.36.x, latest (default: latest)",
    )  # fmt: skip
    parser.add_argument(
        "--bin-dir", metavar="DIR", help="directory in which the folder is created (default: the XDG data directory)"
    )
    parser.add_argument(
        "-p", "--print", choices=("path", "env"), default="path", metavar="FORMAT",
        help="print the path, or a command that sets the variable: env (default: %(default)s)",
    )  # fmt: skip
    # An option of setup-envtest, which downloads nothing with it; here nothing is ever downloaded.
    parser.add_argument("-i", "--installed-only", action="store_true", help=argparse.SUPPRESS)
    parser.set_defaults(run=lazy("envtest.assets"))
