"""Interrupts a block of code that takes more processor time, time or memory than it may."""

from __future__ import annotations

import _weakrefset
import gc
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_TICKS = 10
"""Steps in which wall time is counted: a process that was stopped (Ctrl-Z) loses one at most."""


class TimeUp(BaseException):
    """Raised wherever the block is. No Exception: nothing on the way out is to keep it."""


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Ctrl-C comes to this thread, and to processes that it starts meanwhile, behind the block.

    Such a process has it held until it lets it come.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def processor_clock() -> Callable[[], float]:
    """Returns the function that gives the seconds of processor time which `time_limit` counts.

    In the main thread those of the process, which a signal can measure; else the thread's own.
    """
    is_main = threading.current_thread() is threading.main_thread()
    return time.process_time if is_main else time.thread_time


@contextmanager
def time_limit(seconds: float, wall_seconds: float) -> Iterator[None]:
    """Raises `TimeUp` in the block once it has used so much processor time, or wall time."""
    is_main = threading.current_thread() is threading.main_thread()
    with (_by_signal if is_main else _by_watch)(max(seconds, 0.001), max(wall_seconds, 0.001)):
        yield


@contextmanager
def _by_signal(seconds: float, wall_seconds: float) -> Iterator[None]:
    """For the main thread: timers, which also end a regular expression and a call that blocks."""
    armed, ticks, previous_timer = True, 0, (0.0, 0.0)

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal ticks
        ticks += number == signal.SIGALRM
        # At the end of a block the timers have to be ended: what comes then is for the next time.
        is_ending = frame is not None and frame.f_code.co_filename in _FILES_OF_BLOCKS
        if not armed or is_ending or not (number == signal.SIGPROF or ticks >= _TICKS):
            return
        if _loses_exceptions(frame):
            signal.setitimer(signal.ITIMER_PROF, 0.01, 1.0)
            return
        raise TimeUp

    numbers = (signal.SIGPROF, signal.SIGALRM)
    previous_handlers = [signal.signal(number, stop) for number in numbers]
    try:
        # Again after a second: an exception is lost in a callback of C code.
        signal.setitimer(signal.ITIMER_PROF, seconds, 1.0)
        tick = wall_seconds / _TICKS
        previous_timer = signal.setitimer(signal.ITIMER_REAL, tick, tick)
        yield
    finally:
        armed = False
        for timer in (signal.ITIMER_PROF, signal.ITIMER_REAL):
            signal.setitimer(timer, 0)
        for number, handler in zip(numbers, previous_handlers, strict=True):
            signal.signal(number, handler)
        signal.setitimer(signal.ITIMER_REAL, *previous_timer)


@contextmanager
def _by_watch(seconds: float, wall_seconds: float) -> Iterator[None]:
    """For any other thread: a thread that looks at the clocks and raises in it.

    What blocks in a call of the system there ends only with that call.
    """
    import ctypes

    ident = threading.get_ident()
    clock = time.pthread_getcpuclockid(ident)
    end, wall_end = time.clock_gettime(clock) + seconds, time.monotonic() + wall_seconds
    raise_asynchronously = ctypes.pythonapi.PyThreadState_SetAsyncExc
    thread, done, lock = ctypes.c_ulong(ident), threading.Event(), threading.Lock()

    def seconds_left() -> float:
        return min(end - time.clock_gettime(clock), wall_end - time.monotonic())

    def watch() -> None:
        while (least := seconds_left()) > 0:
            if done.wait(least):  # the thread cannot have worked for longer than that
                return
        while True:
            with lock:
                if done.is_set():
                    return
                raise_asynchronously(thread, ctypes.py_object(TimeUp))
            done.wait(1.0)

    watcher = threading.Thread(target=watch, name="kinspect clock", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        with lock:
            done.set()
            raise_asynchronously(thread, None)  # one that is raised but has not arrived
        watcher.join()


def _loses_exceptions(frame: FrameType | None) -> bool:
    """Whether Python would print what is raised there as ignored, and go on."""
    if isinstance(sys.exc_info()[1], GeneratorExit):  # nobody goes on with the generator
        return True
    collecting = {getattr(callback, "__code__", None) for callback in gc.callbacks}
    while frame is not None:
        code = frame.f_code
        is_weak = code.co_filename in (weakref.__file__, _weakrefset.__file__)
        if code.co_name == "__del__" or is_weak or code in collecting:
            return True
        frame = frame.f_back
    return False


_FILES_OF_BLOCKS = frozenset(f.__code__.co_filename for f in (contextmanager, time_limit))
"""Those of the code that begins and ends the blocks."""


@contextmanager
def memory_limit(most_data: Callable[[], int]) -> Iterator[None]:
    """A soft limit on the bytes of the process's data, in the block; a stricter one stays.

    Without effect where other threads are at work, whose memory counts too, and outside of Linux.

    Args:
        most_data: returns the limit; called only where it has an effect.
    """
    if sys.platform != "linux" or threading.active_count() > 1:
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    stricter = min((n for n in (soft, hard) if n != resource.RLIM_INFINITY), default=sys.maxsize)
    limit = most_data()
    if limit >= stricter:
        yield
        return
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def more_data(size: int) -> None:
    """Raises the soft limit of `memory_limit`, until its block ends, by bytes that are mapped and
    take no memory until they are written.
    """
    if sys.platform != "linux":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if soft != resource.RLIM_INFINITY:
        most = soft + size if hard == resource.RLIM_INFINITY else min(soft + size, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def data_bytes() -> int | None:
    """Returns the bytes of this process that RLIMIT_DATA counts; None where they are not known."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as stream:
            for line in stream:
                if line.startswith("VmData:"):
                    return int(line.split()[1]) << 10
    except (OSError, ValueError, IndexError):
        pass
    return None
