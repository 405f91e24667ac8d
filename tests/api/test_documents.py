"""Every relative link of README and docs leads to a file of the tree and to a heading in it. Requests in documents
follow openapi.json. The embedded model's card is that of the files beside it."""
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml
from conftest import unsanitized

pytestmark = unsanitized
ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("clients/**/*.md"), *ROOT.glob("model/mini/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links(page):
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing


def anchors(page):
    """The names that GitHub gives the headings of a page."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    seen, names = {}, set()
    for heading in re.findall(r"^#+ (.+?)\s*$", text, re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w -]", "", plain.lower()).replace(" ", "-")
        seen[name] = seen.get(name, -1) + 1
        names.add(f"{name}-{seen[name]}" if seen[name] else name)
    return names | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_anchors(page):
    links = re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", page.read_text(encoding="utf-8"))
    missing = [(file, anchor) for file, anchor in links
               if "://" not in file and (file == "" or file.endswith(".md")) and anchor not in anchors(page.parent / file if file else page)]
    assert not missing


def test_the_site_names_every_page():
    """deploy/mkdocs.yml has the documents in its navigation."""
    named = re.findall(r"[\w/]+\.md$", (ROOT / "deploy" / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(named) == len(set(named))
    assert {str(page.relative_to(ROOT)) for page in PAGES} == set(named) - {"examples/index.md"}


@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")
def test_pages_of_the_site_lead_to_files(tmp_path):
    """make site gives MkDocs these: links of a page lead to files, not to folders, and the page of the interface is there."""
    subprocess.run([sys.executable, ROOT / "deploy" / "site.py", tmp_path / "pages"], check=True)
    pages = sorted((tmp_path / "pages").glob("**/*.md"))
    assert len(pages) > len(PAGES)
    for page in pages:
        links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        assert not [link for link in links if "://" not in link and not (page.parent / link).is_file()], page
    for name in ("docs.html", "docs.css", "openapi.json", "examples/quick-start.ipynb"):
        assert (tmp_path / "pages" / name).stat().st_size > 0


def blocks_of_json():
    for page in PAGES:
        for number, block in enumerate(re.findall(r"^ *```json\n(.*?)^ *```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)):
            yield pytest.param(block, id=f"{page.relative_to(ROOT)}:{number}")


@pytest.mark.parametrize("block", blocks_of_json())
def test_requests_are_of_the_schema(block):
    api = json.loads((ROOT / "api" / "openapi.json").read_text(encoding="utf-8"))
    schema = {"$ref": "#/components/schemas/AnalyzeRequest", "components": api["components"]}
    jsonschema.Draft202012Validator(schema).validate(json.loads(block))


def test_card_is_of_these_weights():
    folder = ROOT / "model" / "mini"
    sums = re.findall(r"^[0-9a-f]{64}  .*\n", (folder / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert [line.split()[1] for line in sums] == ["model.safetensors", "vocab.txt"]
    subprocess.run(["sha256sum", "--check", "--quiet"], input="".join(sums), text=True, cwd=folder, check=True)


def test_the_citation_names_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    version = re.search(r'HS_VERSION "(.+)"', (ROOT / "server/base/version.h").read_text(encoding="utf-8"))[1]
    assert citation["version"] == version and citation["license"] == "Apache-2.0"
    assert citation["references"][0]["url"].endswith("2512.21956")
