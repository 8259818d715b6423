"""What a pod's claims ask for, compiled, and whether a device suits it."""
