"""Describes the machine of a measurement, so that tables keep the rows of each machine apart. Tells what other
programs took of it meanwhile."""
import contextlib
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


LIMIT = 0.1  # of the machine's time: a measurement beside which other programs took more is thrown away
TICKS = os.sysconf("SC_CLK_TCK")


def stat_of(pid):
    """The fields of /proc/PID/stat after the name: state, parent, ...; none if the process has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return []


def own_seconds():
    """CPU time of this process and all below it, those that have ended included."""
    known = {int(folder.name): stat_of(folder.name) for folder in Path("/proc").glob("[0-9]*")}
    children = {}
    for pid, fields in known.items():
        if fields:
            children.setdefault(int(fields[1]), []).append(pid)
    family = [os.getpid()]
    for pid in family:  # grows while it is read
        family += children.get(pid, [])
    return sum(int(ticks) for pid in family for ticks in known[pid][11:15]) / TICKS


def busy_seconds():
    """Time in which the machine's cores worked, for the host or for others on it (steal) too."""
    user, nice, system, _, _, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS


class Watch:
    """Tells which part of the machine's time other programs have taken since it was made."""

    def __init__(self):
        self.start, self.busy, self.own = time.monotonic(), busy_seconds(), own_seconds()

    def taken(self):
        """Seconds that other programs had, of how many that there were on all cores."""
        seconds = os.cpu_count() * (time.monotonic() - self.start)
        return busy_seconds() - self.busy - (own_seconds() - self.own), seconds

    def others(self):
        taken, seconds = self.taken()
        return max(0.0, taken / seconds)


def cpu_seconds(pid):
    """CPU time of a process so far, by its clock of clock_getcpuclockid(3)."""
    return time.clock_gettime(~pid << 3 | 2)


def undisturbed(measure, tries=3, limit=LIMIT):
    """(figures, part of the machine that others took) of a call beside which others took little; of the least disturbed
    one of several if there is none."""
    best = None
    for left in reversed(range(tries)):
        watch = Watch()
        figures = measure()
        others = watch.others()
        if best is None or others < best[1]:
            best = figures, others
        if others <= limit or not left:
            break
        print(f"other programs took {others:.0%} of the machine: measured again", flush=True)
    return best
