"""The arguments of ``allot explain`` and ``allot free``."""

from __future__ import annotations

from typing import Final

from allotment.cli.arguments.shared_options import Commands, add_inputs, add_output, lazy

_EXPLAIN: Final = """\
Show which devices a pod or claim gets, or why it gets none: what excluded each
device, the nearest miss, and a change that makes it fit. Read-only.

  allot explain                     all pending pods and claims of the lab, or
                                    of the current context
  allot explain pod/chat            one pod, in any namespace
  allot explain deploy/web -n shop  the pods of a workload
  allot explain -f app.yaml --context NAME
                                    a manifest, before it is applied
  allot explain -f app.yaml --fleet 8xa100-40gb
                                    a manifest on hardware, without a cluster
  allot explain pod/chat --cluster snapshot.yaml
                                    a pod in a cluster snapshot
  allot explain pod/chat -o manifests | kubectl replace --force -f -
                                    replace the pod and its claim template by
                                    corrected ones, as they cannot be changed
"""
_FREE: Final = """\
List the devices of each node: which are free, tainted or in use (and by which
claims), and the remaining capacity of shared devices. Devices are unschedulable
if their node is cordoned, not ready, or has a taint. Read-only.

  allot free                          the lab, or the current context
  allot free --cluster snapshot.yaml  a cluster snapshot
  allot free --fleet dgx-a100-40gb    hardware, without a cluster
  allot free --toleration nvidia.com/gpu
                                      for pods that tolerate this taint

If the list is long, identical nodes share a row.
"""
_MORE: Final = """\
Exit codes: 0 everything fits, even if a pod is pending for a reason other than
devices, 1 something does not fit or cannot start, 2 invalid input, 3 internal
error.
"""
#: The hint if no cluster is found.
_NO_CLUSTER: Final = (
    "specify a snapshot with --cluster FILE, hardware with --fleet SPEC or manifests with -f FILE, or run allot up"
)


def add_explain(commands: Commands) -> None:
    """Add ``explain`` and ``free``."""
    explain = commands.add_parser(
        "explain", help="show which devices a pod or claim gets, or why it gets none", description=_EXPLAIN,
        epilog=_MORE,
    )  # fmt: skip
    explain.add_argument(
        "object", nargs="*", metavar="POD|CLAIM",
        help="name, pod/name, claim/name, deploy/name … (default: all pending)",
    )  # fmt: skip
    add_inputs(explain)
    text = "repeat whenever the cluster changes, until the named object has its devices"
    explain.add_argument("--watch", action="store_true", help=text)
    explain.set_defaults(run=lazy("explain"), missing="nothing to explain", otherwise=_NO_CLUSTER)

    free = commands.add_parser(
        "free", help="list free and used devices by node", description=_FREE,
    )  # fmt: skip
    add_inputs(free)
    text = "group rows by node, or by product across nodes"
    free.add_argument("--by", choices=("node", "product"), help=text)
    free.add_argument(
        "--toleration", action="append", default=[], metavar="KEY[=VALUE][:EFFECT]",
        help="count devices on nodes with this taint as free (can be repeated)",
    )  # fmt: skip
    free.set_defaults(run=lazy("free.command"), missing="no cluster specified", otherwise=_NO_CLUSTER)

    add_output(explain, ("wide", "json", "yaml", "manifests"))
    add_output(free, ("wide", "json", "yaml"))
