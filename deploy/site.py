"""Stages the documents of the tree for MkDocs, with the files that they link to: python3 deploy/site.py FOLDER.

The folder gets the layout of the tree, so that links stay as they are. A link to a folder leads to its README.md, or to
a list of its files.
"""
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)]*)?\))")
PICTURE = re.compile(r' (?:src|srcset)="([^"]+)"')  # of HTML, whose addresses stay as they are
LEFT_OUT = {"build", "dist", "node_modules", "shared"}


def documents():
    """The Markdown files of the tree: those of git, or in an unpacked release those that no build has made."""
    if shutil.which("git"):
        listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=False)
        if listed.returncode == 0:
            return [Path(name) for name in listed.stdout.split()]
    found = (path.relative_to(ROOT) for path in ROOT.glob("**/*.md"))
    return sorted(path for path in found if not LEFT_OUT & set(path.parts))


class Stage:
    def __init__(self, folder):
        self.folder = folder

    def page(self, path):
        text = (ROOT / path).read_text(encoding="utf-8")
        for picture in PICTURE.findall(text):
            self.target(path.parent, picture)
        self.write(path, LINK.sub(lambda link: link[1] + self.target(path.parent, link[2]) + link[3], text))

    def write(self, path, text):
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text, encoding="utf-8")

    def target(self, base, link):
        """Returns the link as the site has it, and stages what it leads to."""
        path = ROOT / base / link
        if "://" in link or not path.exists():
            return link
        if path.is_dir():
            return f"{link.rstrip('/')}/{self.index(path.resolve().relative_to(ROOT))}"
        if path.suffix != ".md":
            self.file(path.resolve().relative_to(ROOT))
        return link

    def file(self, path):
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, self.folder / path)

    def index(self, path):
        """Returns the name of the page of a folder."""
        if (ROOT / path / "README.md").exists():
            return "README.md"
        lines = [f"# {path}", ""]
        for one in sorted((ROOT / path).iterdir()):
            if one.is_dir() or one.name.startswith("."):
                continue
            if one.suffix != ".md":
                self.file(path / one.name)
            lines.append(f"- [{one.name}]({one.name})")
        self.write(path / "index.md", "\n".join(lines) + "\n")
        return "index.md"


def main(folder):
    shutil.rmtree(folder, ignore_errors=True)
    stage = Stage(folder)
    for path in documents():
        stage.page(path)
    # The page of the HTTP interface, as the program serves it at /docs.
    subprocess.run(["node", ROOT / "static" / "reference.mjs", ROOT / "api" / "openapi.json", folder], check=True)
    stage.file(Path("api/openapi.json"))
    shutil.copyfile(ROOT / "api" / "openapi.json", folder / "openapi.json")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
