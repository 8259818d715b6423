"""AMD GPUs that are not there: the kernel's files, and its answers to what is written to them."""
