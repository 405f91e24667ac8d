"""Adds to pyproject.toml what depends on the tree: the version, and the command of a wheel that has the program in it."""
import re
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).parent
HEADER = HERE / "../../server/base/version.h"
PROGRAM = HERE / "headscope/bin/headscope"

if not HEADER.is_file():
    raise SystemExit(f"{HEADER.resolve()} is not there: install from headscope's tree, with pip 21.3 or newer "
                     "(`pip install --upgrade pip`)")
setup(
    version=re.search(r'HS_VERSION "(.+)"', HEADER.read_text())[1],
    entry_points={"console_scripts": ["headscope = headscope.__main__:main"]} if PROGRAM.is_file() else {},
)
