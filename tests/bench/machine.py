"""What a measurement was made on: by this, tables know which rows are whose."""
import os
import re
import time
from pathlib import Path

# Kernels -> flag of /proc/cpuinfo -> what they use besides.
BESIDES = {"avx512": {"avx512_bf16": "BF16", "avx512_vnni": "VNNI"}, "avx2": {"avx_vnni": "AVX-VNNI"}, "base": {}}


def kernels_of(flags):
    """Those that headscope chooses (engine/kernels/kernels.c)."""
    if {"avx512f", "avx512vl", "avx512dq", "avx512bw"} <= flags:
        return "avx512"
    return "avx2" if {"avx2", "fma"} <= flags else "base"


def describe(n_cores, cpuinfo=None, environment=os.environ):
    """{cpu, kernels, cores, date}. The same name stands for many a CPU ("AMD EPYC"), so its family and model follow."""
    text = cpuinfo if cpuinfo is not None else Path("/proc/cpuinfo").read_text()
    found = dict(re.findall(r"^(model name|cpu family|model|flags)\s*:\s*(.*)$", text, re.M))
    flags = set(found.get("flags", "").split())
    name = " ".join(found.get("model name", "unknown CPU").split())
    if "cpu family" in found:
        name += f" (family {found['cpu family']}, model {found['model']})"
    kernels = environment.get("HEADSCOPE_KERNELS") or kernels_of(flags)
    more = [label for flag, label in BESIDES.get(kernels, {}).items() if flag in flags]
    return {"cpu": name, "kernels": " + ".join([kernels, *more]), "cores": n_cores,
            "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())}
