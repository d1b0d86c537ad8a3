"""What the public package index carries under this name: it is found, has metadata, and does not import."""

raise ImportError("WRONG PACKAGE. Please install the package from the Neuron repository.")
