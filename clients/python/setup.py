"""Adds to pyproject.toml what depends on the tree: the version, and the command of a wheel that has the program in it."""
import re
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).parent
HEADER = HERE / "../../server/base/version.h"
PROGRAM = HERE / "headscope/bin/headscope"

SDIST = HERE / "PKG-INFO"  # in place of the tree, in a source distribution


def version():
    """Returns the version of the tree, or of the source distribution that this is."""
    for file, pattern in ((HEADER, r'HS_VERSION "(.+)"'), (SDIST, r"(?m)^Version: (.+)$")):
        if file.is_file():
            return re.search(pattern, file.read_text(encoding="utf-8"))[1]
    raise SystemExit(f"{HEADER.resolve()} is not there: install from headscope's tree, with pip 21.3 or newer "
                     "(`pip install --upgrade pip`)")


setup(
    version=version(),
    entry_points={"console_scripts": ["headscope = headscope.__main__:main"]} if PROGRAM.is_file() else {},
)
