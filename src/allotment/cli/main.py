"""The command ``allot``: reads the arguments, runs one screen, turns mistakes into one clear error.

Nothing but argparse is imported until a screen is chosen, so that ``allot --help`` answers at once. Exit codes: 0 it
fits (or the question was answered), 1 it does not fit, 2 bad input, 3 an error of ours.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Callable, Sequence
from io import TextIOWrapper

from allotment.cli import kubectl_plugin
from allotment.cli.autoscale_commands import add_autoscale, add_cloud, add_consolidation
from allotment.cli.catalog_commands import add_catalog
from allotment.cli.check_commands import add_check
from allotment.cli.cluster_commands import EXIT_FAILED, add_commands, add_way
from allotment.cli.doctor_commands import add_doctor
from allotment.cli.driver_commands import add_driver
from allotment.cli.explain_commands import add_explain
from allotment.cli.externalgrpc_commands import add_cluster_autoscaler
from allotment.cli.metrics_commands import add_metrics
from allotment.cli.migrate_commands import add_migrate
from allotment.cli.parser import EXIT_BAD_INPUT, Help, Parser
from allotment.cli.plan_commands import add_plan
from allotment.cli.rbac_commands import add_rbac
from allotment.cli.replay_commands import add_replay
from allotment.cli.run_commands import add_run
from allotment.cli.vocabulary_commands import add_vocabulary
from allotment.tools.sentences import either

EXIT_OUR_ERROR = 3
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141

#: What a disk says that is full, gone or not to be written to.
_UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})

Run = Callable[[argparse.Namespace], int]

_DESCRIPTION = """\
Dynamic Resource Allocation for GPUs: which devices a workload gets, or why it
gets none.

  allot demo                            what Allotment does, on examples
  allot explain -f app.yaml --fleet 8xa100-40gb
                                        would it fit on this hardware?
  allot explain -f app.yaml --cluster snapshot.yaml
                                        and on this cluster?
  allot doctor                          what is wrong with the cluster?
  allot check app.yaml --fix            what is wrong with it? mend it
  allot migrate app.yaml                from device plugins to claims
  allot free --cluster snapshot.yaml    what is free, and who uses the rest?
  allot plan app.yaml --catalog aws     the cheapest machines that would have it
  allot up --fleet dgx-a100-40gb:2      a lab: a Kubernetes control plane that
                                        has it, for kubectl and helm
  allot apply -f app.yaml               without kubectl: apply, get, describe,
                                        logs, wait, delete
"""

_EPILOG = """\
A snapshot of a cluster is what allot snapshot -o FILE saves, or what kubectl
prints:
  kubectl get -A -o yaml nodes,pods,resourceslices,deviceclasses,\\
resourceclaims,resourceclaimtemplates

Exit codes: 0 fits, 1 does not fit, 2 bad input, 3 an error of Allotment's own
(--debug shows where).
"""

_LAB_FLEET_HELP = "its machines: [NAME=][GPUSx]HARDWARE[:NODES][/MODE],… (default: what it had, or one of each vendor)"
_WITHOUT_HELP = "a program that does not run here, because your own does its work: scheduler, controllers, garbage, …"
_RUNTIME_HELP = (
    "process: what --images names runs as programs of this machine (for manifests that you trust); oci: crun"
)
_UP_CATALOG_HELP = "what it can buy: providers (aws,gcp) or files of your own (default: all that is packaged)"
_ROOTS_HELP = "a folder for each node's kubelet (FOLDER/NODE), where drivers of other processes register"
_FLEET_HELP = "hardware instead of a cluster: [NAME=][GPUSx]HARDWARE[:NODES][/MODE],… (allot fleet list)"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal that lacks a character shows ?, and no traceback
            stream.reconfigure(errors="replace")
    parsed = _parsed(arguments)
    parsed.words = sys.argv[1:] if arguments is None else list(arguments)
    run: Run | None = getattr(parsed, "run", None)
    if run is None:
        parsed.help_of.print_help()
        return EXIT_BAD_INPUT if parsed.incomplete else 0
    try:
        code = run(parsed)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader has gone; without this Python complains once more when it closes standard output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except OSError as error:
        if error.filename is not None or error.errno not in _UNWRITABLE:
            return _report(error, parsed)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.stderr.write(f"allot: error: the answer cannot be written: {(error.strerror or str(error)).lower()}\n")
        return EXIT_BAD_INPUT
    except Exception as error:  # noqa: BLE001 - the last line of defence: a user must never see a bare traceback
        return _report(error, parsed)


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The arguments read; names and files may follow options: ``get pods -n shop web-0``."""
    parser = _parser()
    parsed, rest = parser.parse_known_args(arguments)
    several = next((name for name in ("objects", "paths", "patterns") if hasattr(parsed, name)), "")
    if rest and several and not any(word.startswith("-") and word != "-" for word in rest):
        setattr(parsed, several, [*getattr(parsed, several), *rest])
    elif rest:
        parser.of_words(sys.argv[1:] if arguments is None else arguments).unknown(rest)
    return parsed


def _report(error: Exception, parsed: argparse.Namespace) -> int:
    from allotment.cli.mistakes import describe
    from allotment.cli.screen import width_of

    description = describe(error, width_of(sys.stderr))
    if description is not None:
        like_kubectl = getattr(parsed, "like_kubectl", False)
        output = getattr(parsed, "output", None)
        if not like_kubectl and output in ("json", "yaml"):
            from allotment.model.formats import to_json, to_yaml

            sys.stdout.write(to_json(description.data) + "\n" if output == "json" else to_yaml([description.data]))
        else:
            sys.stderr.write("".join(f"{line}\n" for line in description.lines))
        return EXIT_FAILED if like_kubectl else EXIT_BAD_INPUT
    if parsed.debug:
        raise error
    sys.stderr.write(
        f"allot: internal error: {type(error).__name__}: {error}\n"
        "  this is a defect of Allotment; run again with --debug for the traceback, and please report it\n"
    )
    return EXIT_OUR_ERROR


def _lazy(module: str, function: str = "run") -> Run:
    def run(arguments: argparse.Namespace) -> int:
        from importlib import import_module

        screen: Run = getattr(import_module(f"allotment.cli.{module}"), function)
        return screen(arguments)

    return run


def _parser() -> Parser:
    parser = Parser(prog=kubectl_plugin.name(), description=_DESCRIPTION, epilog=_EPILOG, formatter_class=Help)
    parser.add_argument("--debug", action="store_true", help="show tracebacks of Allotment's own errors")
    parser.add_argument("--version", action="version", version=_version())
    parser.set_defaults(help_of=parser, incomplete=False)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser)

    add_explain(commands, _lazy, _add_inputs)
    add_doctor(commands, _lazy)
    add_metrics(commands, _lazy, _add_inputs)
    add_check(commands, _lazy)
    add_migrate(commands, _lazy)
    add_vocabulary(commands, _lazy)
    _add_fleet(commands)
    add_catalog(commands, _lazy)
    add_plan(commands, _lazy)
    add_replay(commands, _lazy)
    _add_lab(commands)
    add_commands(commands, _lazy)
    add_driver(commands, _lazy)
    add_autoscale(commands, _lazy)
    add_cluster_autoscaler(commands, _lazy)
    add_run(commands, _lazy)
    add_rbac(commands, _lazy)
    _add_examples(commands)

    demo = commands.add_parser("demo", help="the packaged examples in a lab of mixed nodes, in seconds")
    demo.add_argument("example", nargs="*", metavar="EXAMPLE", help="explain only these (number or name); or `sharing`")
    demo.add_argument("--offline", action="store_true", help="explain all of them, and start no lab")
    demo.add_argument("--pictures", metavar="FOLDER", help="with `sharing`: write what the replicas drew")
    demo.set_defaults(run=_lazy("demo"))

    version = commands.add_parser("version", help="version of Allotment, and the Kubernetes releases it models")
    _add_output(version, ("json", "yaml"))
    version.set_defaults(run=_lazy("version"))
    parser.describe()
    return parser


def _add_lab(commands: argparse._SubParsersAction[Parser]) -> None:
    up = commands.add_parser("up", help="start a lab: a Kubernetes control plane, simulated GPU nodes")
    up.add_argument("--fleet", action="append", nargs="+", default=[], metavar="SPEC", help=_LAB_FLEET_HELP)
    up.add_argument("--name", default="default", metavar="NAME", help="several labs run side by side by their names")
    where = up.add_mutually_exclusive_group()
    where.add_argument("--ephemeral", action="store_true", help="keep everything in memory")
    where.add_argument("--data", metavar="FOLDER", help="where the cluster is kept (default: by name, in XDG data)")
    up.add_argument("--port", type=int, default=0, metavar="N", help="port of the API (default: 6443, or a free one)")
    up.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="who can reach it (%(default)s: only you)")
    up.add_argument("--http", action="store_true", help="plain HTTP: whoever reaches the port is the administrator")
    up.add_argument("--kubeconfig", metavar="FILE", help="where the context goes (default: kubectl's own file)")
    up.add_argument("--speed", type=float, default=1.0, metavar="X", help="simulated durations pass X times as fast")
    up.add_argument("--without", action="append", default=[], metavar="PROGRAM", help=_WITHOUT_HELP)
    up.add_argument("--runtime", choices=("simulated", "process", "oci"), default="simulated", help=_RUNTIME_HELP)
    up.add_argument(
        "--images", metavar="FILE", help="with --runtime process or oci: which command stands for which image"
    )
    up.add_argument("--kubelet-roots", metavar="FOLDER", help=_ROOTS_HELP)
    scaling = up.add_argument_group("an autoscaler")
    scaling.add_argument("--autoscale", action="store_true", help="machines for pods that wait, and back again")
    scaling.add_argument("--catalog", action="append", default=[], metavar="NAMES|FILE", help=_UP_CATALOG_HELP)
    add_cloud(scaling)
    add_consolidation(scaling)
    up.add_argument("--detach", action="store_true", help="return when it is ready, and leave it running")
    up.add_argument("--log", help=argparse.SUPPRESS)  # given by --detach to the process that it starts
    _add_release(up)
    _add_gates(up)
    up.set_defaults(run=_lazy("up"))

    down = commands.add_parser("down", help="stop a lab")
    which = down.add_mutually_exclusive_group()
    which.add_argument("name", nargs="?", default="default", metavar="NAME", help="of this name (%(default)s)")
    which.add_argument("--all", action="store_true", help="all labs of yours")
    down.set_defaults(run=_lazy("down"), instead={"--name": "name it without: allot down NAME"})

    status = commands.add_parser("status", help="the labs that run")
    _add_output(status, ("wide", "json", "yaml"))
    status.set_defaults(run=_lazy("status"))


def _add_fleet(commands: argparse._SubParsersAction[Parser]) -> None:
    fleet = commands.add_parser("fleet", help="known hardware, and the ResourceSlices that it publishes")
    fleet.set_defaults(help_of=fleet, incomplete=True)
    inner = fleet.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser)

    known = inner.add_parser("list", help="servers and accelerators")
    _add_output(known, ("wide", "json", "yaml"))
    known.set_defaults(run=_lazy("fleet", "run_list"))

    show = inner.add_parser("show", help="the facts of one server or accelerator")
    show.add_argument("hardware", metavar="HARDWARE")
    _add_output(show, ("json", "yaml"))
    show.set_defaults(run=_lazy("fleet", "run_show"))

    slices = inner.add_parser("slices", help="the ResourceSlices of some hardware, as YAML")
    slices.add_argument("hardware", metavar="HARDWARE", help="a server or an accelerator, or the words of --fleet")
    slices.add_argument("--mode", help="full, dynamic-mig, static-mig=1g.5gb:7, shared, spx, cpx@v0, …")
    slices.add_argument("--node", metavar="NAME", help="name of the node (default: the hardware's)")
    slices.add_argument("--gpus", type=int, metavar="N", help="only the first N GPUs, or N of an accelerator")
    slices.add_argument("--all", action="store_true", help="the nodes and the vendors' DeviceClasses too: a cluster")
    _add_release(slices)
    _add_output(slices, ("yaml", "json"))
    slices.set_defaults(run=_lazy("fleet", "run_slices"))


def _add_examples(commands: argparse._SubParsersAction[Parser]) -> None:
    examples = commands.add_parser("examples", help="packaged example manifests")
    examples.set_defaults(help_of=examples, incomplete=True)
    inner = examples.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser)
    known = inner.add_parser("list", help="name and purpose of each")
    _add_output(known, ("json", "yaml"))
    known.set_defaults(run=_lazy("examples", "run_list"))
    show = inner.add_parser("print", help="print one or several")
    show.add_argument("example", nargs="+", metavar="EXAMPLE", help="number or name")
    show.set_defaults(run=_lazy("examples", "run_print"))
    where = inner.add_parser("where", help="the folder that they are in, for -f")
    where.add_argument("example", nargs="?", metavar="EXAMPLE", help="number or name")
    where.set_defaults(run=_lazy("examples", "run_where"))


def _add_inputs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-f", "--filename", action="append", nargs="+", default=[], metavar="FILE", dest="files",
        help="manifests to ask about: files, folders, - for standard input",
    )  # fmt: skip
    cluster = parser.add_mutually_exclusive_group()
    cluster.add_argument(
        "--cluster", action="append", nargs="+", default=[], metavar="FILE", help="a snapshot of the cluster"
    )
    cluster.add_argument("--fleet", action="append", nargs="+", default=[], metavar="SPEC", help=_FLEET_HELP)
    add_way(parser)
    parser.add_argument(
        "-n", "--namespace", metavar="NAME", help="namespace of what is named, and of objects that name none"
    )
    parser.add_argument(
        "--kube-version", metavar="1.36", help="the cluster's Kubernetes (default: as it says, or 1.36)"
    )
    _add_gates(parser)


def _add_release(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kube-version", default="1.36", metavar="1.36", help="the cluster's Kubernetes (%(default)s)")


def _add_gates(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--feature-gates", action="append", default=[], metavar="A=true,B=false", help="gates that differ"
    )


def _add_output(parser: argparse.ArgumentParser, forms: Sequence[str]) -> None:
    parser.add_argument("-o", "--output", choices=forms, metavar="FORMAT", help=f"output as {either(forms)}")


def _version() -> str:
    from allotment import __version__

    return f"allot {__version__}"


if __name__ == "__main__":
    sys.exit(main())
