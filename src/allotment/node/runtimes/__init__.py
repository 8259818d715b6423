"""Container runtimes: simulated, process and OCI."""
