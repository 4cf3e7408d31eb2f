"""Image sets on disk, read with numpy; shared by the data loaders of every framework."""
