"""Describes the machine of a measurement, so that tables keep the rows of each machine apart."""
import os
import re
import time
from pathlib import Path

# Kernels -> flag of /proc/cpuinfo -> what they use besides.
BESIDES = {"avx512": {"avx512_bf16": "BF16", "avx512_vnni": "VNNI"}, "avx2": {"avx_vnni": "AVX-VNNI"}}


def kernels_of(flags):
    """Those that headscope chooses (engine/kernels/kernels.c)."""
    if {"avx512f", "avx512vl", "avx512dq", "avx512bw"} <= flags:
        return "avx512"
    if {"avx2", "fma"} <= flags:
        return "avx2"
    return "neon" if "asimd" in flags else "base"


def describe(n_cores, cpuinfo=None, environment=os.environ):
    """{cpu, kernels, cores, date}. The same name stands for many a CPU ("AMD EPYC"), so its family and model follow."""
    text = cpuinfo if cpuinfo is not None else Path("/proc/cpuinfo").read_text()
    found = dict(re.findall(r"^(model name|cpu family|model|flags|Features|CPU implementer|CPU part)\s*:\s*(.*)$", text, re.M))
    flags = set(found.get("flags", found.get("Features", "")).split())  # arm64 has Features
    name = " ".join(found.get("model name", "unknown CPU").split())
    if "cpu family" in found:
        name += f" (family {found['cpu family']}, model {found['model']})"
    elif "CPU part" in found:
        name = f"arm64 (implementer {found['CPU implementer']}, part {found['CPU part']})"
    kernels = environment.get("HEADSCOPE_KERNELS") or kernels_of(flags)
    more = [label for flag, label in BESIDES.get(kernels, {}).items() if flag in flags]
    return {"cpu": name, "kernels": " + ".join([kernels, *more]), "cores": n_cores,
            "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())}
