"""The process group that torch.distributed gets for the backend "outrigger"."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Backend
from torch.autograd import profiler

from outrigger import torch_layout
from outrigger.cores import parse_cpu_list
from outrigger.errors import UserError
from outrigger.settings import SERVICE_CPUS
from outrigger.torch import buffers, counting, library, observed
from outrigger.torch.buffers import Buffer
from outrigger.torch.meeting import meet
from outrigger.torch.works import NO_TIMEOUT, MessageWork, OwnProcess, QueuedWork, WorkQueue, milliseconds

_OPERATIONS = {
    int(dist.ReduceOp.SUM): 1,
    int(dist.ReduceOp.PRODUCT): 2,
    int(dist.ReduceOp.MIN): 3,
    int(dist.ReduceOp.MAX): 4,
    int(dist.ReduceOp.BAND): 5,
    int(dist.ReduceOp.BOR): 6,
    int(dist.ReduceOp.BXOR): 7,
    int(dist.ReduceOp.AVG): 8,
}
_SUM = 1
_DistError = getattr(dist, "DistBackendError", RuntimeError)


class _Backend(Backend):  # type: ignore[misc]
    def name(self) -> str:
        return "outrigger"

    getBackendName = name  # noqa: N815


def _operation(op: Any) -> tuple[int, float | None]:
    """The library's operation, and the factor of contributions for PREMUL_SUM."""
    kind = op.op
    known = _OPERATIONS.get(int(kind))
    if known is not None:
        return known, None
    if kind == dist.ReduceOp.PREMUL_SUM:
        factor = op.__getstate__()[1]
        return _SUM, float(factor)
    raise RuntimeError(f"Outrigger has no reduction {kind}")


def _check_factor(factor: float | None, tensor: Any) -> None:
    """Raises an error for integers: their products with a factor are of another type."""
    if factor is not None and not tensor.dtype.is_floating_point:
        raise RuntimeError(f"Outrigger cannot reduce tensors of {tensor.dtype} by PREMUL_SUM; it is for floating point")


def _call(job: Callable[[], None]) -> None:
    job()


def _single(tensors: Sequence[Any], what: str) -> Any:
    if len(tensors) != 1:
        raise RuntimeError(f"{what}: {len(tensors)} tensors were given, one is expected")
    return tensors[0]


def _one_list(outputs: list[list[Any]]) -> list[Any]:
    """The result of a call as of gloo's: without an outer list of one list."""
    return outputs[0] if len(outputs) == 1 else outputs


def _service_cpus() -> set[int]:
    """Those of this environment, which need not be the first rank's."""
    with contextlib.suppress(UserError):
        return set(parse_cpu_list(os.environ.get(SERVICE_CPUS, "")))
    return set()


def _word() -> Any:
    return torch.zeros(1, device="cpu")


class OutriggerProcessGroup(dist.ProcessGroup):  # type: ignore[misc]
    """Collectives and messages through shared memory, and between machines.

    A call with async_op=False is done by the calling thread. Others are done by a thread of the group, in the order of
    the calls. If the group has a service process, the thread hands them to it and sleeps.
    """

    _handle: int | None = None

    def __init__(
        self, store: Any, rank: int, size: int, timeout: timedelta, *, label: str = "", ranks: tuple[int, ...] = ()
    ) -> None:
        """`label` and `ranks`, those of the job, are for the report."""
        super().__init__(rank, size)
        # torch keeps the group's name, its device types and its hooks in a registered backend.
        self._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.CUSTOM, _Backend(rank, size))
        self._set_default_backend(dist.ProcessGroup.BackendType.CUSTOM)
        self._rank = rank
        self._size = size
        self._process = OwnProcess()
        self._timeout_ms = milliseconds(timeout)
        self._set_timeout_ms = self._timeout_ms
        self._library = library.load()
        self._functions = self._library.functions
        self._queue = WorkQueue("outrigger group", self._process)
        self._messages: set[MessageWork] = set()
        # Also of the handle, which messages use outside the queue.
        self._messages_lock = threading.Lock()
        self._calls = 0
        self._monitored_barriers = 0
        name, own_store, compared = meet(store, rank, size, timeout, counting.clock_to_compare(rank))
        # None: no report, no trace and no live data are wanted.
        self._counts = counting.for_group(name, label, rank, size, ranks)
        try:
            self._handle = self._library.create(own_store, rank, size, self._timeout_ms)
        except library.GroupError as error:
            raise self._raised(error) from error.__cause__
        finally:
            if self._handle is None and self._counts is not None:
                self._counts.ended()
        self._has_service = bool(self._library.function("prefer_service")(self._handle, False))
        if self._has_service:
            self._queue.more_cpus = _service_cpus()
            if self._counts is not None:
                self._counts.served_by(self._library.function("service_process")(self._handle))
        if compared and self._counts is not None:
            self._counts.compare_clocks(self._message, rank, compared)

    # --- what torch asks ---

    def getBackendName(self) -> str:  # noqa: N802
        """The name that dist.get_backend() returns."""
        return "outrigger"

    def _get_backend_name(self) -> str:
        return "outrigger"

    def name(self) -> str:
        """As getBackendName()."""
        return "outrigger"

    def rank(self) -> int:
        """This process's rank in the group."""
        return self._rank

    def size(self) -> int:
        """The number of processes."""
        return self._size

    def getRank(self) -> int:  # noqa: N802
        """As rank()."""
        return self._rank

    def getSize(self) -> int:  # noqa: N802
        """As size()."""
        return self._size

    def _get_backend(self, _device: Any) -> OutriggerProcessGroup:
        return self

    get_backend = _get_backend

    @property
    def supports_coalescing(self) -> bool:
        """False: each message of batch_isend_irecv() is a call of its own."""
        return False

    @property
    def supports_splitting(self) -> bool:
        """False: new groups meet by the store."""
        return False

    def _set_sequence_number_for_group(self) -> None:
        self._calls = 0

    def _get_sequence_number_for_group(self) -> int:
        return self._calls

    def set_timeout(self, timeout: timedelta) -> None:
        """For the calls that follow."""
        self._timeout_ms = milliseconds(timeout)

    _set_default_timeout = set_timeout

    # --- how calls are done ---

    @staticmethod
    def _raised(error: library.GroupError) -> Exception:
        return _DistError(f"Outrigger: {error}")

    def _call(self, name: str, *arguments: Any) -> None:
        """Calls a function of the library, in the queue's turn."""
        try:
            self._library.check(self._functions[name](self._live_handle(), *arguments))
        except library.GroupError as error:
            raise self._raised(error) from None

    def _live_handle(self) -> int:
        if self._handle is None:
            raise RuntimeError("the process group has been destroyed")
        return self._handle

    def _do(
        self, operation: str, tensors: list[Any], opts: Any, outputs: list[Any], job: Callable[[], None]
    ) -> QueuedWork:
        """Does an operation now, or puts it into the queue. `tensors`: this rank's part, for the report."""
        self._process.check()
        self._calls += 1
        timeout: timedelta | None = getattr(opts, "timeout", None)
        limit = self._timeout_ms if timeout is None or timeout <= NO_TIMEOUT else milliseconds(timeout)
        is_async: bool = getattr(opts, "asyncOp", True)

        def with_timeout() -> None:
            if limit != self._set_timeout_ms:
                self._library.function("set_timeout")(self._live_handle(), limit)
                self._set_timeout_ms = limit
            if self._has_service:
                self._library.function("prefer_service")(self._live_handle(), is_async)
            job()

        if self._counts is not None or profiler._is_profiler_enabled:
            return observed.start(self._queue, with_timeout, outputs, is_async, self._counts, operation, tensors)
        if not is_async:
            return QueuedWork(outputs, self._queue, self._queue.do(with_timeout))
        work = QueuedWork(outputs, self._queue)
        self._queue.put(with_timeout, work)
        return work

    # --- collectives ---

    def broadcast(self, tensors: list[Any], opts: Any) -> QueuedWork:
        """The root's tensor to all."""
        tensor, root = _single(tensors, "broadcast"), opts.rootRank
        buffers.check(tensor)

        def job() -> None:
            buffer = Buffer(tensor, fill=self._rank == root)
            self._call("broadcast", buffer.address, buffer.bytes, root)
            if self._rank != root:
                buffer.finish()

        return self._do("broadcast", tensors, opts, tensors, job)

    def allreduce(self, tensors: list[Any], opts: Any = None) -> QueuedWork:
        """Reduces each tensor in place."""
        opts = opts or dist.AllreduceOptions()
        operation, factor = _operation(opts.reduceOp)
        typed = []
        for tensor in tensors:
            if tensor.is_sparse:
                return self._allreduce_sparse(tensors, operation if factor is None else None, opts)
            buffers.check(tensor)
            typed.append((tensor, buffers.type_of(tensor)))
            if factor is not None:
                _check_factor(factor, tensor)

        def job() -> None:
            for tensor, kind in typed:
                buffer = Buffer(tensor)
                if factor is not None:
                    buffer.flat.detach().mul_(factor)
                address = buffer.address
                self._call("all_reduce", address, address, tensor.numel(), kind, operation)
                buffer.finish()

        return self._do("all_reduce", tensors, opts, tensors, job)

    allreduce_coalesced = allreduce

    def _allreduce_sparse(self, tensors: list[Any], operation: int | None, opts: Any) -> QueuedWork:
        tensor = _single(tensors, "all_reduce of a sparse tensor")
        if tensor.device.type != "cpu" or operation != _SUM:
            raise RuntimeError("Outrigger reduces sparse tensors in CPU memory, and only by SUM")

        def job() -> None:
            own = tensor.detach().coalesce()
            kind = zlib.crc32(repr((tuple(own.shape), own.sparse_dim(), own.dtype)).encode())
            every = torch.zeros(self._size, 2, dtype=torch.int64, device="cpu")
            self._gather_all(list(every), torch.tensor([own._nnz(), kind], device="cpu"))
            counts, kinds = every.t().tolist()
            if len(set(kinds)) != 1:
                raise RuntimeError(
                    "Outrigger: sparse tensors of all_reduce differ between ranks in their shapes or types"
                )
            indices, values = (self._gathered_rows(rows, counts) for rows in (own.indices().t(), own.values()))
            with torch.no_grad():  # what detach() returns has indices of its own
                tensor.copy_(torch.sparse_coo_tensor(indices.t(), values, own.shape, device="cpu").coalesce())

        return self._do("all_reduce", tensors, opts, tensors, job)

    def _gathered_rows(self, own: Any, counts: list[int]) -> Any:
        """The rows of all ranks in a row."""
        every = own.new_empty((sum(counts), *own.shape[1:]))
        self._gather_all(list(every.split(counts)), own)
        return every

    def reduce(self, tensors: list[Any], opts: Any) -> QueuedWork:
        """Reduces into the root's tensor."""
        tensor, root = _single(tensors, "reduce"), opts.rootRank
        operation, factor = _operation(opts.reduceOp)
        kind = buffers.type_of(tensor)
        buffers.check(tensor)
        _check_factor(factor, tensor)

        def job() -> None:
            buffer = Buffer(tensor)
            contribution = buffer.flat if factor is None else buffer.flat.detach() * factor
            into = buffer.address if self._rank == root else None
            self._call("reduce", contribution.data_ptr(), into, contribution.numel(), kind, operation, root)
            if self._rank == root:
                buffer.finish()

        return self._do("reduce", tensors, opts, tensors, job)

    def allgather(self, outputs: list[list[Any]], inputs: list[Any], opts: Any = None) -> QueuedWork:
        """Each rank's tensor to all. The tensors may differ in length, as all ranks know all lengths."""
        if len(outputs) != len(inputs):
            raise ValueError(f"all_gather: {len(inputs)} inputs have {len(outputs)} lists of outputs")
        return self._gather_lists(outputs, inputs, opts, _one_list(outputs))

    def _gather_lists(self, outputs: list[list[Any]], inputs: list[Any], opts: Any, result: list[Any]) -> QueuedWork:
        for into, tensor in zip(outputs, inputs, strict=True):
            self._check_gathered(into, tensor)

        def job() -> None:
            for into, tensor in zip(outputs, inputs, strict=True):
                self._gather_all(into, tensor)

        return self._do("all_gather", inputs, opts, result, job)

    def allgather_coalesced(self, outputs: list[list[Any]], inputs: list[Any], opts: Any = None) -> QueuedWork:
        """As allgather(), but a list for each rank has its tensors."""
        if len(outputs) != self._size or any(len(ones) != len(inputs) for ones in outputs):
            raise ValueError(f"all_gather_coalesced: expected {self._size} lists of {len(inputs)} outputs")
        lists = [list(ones) for ones in zip(*outputs, strict=True)]
        return self._gather_lists(lists, inputs, opts, outputs)

    def _check_gathered(self, outputs: list[Any], tensor: Any) -> None:
        if len(outputs) != self._size:
            raise ValueError(f"all_gather: {len(outputs)} outputs were given for {self._size} ranks")
        for one in [tensor, *outputs]:
            buffers.check(one)
            if one.dtype != tensor.dtype:
                raise ValueError(f"all_gather: the input is of {tensor.dtype}, and an output of {one.dtype}")
        if outputs[self._rank].numel() != tensor.numel():
            raise ValueError(
                f"all_gather: the input has {tensor.numel()} elements, and the own output {outputs[self._rank].numel()}"
            )

    def _gather_all(self, outputs: list[Any], tensor: Any) -> None:
        own = Buffer(tensor)
        into = [Buffer(one, fill=False) for one in outputs]
        for buffer in into:
            own.apart_from(buffer)
        blocks = library.irregular([one.address for one in into], [one.bytes for one in into])
        self._call("all_gather", own.address, own.bytes, blocks)
        for buffer in into:
            buffer.finish()

    def _allgather_base(self, output: Any, tensor: Any, opts: Any = None) -> QueuedWork:
        """Each rank's tensor to a part of one tensor."""
        return self.allgather_into_tensor_coalesced([output], [tensor], opts)

    all_gather_single = _allgather_base

    def allgather_into_tensor_coalesced(self, outputs: list[Any], inputs: list[Any], opts: Any = None) -> QueuedWork:
        """As _allgather_base, for several tensors."""
        for output, tensor in zip(outputs, inputs, strict=True):
            self._check_parts("all_gather_into_tensor", ("output", output), ("input", tensor))

        def job() -> None:
            for output, tensor in zip(outputs, inputs, strict=True):
                own, into = Buffer(tensor), Buffer(output, fill=False)
                if own.address != into.address + self._rank * own.bytes:
                    own.apart_from(into)
                self._call("all_gather", own.address, own.bytes, library.regular(into.address, own.bytes))
                into.finish()

        return self._do("all_gather_into_tensor", inputs, opts, outputs, job)

    all_gather_single_coalesced = allgather_into_tensor_coalesced

    def _check_parts(self, call: str, whole: tuple[str, Any], part: tuple[str, Any]) -> None:
        """Raises an error unless one tensor has as much as each rank's together. Each comes with its name."""
        (name, long), (other, short) = whole, part
        buffers.check(long)
        buffers.check(short)
        if long.dtype != short.dtype or long.numel() != short.numel() * self._size:
            raise ValueError(
                f"{call}: the {name} has {long.numel()} elements of {long.dtype}, the {other} "
                f"{short.numel()} of {short.dtype}, and there are {self._size} ranks"
            )

    def gather(self, outputs: list[list[Any]], inputs: list[Any], opts: Any) -> QueuedWork:
        """Each rank's tensor to the root."""
        tensor, root = _single(inputs, "gather"), opts.rootRank
        tensors = _single(outputs, "gather") if self._rank == root else []
        self._check_blocks("gather", tensors, tensor, self._rank == root)

        def job() -> None:
            own = Buffer(tensor)
            into = [Buffer(one, fill=False) for one in tensors]
            for buffer in into:
                own.apart_from(buffer)
            blocks = library.irregular([one.address for one in into], [one.bytes for one in into])
            self._call("gather", own.address, own.bytes, blocks, root)
            for buffer in into:
                buffer.finish()

        return self._do("gather", inputs, opts, _one_list(outputs), job)

    def scatter(self, outputs: list[Any], inputs: list[list[Any]], opts: Any) -> QueuedWork:
        """One of the root's tensors to each rank."""
        tensor, root = _single(outputs, "scatter"), opts.rootRank
        tensors = _single(inputs, "scatter") if self._rank == root else []
        self._check_blocks("scatter", tensors, tensor, self._rank == root)

        def job() -> None:
            into = Buffer(tensor, fill=False)
            blocks = [Buffer(one) for one in tensors]
            for buffer in blocks:
                buffer.apart_from(into)
            given = library.irregular([one.address for one in blocks], [one.bytes for one in blocks])
            self._call("scatter", given, into.address, into.bytes, root)
            into.finish()

        return self._do("scatter", outputs, opts, outputs, job)

    def _check_blocks(self, what: str, tensors: list[Any], own: Any, is_root: bool) -> None:
        buffers.check(own)
        if is_root and len(tensors) != self._size:
            raise ValueError(f"{what}: the root has {len(tensors)} tensors for {self._size} ranks")
        for one in tensors:
            buffers.check(one)
            if one.dtype != own.dtype or one.numel() != own.numel():
                raise ValueError(f"{what}: the root's tensors must have the type and the length of each rank's")

    def reduce_scatter(self, outputs: list[Any], inputs: list[list[Any]], opts: Any) -> QueuedWork:
        """Reduces a list of tensors, one for each rank; they may differ in length."""
        output, tensors = _single(outputs, "reduce_scatter"), _single(inputs, "reduce_scatter")
        if len(tensors) != self._size or tensors[self._rank].numel() != output.numel():
            raise ValueError(
                "reduce_scatter: one input for each rank is expected, and the own one as long as the output"
            )
        for tensor in [output, *tensors]:
            buffers.check(tensor)
            if tensor.dtype != output.dtype:
                raise ValueError("reduce_scatter: all tensors must have one type")
        counts = library.counts([one.numel() for one in tensors])
        return self._scatter_reduced(
            "reduce_scatter",
            tensors,
            [output],
            lambda: [torch.cat([one.detach().reshape(-1) for one in tensors])],
            [counts],
            opts,
        )

    def _reduce_scatter_base(self, output: Any, tensor: Any, opts: Any) -> QueuedWork:
        """Reduces one tensor, of which each rank gets a part."""
        return self.reduce_scatter_tensor_coalesced([output], [tensor], opts)

    reduce_scatter_single = _reduce_scatter_base

    def reduce_scatter_tensor_coalesced(self, outputs: list[Any], inputs: list[Any], opts: Any) -> QueuedWork:
        """As _reduce_scatter_base, for several tensors."""
        for output, tensor in zip(outputs, inputs, strict=True):
            self._check_parts("reduce_scatter_tensor", ("input", tensor), ("output", output))
        counts = [library.equal_counts(one.numel(), self._size) for one in outputs]
        return self._scatter_reduced("reduce_scatter_tensor", inputs, outputs, lambda: inputs, counts, opts)

    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced

    def _scatter_reduced(
        self,
        name: str,
        tensors: list[Any],
        outputs: list[Any],
        inputs: Callable[[], list[Any]],
        counts: list[Any],
        opts: Any,
    ) -> QueuedWork:
        operation, factor = _operation(opts.reduceOp)
        types = [buffers.type_of(output) for output in outputs]
        for output in outputs:
            _check_factor(factor, output)

        def job() -> None:
            for output, tensor, kind, elements in zip(outputs, inputs(), types, counts, strict=True):
                own, into = Buffer(tensor if factor is None else tensor.detach() * factor), Buffer(output, False)
                if own.address != into.address:
                    own.apart_from(into)
                self._call("reduce_scatter", own.address, into.address, elements, kind, operation)
                into.finish()

        return self._do(name, tensors, opts, outputs, job)

    def alltoall(self, outputs: list[Any], inputs: list[Any], opts: Any = None) -> QueuedWork:
        """A tensor from each rank to each rank, of any lengths."""
        for tensor in [*outputs, *inputs]:
            buffers.check(tensor)
        if len(outputs) != self._size or len(inputs) != self._size:
            raise ValueError(f"all_to_all: {len(inputs)} inputs and {len(outputs)} outputs for {self._size} ranks")

        def job() -> None:
            own, into = [Buffer(one) for one in inputs], [Buffer(one, fill=False) for one in outputs]
            for one in own:
                for other in into:
                    one.apart_from(other)
            given = library.irregular([one.address for one in own], [one.bytes for one in own])
            taken = library.irregular([one.address for one in into], [one.bytes for one in into])
            self._call("all_to_allv", given, taken)
            for buffer in into:
                buffer.finish()

        return self._do("all_to_all", inputs, opts, outputs, job)

    def alltoall_base(
        self, output: Any, tensor: Any, output_splits: list[int], input_splits: list[int], opts: Any = None
    ) -> QueuedWork:
        """A part of one tensor to each rank, and from each rank to a part of another."""
        buffers.check(output)
        buffers.check(tensor)
        taken, given = self._split(output, output_splits), self._split(tensor, input_splits)

        def job() -> None:
            own, into = Buffer(tensor), Buffer(output, fill=False)
            own.apart_from(into)
            # Other ranks may have splits, so equal parts are no other call.
            self._call("all_to_allv", given(own.address), taken(into.address))
            into.finish()

        return self._do("all_to_all_single", [tensor], opts, [output], job)

    all_to_all_single = alltoall_base

    def _split(self, tensor: Any, splits: list[int]) -> Callable[[int], library.Blocks]:
        """Each rank's part, by the address of the first one."""
        rows = tensor.shape[0] if tensor.dim() else 1
        if not splits and rows % self._size == 0:
            return lambda address: library.regular(address, tensor.nbytes // self._size)
        if len(splits) != self._size or sum(splits) != rows:
            raise ValueError(f"all_to_all_single: {rows} rows cannot be split as {splits} for {self._size} ranks")
        row = tensor.nbytes // rows if rows else 0
        return lambda address: _parts(address, [split * row for split in splits])

    def barrier(self, opts: Any = None) -> QueuedWork:
        """Returns when all ranks have come."""
        return self._do("barrier", [], opts, [], lambda: self._call("barrier"))

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """A barrier whose error names the ranks that have not come."""

        def job() -> None:
            self._do_monitored_barrier(timeout, wait_all_ranks)

        observed.do_blocking(self._counts, "monitored_barrier", [], _call, job)

    def _do_monitored_barrier(self, timeout: timedelta | None, wait_all_ranks: bool) -> None:
        limit_ms = self._timeout_ms if timeout is None else milliseconds(timeout)
        # Tags of programs are not negative. Messages of a barrier that has failed must not count for the next one.
        self._monitored_barriers += 1
        arrived, released = -2 * self._monitored_barriers, -2 * self._monitored_barriers + 1
        if self._rank == 0:
            self._await_arrivals(arrived, limit_ms, wait_all_ranks)
            for rank in range(1, self._size):
                self._message("isend", _word(), rank, released).wait()
            return
        try:
            self._message("isend", _word(), 0, arrived).wait(timedelta(milliseconds=limit_ms))
            self._message("irecv", _word(), 0, released).wait(timedelta(milliseconds=limit_ms))
        except Exception as error:
            raise RuntimeError(f"rank {self._rank} failed to pass monitored_barrier in {limit_ms} ms") from error

    def _await_arrivals(self, tag: int, limit_ms: int, wait_all_ranks: bool) -> None:
        end = time.monotonic() + limit_ms / 1000
        arrivals = {rank: self._message("irecv", _word(), rank, tag) for rank in range(1, self._size)}
        missing = []
        try:
            for rank, arrival in arrivals.items():
                try:
                    arrival.wait(timedelta(seconds=max(0.001, end - time.monotonic())))
                except RuntimeError:
                    if not arrival.is_late:
                        raise
                    missing.append(rank)
                    if not wait_all_ranks:
                        break
        finally:
            for arrival in arrivals.values():
                arrival.cancel()
        if missing:
            names = ", ".join(map(str, missing))
            some = "rank" if len(missing) == 1 else "ranks"
            raise RuntimeError(f"{some} {names} failed to pass monitored_barrier in {limit_ms} ms")

    # --- messages ---

    def send(self, tensors: list[Any], rank: int, tag: int) -> MessageWork:
        """Begins to send a tensor."""
        return self._post("isend", _single(tensors, "send"), rank, tag)

    def recv(self, tensors: list[Any], rank: int, tag: int) -> MessageWork:
        """Begins to receive a tensor."""
        return self._post("irecv", _single(tensors, "recv"), rank, tag)

    def recv_anysource(self, tensors: list[Any], tag: int) -> MessageWork:
        """Begins to receive a tensor of any rank."""
        return self._post("irecv", _single(tensors, "recv"), library.ANY_RANK, tag)

    recvAnysource = recv_anysource  # noqa: N815

    def _post(self, function: str, tensor: Any, rank: int, tag: int) -> MessageWork:
        if self._counts is None and not profiler._is_profiler_enabled:
            return self._message(function, tensor, rank, tag)
        peer = torch_layout.ANY_PEER if rank == library.ANY_RANK else rank
        watch = observed.Watch(self._counts, function[1:], [tensor], (peer, tag))
        make = functools.partial(observed.ObservedMessage, watch)
        return watch.post(self._message, function, tensor, rank, tag, make)

    def _message(
        self, function: str, tensor: Any, rank: int, tag: int, make: Callable[..., MessageWork] = MessageWork
    ) -> MessageWork:
        is_send = function == "isend"
        self._process.check()
        buffers.check(tensor)
        buffer = Buffer(tensor, fill=is_send)
        request = ctypes.c_void_p()
        finish = (lambda: None) if is_send else buffer.finish
        with self._messages_lock:
            self._call(function, buffer.address, buffer.bytes, rank, tag, ctypes.byref(request))
            assert request.value is not None
            forget = self._messages.discard
            tensors = [tensor, buffer.flat]
            work = make(request.value, tensors, finish, self._raised, self._timeout_ms, self, forget, self._process)
            # One that the program drops is kept until it has ended: its bytes still move.
            for one in list(self._messages):
                one.is_completed()
            self._messages.add(work)
        return work

    # --- the end ---

    def abort(self) -> None:
        """Ends all calls of this group on all ranks with an error, and frees it."""
        if not self._process.is_this():
            return
        self._interrupt()
        self.shutdown()

    def _interrupt(self) -> None:
        with self._messages_lock:
            if self._handle is not None:
                self._library.function("abort")(self._handle)

    def shutdown(self) -> None:
        """Does what is queued, and frees the group. Messages that have not moved are cancelled.

        A blocking operation of another thread ends with an error. In a forked child this does nothing.
        """
        if not self._process.is_this():
            return
        self._queue.close(self._interrupt)
        with self._messages_lock:
            for message in list(self._messages):
                message.cancel()
            handle, self._handle = self._handle, None
        if handle is not None:
            self._library.function("destroy")(handle)
            if self._counts is not None:
                self._counts.ended()

    def __del__(self, _is_finalizing: Any = sys.is_finalizing, _process: Any = os.getpid) -> None:
        """Frees a group that the program has dropped, but not one of a process that has forked.

        Python may call this in any thread, with any lock. So the queue's thread does it, and nothing waits for it.
        """
        if self._handle is None or _is_finalizing() or self._process.number != _process():
            return
        handle, self._handle = self._handle, None
        messages = list(self._messages)
        destroy = self._library.function("destroy")

        def free() -> None:
            for message in messages:
                message.cancel()
            destroy(handle)

        self._queue.end_by(free)


def _parts(address: int, lengths: list[int]) -> library.Blocks:
    """Blocks in a row."""
    addresses = []
    for length in lengths:
        addresses.append(address)
        address += length
    return library.irregular(addresses, lengths)
