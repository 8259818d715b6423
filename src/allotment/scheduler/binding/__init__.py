"""The binding cycle: writes and settles claims, waits for devices, binds the pod; reverts everything on an error."""
