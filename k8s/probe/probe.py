#!/usr/bin/env python3
"""Measures what a worker really gets of its GPU. Needs Python 3.8 and its standard library only.

    python probe.py '{"mode": "worker", "run": "try-1", "workers": [{"slice_gib": 8}]}'

The one argument is the spec (see Spec in probe.go); the answer is one JSON document between two marker lines (see
Evidence in evidence.go), whatever else the process and its libraries print. Every process ends within the spec's time,
whatever the driver does: its calls are made in processes of their own, which are killed when they hang.

Modes: "worker" measures this machine, "cluster" does so on each worker of a Ray cluster. "step" and "driver" are the
processes that those two start. The probe states facts; what they mean is judged elsewhere.
"""
import ctypes
import importlib.util
import json
import os
import queue
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

PROBE_VERSION = "1.0.0"
SCHEMA = 1
MIB = 1 << 20
OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY
NOT_SUPPORTED = 801  # CUDA_ERROR_NOT_SUPPORTED
IDLE_MIB = 300  # memory.used of a slice on which nobody works; a CUDA context alone is about as large
ROOM_MIB = 1024  # left free on the card for contexts and for neighbours (facts E.1)
MOST_TEXT = 2000
LINE = "@rayslice "  # before each answer of a driver process: libraries may print beside it

VARIABLES = re.compile(r"ALIYUN_COM_GPU_|CGPU_|GPU_UTIL|AMP_VGPU_|CUDA_(VISIBLE_DEVICES|DEVICE_|DISABLE_|MPS_)|"
                       r"NVIDIA_(VISIBLE_DEVICES|DRIVER_CAPABILITIES)$|LD_(PRELOAD|LIBRARY_PATH)$")


def clip(text):
    return str(text)[:MOST_TEXT]


def step(state="skipped", code="not_asked", read="", detail="", **more):
    return dict(state=state, code=code, read=read, detail=clip(detail), **more)


# ---- Frames: one document per run, told apart from whatever else is printed.


def frame(run, document):
    return "\n-----BEGIN RAYSLICE PROBE %s-----\n%s\n-----END RAYSLICE PROBE %s-----\n" % (run, json.dumps(document), run)


def unframe(run, text):
    """Returns the last whole document of the run in the text; None when there is none."""
    end = text.rfind("-----END RAYSLICE PROBE %s-----" % run)
    marker = "-----BEGIN RAYSLICE PROBE %s-----" % run
    begin = text.rfind(marker, 0, max(end, 0))
    if end < 0 or begin < 0:
        return None
    try:
        return json.loads(text[begin + len(marker):end])
    except ValueError:
        return None


# ---- Processes with an end.


def kill(process):
    """Ends the process and all it started; a process that even this does not end is left behind."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except OSError:
        pass
    try:
        process.wait(timeout=2)
    except subprocess.TimeoutExpired:
        pass


def bounded(command, env, seconds, most=2 << 20):
    """Runs a command. Returns its exit code, None when it was cut off, and at most that much of what it printed."""
    process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               start_new_session=True)
    out = []
    reader = threading.Thread(target=lambda: out.append(process.stdout.read(most)), daemon=True)
    reader.start()
    try:
        code = process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        code = None
    kill(process)  # also what it left behind, which may still hold the pipe
    reader.join(timeout=2)
    return code, b"".join(out).decode("utf-8", "replace")


def source():
    """Returns this file's text. Where it was handed over as text it has no file."""
    if "PROBE_SOURCE" in globals():
        text = globals()["PROBE_SOURCE"]
        return text.decode() if isinstance(text, bytes) else text
    with open(os.path.abspath(__file__), encoding="utf-8") as file:
        return file.read()


class Script:
    """This file on disk, for the processes it starts."""

    def __enter__(self):
        handle, self.path = tempfile.mkstemp(prefix="rayslice-probe-", suffix=".py")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(source())
        return self.path

    def __exit__(self, *_):
        os.unlink(self.path)


# ---- The environment of the worker, not of the task: Ray hides the cards from a task that asked for none.


def container_environment():
    """Returns the environment that the container gave to Ray's raylet, and where it was read."""
    pid = os.getppid()
    while pid > 1:
        try:
            with open("/proc/%d/cmdline" % pid, "rb") as file:
                name = os.path.basename(file.read().split(b"\0")[0].decode("utf-8", "replace"))
            with open("/proc/%d/status" % pid, encoding="utf-8") as file:
                parent = int(re.search(r"^PPid:\s*(\d+)", file.read(), re.M).group(1))
            if name == "raylet":
                with open("/proc/%d/environ" % pid, "rb") as file:
                    pairs = [p.decode("utf-8", "replace").split("=", 1) for p in file.read().split(b"\0") if b"=" in p]
                return dict(pairs), "/proc/%d/environ, the raylet's" % pid
        except (OSError, AttributeError, ValueError):
            break
        pid = parent
    return dict(os.environ), "the probe's own environment"


def variables(env, where):
    restored = sorted(name for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES") if os.environ.get(name) != env.get(name))
    values = {name: clip(value) for name, value in env.items() if VARIABLES.match(name)}
    return step("ran", "", where, values=values, restored=restored)


# ---- nvidia-smi.

SMI_FIELDS = "uuid,memory.total,memory.used,utilization.gpu,driver_version,name"
UNKNOWN = re.compile(r"^\[.*\]$|^N/A$", re.I)


def number(text):
    """Returns the number of a cell such as "8373 MiB", None for [N/A] and its like; ValueError for anything else."""
    text = text.strip()
    if UNKNOWN.match(text):
        return None
    return int(float(re.sub(r"\s*(MiB|%)$", "", text)))


def smi_row(line):
    """Returns the card of one line and its driver's version, or None when the line is no card."""
    cells = [cell.strip() for cell in line.split(",", 5)]
    if len(cells) != 6 or not re.match(r"(GPU|MIG)-[0-9A-Za-z/-]+$|\[", cells[0]):
        return None
    try:
        total, used, utilization = (number(cell) for cell in cells[1:4])
    except (ValueError, OverflowError):
        return None
    if used is not None and (used < 0 or total is not None and used > total):
        used = None  # some drivers count below zero (field case B044)
    card = dict(uuid=cells[0], name=clip(cells[5]), total_mib=total, used_mib=used, utilization=utilization)
    return card, "" if UNKNOWN.match(cells[4]) else cells[4]


def read_smi(text):
    """Returns cards, the driver's version and the lines that are neither."""
    cards, driver, noise = [], "", []
    for line in text.splitlines():
        row = smi_row(line)
        if row:
            cards.append(row[0])
            driver = driver or row[1]
        elif line.strip():
            noise.append(clip(line))
    return cards, driver, noise[:20]


def smi(env, seconds):
    command = ["nvidia-smi", "--query-gpu=" + SMI_FIELDS, "--format=csv,noheader,nounits"]
    answer = dict(exit_code=0, driver="", cards=[], noise=[])
    path = shutil.which("nvidia-smi", path=env.get("PATH", os.defpath)) or shutil.which("nvidia-smi", path="/usr/bin:/usr/local/nvidia/bin")
    if not path:
        return step("failed", "smi_missing", " ".join(command), **answer)
    try:
        code, text = bounded([path] + command[1:], dict(env, LC_ALL="C"), seconds)
    except OSError as error:
        return step("failed", "smi_failed", " ".join(command), error, **answer)
    answer["cards"], answer["driver"], answer["noise"] = read_smi(text)
    answer["exit_code"] = -1 if code is None else code
    lines = "\n".join(answer["noise"])
    if code is None:
        return step("failed", "stuck", " ".join(command), lines, **answer)
    if code != 0 or "Failed to initialize NVML" in text:
        return step("failed", "smi_failed", " ".join(command), lines, **answer)
    if not answer["cards"]:
        return step("failed", "smi_unreadable", " ".join(command), lines, **answer)
    return step("ran", "", " ".join(command), **answer)


# ---- The CUDA driver, in processes of their own.


class Refused(Exception):
    def __init__(self, call, result):
        Exception.__init__(self, "%s: %d" % (call, result))
        self.call, self.result = call, result


class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class Properties(ctypes.Structure):  # CUmemAllocationProp
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", Location), ("win32", ctypes.c_void_p),
                ("compression", ctypes.c_ubyte), ("rdma", ctypes.c_ubyte), ("usage", ctypes.c_ushort), ("reserved", ctypes.c_ubyte * 4)]


class Driver:
    """libcuda on its first card, with the calls the probe needs."""

    def __init__(self):
        self.lib = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)

    def call(self, name, *arguments):
        try:
            function = getattr(self.lib, name)
        except AttributeError:
            raise Refused(name, NOT_SUPPORTED)
        result = function(*arguments)
        if result != 0:
            raise Refused(name, result)

    def value(self, kind, name, *arguments):
        """Calls a function that writes its answer to its first argument."""
        answer = kind()
        self.call(name, ctypes.byref(answer), *arguments)
        return answer.value

    def name_of(self, result):
        text = ctypes.c_char_p()
        try:
            self.call("cuGetErrorName", result, ctypes.byref(text))
        except Refused:
            return ""
        return (text.value or b"").decode("ascii", "replace")

    def open(self):
        self.device = self.value(ctypes.c_int, "cuDeviceGet", 0)
        context = self.value(ctypes.c_void_p, "cuDevicePrimaryCtxRetain", self.device)
        self.call("cuCtxSetCurrent", ctypes.c_void_p(context))

    def free_mib(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value // MIB

    def describe(self):
        devices = []
        for index in range(self.value(ctypes.c_int, "cuDeviceGetCount")):
            device = self.value(ctypes.c_int, "cuDeviceGet", index)
            name, raw = ctypes.create_string_buffer(128), ctypes.create_string_buffer(16)
            self.call("cuDeviceGetName", name, 128, device)
            self.call("cuDeviceGetUuid", raw, device)
            total = self.value(ctypes.c_size_t, "cuDeviceTotalMem_v2", device)
            digits = raw.raw.hex()
            uuid = "GPU-" + "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
            devices.append(dict(uuid=uuid, name=name.value.decode("utf-8", "replace"), total_mib=total // MIB, free_mib=None))
        return devices

    # Each way to get memory: a call that gives a handle, and one that gives it back.

    def alloc(self, size):
        return self.value(ctypes.c_uint64, "cuMemAlloc_v2", ctypes.c_size_t(size))

    def alloc_free(self, handle):
        self.call("cuMemFree_v2", ctypes.c_uint64(handle))

    def async_(self, size):
        handle = self.value(ctypes.c_uint64, "cuMemAllocAsync", ctypes.c_size_t(size), None)
        self.call("cuStreamSynchronize", None)
        return handle

    def async_free(self, handle):
        self.call("cuMemFreeAsync", ctypes.c_uint64(handle), None)
        self.call("cuStreamSynchronize", None)

    def vmm(self, size):
        properties = Properties(type=1, location=Location(type=1, id=self.device))  # pinned, on this device
        grain = self.value(ctypes.c_size_t, "cuMemGetAllocationGranularity", ctypes.byref(properties), 0)
        size = (size + grain - 1) // grain * grain
        return self.value(ctypes.c_uint64, "cuMemCreate", ctypes.c_size_t(size), ctypes.byref(properties), ctypes.c_ulonglong(0))

    def vmm_free(self, handle):
        self.call("cuMemRelease", ctypes.c_uint64(handle))

    def managed(self, size):
        return self.value(ctypes.c_uint64, "cuMemAllocManaged", ctypes.c_size_t(size), 1)  # attached to all streams

    managed_free = alloc_free

    def ways(self, api):
        name = "async_" if api == "async" else api
        return getattr(self, name), getattr(self, api + "_free")

    def attempt(self, api, purpose, most, chunk):
        """Asks for most MiB, in chunks when growing, and gives all back."""
        take, give = self.ways(api)
        size = min(chunk, most) if purpose == "grow" else most
        held, served, refusal, begun = [], 0, None, time.time()
        try:
            while served < most:
                held.append(take(min(size, most - served) * MIB))
                served += min(size, most - served)
        except Refused as error:
            refusal = error
        for handle in held:
            give(handle)
        if api == "async":
            pool = self.value(ctypes.c_void_p, "cuDeviceGetDefaultMemPool", self.device)
            self.call("cuMemPoolTrimTo", ctypes.c_void_p(pool), ctypes.c_size_t(0))
        answer = dict(served=served, refused=refusal is not None, call="", result=0, name="", seconds=round(time.time() - begun, 3))
        if refusal:
            answer.update(call=refusal.call, result=refusal.result, name=self.name_of(refusal.result))
        if refusal and refusal.result == NOT_SUPPORTED:
            return step("skipped", "not_supported", refusal.call, **answer)
        return step("ran", "", {"alloc": "cuMemAlloc", "async": "cuMemAllocAsync", "vmm": "cuMemCreate", "managed": "cuMemAllocManaged"}[api], **answer)

    def hold(self, most, chunk, start, seconds):
        """Fills most MiB at the start time, keeps them, and reports what it saw."""
        before = self.free_mib()
        time.sleep(max(0.0, start - time.time()))
        held, served, refusal = [], 0, ""
        try:
            while served < most:
                held.append(self.alloc(min(chunk, most - served) * MIB))
                served += min(chunk, most - served)
        except Refused as error:
            refusal = "%s: %d" % (error.call, error.result)
        begun = time.time()
        time.sleep(max(0.0, start + seconds * 0.7 - begun))
        during = self.free_mib()
        time.sleep(max(0.0, start + seconds - time.time()))
        ended = time.time()
        for handle in held:
            self.alloc_free(handle)
        return step("ran", "", "cuMemAlloc, cuMemGetInfo", refusal, asked_mib=most, held_mib=served, free_before_mib=before,
                    free_during_mib=during, **{"from": begun, "to": ended, "with": [], "overlap": 0.0})

    def compute(self, percent, seconds):
        """Times rounds of a fixed amount of work. A share of compute shows as rounds that wait for their turn."""
        module = self.value(ctypes.c_void_p, "cuModuleLoadData", ctypes.c_char_p(PTX))
        function = self.value(ctypes.c_void_p, "cuModuleGetFunction", ctypes.c_void_p(module), ctypes.c_char_p(b"spin"))
        blocks = 2 * self.value(ctypes.c_int, "cuDeviceGetAttribute", 16, self.device)  # multiprocessors
        out = self.alloc(4 * 256)

        def round_of(loops):
            address, count = ctypes.c_uint64(out), ctypes.c_uint32(loops)
            packed = (ctypes.c_void_p * 2)(ctypes.addressof(address), ctypes.addressof(count))
            begun = time.perf_counter()
            self.call("cuLaunchKernel", ctypes.c_void_p(function), blocks, 1, 1, 256, 1, 1, 0, None, packed, None)
            self.call("cuCtxSynchronize")
            return (time.perf_counter() - begun) * 1000

        loops = 1 << 12
        round_of(loops)
        while round_of(loops) < 4 and loops < 1 << 26:
            loops *= 2
        rounds, end = [], time.perf_counter() + seconds
        while time.perf_counter() < end or len(rounds) < 5:
            rounds.append(round_of(loops))
        self.alloc_free(out)
        rounds.sort()
        return step("ran", "", "cuLaunchKernel, %d rounds of %d loops" % (len(rounds), loops), percent=percent,
                    millis=round(rounds[len(rounds) // 2], 3), fast_millis=round(rounds[0], 3),
                    share=round(100 * rounds[0] * len(rounds) / sum(rounds), 1))


PTX = b"""
.version 6.0
.target sm_60
.address_size 64
.visible .entry spin(.param .u64 out, .param .u32 loops)
{
  .reg .pred %p;
  .reg .f32 %f<3>;
  .reg .b32 %r<3>;
  .reg .b64 %d<4>;
  ld.param.u64 %d1, [out];
  ld.param.u32 %r1, [loops];
  mov.u32 %r2, %tid.x;
  cvt.rn.f32.u32 %f1, %r2;
  mul.wide.u32 %d2, %r2, 4;
  add.s64 %d3, %d1, %d2;
  mov.u32 %r2, 0;
NEXT:
  fma.rn.f32 %f1, %f1, 0f3F7FFFFF, 0f3F800000;
  fma.rn.f32 %f1, %f1, 0f3F7FFFFF, 0f3F800000;
  fma.rn.f32 %f1, %f1, 0f3F7FFFFF, 0f3F800000;
  fma.rn.f32 %f1, %f1, 0f3F7FFFFF, 0f3F800000;
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p, %r2, %r1;
  @%p bra NEXT;
  cvta.to.global.u64 %d3, %d3;
  st.global.f32 [%d3], %f1;
  ret;
}
\0"""


def driver_process(spec):
    """Makes the calls of the spec one after the other and answers each with a line, before and after it."""

    def say(**answer):
        print(LINE + json.dumps(answer), flush=True)

    try:
        driver = Driver()
    except OSError as error:
        return say(fatal=step("failed", "cuda_missing", "libcuda.so.1", error, call="", result=0))
    except Refused as error:
        return say(fatal=step("failed", "cuda_failed", error.call, error, call=error.call, result=error.result))
    try:
        devices = driver.describe()
        version = driver.value(ctypes.c_int, "cuDriverGetVersion")
        driver.open()
        devices[0]["free_mib"] = driver.free_mib()
        say(cuda=step("ran", "", "cuDeviceTotalMem, cuMemGetInfo", version=version, call="", result=0, devices=devices))
    except (Refused, IndexError) as error:
        call, result = getattr(error, "call", "cuDeviceGetCount"), getattr(error, "result", 0)
        return say(fatal=step("failed", "cuda_failed", call, driver.name_of(result) or "no card", call=call, result=result))
    for index, operation in enumerate(spec["operations"]):
        say(begin=index)
        try:
            answer = getattr(driver, operation["do"])(*operation["with"])
        except Refused as error:
            answer = step("failed", "cuda_failed", error.call, "%s (%d)" % (driver.name_of(error.result), error.result))
        say(index=index, answer=answer)


def read_lines(process, lines):
    for raw in process.stdout:
        text = raw.decode("utf-8", "replace")
        at = text.find(LINE)
        if at >= 0:
            try:
                lines.put(json.loads(text[at + len(LINE):]))
            except ValueError:
                pass
    lines.put(None)


def drive(script, env, operations, seconds):
    """Runs the operations in a fresh process, and those behind one that hangs in another. Returns what the driver said of
    itself, and the answers in the order of the operations."""
    cuda, answers, tries = None, [None] * len(operations), 0
    while (cuda is None or None in answers) and tries < 4:
        tries += 1
        left = [index for index, answer in enumerate(answers) if answer is None]
        said, done, stopped = one_process(script, env, [operations[index] for index in left], seconds)
        cuda = cuda or said
        for position, answer in done.items():
            answers[left[position]] = answer
        if stopped is None:
            break
        if said["state"] == "failed":
            cuda = said if cuda["state"] == "failed" else cuda
            break
    for index, answer in enumerate(answers):
        if answer is None:
            code = cuda["code"] if cuda["state"] == "failed" else "stuck"
            answers[index] = step("failed", code, cuda["read"], cuda["detail"])
    return cuda, answers


def one_process(script, env, operations, seconds):
    """Returns what the driver said, answers by position, and the code of what stopped it; None when it went through."""
    process = subprocess.Popen([sys.executable, script, json.dumps(dict(mode="driver", operations=operations))], env=env,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
    lines = queue.Queue()
    threading.Thread(target=read_lines, args=(process, lines), daemon=True).start()
    cuda, done, begun, stopped = None, {}, None, "died"
    while len(done) < len(operations) or cuda is None:
        try:
            extra = operations[begun].get("seconds", 0) if begun is not None and begun not in done else 0
            line = lines.get(timeout=seconds + extra)
        except queue.Empty:
            stopped = "stuck"
            break
        if line is None:
            break
        if "fatal" in line:
            kill(process)
            return dict(line["fatal"], version=0, devices=[]), done, "fatal"
        cuda = line.get("cuda", cuda)
        begun = line.get("begin", begun)
        if "index" in line:
            done[line["index"]] = line["answer"]
    else:
        stopped = None
    code = process.poll()
    kill(process)
    detail = "" if stopped is None else "%s (exit %s)" % (stopped, code)
    if cuda is None:
        cuda = step("failed", stopped, "libcuda.so.1", detail, version=0, call="cuInit", result=0, devices=[])
    elif stopped and begun is not None and begun not in done:
        done[begun] = step("failed", stopped, str(operations[begun]["with"][:1]), detail)
    return cuda, done, stopped


# ---- One worker.


def cuda_processes():
    """Counts processes here that use CUDA: those that have its device for memory open, which nvidia-smi and Ray have not.
    MPS has it open for others, who may be anywhere."""
    count = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/comm" % pid, encoding="utf-8", errors="replace") as file:
                if file.read().startswith("nvidia-cuda-mps"):
                    continue
            links = [os.readlink("/proc/%s/fd/%s" % (pid, fd)) for fd in os.listdir("/proc/%s/fd" % pid)]
        except OSError:
            continue
        count += any(link == "/dev/nvidia-uvm" for link in links)
    return count


def most_of_slice(gib, card_gib, card_mib):
    """Returns the most MiB that a slice may be: cGPU rounds a card down to whole GiB and hands out what that leaves (facts A.6, E.2)."""
    if card_gib and card_mib:
        return card_mib * gib // card_gib + 32
    return int(gib * 1024 * (1 + 1 / card_gib if card_gib else 1.1)) + 32


def sizes(worker, spec, answer):
    """Works out what to ask for, so that the answer proves something (facts E.1)."""
    gib, card_gib = worker.get("slice_gib") or 0, worker.get("card_gib") or 0
    limit = worker.get("slice_mib") or most_of_slice(gib, card_gib, worker.get("card_mib"))
    cards = answer["smi"]["cards"]
    total, used = (cards[0]["total_mib"], cards[0]["used_mib"]) if cards else (None, None)
    card = worker.get("card_mib") or (total if total and total > limit * 1.05 else 0) or card_gib * 1024
    neighbours = worker.get("neighbours_mib")
    if total and card and total > 0.95 * card and used is not None:
        neighbours = used  # nvidia-smi shows the card, so this is what all hold
    beyond = limit + max(1024, limit // 10)
    if card:
        beyond = min(beyond, card - (neighbours or 0) - ROOM_MIB)
    return dict(slice_mib=limit, card_mib=card, neighbours_mib=neighbours, inside_mib=gib * 512,
                beyond_mib=beyond if beyond >= limit + 64 else 0, step_mib=spec.get("step_mib") or 256)


def in_use(worker, answer):
    why, processes = [], cuda_processes()
    if worker.get("ray_reserved"):
        why.append("ray_reserved")
    if processes:
        why.append("cuda_process")
    cards = answer["smi"]["cards"]
    own = cards and cards[0]["total_mib"] and cards[0]["total_mib"] <= answer["sizes"]["slice_mib"]
    if own and (cards[0]["used_mib"] or 0) > IDLE_MIB:
        why.append("memory_used")
    return dict(in_use=bool(why), why=why, processes=processes)


def blank(worker):
    return dict(pod=worker.get("pod", ""), node_id=worker.get("node_id", ""), ip=worker.get("ip", ""), hostname="", error=None, seconds=0.0,
                in_use=dict(in_use=False, why=[], processes=0), variables=step(values={}, restored=[]),
                smi=step(exit_code=0, driver="", cards=[], noise=[]), cuda=step(version=0, call="", result=0, devices=[]),
                sizes=dict(slice_mib=0, card_mib=0, neighbours_mib=None, inside_mib=0, beyond_mib=0, step_mib=0), allocation=[],
                neighbours=step(asked_mib=0, held_mib=0, free_before_mib=None, free_during_mib=None, overlap=0.0, **{"from": 0.0, "to": 0.0, "with": []}),
                compute=step(percent=0, millis=0.0, fast_millis=0.0, share=0.0), torch=step(version="", device="", total_mib=None, free_mib=None))


def plan(spec, worker, at):
    """Lists the attempts: process, API, purpose, MiB, and why it will not be made."""
    attempts = [("fresh", "alloc", "inside", at["inside_mib"])]
    for process, apis in (("fresh", ("alloc", "async", "vmm")), ("clean", ("alloc",))):
        for api in apis:
            attempts += [(process, api, "beyond", at["beyond_mib"]), (process, api, "grow", at["beyond_mib"])]
    attempts += [("fresh", "managed", "inside", at["inside_mib"]), ("fresh", "managed", "beyond", at["beyond_mib"])]
    checks = spec.get("checks")
    names = {"alloc": "boundary", "async": "async", "vmm": "vmm", "managed": "managed"}
    plans = []
    for process, api, purpose, mib in attempts:
        check = "clean" if process == "clean" else purpose if api == "alloc" and purpose != "grow" else names[api]
        why = "not_asked" if checks and check not in checks else "" if mib else "no_room"
        plans.append((process, api, purpose, mib, why))
    return plans


def allocations(script, spec, worker, answer, env):
    """Makes the attempts, those with a clean environment in a process of their own, and the measurement of speed."""
    at, seconds = answer["sizes"], spec.get("call_seconds") or 20
    keep = ["PATH", "LD_LIBRARY_PATH"] + list(spec.get("keep_env") or [])
    environments = {"fresh": env, "clean": {name: env[name] for name in keep if name in env}}
    plans = plan(spec, worker, at)
    for process, environment in environments.items():
        mine = [p for p in plans if p[0] == process]
        operations = [{"do": "attempt", "with": [api, purpose, mib, at["step_mib"]]} for _, api, purpose, mib, why in mine if not why]
        percent = worker.get("core_percent") or 0
        computes = process == "fresh" and percent > 0
        if computes:
            operations.append({"do": "compute", "with": [percent, 1.0], "seconds": 5})
        cuda, answers = drive(script, environment, operations, seconds)
        if process == "fresh":
            answer["cuda"] = cuda
        if computes:
            answer["compute"].update(answers.pop())
        answers = iter(answers)
        for _, api, purpose, mib, why in mine:
            made = dict(process=process, api=api, purpose=purpose, mib=mib, served=0, refused=False, call="", result=0, name="", seconds=0.0)
            made.update(step("skipped", why) if why else next(answers))
            answer["allocation"].append(made)


TORCH = """import json, torch
free, total = torch.cuda.mem_get_info()
print("@rayslice " + json.dumps(dict(version=torch.__version__, device=torch.cuda.get_device_name(), total_mib=total >> 20, free_mib=free >> 20)))"""


def torch_figures(env, seconds):
    """Asks torch, where the image has it: in a process of its own, as importing it takes long and much memory."""
    if importlib.util.find_spec("torch") is None:
        return step("skipped", "not_supported", "torch")
    code, text = bounded([sys.executable, "-c", TORCH], env, seconds)
    at = text.rfind(LINE)
    if code != 0 or at < 0:
        return step("failed", "stuck" if code is None else "died", "torch.cuda.mem_get_info", text[-MOST_TEXT:])
    return step("ran", "", "torch.cuda.mem_get_info", **json.loads(text[at + len(LINE):].splitlines()[0]))


def measure(spec, worker):
    """Measures this machine. The phases: "passive" reads, "active" allocates, "hold" fills the slice beside others."""
    begun, answer, phases = time.time(), blank(worker), worker.get("phases") or ["passive", "active"]
    env, where = container_environment()
    answer["hostname"] = socket.gethostname()
    answer["variables"] = variables(env, where)
    answer["smi"] = smi(env, spec.get("call_seconds") or 20)
    answer["sizes"] = sizes(worker, spec, answer)
    with Script() as script:
        if "hold" in phases:
            hold(script, spec, worker, answer, env)
        else:
            answer["in_use"] = in_use(worker, answer)
            active(script, spec, worker, answer, env, phases)
    answer["seconds"] = round(time.time() - begun, 3)
    return answer


def active(script, spec, worker, answer, env, phases):
    why = "in_use" if answer["in_use"]["in_use"] else "whole_card" if worker.get("whole") else \
        "not_asked" if spec.get("passive") or worker.get("passive") or "active" not in phases else ""
    if not why:
        allocations(script, spec, worker, answer, env)
        if spec.get("torch"):
            answer["torch"].update(torch_figures(env, spec.get("call_seconds") or 20))
        return
    for key in ("cuda", "compute", "torch"):
        answer[key]["code"] = why
    for process, api, purpose, mib, _ in plan(spec, worker, answer["sizes"]):
        answer["allocation"].append(step("skipped", why, process=process, api=api, purpose=purpose, mib=mib, served=0, refused=False,
                                         call="", result=0, name="", seconds=0.0))


def hold(script, spec, worker, answer, env):
    at, lasts = worker["hold"], worker["hold"]["seconds"]
    wait = max(0.0, at["start"] - time.time()) + lasts
    operations = [{"do": "hold", "with": [at["mib"], answer["sizes"]["step_mib"], at["start"], lasts], "seconds": wait}]
    cuda, answers = drive(script, env, operations, spec.get("call_seconds") or 20)
    answer["cuda"] = cuda
    answer["neighbours"].update(answers[0])


# ---- A whole cluster, from inside a job of Ray's.


def on_worker(text, spec, seconds):
    """Runs the probe on the machine that Ray has put this on. It uses nothing outside itself: Ray ships it by value."""
    import json
    import os
    import signal
    import subprocess
    import sys
    import tempfile
    handle, path = tempfile.mkstemp(prefix="rayslice-probe-", suffix=".py")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        process = subprocess.Popen([sys.executable, path, json.dumps(spec)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        try:
            out, _ = process.communicate(timeout=seconds)
            return out[-(8 << 20):].decode("utf-8", "replace"), process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return "", None
    finally:
        os.unlink(path)


FAILURES = (("OutOfMemoryError", "host_memory"), ("WorkerCrashedError", "worker_died"), ("NodeDiedError", "node_lost"),
            ("TaskUnschedulableError", "node_lost"), ("ActorDiedError", "worker_died"), ("GetTimeoutError", "timeout"))


def failure(error):
    """Names what Ray says of a task that did not answer. None of these says anything about the card."""
    name = type(error).__name__
    text = "%s: %s" % (name, error)
    for part, code in FAILURES:
        if part in name:
            return dict(code=code, detail=clip(text))
    if "OutOfMemoryError" in text:
        return dict(code="host_memory", detail=clip(text))
    return dict(code="task_failed", detail=clip(text))


class Cluster:
    """The workers of a Ray cluster, each asked on its own node."""

    def __init__(self, spec):
        import ray
        self.ray, self.spec, self.end = ray, spec, time.time() + (spec.get("seconds") or 120)
        ray.init(address="auto", log_to_driver=False, logging_level="ERROR")
        self.text = source()
        self.task = ray.remote(num_cpus=0, num_gpus=0, max_retries=0)(on_worker)
        self.workers = [dict(worker) for worker in spec["workers"]]
        self.answers = [blank(worker) for worker in self.workers]

    def left(self):
        return max(0.0, self.end - time.time())

    def nodes(self):
        return [node for node in self.ray.nodes() if node.get("Alive")]

    def find(self):
        """Gives each worker its node, waiting for those that have not joined and GPUs not yet counted."""
        begun, wait = time.time(), min(self.spec.get("wait_seconds") or 20, self.left())
        while True:
            nodes = self.nodes()
            for worker, answer in zip(self.workers, self.answers):
                match = [node for node in nodes if node["NodeID"] == worker.get("ray_node")] or \
                    [node for node in nodes if node.get("NodeManagerHostname") == worker.get("pod")] or \
                    [node for node in nodes if node.get("NodeManagerAddress") == worker.get("ip")]
                if match:
                    worker["node_id"] = answer["node_id"] = match[0]["NodeID"]
                    answer["ip"] = match[0].get("NodeManagerAddress", "")
            gpus = sum(node.get("Resources", {}).get("GPU", 0.0) for node in nodes)
            found = all(worker.get("node_id") for worker in self.workers)
            if (found and gpus >= (self.spec.get("gpus") or 0)) or time.time() - begun >= wait:
                return self.describe(nodes, gpus, time.time() - begun)
            time.sleep(0.25)

    def describe(self, nodes, gpus, waited):
        free, problem = {}, ""
        try:
            from ray._private.state import available_resources_per_node
            free = available_resources_per_node()
        except Exception as error:  # not a promised interface: without it, use is seen by memory and processes
            problem = clip("%s: %s" % (type(error).__name__, error))
        described = []
        for node in nodes:
            has = node.get("Resources", {})
            at = free.get(node["NodeID"])
            described.append(dict(id=node["NodeID"], ip=node.get("NodeManagerAddress", ""), hostname=node.get("NodeManagerHostname", ""),
                                  head="node:__internal_head__" in has, gpus=has.get("GPU", 0.0),
                                  gpus_free=None if at is None else at.get("GPU", 0.0)))
        for worker in self.workers:
            for node in described:
                if node["id"] == worker.get("node_id") and node["gpus_free"] is not None:
                    worker["ray_reserved"] = node["gpus_free"] < node["gpus"]
        return dict(version=self.ray.__version__, gpus=gpus, waited=round(waited, 3), nodes=described, problem=problem)

    def ask(self, indices, seconds, **more):
        """Runs the probe on the workers at the same time. Returns their answers by index; a failed one gets its error."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
        seconds = min(seconds, self.left())
        spec = {key: value for key, value in self.spec.items() if key != "workers"}
        asked = {}
        for index in indices:
            worker = dict(self.workers[index], **more)
            if "hold" in more:
                worker["hold"] = dict(more["hold"], mib=self.room(index))
            task = self.task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(worker["node_id"], soft=False))
            asked[index] = task.remote(self.text, dict(spec, mode="worker", workers=[worker]), seconds)
        ready, late = self.ray.wait(list(asked.values()), num_returns=len(asked), timeout=seconds + 3) if asked else ([], [])
        answers = {}
        for index, reference in asked.items():
            if reference in late:
                self.ray.cancel(reference, force=True)
                self.answers[index]["error"] = dict(code="timeout", detail="no answer within %d s" % seconds)
                continue
            try:
                out, code = self.ray.get(reference)
            except Exception as error:
                self.answers[index]["error"] = failure(error)
                continue
            document = unframe(self.spec["run"], out)
            if document and document["workers"]:
                answers[index] = document["workers"][0]
            elif code is None:
                self.answers[index]["error"] = dict(code="timeout", detail="cut off after %d s" % seconds)
            else:
                self.answers[index]["error"] = dict(code="probe_broken", detail=clip("exit %s: %s" % (code, out[-1000:])))
        return answers

    def room(self, index):
        """Returns what a worker could get when it was alone, less one step."""
        at = self.answers[index]["sizes"]
        grown = [a["served"] for a in self.answers[index]["allocation"] if a["purpose"] == "grow" and a["process"] == "fresh" and a["api"] == "alloc"]
        return max(0, min(grown[0] if grown else 0, at["slice_mib"]) - at["step_mib"])

    def cards(self):
        """Groups the workers by the card they are on; those whose card is unknown may all share one."""
        groups = {}
        for index, answer in enumerate(self.answers):
            if answer["error"] is None:
                cards = answer["smi"]["cards"]
                groups.setdefault(cards[0]["uuid"] if cards else "", []).append(index)
        return groups

    def measure(self):
        missing = [index for index, worker in enumerate(self.workers) if not worker.get("node_id")]
        for index in missing:
            self.answers[index]["error"] = dict(code="node_missing", detail="")
        there = [index for index in range(len(self.workers)) if index not in missing]
        for index, answer in self.ask(there, self.left() / 3, phases=["passive"]).items():
            self.keep(index, answer)
        idle = {card: [i for i in group if not self.answers[i]["in_use"]["in_use"]] for card, group in self.cards().items()}
        for turn in range(max([len(group) for group in idle.values()] or [0])):  # never two on one card
            now = [group[turn] for group in idle.values() if turn < len(group)]
            for index, answer in self.ask(now, self.left() / 2, phases=["passive", "active"]).items():
                self.keep(index, answer)
        self.together(idle)

    def keep(self, index, answer):
        answer.update({key: self.answers[index][key] for key in ("pod", "node_id", "ip")})
        answer["seconds"] = round(answer["seconds"] + self.answers[index]["seconds"], 3)
        self.answers[index] = answer

    def together(self, idle):
        """Lets the workers of ours that share a card fill it at the same time."""
        checks = self.spec.get("checks")
        for card, group in idle.items():
            group = [i for i in group if self.answers[i]["error"] is None and self.room(i) > 0]
            if self.spec.get("passive") or checks and "neighbours" not in checks:
                continue
            if not card or len(group) < 2:
                for index in group:
                    self.answers[index]["neighbours"]["code"] = "alone"
                continue
            start, lasts = time.time() + 2.0, 3.0
            seen = self.ask(group, 30, phases=["hold"], hold=dict(start=start, seconds=lasts))
            held = [answer["neighbours"] for answer in seen.values() if answer["neighbours"]["state"] == "ran"]
            overlap = min([h["to"] for h in held] or [0]) - max([h["from"] for h in held] or [0])
            for index in group:
                if index in seen:
                    self.answers[index]["neighbours"] = dict(seen[index]["neighbours"], overlap=round(max(0.0, overlap), 3),
                                                             **{"with": [self.workers[i].get("pod", "") for i in seen if i != index]})
                elif self.answers[index]["error"]:  # what was measured before still counts
                    error = self.answers[index]["error"]
                    self.answers[index]["neighbours"].update(step("failed", error["code"], "", error["detail"]))
                    self.answers[index]["error"] = None


def document(spec, **more):
    return dict(dict(schema=SCHEMA, version=PROBE_VERSION, run=spec["run"], mode=spec["mode"], started=time.time(), finished=0.0,
                     error=None, ray=None, workers=[]), **more)


def cluster_document(spec):
    answer = document(spec)
    try:
        cluster = Cluster(spec)
    except Exception as error:
        answer.update(error=dict(code="ray_unreachable", detail=clip("%s: %s" % (type(error).__name__, error))))
        return answer
    try:
        answer["ray"] = cluster.find()
        cluster.measure()
    except Exception as error:  # what was measured so far is worth having
        answer["error"] = failure(error)
    answer["workers"] = cluster.answers
    return answer


def main(argument):
    spec = json.loads(argument)
    if spec["mode"] == "driver":
        return driver_process(spec)
    if spec["mode"] == "cluster":
        answer = cluster_document(spec)
    else:
        answer = document(spec)
        answer["workers"] = [measure(spec, worker) for worker in spec["workers"]]
    answer["finished"] = time.time()
    sys.stdout.write(frame(spec["run"], answer))
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
