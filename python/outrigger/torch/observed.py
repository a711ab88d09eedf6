"""Operations that are counted for the report, traced, or shown as events in torch's profiler."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import torch
from torch.autograd import profiler

from outrigger.torch.counting import ASYNC, MESSAGE, Blocked, GroupCounts, Job, blocked_here, bytes_of, now_ns
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

    __slots__ = (
        "_begun_ns", "_blocked", "_blocked_before_ns", "_counts", "_event_end", "_flight_ns", "_hidden_ns",
        "_is_waited", "_kind", "_message", "_operation", "_recorded", "_request",
    )  # fmt: skip

    def __init__(
        self, counts: GroupCounts | None, operation: str, tensors: list[Any], message: tuple[int, int] | None = None
    ) -> None:
        """`message`: the other rank in the group, or ANY_PEER, and the tag."""
        self._message = message
        self._operation = operation
        self._counts = counts
        self._event_end = _lasting_event(operation, tensors) if profiler._is_profiler_enabled else None
        self._flight_ns = -1
        self._is_waited = False
        if counts is not None:
            self._begun_ns = now_ns()
            self._kind = counts.begin(ASYNC if message is None else MESSAGE, operation, tensors)
            self._request = counts.request()
            self._recorded = (
                0 if message is None else counts.message_begins(self._kind, self._begun_ns, self._request, message)
            )
            self._blocked = blocked_here()
            self._blocked_before_ns = self._blocked.until(self._begun_ns)

    def post(self, call: Callable[..., _T], *arguments: Any) -> _T:
        """Starts the operation."""
        try:
            return call(*arguments) if self._counts is None else self._post(self._counts, call, *arguments)
        except BaseException:
            self.completed(failed=True)
            raise

    def _post(self, counts: GroupCounts, call: Callable[..., _T], *arguments: Any) -> _T:
        outer = self._blocked.enter(self._begun_ns)
        try:
            return call(*arguments)
        finally:
            ended_ns = now_ns()
            self._blocked.leave(outer, self._begun_ns, ended_ns)
            counts.posted(self._kind, self._begun_ns, ended_ns, self._request)

    def shown(self, job: Job) -> Job:
        """The job, which shows that it is being done."""
        if self._counts is None:
            return job
        return partial(self._counts.execute_posted, self._operation, self._kind, self._request, job)

    def completed(self, failed: bool) -> None:
        """The operation has ended."""
        if self._counts is not None and self._flight_ns < 0:
            ended_ns = now_ns()
            flight_ns = ended_ns - self._begun_ns
            self._hidden_ns = flight_ns - (self._blocked.until(ended_ns) - self._blocked_before_ns)
            self._flight_ns = flight_ns
            self._counts.completed(self._kind[0], flight_ns, failed)
            self._counts.message_ended(self._recorded, ended_ns, failed=failed)
        self._end_event()

    def _end_event(self) -> None:
        end, self._event_end = self._event_end, None
        if end is not None:
            end.set_result(None)

    def wait(self, wait: Callable[[timedelta], bool], timeout: timedelta) -> bool:
        """Does wait(timeout) of the operation."""
        counts = self._counts
        if counts is None:
            return wait(timeout)
        begun_ns, blocked = now_ns(), blocked_here()
        outer = blocked.enter(begun_ns)
        event = counts.wait_begins(self._kind, begun_ns, self._request)
        try:
            return wait(timeout) if self._flight_ns >= 0 else self._wait(counts, wait, timeout)
        finally:
            ended_ns = now_ns()
            blocked.leave(outer, begun_ns, ended_ns)
            counts.blocked(self._kind[0], begun_ns, ended_ns, event)
            if self._flight_ns >= 0 and not self._is_waited:
                self._is_waited = True
                counts.waited(self._kind[0], self._flight_ns, self._hidden_from(blocked, begun_ns))

    def _wait(self, counts: GroupCounts, wait: Callable[[timedelta], bool], timeout: timedelta) -> bool:
        """Shows that the thread waits."""
        if self._message is None:
            counts.enter_wait(1)
            try:
                return wait(timeout)
            finally:
                counts.enter_wait(-1)
        at = counts.enter_message(self._kind[0], *self._message)
        try:
            return wait(timeout)
        finally:
            counts.leave_message(at)

    def _hidden_from(self, blocked: Blocked, begun_ns: int) -> int:
        """Part of the flight that blocked neither the calling thread nor this one, which waited since then."""
        hidden_ns = self._hidden_ns
        if blocked is not self._blocked:
            hidden_ns -= max(0, self._begun_ns + self._flight_ns - begun_ns)
        return max(0, hidden_ns)

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
        return self._watch.wait(super().wait, timeout)

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
        watch.post(queue.put, watch.shown(job), observed)
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
        return self._watch.wait(super().wait, timeout)

    def get_future(self) -> Any:
        """A future with the tensors. A thread waits for it."""
        if self._future is None:
            self._watch.future_taken()
        return super().get_future()
