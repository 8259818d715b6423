"""Evaluation on a device: values, closures planned from the checked tree, the libraries' functions, exact cost."""
