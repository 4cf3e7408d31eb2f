"""What all packages share: experiment, trial, plan, lifecycle, record, CRDs. Pure: it reads YAML and nothing else."""

GROUP = "scalecurve.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
