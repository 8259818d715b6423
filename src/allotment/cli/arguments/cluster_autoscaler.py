"""The arguments of ``allot cluster-autoscaler``."""

from __future__ import annotations

from typing import Final

from allotment.cli.arguments.autoscale import PROVIDERS, add_cloud, add_karpenter
from allotment.cli.arguments.shared_options import Commands, add_catalog, add_gates, add_release, add_way, lazy

CAPACITY: Final = ("on-demand", "spot", "cheapest")
#: Where both listen unless told otherwise.
CLOUD_PROVIDER: Final = "127.0.0.1:8086"
EXPANDER: Final = "127.0.0.1:8087"

_ABOUT: Final = """\
For Kubernetes' own cluster-autoscaler: a cloud provider (externalgrpc) whose
node groups are types of the catalogue, and an expander (grpc) that enlarges
the group which serves its pods, claims included, at the least cost by pod.

  allot cluster-autoscaler --nodes 0:10:aws/g5.*
                                 both, on loopback, with certificates made here
  allot cluster-autoscaler --nodes 1:4:aws/p4d.24xlarge/static-mig=1g.5gb:7
                                 GPUs in a mode; one node is always kept
  allot cluster-autoscaler --expander :8087 --cert tls.crt --key tls.key
                                 the expander only, beside any cloud provider
  allot cluster-autoscaler --nodes 0:10:aws/g5.* --print-config
                                 cluster-autoscaler's flags and --cloud-config
"""
_MORE: Final = """\
A cloud provider orders machines for whoever reaches it. Unless it listens on
loopback only it asks for a client's certificate, and no option changes that.
"""
_NODES: Final = "node groups: at least MIN and at most MAX machines of a type, by zone; may be repeated"
_SLICES: Final = "number of resourceSliceBytes in the template's message, if your cluster-autoscaler has that field"
_GPU_LABEL: Final = "label of nodes whose GPUs a device plugin offers (default: there are none)"
_PROVISIONING: Final = "after so long without a node with its slices a machine has failed (%(default)s)"


def add_cluster_autoscaler(commands: Commands) -> None:
    """``cluster-autoscaler``."""
    parser = commands.add_parser(
        "cluster-autoscaler", help="serve Kubernetes' cluster-autoscaler: machines, and which to choose",
        description=_ABOUT, epilog=_MORE,
    )  # fmt: skip
    parser.set_defaults(run=lazy("cluster_autoscaler"), namespace="kube-system")
    add_way(parser)
    add_release(parser, "as it says")
    add_gates(parser)
    parser.add_argument("--print-config", action="store_true", help="what cluster-autoscaler is to be told, and end")

    served = parser.add_argument_group("what is served (default: both)")
    served.add_argument("--cloud-provider", metavar="HOST:PORT", help=f"the cloud provider (default: {CLOUD_PROVIDER})")
    served.add_argument("--expander", metavar="HOST:PORT", help=f"the expander (default: {EXPANDER})")
    served.add_argument("--cert", metavar="FILE", help="the servers' certificate, PEM; read again when it is renewed")
    served.add_argument("--key", metavar="FILE", help="its key")
    served.add_argument("--client-ca", metavar="FILE", help="whose clients the cloud provider lets in")
    served.add_argument(
        "--certificates", metavar="FOLDER", help="where they are made unless --cert is given (default: XDG data)"
    )
    served.add_argument(
        "--host-name", action="append", default=[], metavar="NAME", help="further names to make them for"
    )
    served.add_argument("--plain", action="store_true", help="no TLS for a cloud provider on loopback")

    groups = parser.add_argument_group("what may be bought")
    groups.add_argument("--nodes", action="append", default=[], metavar="MIN:MAX:TYPE[/MODE]", help=_NODES)
    add_catalog(groups)
    groups.add_argument("--zones", action="append", default=[], metavar="ZONE", help="only in these: us-east-1a,…")
    groups.add_argument("--capacity", choices=CAPACITY, default="on-demand", help="cheapest: a group of each")
    bring = parser.add_argument_group("who brings the machines")
    bring.add_argument(
        "--provider", choices=PROVIDERS, default="karpenter", help="simulated: a lab's cloud (default: %(default)s)"
    )
    add_karpenter(bring)
    add_cloud(bring)

    told = parser.add_argument_group("what the autoscaler is told")
    told.add_argument("--provisioning", default="30m", metavar="TIME", help=_PROVISIONING)
    told.add_argument("--slices-field", type=int, default=0, metavar="N", help=_SLICES)
    told.add_argument("--gpu-label", default="", metavar="LABEL", help=_GPU_LABEL)
