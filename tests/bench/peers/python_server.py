"""A common alternative to headscope: PyTorch, NumPy and json behind Python's own HTTP server.
python3 python_server.py CHECKPOINT THREADS; prints its port. POST {"input_ids": [...]}: all attentions and
similarities of all layers as JSON, rounded to six digits as headscope's."""
import http.server
import json
import sys

import numpy as np
import torch
from torch_peer import Bert

torch.set_num_threads(int(sys.argv[2]))
bert = Bert(sys.argv[1])


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        ids = torch.tensor(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input_ids"])
        with torch.no_grad():
            attentions, similarities = (np.stack([m.numpy() for m in maps]) for maps in bert.run(ids))
        body = json.dumps({"attentions": np.round(attentions, 6).tolist(),
                           "similarities": np.round(similarities, 6).tolist()}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
