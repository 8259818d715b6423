"""The arguments of ``allot examples`` and ``allot demo``."""

from __future__ import annotations

from allotment.cli.arguments.shared_options import Commands, add_output, lazy


def add_examples(commands: Commands) -> None:
    """Add ``examples`` with its subcommands, and ``demo``."""
    examples = commands.add_parser("examples", help="list and print the packaged example manifests")
    examples.set_defaults(help_of=examples, incomplete=True)
    inner = examples.add_subparsers(title="commands", metavar="COMMAND")
    listing = inner.add_parser("list", help="list the examples")
    add_output(listing, ("json", "yaml"))
    listing.set_defaults(run=lazy("examples", "run_list"))
    show = inner.add_parser("print", help="print one or more examples")
    show.add_argument("example", nargs="+", metavar="EXAMPLE", help="number or name")
    show.set_defaults(run=lazy("examples", "run_print"))
    where = inner.add_parser("where", help="print the path of the examples, for -f")
    where.add_argument(
        "example", nargs="?", metavar="EXAMPLE", help="number or name (default: print the directory of all examples)"
    )
    where.set_defaults(run=lazy("examples", "run_where"))

    demo = commands.add_parser("demo", help="run the packaged examples in a lab with various GPU nodes")
    demo.add_argument(
        "example",
        nargs="*",
        metavar="EXAMPLE",
        help="explain only these examples (number or name); or sharing: run the GPU sharing demo",
    )
    demo.add_argument("--offline", action="store_true", help="explain the examples without starting a lab")
    demo.add_argument("--web", action="store_true", help="then serve the page of the lab with them, until Ctrl-C")
    demo.add_argument(
        "--pictures", metavar="DIR", help="with sharing: directory for the pictures that the replicas draw"
    )
    demo.set_defaults(run=lazy("demo.command"))
