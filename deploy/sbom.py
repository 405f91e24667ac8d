#!/usr/bin/python3
"""Lists the components of the program, as a CycloneDX document on standard output: `deploy/sbom.py build/headscope`.

The libraries that it loads, with the versions of this machine's Debian packages; the npm packages in the viewer; the
embedded model. The same tree on the same machine gives the same bytes.
"""
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
# The npm packages that Vite bundles. The others only build and test.
IN_THE_VIEWER = ["@fontsource/ibm-plex-mono", "@fontsource/ibm-plex-sans", "preact", "uplot"]


def digest(path):
    return [{"alg": "SHA-256", "content": hashlib.sha256(Path(path).read_bytes()).hexdigest()}]


def debian(package):
    versions = subprocess.run(["dpkg-query", "-W", "-f", "${Version}\\n", package], capture_output=True, text=True,
                          check=False).stdout
    if not versions:
        sys.exit(f"sbom: {package} is not installed here: deploy/packages.sh runtime")
    version = versions.split()[0]  # the same for each architecture installed
    return {"type": "library", "name": package, "version": version, "purl": f"pkg:deb/debian/{package}@{version}"}


def npm(name, lock):
    of = lock["packages"][f"node_modules/{name}"]
    return {"type": "library", "name": name, "version": of["version"], "licenses": [{"license": {"id": of["license"]}}],
            "purl": f"pkg:npm/{name.replace('@', '%40')}@{of['version']}"}


def main(binary):
    version = re.search(r'HS_VERSION "(.+)"', (ROOT / "server/base/version.h").read_text())[1]
    packages = subprocess.run([ROOT / "deploy/packages.sh", "list", "runtime"], capture_output=True, text=True,
                              check=True).stdout.split()
    lock = json.loads((ROOT / "static/package-lock.json").read_text())
    components = [debian(package) for package in packages] + [npm(name, lock) for name in IN_THE_VIEWER]
    components.append(debian("fonts-dejavu-core"))
    components.append({"type": "machine-learning-model", "name": "mini", "version": version,
                       "hashes": digest(ROOT / "model/mini/model.safetensors")})
    json.dump({"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
               "metadata": {"component": {"type": "application", "name": "headscope", "version": version,
                                          "licenses": [{"license": {"id": "Apache-2.0"}}], "hashes": digest(binary)}},
               "components": components}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main(*sys.argv[1:])
