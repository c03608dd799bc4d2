"""Jobs on a population of points, performed by one or several workers with the same results for any number of them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, NamedTuple, TypeVar

from counterpoise.clock import working_seconds
from counterpoise.supervision import supervision, under, warn

Job = TypeVar("Job")
Found = TypeVar("Found")


class Population(NamedTuple):
    """How a search spends its jobs.

    ``first`` starts seed the population, which holds ``size`` points; after ``stale`` jobs in a row without an
    improvement it is replaced by a new one. Job k depends only on the results of jobs up to k − ``batch``, so that
    results do not depend on the number of workers. ``work`` is the number of jobs of a call without limits. If
    ``eager``, a child's first parent is more often one of the best. If two points have at least a fraction ``alike`` of
    their non-zeros in common, only the better one is kept, so that similar points do not fill the population; ∞ turns
    this off.
    """

    first: int = 8
    size: int = 16
    stale: int = 80
    batch: int = 8
    work: int = 128
    eager: bool = True
    alike: float = math.inf


class Window(Generic[Job, Found]):
    """Performs jobs in threads, or by another backend of joblib, and returns their results in order.

    At most ``size`` jobs wait or run at a time: job k is created when the result of job k − ``size`` has been taken.
    Threads begin the next job as soon as they are free. Other backends perform all waiting jobs at once.
    ``n_jobs=None`` performs jobs in the calling thread, each when its result is taken.

    ``perform(job)`` returns its result, and must be picklable for backends that use processes. A job that has not
    begun when ``is_over()`` is skipped. ``offer`` is called with every result computed in this process at once.
    """

    def __init__(
        self,
        size: int,
        perform: Callable[[Job], Found],
        n_jobs: int | None,
        is_over: Callable[[], bool],
        offer: Callable[[Found], None] = lambda found: None,
    ) -> None:
        self.size, self.perform, self.n_jobs, self.is_over, self.offer = size, perform, n_jobs, is_over, offer
        self.waiting: deque[tuple[Job, Future[Found | None] | None]] = deque()
        self.workers = 1
        self.threads: ThreadPoolExecutor | None = None
        # Seconds of the longest job so far.
        self.longest = 0.0
        if n_jobs is not None:
            from joblib.parallel import effective_n_jobs, get_active_backend

            self.workers = effective_n_jobs(n_jobs)
            if self.workers > 1 and type(get_active_backend(prefer="threads")[0]).__name__ == "ThreadingBackend":
                # joblib would start new threads for every call, which takes as long as a job.
                self.threads = ThreadPoolExecutor(min(self.workers, size))

    def push(self, job: Job) -> None:
        """Add a job to the queue; a thread begins it when one is free."""
        begun = None if self.threads is None else self.threads.submit(self._in_time, job, supervision())
        self.waiting.append((job, begun))

    def take(self) -> tuple[Job, Found | None]:
        """Return the oldest job and its result; None if time was up before it began."""
        if self.workers > 1 and self.waiting[0][1] is None:
            self._perform_all()
        job, begun = self.waiting.popleft()
        return job, self._in_time(job, supervision()) if begun is None else begun.result()

    def _in_time(self, job: Job, supervisor: Any) -> Found | None:
        if self.is_over():
            return None
        begun = working_seconds()
        with under(supervisor):
            found = self.perform(job)
            self.offer(found)
        self.longest = max(self.longest, working_seconds() - begun)
        return found

    def _perform_all(self) -> None:
        import joblib

        jobs = [job for job, _ in self.waiting]
        try:
            workers = joblib.Parallel(n_jobs=self.n_jobs, prefer="threads")
            results = list(workers(joblib.delayed(self.perform)(job) for job in jobs))
        except (OSError, RuntimeError, EOFError) as error:  # a pool whose worker died loses all jobs
            warn(f"A worker died ({type(error).__name__}); its jobs are done here instead.")
            results = [self.perform(job) for job in jobs]
        self.waiting.clear()
        for job, found in zip(jobs, results, strict=True):
            done: Future[Found | None] = Future()
            done.set_result(found)
            self.waiting.append((job, done))

    def close(self) -> None:
        """Cancel jobs that have not begun; running ones end by themselves."""
        self.waiting.clear()
        if self.threads is not None:
            self.threads.shutdown(wait=False, cancel_futures=True)
