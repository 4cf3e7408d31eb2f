"""The operator: experiments on a Kubernetes cluster, carried by jobs of several kinds."""
