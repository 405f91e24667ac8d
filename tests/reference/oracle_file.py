"""Writes oracles of tokenizers, which tests/unit/test_tokenizer_oracle.c replays.

All numbers are little-endian; a text is its length in bytes (u32) and its bytes. A case is
    u32 max_tokens, u8 split_special_tokens, u8 has_pair, text, pair
and an encoding
    u32 n_tokens, u8 truncated, then lists of n_tokens: ids (u32), word ids (u32, 0 for special tokens, else 1 more),
    starts (u32, minus the one before), lengths (u32), type ids (u8), special tokens mask (u8)
Lists by kind pack better than tokens.
"""
import lzma
import struct


def put_text(text):
    data = text if isinstance(text, bytes) else (text or "").encode()
    return struct.pack("<I", len(data)) + data


def put_case(tokens_max, text, pair, is_split=0):
    return struct.pack("<IBB", tokens_max, is_split, pair is not None) + put_text(text) + put_text(pair)


def put_encoding(encoding):
    starts = [start for start, _ in encoding.offsets]
    lists = [encoding.ids, [0 if word is None else word + 1 for word in encoding.word_ids],
             [(start - before) & 0xFFFFFFFF for start, before in zip(starts, [0, *starts])],
             [end - start for start, end in encoding.offsets]]
    n = len(encoding.ids)
    return (struct.pack("<IB", n, bool(encoding.overflowing)) + b"".join(struct.pack(f"<{n}I", *x) for x in lists)
            + bytes(encoding.type_ids) + bytes(encoding.special_tokens_mask))


def put_list(chunks):
    return struct.pack("<I", len(chunks)) + b"".join(chunks)


def write(path, data, preset=9 | lzma.PRESET_EXTREME):
    packed = lzma.compress(data, preset=preset)
    with open(path, "wb") as out:
        out.write(packed)
    print(f"{path}: {len(data)} bytes, packed {len(packed)}")
