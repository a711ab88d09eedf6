"""Operations that are counted for the report, or shown as events in torch's profiler."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch.autograd import profiler

from outrigger.torch.counting import ASYNC, GroupCounts, Job, bytes_of, now_ns
from outrigger.torch.works import NO_TIMEOUT, MessageWork, QueuedWork, WorkQueue

_T = TypeVar("_T")


def _event(operation: str, tensors: list[Any]) -> Any:
    return profiler.record_function(f"outrigger:{operation} {bytes_of(tensors)} bytes")


def do_blocking(
    counts: GroupCounts | None, operation: str, tensors: list[Any], do: Callable[[Job], object], job: Job
) -> None:
    """Does an operation that is complete when do(job) returns."""
    if profiler._is_profiler_enabled:
        with _event(operation, tensors):
            do(job) if counts is None else counts.blocking(operation, tensors, do, job)
    elif counts is None:
        do(job)
    else:
        counts.blocking(operation, tensors, do, job)


class Watch:
    """Follows an asynchronous operation from its call to its completion."""

    __slots__ = ("_begun_ns", "_call_ns", "_counts", "_event_end", "_flight_ns", "_kind")

    def __init__(self, counts: GroupCounts | None, operation: str, tensors: list[Any], form: int = ASYNC) -> None:
        self._counts = counts
        self._event_end = _lasting_event(operation, tensors) if profiler._is_profiler_enabled else None
        self._flight_ns = -1
        self._call_ns = 0
        if counts is not None:
            self._begun_ns = now_ns()
            self._kind = counts.begin(form, operation, tensors)

    def post(self, call: Callable[..., _T], *arguments: Any) -> _T:
        """Starts the operation."""
        try:
            result = call(*arguments)
        except BaseException:
            self._posted(failed=True)
            raise
        self._posted()
        return result

    def _posted(self, failed: bool = False) -> None:
        if self._counts is not None:
            self._call_ns = self._counts.posted(self._kind, self._begun_ns)
        if failed:
            self.completed(failed=True)

    def completed(self, failed: bool) -> None:
        """The operation has ended."""
        if self._counts is not None and self._flight_ns < 0:
            self._flight_ns = now_ns() - self._begun_ns
            self._counts.completed(self._kind[0], self._flight_ns, failed)
        self._end_event()

    def _end_event(self) -> None:
        end, self._event_end = self._event_end, None
        if end is not None:
            end.set_result(None)

    def waited(self, begun_ns: int) -> None:
        """A wait() has returned."""
        counts = self._counts
        if counts is None:
            return
        if self._flight_ns < 0 or self._call_ns < 0:
            counts.waited_again(self._kind[0], begun_ns)
            return
        call_ns, self._call_ns = self._call_ns, -1
        counts.waited(self._kind[0], begun_ns, self._flight_ns, call_ns)

    def future_taken(self) -> None:
        """The program waits for a future."""
        if self._counts is not None:
            self._counts.future_taken(self._kind[0])


def _lasting_event(operation: str, tensors: list[Any]) -> Any:
    """An event that lasts until the returned future is set, by any thread."""
    event, end = _event(operation, tensors), torch.futures.Future()
    event.__enter__()
    event._call_end_callbacks_on_future(end)
    return end


class ObservedWork(QueuedWork):
    """As QueuedWork."""

    def __init__(self, tensors: list[Any], queue: WorkQueue, watch: Watch) -> None:
        super().__init__(tensors, queue)
        self._watch = watch
        self._has_future = False

    def finish(self, error: Exception | None = None) -> None:
        """The operation has ended."""
        self._watch.completed(error is not None)
        super().finish(error)

    def wait(self, timeout: timedelta = NO_TIMEOUT) -> bool:
        """Returns when the operation is complete; raises its error."""
        begun_ns = now_ns()
        try:
            return super().wait(timeout)
        finally:
            self._watch.waited(begun_ns)

    def get_future(self) -> Any:
        """A future with the output tensors."""
        if not self._has_future:
            self._has_future = True
            self._watch.future_taken()
        return super().get_future()


def start(
    queue: WorkQueue,
    job: Callable[[], None],
    outputs: list[Any],
    is_async: bool,
    counts: GroupCounts | None,
    operation: str,
    tensors: list[Any],
) -> QueuedWork:
    """Does an operation that is counted or profiled, or puts it into the queue."""
    if is_async:
        watch = Watch(counts, operation, tensors)
        observed = ObservedWork(outputs, queue, watch)
        watch.post(queue.put, job, observed)
        return observed
    work = QueuedWork(outputs, queue)

    def do(job: Job) -> None:
        work.place = queue.do(job)

    if counts is None or profiler._is_profiler_enabled:
        do_blocking(counts, operation, tensors, do, job)
    else:
        counts.blocking(operation, tensors, do, job)
    work.finish()
    return work


class ObservedMessage(MessageWork):
    """As MessageWork. Its completion is the first wait or test that sees it."""

    def __init__(self, watch: Watch, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._watch = watch

    def _take(self, result: int) -> None:
        super()._take(result)
        if self._ended.is_set():
            self._watch.completed(self._error is not None)

    def wait(self, timeout: timedelta = NO_TIMEOUT) -> bool:
        """Returns when the message has been sent or received; raises its error."""
        begun_ns = now_ns()
        try:
            return super().wait(timeout)
        finally:
            self._watch.waited(begun_ns)

    def get_future(self) -> Any:
        """A future with the tensors. A thread waits for it."""
        if self._future is None:
            self._watch.future_taken()
        return super().get_future()
