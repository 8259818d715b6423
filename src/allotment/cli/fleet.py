"""``allot fleet``: lists known hardware and the ResourceSlices that it publishes."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable
from typing import Final

from allotment.api.objects.releases import release
from allotment.cli.output.console import Screen, folded, open_screen, table
from allotment.errors import InputError
from allotment.fleet import (
    FLEET_SYNTAX,
    Accelerator,
    FleetError,
    FleetMachine,
    Hardware,
    accelerators,
    hardware,
    mode_names,
    parse_mode,
    servers,
)
from allotment.model.serialization import to_yaml
from allotment.model.trees import manifest_of
from allotment.reference import known_hardware

#: Examples of ``--fleet``, with their meaning.
_SYNTAX: Final = (
    ("dgx-a100-40gb:2", "two of these servers"),
    ("4xl4:3", "three generic machines with four L4 each"),
    ("h100/static-mig=1g.10gb:7", "fixed MIG devices; A/B/full sets a layout for each GPU"),
    ("2xl40s/shared", "claims share a GPU; each is limited to the memory that it requests"),
    ("t4/consumable-shares=4", "four shares for each GPU, not enforced; also: =memory, =unlimited"),
    ("mi300x-8x-oam/cpx@v0", "partitions, with the attributes of AMD's 2025 driver"),
    ("big=dgx-a100-40gb", "a node named big"),
)


def run_list(arguments: Namespace) -> int:
    """Print all servers and accelerators."""
    screen = open_screen()
    if arguments.output in ("json", "yaml"):
        screen.data(known_hardware.fleet(), arguments.output)
        return 0
    machines = [hardware(name) for name in servers()]
    wide = arguments.output == "wide"
    tables = (
        table(
            ["SERVER", "GPUS", "PRODUCT", "MODES", *(["DESCRIPTION"] if wide else [])],
            [
                [m.id, str(len(m.slots)), _product(m.accelerator), _modes(m.accelerator), *([m.title] if wide else [])]
                for m in machines
            ],
            screen.width,
            cut=["PRODUCT", "MODES", "DESCRIPTION"],
        ),
        table(
            ["ACCELERATOR", "MEMORY", "PRODUCT", "MODES", *(["ID"] if wide else [])],
            [
                [a.aliases[0], f"{a.memory_mib}Mi", _product(a), _modes(a), *([a.id] if wide else [])]
                for a in accelerators().values()
            ],
            screen.width,
            cut=["PRODUCT", "MODES"],
        ),
    )
    for lines in tables:
        for line in lines:
            screen.line(line)
        screen.line()
    if any(line.endswith("…") for lines in tables for line in lines):
        screen.line("allot fleet show HARDWARE shows all modes.")
        screen.line()
    screen.line(f"Syntax of --fleet: {FLEET_SYNTAX}, comma-separated.")
    for specification, meaning in _SYNTAX:
        _aligned(screen, f"  {specification:<28}", meaning)
    return 0


def run_show(arguments: Namespace) -> int:
    """Print the properties of a server or accelerator."""
    screen = open_screen()
    if arguments.output in ("json", "yaml"):
        screen.data(known_hardware.hardware(arguments.hardware), arguments.output)
        return 0
    machine = hardware(arguments.hardware)
    if machine.server:
        _show_server(screen, machine)
        screen.line()
    _show_accelerator(screen, machine.accelerator)
    return 0


def run_slices(arguments: Namespace) -> int:
    """Print the ResourceSlices of hardware, or a whole cluster with ``--all``."""
    screen = open_screen()
    kube = release(arguments.kube_version)
    objects = known_hardware.published_objects(_machines(arguments), kube, everything=arguments.all)
    documents = [manifest_of(value) for value in objects]
    if arguments.output == "json":
        screen.data({"apiVersion": "v1", "kind": "List", "items": documents}, "json")
    else:
        screen.out.write(to_yaml(documents))
    return 0


def _machines(arguments: Namespace) -> tuple[FleetMachine, ...]:
    """Return one machine given by options, or those of a ``--fleet`` specification. Raises InputError."""
    name = arguments.hardware
    if arguments.mode is None and arguments.node_name is None and arguments.gpus is None:
        return known_hardware.machines_of([name])
    if any(sign in name for sign in ":/=,"):
        raise InputError(f"{name!r} already specifies a mode or nodes", "omit --mode, --node-name and --gpus")
    try:
        machine = hardware(name, arguments.gpus)
        mode = parse_mode(arguments.mode or "", machine)
    except FleetError as error:
        raise InputError(error.problem, error.hint) from None
    return (FleetMachine(arguments.node_name or machine.id, machine, mode),)


def _print_facts(screen: Screen, facts: Iterable[tuple[str, str]]) -> None:
    for name, value in facts:
        if value:
            _aligned(screen, f"{name}:".ljust(14) if name else " " * 14, value)


def _aligned(screen: Screen, head: str, text: str) -> None:
    """Print a text after a heading, folded in its own column."""
    for number, line in enumerate(folded(text, screen.width and screen.width - len(head))):
        screen.line(f"{head if number == 0 else ' ' * len(head)}{line.strip()}")


def _product(accelerator: Accelerator) -> str:
    """Return a short product name; ``show`` prints the exact attribute."""
    return accelerator.product.replace("_", " ").removeprefix("NVIDIA ")


def _modes(accelerator: Accelerator) -> str:
    return ",".join(mode_names(accelerator))


def _show_server(screen: Screen, machine: Hardware) -> None:
    server = machine.server
    assert server is not None
    facts = [("Server", server.id), ("", server.title)]
    if server.cpu:
        facts.append(("CPUs", f"{max(server.socket_of_numa) + 1} × {server.cpu}"))
    if server.nvlink or server.nvlink_matrix:
        kind = f"{server.nvlink} between all GPUs" if server.nvlink else "not uniform (-o yaml shows the matrix)"
        facts.append(("NVLink", kind))
    _print_facts(screen, [*facts, ("Unverified", ", ".join(server.unverified))])
    near = {gpu: [nic.name for nic in server.nics if gpu in nic.near_gpus] for gpu in range(len(server.gpus))}
    headers = ["GPU", "PCI", "PCIE ROOT", "NUMA", *(["NEARBY NICS"] if server.nics else [])]
    screen.line()
    screen.table(
        headers,
        [
            [str(n), slot.pci, slot.pcie_root, str(slot.numa), *([",".join(near[n])] if server.nics else [])]
            for n, slot in enumerate(server.gpus)
        ],
    )


def _show_accelerator(screen: Screen, accelerator: Accelerator) -> None:
    a = accelerator
    cores = f"{a.multiprocessors} multiprocessors" if a.multiprocessors else f"{a.compute_units} compute units"
    capability = f", compute capability {a.compute_capability}" if a.compute_capability else f", {a.gfx}"
    driver = a.driver_version + (f", CUDA {a.cuda_driver_version}" if a.cuda_driver_version else "")
    facts = [
        ("Accelerator", f"{a.id} ({', '.join(a.aliases)})"),
        ("Product", a.product),
        ("Kind", f"{a.architecture}, {a.form_factor}, {cores}{capability}"),
        ("Memory", f"{a.memory_mib}Mi {a.memory_type}"),
        ("Power", f"{a.power_w} W"),
        ("Driver", driver),
        ("Modes", _modes(a)),
        ("Unverified", ", ".join(a.unverified)),
    ]
    _print_facts(screen, facts)
    if a.mig:
        screen.line()
        screen.table(
            ["MIG PROFILE", "MAX", "MEMORY", "MULTIPROCESSORS", "STARTS", "SIZE"],
            [
                [
                    p.name,
                    str(p.max_instances),
                    f"{p.memory_mib}Mi",
                    str(p.multiprocessors),
                    ",".join(map(str, p.starts)),
                    str(p.size),
                ]
                for p in a.mig.profiles
            ],
        )
    if a.partitions:
        screen.line()
        screen.table(
            ["PARTITION", "PER GPU", "MEMORY", "COMPUTE UNITS"],
            [[p.profile, str(p.per_gpu), f"{p.memory_mib}Mi", str(p.compute_units)] for p in a.partitions],
        )
