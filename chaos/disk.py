"""A disk that is full or fails, for SQLite in this process: reads, writes, syncs, truncations and opens.

SQLite lets a test replace its system calls (`xSetSystemCall` of its VFS). What it makes of the error number
is its own code. Syncs are not among them: they fail in a VFS of ours in front of SQLite's own.
"""

import _sqlite3
import atexit
import ctypes
import errno
from collections.abc import Callable
from random import Random
from typing import Any, Literal

from chaos.control import Control, Disk
from chaos.notes import Pen

Kind = Literal["read", "write", "sync", "truncate", "open"]
POINTER = ctypes.c_void_p
SET_CALL = ctypes.CFUNCTYPE(ctypes.c_int, POINTER, ctypes.c_char_p, POINTER)
OPEN = ctypes.CFUNCTYPE(ctypes.c_int, POINTER, POINTER, POINTER, ctypes.c_int, POINTER)
SYNC = ctypes.CFUNCTYPE(ctypes.c_int, POINTER, ctypes.c_int)
METHODS = (
    "xDelete xAccess xFullPathname xDlOpen xDlError xDlSym xDlClose xRandomness xSleep xCurrentTime"
    " xGetLastError xCurrentTimeInt64"
)
LATER_METHODS = "xGetSystemCall xNextSystemCall"
TRANSFER = (ctypes.c_ssize_t, ctypes.c_int, POINTER, ctypes.c_size_t, ctypes.c_int64)
CALLS: dict[str, tuple[Kind, str, tuple[Any, ...]]] = {
    "open": ("open", "open64", (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_int)),
    "pread": ("read", "pread64", TRANSFER),
    "pread64": ("read", "pread64", TRANSFER),
    "pwrite": ("write", "pwrite64", TRANSFER),
    "pwrite64": ("write", "pwrite64", TRANSFER),
    "ftruncate": ("truncate", "ftruncate64", (ctypes.c_int, ctypes.c_int, ctypes.c_int64)),
}
"""System calls by the name that SQLite has for them: what they do, the C function, and its types."""
FAULTS: dict[Disk, tuple[int, dict[Kind, float]]] = {
    "well": (0, {}),
    "full": (errno.ENOSPC, {"write": 1.0}),
    "unwritable": (errno.EIO, {"write": 0.3, "truncate": 0.5}),
    "unsynced": (errno.EIO, {"sync": 0.5, "truncate": 0.5}),
    "unreadable": (errno.EIO, {"read": 0.3, "open": 0.9}),
}
"""With which error which part of which calls fails: some transactions get half of theirs through."""
SQLITE_OK, SQLITE_IOERR_FSYNC = 0, 1034
LAYERED = b"chaos"
LAYERS: list["Layer"] = []
"""They last as long as the process: files that are open use them to its end."""


class Files(ctypes.Structure):
    """`sqlite3_io_methods`, as far as its size and xSync are needed."""

    _fields_ = (
        ("iVersion", ctypes.c_int),
        *((name, POINTER) for name in ("xClose", "xRead", "xWrite", "xTruncate")),
        ("xSync", SYNC),
        ("others", POINTER * 13),
    )


class File(ctypes.Structure):
    """`sqlite3_file`."""

    _fields_ = (("methods", ctypes.POINTER(Files)),)


class Vfs(ctypes.Structure):
    """`sqlite3_vfs`."""

    _fields_ = (
        ("iVersion", ctypes.c_int),
        ("szOsFile", ctypes.c_int),
        ("mxPathname", ctypes.c_int),
        ("pNext", POINTER),
        ("zName", ctypes.c_char_p),
        ("pAppData", POINTER),
        ("xOpen", OPEN),
        *((name, POINTER) for name in METHODS.split()),
        ("xSetSystemCall", SET_CALL),
        *((name, POINTER) for name in LATER_METHODS.split()),
    )


def can_fail() -> bool:
    """Whether the SQLite of this Python lets itself be tested so; one that is linked into it may not."""
    return hasattr(ctypes.CDLL(_sqlite3.__file__), "sqlite3_vfs_find")


def obey(control: Control, random: Random, pen: Pen) -> None:
    """Let SQLite fail from now on as the conductor says; the first failure of a kind each time is noted."""
    library = ctypes.CDLL(_sqlite3.__file__)
    library.sqlite3_vfs_find.restype = ctypes.POINTER(Vfs)
    library.sqlite3_vfs_register.argtypes = [POINTER, ctypes.c_int]
    below = library.sqlite3_vfs_find(None)
    trouble = Trouble(control, random, pen)
    kept = [_calling(name, trouble) for name in CALLS]
    set_call = below.contents.xSetSystemCall
    for name, call in zip(CALLS, kept, strict=True):
        set_call(ctypes.cast(below, POINTER), name.encode(), ctypes.cast(call, POINTER))
    layer = Layer(below, trouble)
    LAYERS.append(layer)
    library.sqlite3_vfs_register(ctypes.addressof(layer.vfs), 1)

    def restore() -> None:
        """Ours are gone when the interpreter is; SQLite writes until the last connection is closed."""
        set_call(ctypes.cast(below, POINTER), None, None)
        layer.end()
        kept.clear()

    atexit.register(restore)


class Trouble:
    """Decides whether a call fails now."""

    def __init__(self, control: Control, random: Random, pen: Pen) -> None:
        self._control, self._random, self._pen = control, random, pen
        self._noted: set[tuple[Disk, Kind]] = set()

    def error(self, kind: Kind) -> int:
        """The error number of a call, or 0."""
        disk = self._control.disk
        if disk == "well":
            self._noted.clear()
            return 0
        number, shares = FAULTS[disk]
        wrong = number if self._random.random() < shares.get(kind, 0.0) else 0
        if wrong and (disk, kind) not in self._noted:
            self._noted.add((disk, kind))
            self._pen.note("disk error", disk=disk, call=kind)
        return wrong


def _calling(name: str, trouble: Trouble) -> Any:
    """A system call that fails when there is trouble."""
    kind, function, types = CALLS[name]
    real = getattr(ctypes.CDLL(None, use_errno=True), function)
    real.restype, *real.argtypes = types

    def call(*given: Any) -> int:
        if wrong := trouble.error(kind):
            ctypes.set_errno(wrong)
            return -1
        answer: int = real(*given)
        return answer

    return ctypes.CFUNCTYPE(*types, use_errno=True)(call)


class Layer:
    """A VFS whose files are those of the one below, but for their syncs."""

    def __init__(self, below: Any, trouble: Trouble) -> None:
        self._below, self._trouble = below, trouble
        self._methods: dict[int, Files] = {}
        self._open = OPEN(self._opened)
        self.vfs = Vfs.from_buffer_copy(below.contents)
        self.vfs.zName, self.vfs.xOpen = LAYERED, self._open

    def end(self) -> None:
        """Let files sync as they did before."""
        for address, copy in self._methods.items():
            copy.xSync = Files.from_address(address).xSync

    def _opened(self, _: int, name: int, file: int, flags: int, out: int) -> int:
        code: int = self._below.contents.xOpen(ctypes.cast(self._below, POINTER), name, file, flags, out)
        if code == SQLITE_OK:
            held = File.from_address(file)
            held.methods = ctypes.pointer(self._with_syncs(held.methods))
        return code

    def _with_syncs(self, methods: Any) -> Files:
        """The methods of a file, with syncs that can fail; each table is copied once."""
        address = ctypes.addressof(methods.contents)
        if address not in self._methods:
            self._methods[address] = copy = Files.from_buffer_copy(methods.contents)
            copy.xSync = SYNC(self._syncing(methods.contents.xSync))
        return self._methods[address]

    def _syncing(self, real: Callable[[int, int], int]) -> Callable[[int, int], int]:
        def sync(file: int, flags: int) -> int:
            return SQLITE_IOERR_FSYNC if self._trouble.error("sync") else real(file, flags)

        return sync
