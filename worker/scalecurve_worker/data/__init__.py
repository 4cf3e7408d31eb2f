"""Image sets on disk, read with numpy alone: what every framework's loaders begin with."""
