"""YAML -> checked experiments, or everything that is wrong with them."""
