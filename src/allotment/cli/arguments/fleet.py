"""The arguments of ``allot fleet``."""

from __future__ import annotations

from allotment.cli.arguments.shared_options import Commands, add_output, add_release_unasked, lazy


def add_fleet(commands: Commands) -> None:
    """``fleet`` and what it does."""
    fleet = commands.add_parser("fleet", help="known hardware, and the ResourceSlices that it publishes")
    fleet.set_defaults(help_of=fleet, incomplete=True)
    inner = fleet.add_subparsers(title="commands", metavar="COMMAND")

    known = inner.add_parser("list", help="servers and accelerators")
    add_output(known, ("wide", "json", "yaml"))
    known.set_defaults(run=lazy("fleet", "run_list"))

    show = inner.add_parser("show", help="the facts of one server or accelerator")
    show.add_argument("hardware", metavar="HARDWARE")
    add_output(show, ("json", "yaml"))
    show.set_defaults(run=lazy("fleet", "run_show"))

    slices = inner.add_parser("slices", help="the ResourceSlices of some hardware, as YAML")
    slices.add_argument("hardware", metavar="HARDWARE", help="a server or an accelerator, or the words of --fleet")
    slices.add_argument("--mode", help="full, dynamic-mig, static-mig=1g.5gb:7, shared, spx, cpx@v0, …")
    slices.add_argument("--node", metavar="NAME", help="name of the node (default: the hardware's)")
    slices.add_argument("--gpus", type=int, metavar="N", help="only the first N GPUs, or N of an accelerator")
    slices.add_argument("--all", action="store_true", help="the nodes and the vendors' DeviceClasses too: a cluster")
    add_release_unasked(slices)
    add_output(slices, ("yaml", "json"))
    slices.set_defaults(run=lazy("fleet", "run_slices"))
