"""headscope from Python: texts in, the heads of a BERT-like encoder out as NumPy arrays.

    import headscope

    with headscope.start() as client:                  # a server of one's own; or headscope.Client("http://host:8080")
        answer = client.analyze("The old bridge [MASK] closed after the war.", layers="all")
        answer.attentions.shape                        # (12, 12, 11, 11): layer, head, query, key
        answer.to_pandas()                             # the strongest pairs

Only NumPy is needed. What other libraries want (BertViz, CircuitsVis, pandas) is imported when it is asked for.
"""
from .answer import Analysis, Tokens
from .client import Client
from .errors import HeadscopeError
from .runs import Run
from .server import start

__all__ = ["Analysis", "Client", "HeadscopeError", "Run", "Tokens", "start"]
