"""The system calls of a host lab that Python 3.11 does not offer."""
import ctypes
import os

NEWNS, NEWUTS, NEWIPC, NEWPID, NEWNET = 0x20000, 0x4000000, 0x8000000, 0x20000000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
MNT_DETACH = 2
PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(what, result):
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def unshare(flags):
    _checked("unshare", _libc.unshare(flags))


def setns(fd, kind):
    _checked("setns", _libc.setns(fd, kind))


def mount(source, target, kind=None, flags=0):
    encode = lambda text: None if text is None else text.encode()
    _checked(f"mount on {target}",
             _libc.mount(encode(source), encode(target), encode(kind), ctypes.c_ulong(flags), None))


def unmount(target):
    _checked(f"unmount {target}", _libc.umount2(target.encode(), MNT_DETACH))


def show_network():
    """Lets /sys show the network namespace of this process. REQUIRES: a mount namespace of its own."""
    mount(None, "/", flags=MS_REC | MS_PRIVATE)
    unmount("/sys")
    mount("sysfs", "/sys", "sysfs")


def die_with_parent(signal):
    """The kernel sends this process the signal when the thread that forked it ends, however that happens."""
    _checked("prctl", _libc.prctl(PR_SET_PDEATHSIG, int(signal), 0, 0, 0))
