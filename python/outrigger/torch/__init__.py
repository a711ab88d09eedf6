"""Outrigger as a backend of torch.distributed, for tensors in CPU memory.

    import torch.distributed as dist
    import outrigger.torch  # not needed from torch 2.15 on

    dist.init_process_group("outrigger")

See docs/using/pytorch.md.
"""

from __future__ import annotations

from typing import Any

import torch.distributed as dist

from outrigger.torch.device_backend import DeviceBackend
from outrigger.torch.process_group import OutriggerProcessGroup

NAME = "outrigger"


def _create(options: Any, _backend_options: Any) -> OutriggerProcessGroup | DeviceBackend:
    group = OutriggerProcessGroup(
        options.store, options.group_rank, options.group_size, options.timeout,
        label=str(options.group_id), ranks=tuple(options.global_ranks_in_group),
    )  # fmt: skip
    return DeviceBackend(group) if _has_another_backend(options) else group


def _has_another_backend(options: Any) -> bool:
    """True for "cpu:outrigger,cuda:nccl": torch prefers the backend of a GPU as the group's default."""
    group = getattr(options, "process_group", None)
    return group is not None and group._get_backend_name() not in ("custom", "undefined")


def register() -> None:
    """Registers the backend, once. torch calls this by the entry point torch.distributed.backends."""
    if NAME.upper() not in dist.Backend._plugins:
        dist.Backend.register_backend(NAME, _create, extended_api=True, devices=["cpu"])


register()
