"""The system calls of a host lab that Python 3.11 does not offer."""
import array
import contextlib
import ctypes
import fcntl
import os
import socket
import struct

NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
MNT_DETACH = 2
PR_SET_PDEATHSIG = 1
SIOCETHTOOL, ETHTOOL_SGRO = 0x8946, 0x2C

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(what, result):
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def unshare(flags):
    _checked("unshare", _libc.unshare(flags))


def mount(source, target, kind=None, flags=0):
    encode = lambda text: None if text is None else text.encode()
    _checked(f"mount on {target}",
             _libc.mount(encode(source), encode(target), encode(kind), ctypes.c_ulong(flags), None))


def own_network():
    """Gives this process network and mount namespaces of its own: as root, or as root of a user namespace of its own, which
    ordinary users may make on most machines. OSError where they may not."""
    try:
        unshare(NEWNET | NEWNS)
    except PermissionError:
        _own_users()
        unshare(NEWNET | NEWNS)
    mount(None, "/", flags=MS_REC | MS_PRIVATE)


def _own_users():
    """This process becomes root of a user namespace in which everything else belongs to nobody."""
    user, group = os.geteuid(), os.getegid()
    unshare(NEWUSER)
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def why_no_users():
    """The setting that keeps ordinary users from making user namespaces, or None."""
    for name, forbids in (("user/max_user_namespaces", "0"), ("kernel/unprivileged_userns_clone", "0"),
                          ("kernel/apparmor_restrict_unprivileged_userns", "1")):
        with contextlib.suppress(OSError), open(f"/proc/sys/{name}", encoding="ascii") as file:
            if file.read().strip() == forbids:
                return f"{name.replace('/', '.')} = {forbids}"
    return None


def show_processes():
    """Lets /proc show the process namespace. Where parts of /proc are hidden, as in containers, it must stay as it is: it shows
    the machine's processes then, with the machine's numbers."""
    with contextlib.suppress(PermissionError):
        mount("proc", "/proc", "proc")


def show_network(interfaces):
    """Lets /sys show the network namespace of this process. REQUIRES: a mount namespace of its own."""
    _libc.umount2(b"/sys", MNT_DETACH)  # refused to ordinary users, who mount over it
    try:
        mount("sysfs", "/sys", "sysfs")
    except PermissionError:  # parts of /sys are hidden: the names of interfaces are what programs look for in it
        mount("sys", "/sys", "tmpfs")
        for name in interfaces:
            os.makedirs(f"/sys/class/net/{name}")


def gather_packets(device):
    """Turns a virtual wire's receive offload on."""
    value = array.array("I", [ETHTOOL_SGRO, 1])
    request = struct.pack("16sP", device.encode(), value.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCETHTOOL, request)


def die_with_parent(signal):
    """The kernel sends this process the signal when the thread that forked it ends, however that happens."""
    _checked("prctl", _libc.prctl(PR_SET_PDEATHSIG, int(signal), 0, 0, 0))
