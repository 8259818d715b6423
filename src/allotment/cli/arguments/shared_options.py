"""Options that several commands share: cluster connection, inputs, Kubernetes release, output format."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, TypeAlias

from allotment.cli.parser import Parser
from allotment.model import DEFAULT_RELEASE
from allotment.phrases import either

Run: TypeAlias = Callable[[argparse.Namespace], int]
#: Generic to the type checker only.
Commands: TypeAlias = "argparse._SubParsersAction[Parser]"

_CONTEXT = "kubeconfig context (default: the context of a running lab, or else the current context)"
_FLEET = "[NAME=][GPUSx]HARDWARE[:NODES][/MODE],… (see allot fleet list)"


def lazy(module: str, function: str = "run") -> Run:
    """Return a function that imports ``allotment.cli.MODULE`` when it is called, and runs a function of it."""

    def run(arguments: argparse.Namespace) -> int:
        command: Run = getattr(import_module(f"allotment.cli.{module}"), function)
        return command(arguments)

    return run


def add_renamed(
    parser: argparse._ActionsContainer, name: str, old_name: str, *, short: str = "", **options: Any
) -> None:
    """Add an option, and its name in earlier releases as an alias that ``--help`` and completion do not show."""
    action = parser.add_argument(*filter(None, (short, name)), **options)
    parser.add_argument(old_name, **{**options, "dest": action.dest, "help": argparse.SUPPRESS})


def add_connection(parser: argparse._ActionsContainer) -> None:
    """Add ``--context`` and ``--kubeconfig``."""
    parser.add_argument("--context", metavar="NAME", help=_CONTEXT)
    parser.add_argument("--kubeconfig", metavar="FILE", help="kubeconfig file (default: $KUBECONFIG or ~/.kube/config)")


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Add manifests, and the cluster, snapshot or hardware to evaluate them on."""
    parser.add_argument(
        "-f", "--filename", action="append", nargs="+", default=[], metavar="FILE", dest="files",
        help="manifests: files, directories, or - for standard input",
    )  # fmt: skip
    cluster = parser.add_mutually_exclusive_group()
    cluster.add_argument("--cluster", action="append", nargs="+", default=[], metavar="FILE", help="cluster snapshot")
    cluster.add_argument(
        "--fleet",
        action="append",
        nargs="+",
        default=[],
        metavar="SPEC",
        help=f"hardware instead of a cluster: {_FLEET}",
    )
    add_connection(parser)
    parser.add_argument(
        "-n", "--namespace", metavar="NAME", help="namespace of named objects, and of manifests without one"
    )
    add_kube_version(parser)
    add_feature_gates(parser)


def add_target(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add the release to check or migrate manifests for, and the cluster or hardware to test their fit on."""
    target = parser.add_argument_group("target cluster")
    add_kube_version(target)
    add_feature_gates(target, "--gates")
    cluster = target.add_mutually_exclusive_group()
    cluster.add_argument(
        "--cluster", action="append", metavar="FILE", help="check whether the workloads fit in a cluster snapshot"
    )
    cluster.add_argument(
        "--fleet", action="append", metavar="SPEC", help=f"check whether the workloads fit on this hardware: {_FLEET}"
    )
    add_connection(target)
    target.add_argument(
        "-n", "--namespace", metavar="NAME", help="namespace of manifests without one (default: default)"
    )
    return target


def add_catalog(parser: argparse._ActionsContainer, default: str = "the packaged catalog") -> None:
    """Add ``--catalog`` for instance types and prices."""
    text = f"providers (aws,gcp), or CSV files, whose rows take precedence (default: {default})"
    parser.add_argument("--catalog", action="append", default=[], metavar="NAMES|FILE", help=text)


def add_kube_version(parser: argparse._ActionsContainer, default: str = "") -> None:
    """Add ``--kube-version`` for a cluster that may report its own version."""
    default = default or f"the cluster's version, else {DEFAULT_RELEASE}"
    parser.add_argument("--kube-version", metavar=DEFAULT_RELEASE, help=f"Kubernetes version (default: {default})")


def add_fixed_kube_version(parser: argparse._ActionsContainer) -> None:
    """Add ``--kube-version`` for commands that connect to no cluster."""
    parser.add_argument(
        "--kube-version",
        default=DEFAULT_RELEASE,
        metavar=DEFAULT_RELEASE,
        help="Kubernetes version (default: %(default)s)",
    )


def add_feature_gates(parser: argparse._ActionsContainer, old_name: str = "") -> None:
    """Add ``--feature-gates``."""
    options: dict[str, Any] = {"action": "append", "default": [], "metavar": "A=true,B=false"}
    text = "feature gates that differ from the release's defaults"
    if old_name:
        add_renamed(parser, "--feature-gates", old_name, help=text, **options)
    else:
        parser.add_argument("--feature-gates", help=text, **options)


def add_output(parser: argparse._ActionsContainer, formats: Sequence[str]) -> None:
    """Add ``-o`` for the formats other than the default."""
    parser.add_argument("-o", "--output", choices=formats, metavar="FORMAT", help=f"output format: {either(formats)}")
