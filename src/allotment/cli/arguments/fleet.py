"""The arguments of ``allot fleet``."""

from __future__ import annotations

from allotment.cli.arguments.shared_options import Commands, add_fixed_kube_version, add_output, add_renamed, lazy


def add_fleet(commands: Commands) -> None:
    """Add ``fleet`` and its subcommands."""
    fleet = commands.add_parser("fleet", help="list known hardware and print the ResourceSlices it publishes")
    fleet.set_defaults(help_of=fleet, incomplete=True)
    inner = fleet.add_subparsers(title="commands", metavar="COMMAND")

    listing = inner.add_parser("list", help="list servers and accelerators")
    add_output(listing, ("wide", "json", "yaml"))
    listing.set_defaults(run=lazy("fleet", "run_list"))

    show = inner.add_parser("show", help="show the properties of a server or accelerator")
    show.add_argument("hardware", metavar="HARDWARE", help="server or accelerator (see allot fleet list)")
    add_output(show, ("json", "yaml"))
    show.set_defaults(run=lazy("fleet", "run_show"))

    slices = inner.add_parser("slices", help="print the ResourceSlices that hardware publishes")
    slices.add_argument("hardware", metavar="HARDWARE", help="server or accelerator, or a --fleet specification")
    slices.add_argument("--mode", help="GPU mode: full, dynamic-mig, static-mig=1g.5gb:7, shared, spx, cpx@v0, …")
    add_renamed(
        slices, "--node-name", "--node", metavar="NAME", help="name of the node (default: the name of the hardware)"
    )
    slices.add_argument(
        "--gpus", type=int, metavar="N", help="number of GPUs: the first N of a server, or N of an accelerator"
    )
    slices.add_argument(
        "--all",
        action="store_true",
        help="also print nodes and DeviceClasses, so that the output is a complete cluster snapshot",
    )
    add_fixed_kube_version(slices)
    add_output(slices, ("yaml", "json"))
    slices.set_defaults(run=lazy("fleet", "run_slices"))
