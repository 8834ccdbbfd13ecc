"""A stand-in for Ray inside the sandbox's jobs: as much of it as pinning tasks to nodes takes, and nothing else.

There is one machine only. A node is a pod of the simulated cluster; a task that is pinned to it runs here, as a process
with the environment that the pod's container would have. Tasks reserve nothing. RAYSLICE_SANDBOX_RAY names the file that
describes the nodes.
"""
import json
import os
import pickle
import select
import signal
import time

with open(os.environ["RAYSLICE_SANDBOX_RAY"], encoding="utf-8") as _file:
    _cluster = json.load(_file)
__version__ = _cluster["version"]


class WorkerCrashedError(Exception):
    """A task's process ended without an answer."""


class TaskUnschedulableError(Exception):
    """A task is pinned to a node that is not alive."""


def init(**_):
    """Connects to nothing: the cluster is a file."""


def nodes():
    """Lists the nodes as ray.nodes() does."""
    return [{key: value for key, value in node.items() if key not in ("env", "available")} for node in _cluster["nodes"]]


class _Reference:
    """The answer of one task: a process and the pipe that its pickled (ok, value) comes through."""

    def __init__(self, function, node_id, arguments):
        self.raw, self.done, self.pid = b"", False, 0
        node = [n for n in _cluster["nodes"] if n["NodeID"] == node_id and n["Alive"]]
        if not node:
            self.finish(pickle.dumps((False, TaskUnschedulableError("node %s is not alive" % node_id))))
            return
        self.pipe, into = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.pipe)
            self.run(function, node[0]["env"], arguments, into)
        os.close(into)

    def run(self, function, environment, arguments, into):
        try:
            os.setsid()
            os.environ.clear()
            os.environ.update(environment)
            answer = (True, function(*arguments))
        except Exception as error:
            answer = (False, error)
        try:
            with os.fdopen(into, "wb") as pipe:
                pickle.dump(answer, pipe)
        finally:
            os._exit(0)

    def finish(self, raw=b""):
        self.raw, self.done = self.raw + raw, True
        if self.pid:
            os.close(self.pipe)
            os.waitpid(self.pid, 0)

    def read(self):
        chunk = os.read(self.pipe, 1 << 16)
        if chunk:
            self.raw += chunk
        else:
            self.finish()

    def value(self):
        if not self.raw:
            raise WorkerCrashedError("the task's process ended without an answer")
        ok, value = pickle.loads(self.raw)
        if not ok:
            raise value
        return value


class _Task:
    def __init__(self, function, strategy=None):
        self.function, self.strategy = function, strategy

    def options(self, scheduling_strategy):
        return _Task(self.function, scheduling_strategy)

    def remote(self, *arguments):
        return _Reference(self.function, self.strategy.node_id, arguments)


def remote(**_):
    return _Task


def wait(references, num_returns=1, timeout=None):
    """Waits until so many tasks are done, or the time is over."""
    end = None if timeout is None else time.monotonic() + timeout
    while sum(r.done for r in references) < num_returns:
        left = None if end is None else max(0.0, end - time.monotonic())
        open_ = {r.pipe: r for r in references if not r.done}
        readable, _, _ = select.select(list(open_), [], [], left)
        for pipe in readable:
            open_[pipe].read()
        if not readable:
            break
    return [r for r in references if r.done], [r for r in references if not r.done]


def get(reference):
    """Returns the task's answer, or raises what it raised."""
    wait([reference])
    return reference.value()


def cancel(reference, force=False):
    """Kills the task's process."""
    del force
    if not reference.done:
        os.kill(reference.pid, signal.SIGKILL)
