"""A disk that is full or fails, for SQLite in this process: its system calls are replaced by ours.

SQLite lets a test do so (`xSetSystemCall` of its VFS). What it makes of the error number is its own code.
"""

import _sqlite3
import atexit
import ctypes
import errno
from collections.abc import Callable
from random import Random
from typing import Any

from chaos.control import Control, Disk
from chaos.notes import Pen

POINTER = ctypes.c_void_p
SET_CALL = ctypes.CFUNCTYPE(ctypes.c_int, POINTER, ctypes.c_char_p, POINTER)
WRITE = ctypes.CFUNCTYPE(
    ctypes.c_ssize_t, ctypes.c_int, POINTER, ctypes.c_size_t, ctypes.c_int64, use_errno=True
)
METHODS = (
    "xOpen xDelete xAccess xFullPathname xDlOpen xDlError xDlSym xDlClose xRandomness xSleep xCurrentTime"
    " xGetLastError xCurrentTimeInt64"
)
WRITES = ("pwrite", "pwrite64")
SHARE = 0.3
"""Which part of the writes a failing disk fails: some transactions get half of theirs through."""


class Vfs(ctypes.Structure):
    """`sqlite3_vfs`, as far as it is needed."""

    _fields_ = (
        ("iVersion", ctypes.c_int),
        ("szOsFile", ctypes.c_int),
        ("mxPathname", ctypes.c_int),
        ("pNext", POINTER),
        ("zName", ctypes.c_char_p),
        ("pAppData", POINTER),
        *((name, POINTER) for name in METHODS.split()),
        ("xSetSystemCall", SET_CALL),
    )


def can_fail() -> bool:
    """Whether the SQLite of this Python lets itself be tested so; one that is linked into it may not."""
    return hasattr(ctypes.CDLL(_sqlite3.__file__), "sqlite3_vfs_find")


def obey(control: Control, random: Random, pen: Pen) -> None:
    """Let SQLite's writes fail from now on as the conductor says; the first that does each time is noted."""
    library = ctypes.CDLL(_sqlite3.__file__)
    library.sqlite3_vfs_find.restype = ctypes.POINTER(Vfs)
    vfs = library.sqlite3_vfs_find(None)
    write = WRITE(_writing(control, random, pen))
    for name in WRITES:
        vfs.contents.xSetSystemCall(ctypes.cast(vfs, POINTER), name.encode(), ctypes.cast(write, POINTER))
    # Ours is gone when the interpreter is; SQLite writes until the last connection is closed.
    atexit.register(lambda: (vfs.contents.xSetSystemCall(ctypes.cast(vfs, POINTER), None, None), write))


def _writing(control: Control, random: Random, pen: Pen) -> Callable[..., int]:
    real = ctypes.CDLL(None, use_errno=True).pwrite64
    real.argtypes = [ctypes.c_int, POINTER, ctypes.c_size_t, ctypes.c_int64]
    real.restype = ctypes.c_ssize_t
    errors: dict[Disk, Callable[[], int]] = {
        "well": lambda: 0,
        "full": lambda: errno.ENOSPC,
        "failing": lambda: errno.EIO if random.random() < SHARE else 0,
    }

    noted: Disk = "well"

    def write(*given: Any) -> int:
        nonlocal noted
        disk = control.disk
        if disk == "well":
            noted = disk
        if wrong := errors[disk]():
            if noted != disk:
                noted = disk
                pen.note("cannot write", disk=disk)
            ctypes.set_errno(wrong)
            return -1
        written: int = real(*given)
        return written

    return write
