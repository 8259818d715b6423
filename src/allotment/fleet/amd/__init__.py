"""Devices as the AMD driver publishes them (``gpu.amd.com``)."""

from allotment.fleet.amd.auto_partition import offering, offering_of
from allotment.fleet.amd.devices import devices_of_gpus, name_of
from allotment.fleet.amd.gpu import DRIVER, Gpu, GpuPartition, PartitionMode, gpus_of, partition_modes_of, unique_id
from allotment.fleet.amd.vfio import Function, functions_of, passed_through

__all__ = [
    "DRIVER",
    "Function",
    "Gpu",
    "GpuPartition",
    "PartitionMode",
    "devices_of_gpus",
    "functions_of",
    "gpus_of",
    "name_of",
    "offering",
    "offering_of",
    "passed_through",
    "partition_modes_of",
    "unique_id",
]
