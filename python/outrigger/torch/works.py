"""Objects on which torch waits: operations of a group's queue, and messages."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, Protocol

import torch
from torch._C._distributed_c10d import Work

from outrigger.torch import library

NO_TIMEOUT = timedelta()
Post = Callable[[], bool]
"""Posts an operation to the service process. False: it cannot be posted, and nothing was done."""
# A wait for the service process lets signals in between.
_WAIT_MS = 200
# The time that cancel() of a message waits at most for a thread that waits for the message.
_SLICE_MS = 100


def milliseconds(timeout: timedelta) -> int:
    """At least one."""
    return max(1, int(timeout.total_seconds() * 1000))


class _PlacedFuture(torch.futures.Future):  # type: ignore[misc]
    """A future of a work. A callback that is added after later operations has a place behind these."""

    def __init__(self, work: QueuedWork) -> None:
        super().__init__()
        self._work = work

    def then(self, callback: Callable[[Any], Any]) -> Any:
        """As the future that the work gives now."""
        return torch.futures.Future.then(self._work.future_for_callbacks(), callback)

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """As then()."""
        torch.futures.Future.add_done_callback(self._work.future_for_callbacks(), callback)


class QueuedWork(Work):  # type: ignore[misc]
    """One operation that has been done, is being done, or waits in its group's queue."""

    _done: threading.Event | None = None  # once somebody waits
    _error: Exception | None = None
    _futures: list[Any] | None = None
    has_callbacks = False
    """They may call operations, before those that the program calls later."""

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
            self._queue.complete_ended()
        if not self._is_done:
            self._queue.do_until(self)
            self._queue.complete_until(self, is_limited=timeout > NO_TIMEOUT)
            if not self._ends_in(timeout.total_seconds() if timeout > NO_TIMEOUT else None):
                raise RuntimeError(f"the operation is not complete after {timeout.total_seconds():g} s")
        if self._error is not None:
            raise self._error
        return True

    def _ends_in(self, seconds: float | None) -> bool:
        if self._is_done:
            return True
        with self._lock:
            if self._is_done:
                return True
            done = self._done = self._done or threading.Event()
        return done.wait(seconds)

    def synchronize(self) -> None:
        """As wait()."""
        self.wait()

    def block_current_stream(self) -> None:
        """As wait(): the CPU has no streams."""
        self.wait()

    def is_completed(self) -> bool:
        """True once the operation has ended, also by an error."""
        if not self._is_done:
            self._queue.complete_ended()
        return self._is_done

    def is_success(self) -> bool:
        """True once the operation has ended without an error."""
        return QueuedWork.is_completed(self) and self._error is None

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
        self._queue.do_until(self)
        future = _PlacedFuture(self)
        self._resolve_at_end(future)
        return future

    def future_for_callbacks(self) -> Any:
        """A future that ends behind the operations that the program has called so far, and before later ones."""
        self._queue.do_until(self)
        self.has_callbacks = True
        future = _PlacedFuture(self)
        if not self._queue.put_behind_later(self, lambda: self._resolve(future)):
            self._resolve_at_end(future)
        return future

    def _resolve_at_end(self, future: Any) -> None:
        self._queue.complete_ended()
        with self._lock:
            ended = self._is_done
            if not ended:
                self._futures = [*(self._futures or ()), future]
        if ended:
            self._resolve(future)
        else:
            self._queue.want()

    def source_rank(self) -> int:
        """Only messages have one."""
        raise RuntimeError("only a receive has a source rank")

    _source_rank = source_rank


class PostedCalls(Protocol):
    """Operations that the service process has got. The first one is completed before the others."""

    def complete(self, job: Callable[[], None], limit_ms: int) -> tuple[bool, Exception | None]:
        """Has the first one ended, and by which error? With a limit, `job` does it if the ranks must."""

    def await_need(self) -> bool:
        """True: a thread must complete the first one."""

    def wake(self) -> None:
        """Ends await_need()."""

    def want(self) -> None:
        """await_need() is to return as soon as they end."""


class WorkQueue:
    """Operations of a group, one after the other, in the order in which they were put in.

    A thread does them, so that they go on whatever the program does. Each group has its own, so groups do not wait for
    each other. Operations for which the caller waits at once are done by the caller, when those before are done.

    If the group has a service process, the caller posts operations to it, and completes them when it waits for them.
    The thread completes the others. It does operations that cannot be posted, and all that are called before these
    have ended.

    A thread that waits does queued operations itself, unless they have callbacks.

    Callbacks of futures run in this thread, or in the caller's if the operation has ended before. Operations that they
    call in this thread are done at once, before those in the queue. All ranks have one order, whenever the operation
    ends: if later operations were called before the callback was added, it has a place in the queue behind these.
    """

    posted_calls: PostedCalls | None = None

    def __init__(self, name: str) -> None:
        self._name = name
        self._posted: deque[tuple[Callable[[], None], QueuedWork]] = deque()  # before those in `jobs`
        self._watches = False  # the thread is in await_need(), or is to go there
        self._needed: QueuedWork | None = None  # the thread must complete this one
        self._doer: threading.Thread | None = None  # does an operation of the queue, and runs its callbacks
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

    def put(self, job: Callable[[], None], work: QueuedWork, post: Post | None = None) -> None:
        """Does the operation in the background."""
        if self._is_own_thread():
            work.finish(_error_of(partial(self._do_here, job)))
            return
        if self._posted:
            self.complete_ended()
        with self._lock:
            if self._ends:
                raise RuntimeError("the process group has been destroyed")
            if post is None or not self._may_post() or not post():
                self._append(job, work)
                return
            self._count(work)
            self._posted.append((job, work))
            if not self._watches:
                self._watches = True
                self._notify()

    def _may_post(self) -> bool:
        """Callbacks come before operations that are called later."""
        return not self._jobs and not self._busy and not (self._posted and self._posted[-1][1].has_callbacks)

    def _count(self, work: QueuedWork) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._calls += 1
        work.place = self._calls

    def _append(self, job: Callable[[], None], work: QueuedWork) -> None:
        self._count(work)
        self._jobs.append((job, work))
        self._notify_thread()

    def _notify_thread(self) -> None:
        self._notify()
        if self._watches and self.posted_calls is not None:
            self.posted_calls.wake()

    def put_behind_later(self, work: QueuedWork, job: Callable[[], None]) -> bool:
        """Puts in what must follow operations that were called after `work`. False: there are none."""
        if self._is_own_thread():
            return False
        with self._lock:
            if self._ends or work.place == self._calls:
                return False
            callbacks = QueuedWork([], self)
            callbacks.has_callbacks = True
            self._append(job, callbacks)
        return True

    def do_until(self, work: QueuedWork) -> None:
        """In a callback: this thread is the one that does the operations for which the callback waits."""
        while self._is_own_thread() and not work.is_completed() and self._jobs:
            job, next_work = self._jobs.popleft()
            next_work.finish(_error_of(job))

    def do(self, job: Callable[[], None]) -> int:
        """Does the operation in this thread. Returns its work's place."""
        if self._is_own_thread():
            self._do_here(job)
            return self._calls
        with self._lock:
            self._calls += 1
            place = self._calls
            is_turn = not (self._jobs or self._busy or self._posted or self._ends)
            if is_turn:
                self._busy = self._in_caller = True
        while not is_turn and not self._take_turn():
            self._complete_first()
        try:
            job()
        finally:
            self._set_idle()
        return place

    def _do_here(self, job: Callable[[], None]) -> None:
        """In a callback, behind all that has been posted."""
        while self._posted:
            self._complete_posted()
        job()

    def _take_turn(self) -> bool:
        """Waits until this thread can do an operation, or, if False, must complete the first posted one before."""
        with self._lock:
            while self._jobs or self._busy or (self._posted and self._is_for_thread()):
                self._wait()
            if self._ends:
                raise RuntimeError("the process group has been destroyed")
            if self._posted:
                self._begin_step()
                return False
            self._busy = self._in_caller = True
            return True

    def _is_for_thread(self) -> bool:
        """The thread runs callbacks."""
        return (self._posted or self._jobs)[0][1].has_callbacks

    def complete_until(self, work: QueuedWork, is_limited: bool) -> None:
        """Does or completes operations in this thread, unless the queue's thread must do the next one.

        `is_limited`: it does all of them, as an operation has no such limit.
        """
        if self._is_own_thread():
            return
        if is_limited:
            self.want()
            return
        while (step := self._step_before(work)) is not None:
            step()

    def _step_before(self, work: QueuedWork) -> Callable[[], None] | None:
        with self._lock:
            while self._busy and not work._is_done:
                self._wait()
            if work._is_done or not (self._posted or self._jobs) or self._is_for_thread():
                return None
            return self._begin_step()

    def _begin_step(self) -> Callable[[], None]:
        self._busy = True
        self._doer = threading.current_thread()
        return self._complete_first if self._posted else partial(self._do_job, *self._jobs.popleft())

    def complete_ended(self) -> None:
        """Completes posted operations that have ended, unless another thread does."""
        if not self._posted or self.posted_calls is None:
            return
        ended = []
        with self._lock:
            while self._posted and not self._busy and not self._is_for_thread():
                has_ended, error = self.posted_calls.complete(_nothing, 0)
                if not has_ended:
                    break
                ended.append((self._take_posted(), error))
            if not ended:
                return
            self._notify()
        for work, error in ended:
            work.finish(error)

    def _take_posted(self) -> QueuedWork:
        self._needed = None
        return self._posted.popleft()[1]

    def want(self) -> None:
        """The thread completes what has been posted as soon as it ends."""
        if self._posted and self.posted_calls is not None:
            self.posted_calls.want()

    def _complete_first(self) -> None:
        """While this thread is the busy one; it is idle then. May return before the operation has ended."""
        try:
            self._complete_posted()
        finally:
            self._set_idle()

    def _complete_posted(self) -> None:
        assert self.posted_calls is not None
        has_ended, error = self.posted_calls.complete(self._posted[0][0], _WAIT_MS)
        if has_ended:
            self._take_posted().finish(error)

    def close(self, interrupt: Callable[[], None]) -> None:
        """Returns when all operations have ended. `interrupt` ends one that another thread is doing for itself."""
        with self._lock:
            self._ends = True
            self._notify_thread()
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
            self._notify_thread()
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
        """The group's thread, or another one that does an operation in its place."""
        return self._thread is not None and threading.current_thread() in (self._thread, self._doer)

    def _set_idle(self) -> None:
        with self._lock:
            self._busy = self._in_caller = False
            self._doer = None
            self._notify()

    def _next_step(self) -> Callable[[], None] | None:
        """The thread's."""
        with self._lock:
            while True:
                if self._busy:
                    self._wait()
                elif self._jobs or (self._posted and (self._ends or self._posted[0][1] is self._needed)):
                    return self._begin_step()
                elif self._ends:
                    return None
                elif self._watches:
                    return self._watch
                else:
                    self._wait()

    def _do_job(self, job: Callable[[], None], work: QueuedWork) -> None:
        error: Exception | None = RuntimeError("the operation was interrupted")
        try:
            error = _error_of(job)
        finally:
            work.finish(error)
            # The thread must not keep the group that it waits for.
            del job, work
            self._set_idle()

    def _watch(self) -> None:
        assert self.posted_calls is not None
        is_needed = self.posted_calls.await_need()
        with self._lock:
            self._needed = self._posted[0][1] if is_needed and self._posted else None
            self._watches = bool(self._posted)

    def _run(self) -> None:
        while (step := self._next_step()) is not None:
            step()
            del step
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
    ):
        """`group` is not freed as long as this is in use. `forget` is called when the message has ended."""
        super().__init__()
        self._group = group
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
        if self.is_completed():
            return
        self._cancelled = True  # ends a wait that has the lock
        with self._lock:
            if self._ended.is_set():
                return
            self._error = RuntimeError("the process group was destroyed before the message had ended")
            self._end()

    def wait(self, timeout: timedelta = NO_TIMEOUT) -> bool:
        """Returns when the message has been sent or received; raises its error."""
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
        if not self._ended.is_set() and self._lock.acquire(blocking=False):
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
