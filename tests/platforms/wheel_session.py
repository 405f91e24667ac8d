"""The steps of a user with an installed wheel, run by tests/platforms/wheel.sh with the Python of its virtual environment."""
import os
import subprocess
import sys
import urllib.request
from importlib.metadata import version

import headscope

COMMAND = os.path.join(os.path.dirname(sys.executable), "headscope")
TEXT = "The old bridge [MASK] closed after the war."


def run(*arguments, **options):
    return subprocess.run(arguments, capture_output=True, text=True, check=False, **options)


# The command and the module are the program: same output, its own exit status.
for command in ([COMMAND], [sys.executable, "-m", "headscope"]):
    analysed = run(*command, "analyze", input=TEXT)
    assert analysed.returncode == 0 and '"tokens":["[CLS]"' in analysed.stdout, analysed
    assert run(*command, "--version").stdout.splitlines()[0] == f"headscope {version('headscope')}"
    assert run(*command, "no-such-command").returncode == 2

# A signal reaches the program, which ends in order.
with subprocess.Popen([COMMAND, "serve", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True) as server:
    try:
        address = server.stdout.readline().split()[-1]
        with urllib.request.urlopen(address) as answer:
            assert b"<title>" in answer.read()
    finally:
        server.terminate()
assert server.returncode == 0

# The module starts the program by itself and ends it.
with headscope.Client() as client:
    analysis = client.analyze(TEXT, layers="all")
    assert analysis.attentions.shape[:2] == (12, 12)
    own = client._server.process
assert own.returncode == 0

# Downloading needs the system's libcurl, which a bare machine lacks: the message names what to install.
refused = run(COMMAND, "pull", "google-bert/bert-base-uncased")
assert refused.returncode != 0 and "libcurl" in refused.stderr, refused
