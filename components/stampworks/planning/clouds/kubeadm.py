"""Pod addresses of a Kubernetes without a cloud."""

from stampworks.planning.clouds.choices import PodAddressing

# Kubernetes, reference of kube-controller-manager: the default of --node-cidr-mask-size is 24; read 2026-11-22.
PODS = PodAddressing(
    way="a range for each node",
    why="it is the default of Kubernetes",
    node_addresses=lambda _: 256,
    node_why="a /24, for any number of pods",
)
