"""Namespaces of a cluster, and reasons that prevent them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from outrigger.cluster import kernel
from outrigger.errors import UserError

_NAMESPACES = kernel.CLONE_NEWNET | kernel.CLONE_NEWNS | kernel.CLONE_NEWPID | kernel.CLONE_NEWIPC


def _new_user_namespace() -> None:
    """User namespace in which this user may make networks and mounts under the same user id."""
    user, group = os.geteuid(), os.getegid()
    kernel.unshare(kernel.CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def _forbidding_settings() -> Iterator[str]:
    """System settings that forbid namespaces here."""
    for kind in ("user", "net", "pid", "mnt", "ipc", "uts"):
        with contextlib.suppress(OSError):
            if Path(f"/proc/sys/user/max_{kind}_namespaces").read_text().strip() == "0":
                yield f"sysctl user.max_{kind}_namespaces is 0: raise it"
    for name, bad in (("unprivileged_userns_clone", "0"), ("apparmor_restrict_unprivileged_userns", "1")):
        with contextlib.suppress(OSError):
            if Path("/proc/sys/kernel", name).read_text().strip() == bad:
                yield f"sysctl kernel.{name} is {bad}, which leaves them to root"
    if not Path("/proc/self/ns/user").exists():
        yield "the kernel has no user namespaces"


def _no_namespaces(error: OSError, settings: list[str]) -> str:
    settings = settings or [
        "be root, or allow this user to make user namespaces (in Docker: --cap-add SYS_ADMIN --cap-add NET_ADMIN "
        "--security-opt seccomp=unconfined --security-opt apparmor=unconfined)"
    ]
    return (
        f"a cluster needs namespaces; neither CAP_SYS_ADMIN nor a user namespace is available ({error.strerror}): "
        + "; ".join(settings)
    )


def make(*, unprivileged: bool = False) -> None:
    """Makes them for the calling process, by its privileges or in a user namespace."""
    if not unprivileged:
        try:
            kernel.unshare(_NAMESPACES)
            return
        except OSError:
            pass  # unless only the privilege is missing, a user namespace would fail, too
    settings = list(_forbidding_settings())  # a user namespace has its own
    try:
        _new_user_namespace()
        kernel.unshare(_NAMESPACES)
    except OSError as error:
        raise UserError(_no_namespaces(error, settings)) from None


def mount_own_proc() -> None:
    """Mounts /proc of the calling process's namespace."""
    try:
        kernel.mount("proc", "/proc", "proc")
    except PermissionError:
        raise UserError(
            "hosts need a /proc of their own, and a container that hides parts of /proc forbids it; "
            "start the container with --security-opt systempaths=unconfined, or with --privileged"
        ) from None
