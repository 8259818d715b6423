"""The binding cycle: writes and settles claims, waits for devices, binds the pod; on an error everything is reverted."""
