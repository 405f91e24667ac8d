"""docs/explanation/performance.md's tables: a machine's rows are its own."""
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import unsanitized

pytestmark = unsanitized
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "bench"))
import machine  # noqa: E402
import report  # noqa: E402

EPYC = """processor : 0
cpu family\t: 25
model\t\t: 17
model name\t: AMD  EPYC
flags\t\t: fma avx2 avx512f avx512vl avx512dq avx512bw avx512_vnni avx512_bf16
"""
XEON = {"cpu": "Xeon (family 6, model 85)", "kernels": "avx512 + VNNI", "cores": 4, "date": "2026-01-02 03:04 UTC"}
EMPTY = "# Title\n\nBefore.\n\n<!-- bench: peers -->\n<!-- end -->\n\n<!-- bench: passes -->\n<!-- end -->\nAfter.\n"


def engines(**more):
    row = {"model": "base", "tokens": 128, "cores": 1, "ms": 82.44, "ratio": 1.254, "others": 0.021} | more
    return [row | {"name": "ONNX Runtime, int8"}, row | {"name": "headscope, int8", "ratio": 1}]


def test_a_machine_is_its_cpu_instructions_and_cores():
    epyc = machine.describe(2, EPYC, {})
    assert report.title(epyc) == "AMD EPYC (family 25, model 17), avx512 + BF16 + VNNI, 2 cores"
    assert report.title(machine.describe(1, EPYC, {"HEADSCOPE_KERNELS": "avx2"})).endswith(", avx2, 1 core")
    assert report.title(machine.describe(1, "Hardware : a board", {})) == "unknown CPU, base, 1 core"
    arm = "Features\t: fp asimd\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"
    assert report.title(machine.describe(4, arm, {})) == "arm64 (implementer 0x41, part 0xd0c), neon, 4 cores"


def test_entries_of_other_machines_stay():
    epyc = machine.describe(2, EPYC, {})
    first = report.put(EMPTY, "peers", epyc, "| old |\n")
    both = report.put(first, "peers", XEON, report.peers({"engines": engines()}))
    assert both.index("| old |") < both.index("**Xeon (family 6, model 85), avx512 + VNNI, 4 cores**, 2026-01-02")
    assert "|program|base, 128|\n|---|---|\n|headscope, int8, ms|82.4|\n|ONNX Runtime, int8|1.25|\n" in both
    again = report.put(both, "peers", {**epyc, "date": "later"}, "| new |\n")
    assert "| old |" not in again and again.index("| new |") < again.index("**Xeon")
    assert re.sub(r"(?s)<!-- bench: peers -->\n.*?<!-- end -->", "<!-- bench: peers -->\n<!-- end -->", again) == EMPTY
    assert report.put(again, "peers", {**epyc, "date": "later"}, "| new |\n") == again
    assert report.put(again, "peers", {**epyc, "cores": 3}, "| three |\n").count("**AMD EPYC") == 2


def test_what_other_programs_took():
    def of_children():
        return machine.own_seconds() - time.process_time()

    before = of_children()
    spinning = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        while machine.cpu_seconds(spinning.pid) < 0.3:
            time.sleep(0.01)
        alive = of_children() - before
    finally:
        spinning.kill()
        spinning.wait()
    assert alive > 0.2 and of_children() - before > 0.2, "children count, those that have ended too"
    tries = []
    assert machine.undisturbed(lambda: tries.append(0) or len(tries), limit=99)[0] == 1
    assert machine.undisturbed(lambda: tries.append(0) or len(tries), limit=-1)[0] in (2, 3, 4)
    assert len(tries) == 4


def test_cells_of_one_core_and_of_all():
    made = report.peers({"engines": [*engines(), *engines(cores=2, ms=50, ratio=None)[:1], *engines(tokens=32, cores=2, ms=9)[1:]]})
    assert made.split("\n")[2:-1] == ["|headscope, int8, ms|82.4, -|-, 9.0|", "|ONNX Runtime, int8|1.25, -|-, -|"]


def test_values_of_cells():
    table = "|model|tokens|analysis|resident|\n|---|---|---|---|\n|base|128|1.10, -|355.2 (0.82 ×)|\n"
    text = report.put(EMPTY, "passes", XEON, table)

    def value(column, n=0, **keys):
        return report.figure(text, report.title(XEON), "passes", column, n, **keys)

    assert (value("analysis", model="base", tokens=128), value("analysis", 1), value("analysis", 2)) == (1.1, None, None)
    assert (value("resident"), value("resident", tokens=512), value("nothing")) == (0.82, None, None)
    assert report.figure(text, "another machine", "passes", "analysis") is None


def test_a_document_without_the_place_is_refused():
    with pytest.raises(ValueError, match="no place for 'answers'"):
        report.put(EMPTY, "answers", XEON, "")


def test_the_document_has_every_place(tmp_path):
    text = (ROOT / "docs" / "explanation" / "performance.md").read_text()
    one = {"passes": [], "encoding": [], "throughput": {"rows": [], "resident_bytes_max": 3e6},
           "start": {"ready_ms": 5, "resident_bytes": 2e6}, "follow_up": {"overview_ms": 1, "head_ms": 1},
           "corpus": {"texts_per_second": 9, "of_ideal": 0.95}, "model": {"weight_bytes": 1e6},
           "experiments": {"effects": 74.7, "lens": 0.04}}
    others = {f"{name} {part}": 0.01 for name in ("base", "mini", "minilm", "families") for part in ("passes", "throughput")}
    (tmp_path / "bench.json").write_text(json.dumps({"machine": XEON, "base": one, "mini": one, "minilm": one, "families": {},
                                                     "others": others | {"base passes": 0.034}}))
    compared = {"machine": XEON, "cblas": "OpenBLAS 0.3.21, SkylakeX", "engines": engines(),
                "request": {"headscope_ms": 150, "python_ms": 2700, "ratio": 18, "others": 0.05}}
    document = tmp_path / "performance.md"
    document.write_text(text)
    (tmp_path / "bench-peers.json").write_text(json.dumps(compared | {"cpu_time": False}))
    subprocess.run([sys.executable, ROOT / "tests/bench/report.py", tmp_path, document], check=True)
    written = document.read_text()
    assert written.count("**, 2026-01-02 03:04 UTC; other programs took at most 3 % of the machine\n") >= 3
    assert written.count("**, 2026-01-02 03:04 UTC; other programs took at most 2 % of the machine; OpenBLAS 0.3.21, SkylakeX\n") == 1
    places = re.findall(r"<!-- bench: (.*?) -->", text)
    entries = re.compile(r"(?ms)^\*\*Xeon \(family 6.*?(?=^\*\*|<!-- end -->)")
    assert len(places) == len(set(places)) == text.count("<!-- end -->") == len(entries.findall(written))
    assert "|our fp32 / our bf16, 1 core|>= 1.7|1.81|-|" in written, "the bars have a column for each machine"
    assert report.with_bars(entries.sub("", written)) == text


@pytest.mark.parametrize("name,figures", [
    ("bench-peers.json", {"cpu_time": False, "cblas": "", "engines": [], "request": None}),
    ("bench-peers.json", {"cpu_time": True, "engines": engines(), "request": None}),
    ("bench.json", {"base": {}, "mini": {}}),
], ids=["all rounds disturbed", "peers of an earlier version", "bench of an earlier version"])
def test_what_was_not_measured_changes_no_table(tmp_path, monkeypatch, name, figures):
    text = (ROOT / "docs" / "explanation" / "performance.md").read_text()
    document = tmp_path / "performance.md"
    document.write_text(text)
    (tmp_path / name).write_text(json.dumps({"machine": {**machine.describe(2, EPYC, {}), "date": "later"}} | figures))
    monkeypatch.setattr(sys, "argv", ["report.py", str(tmp_path), str(document)])
    report.main()
    assert document.read_text() == text


def test_the_bars_are_those_of_the_tables():
    text = (ROOT / "docs" / "explanation" / "performance.md").read_text()
    assert report.with_bars(text) == text, "python3 tests/bench/report.py build docs/explanation/performance.md writes them"
    for measured, bar in (("6.25", "6.25 ×, missed by 25 %"), ("5.00", "5.00 ×"), ("-", "-")):
        changed = re.sub(r"\|npz\|.*", f"|npz|18.89|1.20|15781|{measured}|", text)
        assert f"|npz, of a copy|<= 5 ×|{bar}|" in report.with_bars(changed)
