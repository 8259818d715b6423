"""The arguments of ``allot replay``."""

from __future__ import annotations

from typing import Final

from allotment.cli.arguments.shared_options import Commands, add_renamed, lazy

_REPLAY: Final = """\
Schedule the pods of a trace on a list of nodes with several policies, and
compare GPU utilization and fragmentation.

  allot replay sample                             a small packaged trace
  allot replay pods.csv --nodes nodes.csv         Alibaba's GPU traces
  allot replay pods.csv --nodes nodes.csv --policy lookahead,fgd --seeds 42-51
                  -d results --picture curves.svg
  allot replay sample --use-times                 pods start and end as recorded

Policies: random, dot-product, best-fit, first-fit (Kubernetes' allocator), fgd
(fragmentation gradient descent), lookahead (Allotment's).
"""
_MORE: Final = """\
With -d each run is saved when it finishes. After an interruption the same
command continues with the remaining runs.

Exit codes: 0 done, 2 invalid input, 3 internal error.
"""
_CATALOG: Final = "CSV file of prices that extends the packaged catalog, as for allot plan"
_USE_TIMES: Final = "start and end pods at the times recorded in the trace, instead of in random order"
_LOAD: Final = (
    "add pods, sampled from the trace with repetition, until they request this percentage of the GPUs (default: 130%%)"
)


def add_replay(commands: Commands) -> None:
    """Add ``replay``."""
    replay = commands.add_parser(
        "replay", help="compare scheduling policies on a workload trace", description=_REPLAY, epilog=_MORE,
    )  # fmt: skip
    replay.add_argument("trace", metavar="TRACE", help="pods (CSV), or sample for the packaged trace")
    replay.add_argument("--nodes", metavar="FILE", help="nodes (CSV)")
    replay.add_argument("--policy", action="append", default=[], metavar="NAMES", help="policies (default: all)")
    replay.add_argument(
        "--seeds", metavar="42-51", help="random seeds for the order of the pods (default: 42-46; with --use-times: 42)"
    )
    arrivals = replay.add_mutually_exclusive_group()
    add_renamed(arrivals, "--load", "--arrive", default="130%", metavar="PERCENT", help=_LOAD)
    add_renamed(arrivals, "--use-times", "--times", action="store_true", help=_USE_TIMES)
    replay.add_argument("--catalog", action="append", default=[], metavar="FILE", help=_CATALOG)
    add_renamed(
        replay, "--output-dir", "--out", short="-d", metavar="DIR", help="directory for the runs and curves.csv"
    )
    replay.add_argument("--picture", metavar="FILE", help="write a chart of the curves: .svg or .png")
    replay.add_argument("--jobs", type=int, metavar="N", help="number of processes (default: one per core)")
    replay.add_argument("-o", "--output", choices=("csv", "json"), metavar="FORMAT", help="output format: csv or json")
    replay.set_defaults(run=lazy("replay.command"))
