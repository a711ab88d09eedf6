"""Objects on which torch waits: operations of a group's queue, and messages."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
from torch._C._distributed_c10d import Work

from outrigger.torch import library

NO_TIMEOUT = timedelta()
# The time that cancel() of a message waits at most for a thread that waits for the message.
_SLICE_MS = 100


def milliseconds(timeout: timedelta) -> int:
    """At least one."""
    return max(1, int(timeout.total_seconds() * 1000))


class OwnProcess:
    """The process that makes this. A child that it forks has neither the group's threads nor its memory."""

    def __init__(self) -> None:
        self.number = os.getpid()

    def is_this(self) -> bool:
        """False in a child."""
        return os.getpid() == self.number

    def check(self) -> None:
        """Before any lock: a thread that the child has not may have it."""
        if not self.is_this():
            raise RuntimeError(
                f"this process was forked from process {self.number}, whose Outrigger process group it cannot use"
            )


class _PlacedFuture(torch.futures.Future):  # type: ignore[misc]
    """A future of a work. A callback that is added after later operations has a place behind these."""

    def __init__(self, work: QueuedWork) -> None:
        super().__init__()
        self._work = work

    def then(self, callback: Callable[[Any], Any]) -> Any:
        """As the future that the work gives now."""
        return torch.futures.Future.then(self._work.get_future(), callback)

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """As then()."""
        torch.futures.Future.add_done_callback(self._work.get_future(), callback)


class QueuedWork(Work):  # type: ignore[misc]
    """One operation that has been done, is being done, or waits in its group's queue."""

    _done: threading.Event | None = None  # once somebody waits
    _error: Exception | None = None
    _futures: list[Any] | None = None

    def __init__(self, tensors: list[Any], queue: WorkQueue, place: int = 0) -> None:
        """`place` of one that has been done: how many operations the program had called with it."""
        Work.__init__(self)
        self._tensors = tensors
        self._queue = queue
        self.place = place
        self._is_done = place != 0
        self._lock = threading.Lock()

    def finish(self, error: Exception | None = None) -> None:
        """The operation has ended."""
        with self._lock:
            self._error = error
            self._is_done = True
            if self._done is not None:
                self._done.set()
            futures, self._futures = self._futures, None
        for future in futures or ():
            self._resolve(future)

    def _resolve(self, future: Any) -> None:
        if self._error is None:
            future.set_result(self._tensors)
        else:
            future.set_exception(self._error)

    def wait(self, timeout: timedelta = NO_TIMEOUT) -> bool:
        """Returns when the operation is complete; raises its error."""
        if not self._is_done:
            self._queue.process.check()
            self._queue.do_until(self)
            if not self._ends_in(timeout.total_seconds() if timeout > NO_TIMEOUT else None):
                raise RuntimeError(f"the operation is not complete after {timeout.total_seconds():g} s")
        if self._error is not None:
            raise self._error
        return True

    def _ends_in(self, seconds: float | None) -> bool:
        with self._lock:
            if self._is_done:
                return True
            done = self._done = self._done or threading.Event()
        return done.wait(None if seconds is None else min(seconds, threading.TIMEOUT_MAX))

    def synchronize(self) -> None:
        """As wait()."""
        self.wait()

    def block_current_stream(self) -> None:
        """As wait(): the CPU has no streams."""
        self.wait()

    def is_completed(self) -> bool:
        """True once the operation has ended, also by an error."""
        return self._is_done

    def is_success(self) -> bool:
        """True once the operation has ended without an error."""
        return self._is_done and self._error is None

    def exception(self) -> Any:
        """The error, or None."""
        return self._error

    def result(self) -> list[Any]:
        """The output tensors."""
        return self._tensors

    def get_future(self) -> Any:
        """A future with the output tensors; DDP takes its results from it.

        Its callbacks run before operations that are called later.
        """
        self._queue.process.check()
        self._queue.do_until(self)
        future = _PlacedFuture(self)
        if not self._queue.put_behind_later(self, lambda: self._resolve(future)):
            self._resolve_at_end(future)
        return future

    def _resolve_at_end(self, future: Any) -> None:
        with self._lock:
            ended = self._is_done
            if not ended:
                self._futures = [*(self._futures or ()), future]
        if ended:
            self._resolve(future)

    def source_rank(self) -> int:
        """Only messages have one."""
        raise RuntimeError("only a receive has a source rank")

    _source_rank = source_rank


class WorkQueue:
    """Operations of a group, one after the other, in the order in which they were put in.

    A thread does them, so that they go on whatever the program does. Each group has its own, so groups do not wait for
    each other. Operations for which the caller waits at once are done by the caller, when those before are done.

    Callbacks of futures run in this thread, or in the caller's if the operation has ended before. Operations that they
    call in this thread are done at once, before those in the queue. All ranks have one order, whenever the operation
    ends: if later operations were called before the callback was added, it has a place in the queue behind these.
    """

    def __init__(self, name: str, process: OwnProcess | None = None) -> None:
        self._name = name
        self.process = process or OwnProcess()
        self._jobs: deque[tuple[Callable[[], None], QueuedWork]] = deque()
        self._calls = 0  # of the program, and not of callbacks in the thread
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._waiting = 0  # threads that wait for a change
        self._busy = False
        self._in_caller = False  # busy, but not in the queue's thread
        self._ends = False
        self._thread: threading.Thread | None = None
        self._last: Callable[[], None] | None = None
        self.more_cpus: set[int] = set()
        """The thread may use these besides the process's own, which compute."""

    def put(self, job: Callable[[], None], work: QueuedWork) -> None:
        """Does the operation in the background."""
        if self._is_own_thread():
            work.finish(_error_of(job))
            return
        with self._lock:
            if self._ends:
                raise RuntimeError("the process group has been destroyed")
            self._append(job, work)

    def _append(self, job: Callable[[], None], work: QueuedWork) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._calls += 1
        work.place = self._calls
        self._jobs.append((job, work))
        self._notify()

    def put_behind_later(self, work: QueuedWork, job: Callable[[], None]) -> bool:
        """Puts in what must follow operations that were called after `work`. False: there are none."""
        if self._is_own_thread():
            return False
        with self._lock:
            if self._ends or work.place == self._calls:
                return False
            self._append(job, QueuedWork([], self))
        return True

    def do_until(self, work: QueuedWork) -> None:
        """In a callback: this thread is the one that does the operations for which the callback waits."""
        while self._is_own_thread() and not work.is_completed() and self._jobs:
            job, next_work = self._jobs.popleft()
            next_work.finish(_error_of(job))

    def do(self, job: Callable[[], None]) -> int:
        """Does the operation in this thread. Returns its work's place."""
        if self._is_own_thread():
            job()
            return self._calls
        with self._lock:
            self._calls += 1
            place = self._calls
            while self._jobs or self._busy:
                self._wait()
            if self._ends:
                raise RuntimeError("the process group has been destroyed")
            self._busy = self._in_caller = True
        try:
            job()
        finally:
            self._set_idle()
        return place

    def close(self, interrupt: Callable[[], None]) -> None:
        """Returns when all operations have ended. `interrupt` ends one that another thread is doing for itself."""
        with self._lock:
            self._ends = True
            self._notify()
            thread = self._thread
            if self._in_caller:
                interrupt()
        if self._is_own_thread():
            while self._jobs:
                job, work = self._jobs.popleft()
                work.finish(_error_of(job))
            return
        if thread is not None:
            thread.join()
        with self._lock:
            while self._busy:
                self._wait()

    def end_by(self, last: Callable[[], None]) -> None:
        """`last` is the end of all operations. Does not wait for it if the queue has a thread."""
        with self._lock:
            self._ends = True
            self._last = last
            self._notify()
        if self._thread is None:
            last()

    def _wait(self) -> None:
        """Until something has changed, with the lock."""
        self._waiting += 1
        try:
            self._changed.wait()
        finally:
            self._waiting -= 1

    def _notify(self) -> None:
        if self._waiting:
            self._changed.notify_all()

    def _is_own_thread(self) -> bool:
        return self._thread is not None and self._thread is threading.current_thread()

    def _set_idle(self) -> None:
        with self._lock:
            self._busy = self._in_caller = False
            self._notify()

    def _take(self) -> tuple[Callable[[], None], QueuedWork] | None:
        with self._lock:
            while not self._jobs or self._busy:
                if self._ends and not self._jobs:
                    return None
                self._wait()
            self._busy = True
            return self._jobs.popleft()

    def _run(self) -> None:
        if self.more_cpus:
            with contextlib.suppress(OSError):  # they are not this container's
                os.sched_setaffinity(0, os.sched_getaffinity(0) | self.more_cpus)
        while (taken := self._take()) is not None:
            job, work = taken
            try:
                work.finish(_error_of(job))
            finally:
                # The thread must not keep the group that it waits for.
                del taken, job, work
                self._set_idle()
        if self._last is not None:
            self._last()


def _error_of(job: Callable[[], None]) -> Exception | None:
    try:
        job()
    except Exception as error:
        return error
    return None


def _nothing() -> None:
    pass


class MessageWork(Work):  # type: ignore[misc]
    """A send or a receive. A wait that runs into its timeout cancels it."""

    def __init__(
        self,
        handle: int,
        tensors: list[Any],
        finish: Callable[[], None],
        raised: Callable[..., Exception],
        timeout_ms: int,
        group: object,
        forget: Callable[[MessageWork], None],
        process: OwnProcess,
    ):
        """`group` is not freed as long as this is in use. `forget` is called when the message has ended."""
        super().__init__()
        self._group = group
        self._process = process
        self._library = library.load()
        self._handle = handle
        self._tensors = tensors
        self._finish = finish
        self._raised = raised
        self._timeout_ms = timeout_ms
        self._forget = forget
        self._lock = threading.Lock()
        self._cancelled = False
        self._ended = threading.Event()
        self._error: Exception | None = None
        self._source = -1
        self._future: Any = None
        self.is_late = False
        """It has ended because its time was over."""

    def _take(self, result: int) -> None:
        """Takes a result of the library, with the lock."""
        if result == library.PENDING:
            return
        try:
            self._library.check(result)
            self._source = self._library.function("source")(self._handle)
            self._finish()
        except library.GroupError as failure:
            self.is_late = failure.result == library.TIMEOUT
            self._error = self._raised(failure)
        except Exception as error:
            self._error = error
        finally:
            self._end()

    def _end(self) -> None:
        self._library.function("free")(self._handle)
        self._finish = _nothing  # that of a receive keeps a copy
        self._ended.set()
        self._forget(self)

    def cancel(self) -> None:
        """Ends it, unless it has ended."""
        if self.is_completed() or not self._process.is_this():
            return
        self._cancelled = True  # ends a wait that has the lock
        with self._lock:
            if self._ended.is_set():
                return
            self._error = RuntimeError("the process group was destroyed before the message had ended")
            self._end()

    def wait(self, timeout: timedelta = NO_TIMEOUT) -> bool:
        """Returns when the message has been sent or received; raises its error."""
        if not self._ended.is_set():
            self._process.check()
        limit_ms = milliseconds(timeout) if timeout > NO_TIMEOUT else self._timeout_ms
        end = time.monotonic() + limit_ms / 1000
        while not self._ended.is_set() and not self._cancelled:
            with self._lock:
                if not self._ended.is_set():
                    self._wait_a_little(end)
        self._ended.wait()
        if self._error is not None:
            raise self._error
        return True

    def _wait_a_little(self, end: float) -> None:
        """Waits with the lock, not longer than cancel() may wait for it."""
        left_ms = int((end - time.monotonic()) * 1000)
        result = self._library.function("wait")(self._handle, max(1, min(left_ms, _SLICE_MS)))
        if result != library.TIMEOUT or left_ms <= _SLICE_MS:
            self._take(result)

    def synchronize(self) -> None:
        """As wait()."""
        self.wait()

    def block_current_stream(self) -> None:
        """As wait(): the CPU has no streams."""
        self.wait()

    def is_completed(self) -> bool:
        """True once the message has been sent or received, or has failed."""
        # Another thread that has the lock waits for it.
        if not self._ended.is_set() and self._process.is_this() and self._lock.acquire(blocking=False):
            try:
                if not self._ended.is_set():
                    self._take(self._library.function("test")(self._handle))
            finally:
                self._lock.release()
        return self._ended.is_set()

    def is_success(self) -> bool:
        """True once the message has been sent or received."""
        return self.is_completed() and self._error is None

    def exception(self) -> Any:
        """The error, or None."""
        return self._error

    def result(self) -> list[Any]:
        """The tensors."""
        return self._tensors

    def source_rank(self) -> int:
        """The rank from which a completed receive came."""
        return self._source

    _source_rank = source_rank

    def get_future(self) -> Any:
        """A future with the tensors. A thread waits for it."""
        if self._future is None:
            self._future = torch.futures.Future()
            threading.Thread(target=self._resolve, daemon=True).start()
        return self._future

    def _resolve(self) -> None:
        try:
            MessageWork.wait(self)
        except Exception as error:
            self._future.set_exception(error)
        else:
            self._future.set_result(self._tensors)
