"""Other people's numbers -> records. One module per family of sources."""
