"""Finds the program headscope."""
import os
import shutil
from pathlib import Path
from typing import Optional

BUNDLED = Path(__file__).with_name("bin") / "headscope"
TREE = Path(__file__).resolve().parents[3]  # clients/python/headscope lies in it, if the package is not installed


def find_program() -> Optional[str]:
    """Returns the program's path: $HEADSCOPE, else the one in this package, that of `make` in its tree, or one on the PATH."""
    built = TREE / "build" / "headscope"
    if os.environ.get("HEADSCOPE"):
        return os.environ["HEADSCOPE"]
    if BUNDLED.is_file():
        return str(BUNDLED)
    if (TREE / "server" / "base" / "version.h").is_file() and built.is_file():
        return str(built)
    return shutil.which("headscope")
