"""NVIDIA GPUs that are not there: hardware that refuses as the real one does, and programs that compute on it."""
