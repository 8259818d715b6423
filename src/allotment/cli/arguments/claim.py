"""The arguments of ``allot claim``."""

from __future__ import annotations

from typing import Final

from allotment.cli.arguments.shared_options import (
    Commands,
    add_feature_gates,
    add_fixed_kube_version,
    add_inputs,
    add_output,
    lazy,
)

VENDORS: Final = ("nvidia", "amd", "any", "example")

_CLAIM: Final = """\
Write the ResourceClaim or ResourceClaimTemplate for the devices that a workload
needs, with a comment on each line. Without options, prompt for the devices.

  allot claim --gpus 2 --memory 80GB --same-switch
                                      two GPUs of 80 GB or more, on one switch
  allot claim --mig 1g.10gb           a MIG device; --mig 10GB: the smallest one
  allot claim --share 10Gi            a part of a GPU's memory
  allot claim --model MI300X --partition cpx
  allot claim --gpus 1 --for deploy/llm -f llm.yaml
                                      the manifest, with the claim in place
  allot claim --gpus 1 --memory 80GB --fleet 8xa100-40gb
                                      does this hardware have it?
  allot claim show app.yaml           describe claims in one sentence
"""
_MORE: Final = """\
Without --fleet, --cluster, --context or ResourceSlices in -f, the claim is
written for all known hardware of the vendor. With them, only published models
and attributes are used, and the claim is tested.

Exit codes: 0 success, 1 the hardware has no such devices, 2 invalid input, 3
internal error.
"""


def add_claim(commands: Commands) -> None:
    """Add ``claim`` and ``claim show``."""
    claim = commands.add_parser(
        "claim", help="write the claim for the devices that a workload needs", description=_CLAIM, epilog=_MORE
    )
    inner = claim.add_subparsers(title="commands", metavar="COMMAND")
    devices = claim.add_argument_group("devices")
    number = devices.add_mutually_exclusive_group()
    number.add_argument("--gpus", type=int, metavar="N", help="number of devices (default: 1)")
    number.add_argument("--all", action="store_true", help="all matching devices of a node")
    devices.add_argument("--memory", metavar="SIZE", help="advertised memory of each GPU, or more: 80GB")
    devices.add_argument("--model", metavar="MODEL", help="model: A100, H100, MI300X, A100-80GB …")
    devices.add_argument(
        "--vendor", choices=VENDORS, metavar="NAME",
        help="nvidia, amd, example, or any (default: that of the model or hardware, or else nvidia)",
    )  # fmt: skip
    part = devices.add_mutually_exclusive_group()
    part.add_argument(
        "--mig", nargs="?", const="", metavar="PROFILE",
        help="MIG devices (NVIDIA) of a profile, or the smallest of a size: 10GB",
    )  # fmt: skip
    part.add_argument(
        "--partition", nargs="?", const="", metavar="MODE", help="GPU partitions (AMD), of a compute mode: cpx"
    )
    devices.add_argument(
        "--share", nargs="?", const="", metavar="AMOUNT",
        help="a part of a GPU's memory, 10Gi or 1/3; without a value, the pods share the "
        "devices of one claim",
    )  # fmt: skip
    devices.add_argument("--same-switch", action="store_true", help="all devices on the same PCIe root")
    devices.add_argument("--class", metavar="NAME", dest="device_class", help="DeviceClass (default: the driver's)")
    devices.add_argument(
        "--extended", action="store_true", help="request an extended resource; writes its DeviceClass if necessary"
    )

    workload = claim.add_argument_group("workload")
    workload.add_argument(
        "--for", metavar="KIND/NAME", dest="workload", help="workload in the files of -f that gets the devices"
    )
    workload.add_argument(
        "--container", action="append", default=[], metavar="NAMES", help="its containers (default: the only one)"
    )
    workload.add_argument("--name", metavar="NAME", help="name of the claim (default: from the workload or request)")
    written = workload.add_mutually_exclusive_group()
    written.add_argument("--patch", action="store_true", help="print a patch for kubectl instead of the manifest")
    written.add_argument("--in-place", action="store_true", help="change the file itself")

    add_inputs(claim)
    claim.add_argument("-q", "--quiet", action="store_true", help="no comments and notes")
    add_output(claim, ("yaml", "json"))
    claim.set_defaults(run=lazy("claim.command"))

    show = inner.add_parser("show", help="describe claims and templates, one sentence each")
    show.add_argument("paths", nargs="+", metavar="FILE", help="files, directories, or - for standard input")
    show.add_argument("-n", "--namespace", metavar="NAME", help="namespace of manifests without one (default: default)")
    add_fixed_kube_version(show)
    add_feature_gates(show)
    add_output(show, ("text", "json"))
    show.set_defaults(run=lazy("claim.show"))
