#!/usr/bin/python3
"""Lists the components of the program, as a CycloneDX document on standard output:

    deploy/sbom.py build/headscope                            with the libraries of this machine's Debian packages
    deploy/sbom.py build/headscope --image STATUS             in an image: all its packages, by its /var/lib/dpkg/status
    deploy/sbom.py build/portable/ARCH/bin/headscope --portable build/portable/ARCH    with the libraries linked in or
                                                              beside it, by the README that deploy/portable.sh wrote

Each also has the npm packages in the viewer, the font of figures and the embedded model. The same tree on the same machine
gives the same bytes.
"""
import argparse
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
# The npm packages that Vite bundles. The others only build and test.
IN_THE_VIEWER = ["@fontsource/ibm-plex-mono", "@fontsource/ibm-plex-sans", "@zip.js/zip.js", "preact"]
FONT = "fonts-dejavu-core"
# SPDX expressions of Debian's source packages, and of what deploy/portable.sh puts in.
LICENCES = {
    "ca-certificates": "MPL-2.0 AND GPL-2.0-or-later",
    "curl": "curl",
    "fonts-dejavu": "Bitstream-Vera",
    "fonts-dejavu-core": "Bitstream-Vera",
    "jansson": "MIT",
    "libmicrohttpd": "LGPL-2.1-or-later",
    "librsvg": "LGPL-2.1-or-later",
    "libopenblas0-pthread": "BSD-3-Clause",
    "libuv1": "MIT",
    "libzstd": "BSD-3-Clause OR GPL-2.0-only",
    "nettle": "LGPL-3.0-or-later OR GPL-2.0-or-later",
    "openblas": "BSD-3-Clause",
    "sqlite3": "blessing",
    "zlib": "Zlib",
}


def digest(path):
    return [{"alg": "SHA-256", "content": hashlib.sha256(Path(path).read_bytes()).hexdigest()}]


def component(name, version, purl, licence=None, note=None):
    found = {"type": "library", "name": name, "version": version, "purl": purl}
    if licence:
        found["licenses"] = [{"expression": licence}]
    if note:
        found["description"] = note
    return found


def installed(status):
    """The packages of a dpkg database: name to version and source package."""
    packages = {}
    for stanza in Path(status).read_text(errors="replace").split("\n\n"):
        fields = dict(re.findall(r"^(Package|Version|Status|Source): (.+)$", stanza, re.M))
        if fields.get("Status", "").endswith(" installed"):
            name = fields["Package"]
            packages[name] = fields["Version"], fields.get("Source", name).split()[0]
    return packages


def debian(name, packages):
    if name not in packages:
        sys.exit(f"sbom: {name} is not installed here: deploy/packages.sh runtime")
    version, source = packages[name]
    return component(name, version, f"pkg:deb/debian/{name}@{version}", LICENCES.get(source))


def portable(folder):
    """The components that deploy/portable.sh put in, which is all but the npm packages."""
    for line in (Path(folder) / "licenses" / "README").read_text().splitlines():
        name, version, where = re.fullmatch(r"(\S+) (\S+): (.+)", line).groups()
        if "npm package" not in where:
            yield component(name, version, f"pkg:deb/debian/{name}@{version}", LICENCES[name], where)


def npm(name, lock):
    of = lock["packages"][f"node_modules/{name}"]
    return component(name, of["version"], f"pkg:npm/{name.replace('@', '%40')}@{of['version']}", of["license"], "in the viewer")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--image", metavar="STATUS")
    parser.add_argument("--portable", metavar="FOLDER")
    options = parser.parse_args()
    version = re.search(r'HS_VERSION "(.+)"', (ROOT / "server/base/version.h").read_text())[1]
    here = installed("/var/lib/dpkg/status")
    if options.portable:
        components = list(portable(options.portable))
    elif options.image:
        image = installed(options.image)
        components = [debian(name, image) for name in sorted(image)]
    else:
        names = subprocess.run([ROOT / "deploy/packages.sh", "list", "runtime"], capture_output=True, text=True, check=True)
        components = [debian(name, here) for name in names.stdout.split()]
    if not any(one["name"] == FONT for one in components):
        components.append({**debian(FONT, here), "description": "in the program"})
    lock = json.loads((ROOT / "static/package-lock.json").read_text())
    components += [npm(name, lock) for name in IN_THE_VIEWER]
    components.append({"type": "machine-learning-model", "name": "mini", "version": version,
                       "licenses": [{"expression": "Apache-2.0"}], "hashes": digest(ROOT / "model/mini/model.safetensors")})
    json.dump({"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
               "metadata": {"component": {"type": "application", "name": "headscope", "version": version,
                                          "licenses": [{"license": {"id": "Apache-2.0"}}], "hashes": digest(options.binary)}},
               "components": components}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
