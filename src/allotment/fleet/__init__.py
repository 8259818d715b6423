"""Hardware profiles of accelerators and servers, and the ResourceSlices that drivers publish for them."""

from allotment.fleet.cluster import FleetCluster, classes_of, cluster_of, node_of
from allotment.fleet.description import FLEET_SYNTAX, FleetMachine, parse_fleet
from allotment.fleet.device_classes import CLASSES
from allotment.fleet.errors import FleetError
from allotment.fleet.hardware import Hardware, hardware, known_names
from allotment.fleet.modes import Mode, mode_names, parse_mode
from allotment.fleet.profiles import Accelerator, Server, accelerators, servers
from allotment.fleet.slices import slices_of

__all__ = [
    "CLASSES",
    "FLEET_SYNTAX",
    "Accelerator",
    "FleetCluster",
    "FleetError",
    "Hardware",
    "FleetMachine",
    "Mode",
    "Server",
    "accelerators",
    "classes_of",
    "cluster_of",
    "hardware",
    "known_names",
    "mode_names",
    "node_of",
    "parse_fleet",
    "parse_mode",
    "servers",
    "slices_of",
]
