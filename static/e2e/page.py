"""Saves an analysed text as the Python client's page of maps: page.py SERVER FILE"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "clients/python"))
import headscope  # noqa: E402

with headscope.Client(sys.argv[1]) as client:
    client.analyze("The dog saw the cat.", layers=[1, 3], outputs=["attentions"]).save(sys.argv[2])
