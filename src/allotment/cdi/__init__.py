"""The Container Device Interface (CDI 1.1.0): specifications of container devices, their files and their effect."""
