"""Other schedulers on the same devices: who they are, what they and we gave away twice, and who steps back."""
