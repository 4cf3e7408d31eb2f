"""What every room shares: experiment, trial, plan, lifecycle, record, CRDs. Pure; reads YAML and nothing else."""

GROUP = "scalecurve.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
