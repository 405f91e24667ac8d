"""Every relative link of README and docs leads to a file of the tree, and the embedded
model's card is that of the files beside it."""
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("clients/**/*.md"), *ROOT.glob("model/mini/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links(page):
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing


def test_card_is_of_these_weights():
    folder = ROOT / "model" / "mini"
    sums = re.findall(r"^[0-9a-f]{64}  .*\n", (folder / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert [line.split()[1] for line in sums] == ["model.safetensors", "vocab.txt"]
    subprocess.run(["sha256sum", "--check", "--quiet"], input="".join(sums), text=True, cwd=folder, check=True)
