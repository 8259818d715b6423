"""The arguments of ``allot explain`` and ``allot free``."""

from __future__ import annotations

from typing import Final

from allotment.cli.arguments.shared_options import Commands, add_inputs, add_output, lazy

_EXPLAIN: Final = """\
Which devices a pod or claim gets, or why it gets none: where the devices were
lost, what comes nearest, and a change with which it fits. Nothing is written.

  allot explain                     all that waits in the lab, or in the cluster
                                    of the current context
  allot explain pod/chat            one pod, in whichever namespace
  allot explain deploy/web -n shop  the pods of a workload
  allot explain -f app.yaml --context NAME
                                    what a file would get, before it is applied
  allot explain -f app.yaml --fleet 8xa100-40gb
                                    and on hardware
  allot explain pod/chat --cluster snapshot.yaml
                                    in a snapshot of a cluster
"""
_FREE: Final = """\
Devices by node: free, used by whom, tainted, left to share. Nothing is written.

  allot free                          the lab, or the current context
  allot free --cluster snapshot.yaml  a snapshot of a cluster
  allot free --fleet dgx-a100-40gb    hardware

Where they would fill more than a screen, equal nodes are one row.
"""
_MORE: Final = """\
Exit codes: 0 all that was asked about fits, 1 something does not, 2 bad input,
3 an error of Allotment's own.
"""
#: What to do where no cluster is to be found.
_OTHERWISE: Final = (
    "give a snapshot with --cluster FILE, hardware with --fleet SPEC, manifests with -f FILE, or run allot up"
)


def add_explain(commands: Commands) -> None:
    """``explain`` and ``free``."""
    explain = commands.add_parser(
        "explain", help="which devices a pod or claim gets, or why it gets none", description=_EXPLAIN, epilog=_MORE,
    )  # fmt: skip
    explain.add_argument(
        "object", nargs="*", metavar="POD|CLAIM", help="only this one: name, pod/name, claim/name, deploy/name …"
    )
    add_inputs(explain)
    text = "answer again when the cluster changes, until what is named has its devices"
    explain.add_argument("--watch", action="store_true", help=text)
    explain.set_defaults(run=lazy("explain"), missing="nothing to explain", otherwise=_OTHERWISE)

    free = commands.add_parser(
        "free", help="devices by node: free, used by whom, tainted, left to share", description=_FREE,
    )  # fmt: skip
    add_inputs(free)
    text = "a row for each node, or for each product over all nodes"
    free.add_argument("--by", choices=("node", "product"), help=text)
    free.set_defaults(run=lazy("free.command"), missing="no cluster is given", otherwise=_OTHERWISE)

    for parser in (explain, free):
        add_output(parser, ("wide", "json", "yaml"))
