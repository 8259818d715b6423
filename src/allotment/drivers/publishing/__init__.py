"""Publication of device pools as ResourceSlices."""
