"""Reads inputs of commands: files, hardware, releases, durations."""
