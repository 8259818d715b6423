"""Why pods wait for devices, told as events of theirs, in clusters whose own scheduler says too little."""
