"""A machine room: complete machines made of namespaces, and the networks between them. It knows no plan and no
cloud."""

from stampworks.machine_room.commands import HOST_PROGRAMS as HOST_PROGRAMS
from stampworks.machine_room.disks import NodeImage as NodeImage
from stampworks.machine_room.errors import RoomError as RoomError
from stampworks.machine_room.folders import Kind as Kind
from stampworks.machine_room.folders import end_folder as end_folder
from stampworks.machine_room.folders import ensure_folder as ensure_folder
from stampworks.machine_room.folders import read_folder as read_folder
from stampworks.machine_room.image import Builder as Builder
from stampworks.machine_room.image import ensure_image as ensure_image
from stampworks.machine_room.image import image_of as image_of
from stampworks.machine_room.nodes import NodeState as NodeState
from stampworks.machine_room.nodes import RailState as RailState
from stampworks.machine_room.nodes import condemn_nodes as condemn_nodes
from stampworks.machine_room.nodes import end_nodes as end_nodes
from stampworks.machine_room.nodes import ensure_nodes as ensure_nodes
from stampworks.machine_room.nodes import new_nodes as new_nodes
from stampworks.machine_room.nodes import node_drift as node_drift
from stampworks.machine_room.nodes import outdated_nodes as outdated_nodes
from stampworks.machine_room.nodes import read_nodes as read_nodes
from stampworks.machine_room.nodes import renew_nodes as renew_nodes
from stampworks.machine_room.nodes import run_in_node as run_in_node
from stampworks.machine_room.nodes import starting_nodes as starting_nodes
from stampworks.machine_room.room import Progress as Progress
from stampworks.machine_room.rooms import RoomEntry as RoomEntry
from stampworks.machine_room.rooms import RoomState as RoomState
from stampworks.machine_room.rooms import TrunkState as TrunkState
from stampworks.machine_room.rooms import end_room as end_room
from stampworks.machine_room.rooms import ensure_room as ensure_room
from stampworks.machine_room.rooms import expect_owner as expect_owner
from stampworks.machine_room.rooms import is_ours as is_ours
from stampworks.machine_room.rooms import reach as reach
from stampworks.machine_room.rooms import read_room as read_room
from stampworks.machine_room.rooms import remove_room as remove_room
from stampworks.machine_room.rooms import room_drift as room_drift
from stampworks.machine_room.rooms import rooms as rooms
