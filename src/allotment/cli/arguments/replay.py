"""The arguments of ``allot replay``."""

from __future__ import annotations

from typing import Final

from allotment.cli.arguments.shared_options import Commands, lazy

_REPLAY: Final = """\
A trace of pods, placed one by one on a list of nodes under several policies:
how many of the GPUs get work, how much is left in pieces that nobody can use.

  allot replay sample                             a small trace of our own
  allot replay pods.csv --nodes nodes.csv         Alibaba's GPU traces
  allot replay pods.csv --nodes nodes.csv --policy lookahead,fgd --seeds 42-51
                  --out results --picture curves.svg
  allot replay sample --times                     pods come and go by the clock

Policies: random, dot-product, best-fit, first-fit (what Kubernetes' allocator
does), fgd (least fragmentation), lookahead (ours).
"""
_MORE: Final = """\
With --out each run is kept in the folder as soon as it is made: stopped at any
moment, the same command goes on where it was.

Exit codes: 0 done, 2 bad input, 3 an error of Allotment's own.
"""
_CATALOG: Final = "a file of prices on top of the packaged ones, as allot plan takes it"
_TIMES: Final = "pods come and go at the times of the trace, instead of in an order of chance"
_ARRIVE: Final = "pods come until they ask for so much of the GPUs, drawn from the trace again (default %(default)s)"


def add_replay(commands: Commands) -> None:
    """``replay``."""
    replay = commands.add_parser(
        "replay", help="a workload trace on a list of nodes, under several policies", description=_REPLAY,
        epilog=_MORE,
    )  # fmt: skip
    replay.add_argument("trace", metavar="TRACE", help="the pods (CSV), or `sample`")
    replay.add_argument("--nodes", metavar="FILE", help="the nodes (CSV)")
    replay.add_argument("--policy", action="append", default=[], metavar="NAMES", help="only these (default: all)")
    replay.add_argument("--seeds", metavar="42-51", help="of the order of the pods (default 42-46; with --times 42)")
    how = replay.add_mutually_exclusive_group()
    how.add_argument("--arrive", default="130%", metavar="PERCENT", help=_ARRIVE.replace("%(default)s", "130%%"))
    how.add_argument("--times", action="store_true", help=_TIMES)
    replay.add_argument("--catalog", action="append", default=[], metavar="FILE", help=_CATALOG)
    replay.add_argument("--out", metavar="FOLDER", help="keep runs here, and write curves.csv")
    replay.add_argument("--picture", metavar="FILE", help="draw the curves: .svg or .png")
    replay.add_argument("--jobs", type=int, metavar="N", help="processes (default: one for each core)")
    replay.add_argument("-o", "--output", choices=("csv", "json"), metavar="FORMAT", help="the curves as csv or json")
    replay.set_defaults(run=lazy("replay.command"))
