"""The other side of release.ts: processes that hold, watch and take a card's memory, on commands from stdin.

  holder N      holds N bytes; "drop" gives them back and stays, "exit" ends it
  watcher       an independent reader: "arm BYTES" → prints the first time at which used memory is at or below BYTES
  taker         "fill LEAVE" takes all but LEAVE bytes, "take N" tries to take N more and says whether that went
Times are milliseconds of CLOCK_REALTIME, as the other side's monotonic clock is anchored to it.
"""
import ctypes
import os
import sys
import time


def say(*words):
    print(*words, flush=True)


def holder(count):
    import torch

    block = torch.empty(count, dtype=torch.uint8, device="cuda")
    block.zero_()
    torch.cuda.synchronize()
    say("ready", os.getpid(), torch.cuda.memory_reserved())
    for line in sys.stdin:
        if line.startswith("drop"):
            at = time.time() * 1000
            del block
            torch.cuda.empty_cache()
            say("did", at)
        if line.startswith("exit"):
            say("did", time.time() * 1000)
            sys.stdout.flush()
            os._exit(0)


class Memory(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint), ("total", ctypes.c_ulonglong), ("reserved", ctypes.c_ulonglong),
                ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


def watcher():
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    assert nvml.nvmlInit_v2() == 0
    device = ctypes.c_void_p()
    assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0
    memory = Memory(version=0x02000028)

    def used():
        assert nvml.nvmlDeviceGetMemoryInfo_v2(device, ctypes.byref(memory)) == 0
        return memory.used

    say("ready", os.getpid(), used())
    for line in sys.stdin:
        if not line.startswith("arm"):
            continue
        limit = int(line.split()[1])
        say("armed")
        longest = 0.0
        end = time.time() + 20
        while time.time() < end:
            before = time.time()
            seen = used()
            after = time.time()
            longest = max(longest, after - before)
            if seen <= limit:
                say("seen", after * 1000, longest * 1000)
                break
            time.sleep(0.0002)
        else:
            say("unseen", 0, longest * 1000)


def taker():
    import torch

    keep = []
    torch.zeros(1, device="cuda")
    say("ready", os.getpid(), 0)
    for line in sys.stdin:
        word, count = line.split()[0], int(line.split()[1])
        if word == "fill":
            keep.clear()
            torch.cuda.empty_cache()
            free, _ = torch.cuda.mem_get_info()
            keep.append(torch.empty(max(1, free - count), dtype=torch.uint8, device="cuda"))
            say("filled", torch.cuda.mem_get_info()[0])
        if word == "take":
            try:
                keep.append(torch.empty(count, dtype=torch.uint8, device="cuda"))
                say("took", 1)
            except torch.OutOfMemoryError:
                say("took", 0)
            keep.clear()
            torch.cuda.empty_cache()


if __name__ == "__main__":
    role = sys.argv[1]
    if role == "holder":
        holder(int(sys.argv[2]))
    elif role == "watcher":
        watcher()
    else:
        taker()
