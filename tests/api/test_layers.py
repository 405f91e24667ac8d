"""Tests `make layers` on a small tree with one fault of each kind."""
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import unsanitized

pytestmark = unsanitized
LAYERS = Path(__file__).parents[1] / "layers.py"
# path -> text of a tree without fault; each file opens with its name.
TREE = {
    "model/base/status.h": "int hs_status_ok(void);\n",
    "model/base/status.c": '#include "model/base/status.h"\n#include <string.h>\nint hs_status_ok(void)\n{\n    return 1;\n}\n',
    "engine/engine.h": '#include "model/base/status.h"\nint hs_engine_run(void);\n',
    "engine/pass/forward.c": '#include "engine/engine.h"\nint hs_engine_run(void)\n{\n    return hs_status_ok();\n}\n',
    "api/api.c": '#include "engine/engine.h"\nint hs_api(void);\nint hs_api(void)\n{\n    return hs_engine_run();\n}\n',
}
LONG = "int lines(void);\nint lines(void)\n{\n" + "    ;\n" * 70 + "    return 0;\n}\n"
FAULTS = {
    "none": ({}, None),
    "up": ({"model/base/status.h": '#include "api/api.h"\nint hs_status_ok(void);\n', "api/api.h": ""},
           "model/base/status.h includes api/api.h: model/base lies below api"),
    "up by a call": ({"model/base/status.c": "int hs_api(void);\nint hs_status_ok(void)\n{\n    return hs_api();\n}\n"},
                     "model/base/status.c calls api/api.c: model/base lies below api"),
    "library": ({"model/model.c": "#include <sqlite3.h>\n"}, "which belongs to server/base"),
    "unknown library": ({"model/model.c": "#include <pcre2.h>\n"}, "<pcre2.h>, which has no row"),
    "circle of includes": ({"engine/pass/one.h": '#include "engine/pass/two.h"\n',
                            "engine/pass/two.h": '#include "engine/pass/one.h"\n'},
                           "engine/pass/one.h <-> engine/pass/two.h"),
    "circle of calls": ({"api/one.c": "int two(void);\nint one(void)\n{\n    return two();\n}\n",
                         "api/two.c": "int one(void);\nint two(void)\n{\n    return one();\n}\n"},
                        "api/one.c <-> api/two.c"),
    "long function": ({"api/long.c": LONG}, "api/long.c: lines has 74 lines"),
    "same name": ({"api/formats/status.h": ""}, "status.h: api/formats/status.h model/base/status.h"),
    "no opening": ({"api/api.h": "/* accept.h - another file */\n"}, "api/api.h: /* accept.h - another file */"),
}


def write(root, files):
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        opening = "" if text.startswith("/*") else f"/* {Path(path).name} - a file */\n"
        (root / path).write_text(opening + text)


def check(root, files):
    write(root, files)
    write(root / "build/headers", {"pcre2.h": "", "sqlite3.h": ""})
    for path in (Path(path) for path in files if path.endswith(".c")):
        made = (root / "build" / path).with_suffix(".o")
        made.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cc", "-I", root, "-I", root / "build/headers", "-c", root / path, "-o", made], check=True)
    return subprocess.run([sys.executable, LAYERS, "--strict", "--root", root, "--objects", root / "build"],
                          capture_output=True, text=True)


@pytest.mark.parametrize("fault", FAULTS)
def test_layers_finds(tmp_path, fault):
    files, message = FAULTS[fault]
    done = check(tmp_path, {**TREE, **files})
    assert done.returncode == (message is not None), done.stdout + done.stderr
    assert (message or "server -> api -> engine -> model") in done.stdout


def test_layers_says_whose_calls_it_did_not_see(tmp_path):
    done = check(tmp_path, TREE)
    assert done.returncode == 0 and "not looked at" not in done.stdout
    (tmp_path / "build/api/api.o").unlink()
    done = check(tmp_path, {path: text for path, text in TREE.items() if path.endswith(".h")})
    assert done.returncode == 0 and "calls: those of 1 files were not looked at" in done.stdout
