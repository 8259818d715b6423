"""``allot fleet``: lists known hardware and the ResourceSlices that it publishes."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from allotment.api.releases import release
from allotment.cli.output.console import Screen, open_screen
from allotment.errors import InputError
from allotment.fleet import (
    FLEET_SYNTAX,
    Accelerator,
    FleetError,
    FleetMachine,
    Hardware,
    accelerators,
    cluster_of,
    hardware,
    mode_names,
    parse_fleet,
    parse_mode,
    servers,
    slices_of,
)
from allotment.model.serialization import to_json, to_yaml
from allotment.model.trees import manifest_of


def run_list(arguments: Namespace) -> int:
    """Print all servers and accelerators."""
    screen = open_screen()
    machines = [hardware(name) for name in servers()]
    if arguments.output in ("json", "yaml"):
        data = {
            "servers": [_server_facts(machine) for machine in machines],
            "accelerators": [_accelerator_facts(record) for record in accelerators().values()],
        }
        _write(screen, data, arguments.output)
        return 0
    wide = arguments.output == "wide"
    screen.table(
        ["SERVER", "GPUS", "PRODUCT", "MODES", *(["DESCRIPTION"] if wide else [])],
        [
            [m.id, str(len(m.slots)), _product(m.accelerator), _modes(m.accelerator), *([m.title] if wide else [])]
            for m in machines
        ],
        cut=["PRODUCT", "MODES", "DESCRIPTION"],
    )
    screen.line()
    screen.table(
        ["ACCELERATOR", "MEMORY", "PRODUCT", "MODES", *(["ID"] if wide else [])],
        [
            [a.aliases[0], f"{a.memory_mib}Mi", _product(a), _modes(a), *([a.id] if wide else [])]
            for a in accelerators().values()
        ],
        cut=["PRODUCT"],
    )
    screen.line()
    screen.line(f"Syntax of --fleet: {FLEET_SYNTAX}, comma-separated.")
    screen.line("  dgx-a100-40gb:2             two of these servers")
    screen.line("  4xl4:3                      three generic machines with four L4 each")
    screen.line("  h100/static-mig=1g.10gb:7   fixed MIG devices; A/B/full sets a layout for each GPU")
    screen.line("  2xl40s/shared               claims share a GPU; each is limited to the memory that it requests")
    screen.line("  t4/consumable-shares=4      four shares for each GPU, not enforced; also: =memory, =unlimited")
    screen.line("  mi300x-8x-oam/cpx@v0        partitions, with the attributes of AMD's 2025 driver")
    screen.line("  big=dgx-a100-40gb           a node named big")
    return 0


def run_show(arguments: Namespace) -> int:
    """Print the properties of a server or accelerator."""
    screen = open_screen()
    machine = hardware(arguments.hardware)
    if arguments.output in ("json", "yaml"):
        facts = _server_facts(machine) if machine.server else _accelerator_facts(machine.accelerator)
        _write(screen, facts, arguments.output)
        return 0
    if machine.server:
        _show_server(screen, machine)
        screen.line()
    _show_accelerator(screen, machine.accelerator)
    return 0


def run_slices(arguments: Namespace) -> int:
    """Print the ResourceSlices of hardware, or a whole cluster with ``--all``."""
    screen = open_screen()
    kube = release(arguments.kube_version)
    machines = _machines(arguments)
    objects: list[Any]
    if arguments.all:
        cluster = cluster_of(machines, kube)
        objects = [*cluster.nodes, *cluster.classes, *cluster.slices]
    else:
        objects = [value for m in machines for value in slices_of(m.hardware, m.mode, m.node, kube)]
    documents = [manifest_of(value) for value in objects]
    if arguments.output == "json":
        screen.out.write(to_json({"apiVersion": "v1", "kind": "List", "items": documents}) + "\n")
    else:
        screen.out.write(to_yaml(documents))
    return 0


def _machines(arguments: Namespace) -> tuple[FleetMachine, ...]:
    """Return one machine given by options, or those of a ``--fleet`` specification. Raises InputError."""
    name = arguments.hardware
    if arguments.mode is None and arguments.node_name is None and arguments.gpus is None:
        machines = parse_fleet([name])
        # A single machine given by its hardware alone keeps the plain name.
        return (FleetMachine(name, machines[0].hardware, machines[0].mode),) if name in servers() else machines
    if any(sign in name for sign in ":/=,"):
        raise InputError(f"{name!r} already specifies a mode or nodes", "omit --mode, --node-name and --gpus")
    try:
        machine = hardware(name, arguments.gpus)
        mode = parse_mode(arguments.mode or "", machine)
    except FleetError as error:
        raise InputError(str(error), error.hint) from None
    return (FleetMachine(arguments.node_name or machine.id, machine, mode),)


def _write(screen: Screen, data: Any, form: str) -> None:
    screen.data(data, form)


def _product(accelerator: Accelerator) -> str:
    """Return a short product name; ``show`` prints the exact attribute."""
    return accelerator.product.replace("_", " ").removeprefix("NVIDIA ")


def _modes(accelerator: Accelerator) -> str:
    return ",".join(mode_names(accelerator))


def _server_facts(machine: Hardware) -> dict[str, Any]:
    import msgspec

    facts: dict[str, Any] = msgspec.to_builtins(machine.server)
    facts["gpus"] = [{"pci": slot.pci, "numaNode": slot.numa, "pcieRoot": slot.pcie_root} for slot in machine.slots]
    facts["nics"] = [dict(zip(("name", "relation", "nearGpus"), nic, strict=True)) for nic in facts["nics"]]
    return {key: value for key, value in facts.items() if value not in ("", (), [], None)}


def _accelerator_facts(accelerator: Accelerator) -> dict[str, Any]:
    import msgspec

    facts: dict[str, Any] = msgspec.to_builtins(accelerator)
    if accelerator.mig:
        facts["mig"]["profiles"] = [
            dict(zip(_camel(profile.__struct_fields__), row, strict=True))
            for profile, row in zip(accelerator.mig.profiles, facts["mig"]["profiles"], strict=True)
        ]
    facts["partitions"] = [
        dict(zip(_camel(partition.__struct_fields__), row, strict=True))
        for partition, row in zip(accelerator.partitions, facts["partitions"], strict=True)
    ]
    return {key: value for key, value in facts.items() if value not in ("", 0, (), [], None)}


def _camel(names: tuple[str, ...]) -> list[str]:
    words = [name.split("_") for name in names]
    return [first + "".join("MiB" if word == "mib" else word.title() for word in rest) for first, *rest in words]


def _show_server(screen: Screen, machine: Hardware) -> None:
    server = machine.server
    assert server is not None
    facts = [f"Server:       {server.id}", f"              {server.title}"]
    if server.cpu:
        facts.append(f"CPUs:         {max(server.socket_of_numa) + 1} × {server.cpu}")
    if server.nvlink or server.nvlink_matrix:
        kind = f"{server.nvlink} between all GPUs" if server.nvlink else "not uniform (-o yaml shows the matrix)"
        facts.append(f"NVLink:       {kind}")
    if server.unverified:
        facts.append(f"Unverified:   {', '.join(server.unverified)}")
    for fact in facts:
        screen.line(fact)
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
    facts = [
        f"Accelerator:  {a.id} ({', '.join(a.aliases)})",
        f"Product:      {a.product}",
        f"Kind:         {a.architecture}, {a.form_factor}, {cores}{capability}",
        f"Memory:       {a.memory_mib}Mi {a.memory_type}",
        f"Power:        {a.power_w} W",
        f"Driver:       {a.driver_version}" + (f", CUDA {a.cuda_driver_version}" if a.cuda_driver_version else ""),
        f"Modes:        {_modes(a)}",
    ]
    if a.unverified:
        facts.append(f"Unverified:   {', '.join(a.unverified)}")
    for fact in facts:
        screen.line(fact)
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
