"""Memory of a node that outlives the process that writes it, with its pages there before they are needed."""

from __future__ import annotations

import ctypes
import errno
import math
import mmap
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .keeper import reserved

FAULTING = 8
"""Threads that get pages."""
POPULATE = 23
"""MADV_POPULATE_WRITE of Linux, for which Python has no name yet."""


class Memory:
    """A file in shared memory as a tensor of bytes; pinned if an accelerator copies into it."""

    def __init__(self, path: Path, size: int, pinned: bool = False) -> None:
        """Map a file; an empty `size` uses that of an existing one."""
        self.path = path
        with path.open("r+b" if path.exists() else "w+b") as file:
            if size:
                reserved(file.fileno(), size, path)
            self._map = mmap.mmap(file.fileno(), 0)
        self.tensor = torch.frombuffer(self._map, dtype=torch.uint8)
        if size:
            fault_in(self.tensor)
        if pinned:
            failed = torch.cuda.cudart().cudaHostRegister(self.tensor.data_ptr(), self.tensor.numel(), 0)
            if int(failed):
                raise MemoryError(f"{path}: {self.tensor.numel()} bytes cannot be pinned: is `ulimit -l` large enough?")


def fault_in(memory: Tensor) -> None:
    """Touch all pages of fresh memory with several threads.

    Otherwise writing or pinning waits for one page after the other: 8 GiB took 4.9 s, and take 2.2 s this way.
    """
    share = mmap.PAGESIZE * math.ceil(memory.numel() / mmap.PAGESIZE / FAULTING)
    with ThreadPoolExecutor(FAULTING) as threads:
        list(threads.map(populate, memory.split(share)))


def populate(part: Tensor) -> None:
    """The same by this thread; others may run meanwhile."""
    libc: Any = ctypes.CDLL(None, use_errno=True)
    inside = part.data_ptr() % mmap.PAGESIZE
    start, size = ctypes.c_void_p(part.data_ptr() - inside), ctypes.c_size_t(part.nbytes + inside)
    if libc.madvise(start, size, POPULATE) == 0:
        return
    if (failed := ctypes.get_errno()) != errno.EINVAL:
        raise MemoryError(f"{part.nbytes:,} bytes of memory cannot be had: {os.strerror(failed)}")
    part.flatten().view(torch.uint8)[:: mmap.PAGESIZE].add_(0)  # Linux before 5.14 cannot be asked for it
