"""The server of the page and of the answers for programs."""
