"""The queries as tools of language models: a server of the Model Context Protocol."""
