"""Handlers of the stampworks plugin, a file for each resource."""

from stampworks.clouds.errors import CloudError
from stampworks.configuration import PlaybookFailed
from stampworks.machine_room import RoomError
from stampworks.operations.errors import OperationError
from stampworks.provider.handler import Package
from stampworks.provider.handlers.elastic_nodes import ElasticNodes
from stampworks.provider.handlers.host_directory import HostDirectory
from stampworks.provider.handlers.host_group import HostGroup
from stampworks.provider.handlers.host_network import HostNetwork
from stampworks.provider.handlers.host_place import HostPlace
from stampworks.provider.handlers.keyring import Keyring
from stampworks.provider.handlers.kubernetes_nodes import KubernetesNodes
from stampworks.provider.handlers.kubernetes_queues import KubernetesQueues
from stampworks.provider.handlers.kubernetes_server import KubernetesServer
from stampworks.provider.handlers.local_folders import LocalVolume, SharedDirectory
from stampworks.provider.handlers.local_group import LocalGroup
from stampworks.provider.handlers.local_kubernetes import JoinedPool, LocalControlPlane, SimulatedPool
from stampworks.provider.handlers.local_network import LocalNetwork
from stampworks.provider.handlers.local_room import LocalRoom
from stampworks.provider.handlers.playbook import Playbook
from stampworks.provider.handlers.qualification import NotProvenError, Qualification
from stampworks.provider.handlers.roll import Roll
from stampworks.provider.handlers.roster import Roster
from stampworks.provider.handlers.signing_key import SigningKey
from stampworks.text.version import VERSION

PACKAGE = Package(
    name="stampworks",
    version=VERSION,
    description="Declare a GPU training cluster once, stamp it out identically on any cloud, prove it.",
    handlers=(
        ElasticNodes(),
        HostDirectory(),
        HostGroup(),
        HostNetwork(),
        HostPlace(),
        Keyring(),
        KubernetesNodes(),
        KubernetesQueues(),
        KubernetesServer(),
        LocalRoom(),
        LocalVolume(),
        SharedDirectory(),
        LocalNetwork(),
        LocalGroup(),
        LocalControlPlane(),
        JoinedPool(),
        SimulatedPool(),
        Roll(),
        Roster(),
        Playbook(),
        SigningKey(),
        Qualification(),
    ),
    expected_errors=(CloudError, RoomError, PlaybookFailed, OperationError, NotProvenError),
)
