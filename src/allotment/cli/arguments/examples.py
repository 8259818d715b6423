"""The arguments of ``allot examples`` and ``allot demo``."""

from __future__ import annotations

from allotment.cli.arguments.shared_options import Commands, add_output, lazy


def add_examples(commands: Commands) -> None:
    """``examples``, what it does, and ``demo``."""
    examples = commands.add_parser("examples", help="packaged example manifests")
    examples.set_defaults(help_of=examples, incomplete=True)
    inner = examples.add_subparsers(title="commands", metavar="COMMAND")
    known = inner.add_parser("list", help="name and purpose of each")
    add_output(known, ("json", "yaml"))
    known.set_defaults(run=lazy("examples", "run_list"))
    show = inner.add_parser("print", help="print one or several")
    show.add_argument("example", nargs="+", metavar="EXAMPLE", help="number or name")
    show.set_defaults(run=lazy("examples", "run_print"))
    where = inner.add_parser("where", help="the folder that they are in, for -f")
    where.add_argument("example", nargs="?", metavar="EXAMPLE", help="number or name")
    where.set_defaults(run=lazy("examples", "run_where"))

    demo = commands.add_parser("demo", help="the packaged examples in a lab of mixed nodes, in seconds")
    demo.add_argument("example", nargs="*", metavar="EXAMPLE", help="explain only these (number or name); or `sharing`")
    demo.add_argument("--offline", action="store_true", help="explain all of them, and start no lab")
    demo.add_argument("--pictures", metavar="FOLDER", help="with `sharing`: write what the replicas drew")
    demo.set_defaults(run=lazy("demo.command"))
