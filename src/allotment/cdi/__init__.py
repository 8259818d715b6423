"""Container Device Interface (CDI 1.1.0): what a container needs to use a device, as files that every runtime reads."""
