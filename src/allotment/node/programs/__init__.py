"""The programs of simulated containers, such as ``cat``, ``tar`` and ``nvidia-smi``, as functions of a process."""
