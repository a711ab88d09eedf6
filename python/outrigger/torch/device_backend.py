"""Outrigger as one of several backends of a group, as in "cpu:outrigger,cuda:nccl"."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from torch._C._distributed_c10d import Backend

from outrigger.torch.process_group import OutriggerProcessGroup

_OPERATIONS = (
    "broadcast", "allreduce", "allreduce_coalesced", "reduce", "allgather", "allgather_coalesced", "_allgather_base",
    "allgather_into_tensor_coalesced", "all_gather_single", "all_gather_single_coalesced", "gather", "scatter",
    "reduce_scatter", "_reduce_scatter_base", "reduce_scatter_tensor_coalesced", "reduce_scatter_single",
    "reduce_scatter_single_coalesced", "alltoall", "alltoall_base", "all_to_all_single", "barrier", "send", "recv",
    "_set_sequence_number_for_group", "_get_sequence_number_for_group", "set_timeout",
)  # fmt: skip


class DeviceBackend(Backend):  # type: ignore[misc]
    """The backend that torch's own process group calls for tensors in CPU memory.

    torch has such a group only where devices have different backends. Else the group is an OutriggerProcessGroup.
    """

    def __init__(self, group: OutriggerProcessGroup) -> None:
        super().__init__(group.rank(), group.size())
        self._group = group
        _LIVE.add(self)

    def name(self) -> str:
        """The name that dist.get_backend() returns."""
        return self._group.name()

    getBackendName = name  # noqa: N815

    def abort(self) -> None:
        """Ends all calls of this group on all ranks with an error, and frees it."""
        _LIVE.discard(self)
        self._group.abort()

    def shutdown(self) -> None:
        """Does what is queued, and frees the group."""
        _LIVE.discard(self)
        self._group.shutdown()

    def recv_anysource(self, _tensors: list[Any], _tag: int) -> None:
        """torch's wrapper of a Work has no source rank."""
        raise RuntimeError(
            "Outrigger: recv() needs a source rank in a group with backends of several devices; make a group for it by "
            'dist.new_group(backend="outrigger")'
        )

    def monitored_barrier(self, opts: Any, wait_all_ranks: bool = False) -> None:
        """The timeout comes in the options, where it is negative if none was given."""
        timeout = opts.timeout if opts.timeout > timedelta() else None
        self._group.monitored_barrier(timeout, wait_all_ranks)


# torch's group does not keep the Python object of a backend.
_LIVE: set[DeviceBackend] = set()


def _forwarded(name: str) -> Callable[..., Any]:
    def forward(self: DeviceBackend, *arguments: Any) -> Any:
        return getattr(self._group, name)(*arguments)

    return forward


for _name in _OPERATIONS:
    setattr(DeviceBackend, _name, _forwarded(_name))
for _name in dir(Backend):
    if _name.startswith("supports_"):  # torch's own properties call themselves in a Python backend
        setattr(DeviceBackend, _name, property(lambda _self: False))
