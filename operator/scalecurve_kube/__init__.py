"""The one Kubernetes client of ScaleCurve, for the operator (asyncio) and for the command line (blocking)."""
