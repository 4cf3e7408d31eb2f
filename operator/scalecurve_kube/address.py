"""Which cluster and namespace a command means. Loads no client library."""

import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ClusterAddress:
    """A namespace of a context of a kubeconfig; what is None comes from the environment."""

    namespace: str | None = None
    context: str | None = None
    kubeconfig: Path | None = None

    @property
    def explicit(self) -> bool:
        """Whether the user named a cluster, so that nothing else can be meant."""
        return any(value is not None for value in (self.namespace, self.context, self.kubeconfig))


DEFAULT_ADDRESS = ClusterAddress()


def kubeconfig_files(address: ClusterAddress = DEFAULT_ADDRESS) -> list[Path]:
    """The kubeconfig files to read: the one that was named, or those of $KUBECONFIG or ~/.kube/config that exist."""
    if address.kubeconfig is not None:
        return [address.kubeconfig]
    paths = os.environ.get("KUBECONFIG") or "~/.kube/config"
    return [path for part in paths.split(os.pathsep) if part and (path := Path(part).expanduser()).is_file()]


def has_current_context() -> bool:
    """Whether a kubeconfig names a cluster to look at by default, and the client library is there to do so."""
    files = kubeconfig_files()
    if not files or importlib.util.find_spec("kubernetes") is None:
        return False
    import yaml

    for path in files:
        try:
            content = yaml.safe_load(path.read_bytes())
        except (OSError, yaml.YAMLError):
            continue
        if isinstance(content, dict) and content.get("current-context"):
            return True
    return False
