"""The machine room of the local cloud: whole machines made of namespaces, with networks between them."""

from stampworks.clouds.local.room.commands import HOST_PROGRAMS as HOST_PROGRAMS
from stampworks.clouds.local.room.disks import Image as Image
from stampworks.clouds.local.room.errors import RoomError as RoomError
from stampworks.clouds.local.room.image import Builder as Builder
from stampworks.clouds.local.room.image import ensure_image as ensure_image
from stampworks.clouds.local.room.image import find_image as find_image
from stampworks.clouds.local.room.image import packages_dir as packages_dir
from stampworks.clouds.local.room.nodes import NodeState as NodeState
from stampworks.clouds.local.room.nodes import RailState as RailState
from stampworks.clouds.local.room.nodes import end_nodes as end_nodes
from stampworks.clouds.local.room.nodes import ensure_nodes as ensure_nodes
from stampworks.clouds.local.room.nodes import node_drift as node_drift
from stampworks.clouds.local.room.nodes import nodes_to_renew as nodes_to_renew
from stampworks.clouds.local.room.nodes import read_nodes as read_nodes
from stampworks.clouds.local.room.nodes import run_in_node as run_in_node
from stampworks.clouds.local.room.room import Progress as Progress
from stampworks.clouds.local.room.rooms import RoomState as RoomState
from stampworks.clouds.local.room.rooms import TrunkState as TrunkState
from stampworks.clouds.local.room.rooms import end_room as end_room
from stampworks.clouds.local.room.rooms import ensure_room as ensure_room
from stampworks.clouds.local.room.rooms import reach as reach
from stampworks.clouds.local.room.rooms import read_room as read_room
from stampworks.clouds.local.room.rooms import room_drift as room_drift
from stampworks.clouds.local.room.shares import end_share as end_share
from stampworks.clouds.local.room.shares import ensure_share as ensure_share
from stampworks.clouds.local.room.shares import read_share as read_share
