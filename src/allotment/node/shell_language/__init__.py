"""The language of the simulated shell: POSIX ``sh``, and what manifests use of bash. Nothing here runs a program."""
