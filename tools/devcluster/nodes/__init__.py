"""Real nodes: kubelet, containerd and a network each, in namespaces of this machine."""
