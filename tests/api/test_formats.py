"""All formats hold the same values: JSON, npz and safetensors against each other and against the interface's own
description, which is checked first."""
import io
import json
import struct
import zipfile

import jsonschema
import numpy as np
import pytest

TEXT = "The war ended in 1945. It changed central Europe; the war changed it."
EVERYTHING = ["attentions", "similarities", "head_outputs", "hidden_states", "pairs", "regions", "segments",
              "summary"]
MAPS = EVERYTHING[:4]
FULL = {"text": TEXT, "text_pair": "Two cats. [MASK] naïve 東京", "layers": [0, 5, -1], "heads": [1, 7],
        "outputs": EVERYTHING, "digits": 9}


def ask(server, body, format="json"):
    answer = server.post(f"/analyze?format={format}", body)
    assert answer.status == 200, answer.body
    return answer


def npz(server, body, names=""):
    return np.load(io.BytesIO(ask(server, body, "npz" + names).body), allow_pickle=False)


def safetensors(server, body, names=""):
    data = ask(server, body, "safetensors" + names).body
    (n,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + n])
    metadata = header.pop("__metadata__")
    types = {"F32": "<f4", "F16": "<f2", "U8": "|u1", "I32": "<i4", "I64": "<i8", "BOOL": "|b1"}
    tensors, end = {}, 0
    for name, tensor in header.items():
        first, last = tensor["data_offsets"]
        dtype = np.dtype(types[tensor["dtype"]])
        assert first == end and (8 + n + first) % dtype.itemsize == 0  # no holes, and each aligned
        tensors[name] = np.frombuffer(data[8 + n + first:8 + n + last], dtype).reshape(tensor["shape"])
        end = last
    assert n % 8 == 0 and 8 + n + end == len(data)
    return metadata, tensors


@pytest.fixture(scope="module")
def document(server):
    return server.get("/openapi.json").json()


def check(document, name, value):
    schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
    jsonschema.Draft202012Validator(schema).validate(value)


# ---- the description ----

def operations(document):
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if method != "parameters":
                yield path, method, operation, item.get("parameters", []) + operation.get("parameters", [])


def references(node):
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"]
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def resolve(document, reference):
    assert reference.startswith("#/")
    node = document
    for part in reference[2:].split("/"):
        node = node[part.replace("~1", "/").replace("~0", "~")]
    return node


def test_every_operation_documents_what_any_path_may_answer(document):
    for path, operations in document["paths"].items():
        for method in {"get", "post", "delete"} & set(operations):
            answered = set(operations[method]["responses"])
            assert answered >= {"400", "403", "413", "414", "421", "431", "503"}, (method, path)
            assert "411" in answered or method != "post", path


def test_every_format_and_name_of_the_description_is_taken(server, document):
    options = {option["name"]: option["schema"]["enum"] for option in document["paths"]["/analyze"]["post"]["parameters"]}
    for format in options["format"]:
        for names in ["", *(f"&names={name}" for name in options["names"])]:
            assert server.post(f"/analyze?format={format}{names}", {"text": "a"}).status == 200, (format, names)
    body = {"text": "a cat", "outputs": ["attentions"]}
    assert server.post("/analyze?names=hooks", body).json() == server.post("/analyze", body).json()


def test_interventions_say_which_kind_has_a_factor(document):
    check = jsonschema.Draft202012Validator(document["components"]["schemas"]["Intervention"]).is_valid
    assert check({"kind": "zero"}) and check({"kind": "scale", "factor": 2})
    assert not check({"kind": "scale"}) and not check({"kind": "mean", "factor": 2})


def test_additions_say_that_vector_and_from_exclude_each_other(document):
    schema = dict(document["components"]["schemas"]["Intervention"], components=document["components"])
    check = jsonschema.Draft202012Validator(schema).is_valid
    add, texts = {"kind": "add", "what": "hidden", "layers": [0]}, {"from": [{"text": "a"}, {"text": "b"}]}
    assert check({**add, "vector": [1]}) and check({**add, **texts}) and check({**add, **texts, "pooling": "last"})
    assert not check(add) and not check({**add, "vector": [1], "pooling": "last"})
    assert not check({**add, **texts, "vector": [1]}) and not check({**add, **texts, "vector": [1], "pooling": "last"})


def test_description_is_sound_openapi(document):
    assert document["openapi"].startswith("3.1.")
    assert set(document) <= {"openapi", "info", "servers", "tags", "security", "paths", "components"}
    assert document["info"]["title"] and document["info"]["version"]
    for reference in references(document):
        resolve(document, reference)
    names = [operation["operationId"] for _, _, operation, _ in operations(document)]
    assert len(names) == len(set(names))
    tags = {tag["name"] for tag in document["tags"]}
    for path, method, operation, parameters in operations(document):
        parameters = [resolve(document, p["$ref"]) if "$ref" in p else p for p in parameters]
        assert method in {"get", "post", "delete"} and operation["summary"] and set(operation["tags"]) <= tags
        in_path = {p["name"] for p in parameters if p["in"] == "path"}
        assert in_path == {part[1:-1] for part in path.split("/") if part.startswith("{")}
        assert all(p["required"] for p in parameters if p["in"] == "path")
        for status, response in operation["responses"].items():
            response = resolve(document, response["$ref"]) if "$ref" in response else response
            assert 100 <= int(status) <= 599 and response["description"]


def test_description_has_sound_schemas_and_examples(document):
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)

    def media_types(node):
        if isinstance(node, dict):
            for key, value in node.items():
                if key == "content":
                    yield from value.values()
                yield from media_types(value)

    n_examples = 0
    for media_type in media_types(document):
        jsonschema.Draft202012Validator.check_schema(media_type["schema"])
        examples = [e["value"] for e in media_type.get("examples", {}).values()]
        examples += [media_type["example"]] if "example" in media_type else []
        for example in examples:
            schema = dict(media_type["schema"], components=document["components"])
            jsonschema.Draft202012Validator(schema).validate(example)
            n_examples += 1
    assert n_examples >= 6


@pytest.mark.parametrize("path,name", [("/analyze", "AnalyzeRequest"), ("/tokenize", "TokenizeRequest")])
def test_description_names_exactly_the_fields_that_are_read(server, document, path, name):
    detail = server.post(path, {"text": "", "unknown": 1}).json()["detail"]
    allowed = detail.split("allowed: ")[1].split(", ")
    assert sorted(allowed) == sorted(document["components"]["schemas"][name]["properties"])


def test_examples_of_the_description_are_answered(server, document):
    content = document["paths"]["/analyze"]["post"]["requestBody"]["content"]["application/json"]
    for example in content["examples"].values():
        check(document, "AnalyzeAnswer", ask(server, example["value"]).json())


@pytest.mark.parametrize("path", ["/models", "/health", "/ready"])
def test_small_answers_follow_the_description(server, document, path):
    schema = document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    jsonschema.Draft202012Validator(dict(schema, components=document["components"])).validate(
        server.get(path).json())


@pytest.mark.parametrize("change", [
    {}, {"layers": "all"}, {"heads": "all"}, {"outputs": []}, {"text": "", "text_pair": ""}, {"reduce": "sum"},
    {"normalize": "max", "special_tokens": "mask"}, {"threshold": 1}, {"max_pairs": 0}, {"max_tokens": 3},
    {"text": "\0\"\\\n\x7f\U0001f600"}, {"text": "word " * 600}, {"attention_threshold": 0.001}],
    ids=lambda change: ",".join(f"{k}={v}"[:24] for k, v in change.items()) or "all outputs")
def test_answers_follow_the_description(server, document, change):
    answer = ask(server, {**FULL, **change}).json()
    check(document, "AnalyzeAnswer", answer)
    assert set(EVERYTHING if change.get("outputs") is None else []) <= set(answer)


def test_tokens_follow_the_description(server, document):
    answer = server.post("/tokenize", {"text": TEXT, "text_pair": "naïve"}).json()
    check(document, "Tokens", answer)
    whole = ask(server, {"text": TEXT, "text_pair": "naïve", "outputs": []}).json()
    assert answer == {key: whole[key] for key in answer}


@pytest.mark.parametrize("body", ["", "{", '{"text":1}', '{"text":"a","layers":[99]}', '{"text":"a","model":"x"}'])
def test_problems_follow_the_description(server, document, body):
    answer = server.post("/analyze", body)
    assert answer.status >= 400 and answer.headers["Content-Type"] == "application/problem+json"
    check(document, "Problem", answer.json())


# ---- the formats ----

def test_json_with_9_digits_is_the_float(server):
    answer, arrays = ask(server, FULL).json(), npz(server, FULL)
    for name in MAPS:
        assert arrays[name].dtype == np.float32
        np.testing.assert_array_equal(np.array(answer[name], np.float32), arrays[name])


def test_fewer_digits_round(server):
    answer, arrays = ask(server, {**FULL, "digits": 3}).json(), npz(server, FULL)
    for name in MAPS:
        values = np.array(answer[name])
        np.testing.assert_allclose(values, arrays[name], rtol=5.01e-3)
        assert all(float(f"{v:.3g}") == v for v in values.ravel()[:1000])


def test_npz_says_what_json_says(server):
    answer, arrays = ask(server, FULL).json(), npz(server, FULL)
    for name in ["tokens", "input_ids", "token_type_ids", "special_tokens_mask", "offset_mapping",
                 "sentence_ids", "layers", "heads"]:
        assert arrays[name].tolist() == answer[name]
    assert arrays["tokens"].dtype.kind == "U" and arrays["input_ids"].dtype == np.int64
    assert arrays["word_ids"].tolist() == [-1 if w is None else w for w in answer["word_ids"]]
    assert bool(arrays["truncated"]) is answer["truncated"]
    assert int(arrays["pairs_total"]) == answer["pairs_total"] == len(answer["pairs"])
    for column in ["layer", "head", "i", "j", "distance", "same_token", "same_sentence"]:
        assert arrays["pairs_" + column].tolist() == [pair[column] for pair in answer["pairs"]]
    for column in ["similarity", "normalized"]:
        np.testing.assert_array_equal(arrays["pairs_" + column],
                                      np.array([pair[column] for pair in answer["pairs"]], np.float32))


def test_npz_keeps_regions_segments_and_summary(server):
    answer, arrays = ask(server, FULL).json(), npz(server, FULL)
    for k, region in enumerate(r for layer in answer["regions"] for r in layer):
        def part(name):
            offsets = arrays[f"regions_{name}_offsets"]
            return arrays[f"regions_{name}"][offsets[k]:offsets[k + 1]]
        assert part("high_attention").tolist() == region["high_attention"]
        assert part("runs").tolist() == region["runs"]
        np.testing.assert_array_equal(part("means"), np.array(region["means"], np.float32).ravel())
    segments = [(layer, s) for layer, row in zip(answer["layers"], answer["segments"]) for s in row]
    assert arrays["segments_layer"].tolist() == [layer for layer, _ in segments]
    assert arrays["segments_tokens"].tolist() == [[s["start"], s["end"]] for _, s in segments]
    assert arrays["segments_chars"].tolist() == [s["chars"] or [-1, -1] for _, s in segments]
    assert arrays["segments_pair_chars"].tolist() == [s["pair_chars"] or [-1, -1] for _, s in segments]
    for name in answer["summary"][0][0]:
        if name == "focal_token":
            continue
        values = [[np.nan if h[name] is None else h[name] for h in layer] for layer in answer["summary"]]
        np.testing.assert_array_equal(arrays["summary_" + name], np.array(values, arrays["summary_" + name].dtype))


def test_segments_quote_the_text(server):
    segments = [segment for layer in ask(server, FULL).json()["segments"] for segment in layer]
    assert any(segment["chars"] for segment in segments) and any(segment["pair_chars"] for segment in segments)
    for segment in segments:
        for text, chars, quoted in [(FULL["text"], "chars", "text"), (FULL["text_pair"], "pair_chars", "pair_text")]:
            start, end = segment[chars] or (0, 0)
            assert segment[quoted] == text[start:end]


@pytest.mark.parametrize("pair", [{}, {"text_pair": "Was it? It was."}])
def test_ids_of_a_text_answer_as_the_text(server, pair):
    """The ids of a text, sent back as input, give the same answer."""
    options = {"layers": "all", "outputs": [*MAPS, "pairs", "regions", "summary"], "digits": 9}
    text = ask(server, {"text": TEXT, **pair, **options}).json()
    ids = {name: text[name] for name in ["input_ids", "token_type_ids"]}
    answer = ask(server, {**ids, **options}).json()
    assert answer.pop("offset_mapping") is None and set(answer.pop("word_ids")) == {None}
    assert answer == {name: text[name] for name in answer}


def test_words_answer_as_the_text_they_are_of(server):
    text = ask(server, {"text": "The war ended in Paris"}).json()
    words = ask(server, {"words": ["The", "war", "ended", "in", "Paris"]}).json()
    offsets = words.pop("offset_mapping")
    assert words == {name: text[name] for name in words}
    starts = {0: 0, 1: 4, 2: 8, 3: 14, 4: 17}
    moved = [[start + starts.get(word, 0), end + starts.get(word, 0)]
             for (start, end), word in zip(offsets, words["word_ids"])]
    assert moved == text["offset_mapping"]


def test_both_binary_formats_carry_request_and_model(server):
    model = server.known_models()[0]
    body = json.dumps(FULL, ensure_ascii=False).encode()
    arrays = npz(server, body)
    metadata, _ = safetensors(server, body)
    for carried in [{name: str(arrays[name]) for name in ["model", "model_sha256", "request"]}, metadata]:
        assert carried["request"].encode() == body
        assert carried["model"] == model["name"]
        assert carried["model_sha256"] == model["sha256"]


def test_safetensors_is_npz(server):
    arrays = npz(server, FULL)
    metadata, tensors = safetensors(server, FULL)
    assert json.loads(metadata["tokens"]) == arrays["tokens"].tolist()
    assert metadata["truncated"] == "false" and int(metadata["pairs_total"]) == int(arrays["pairs_total"])
    texts = {"tokens", "model", "model_sha256", "request", "truncated", "pairs_total"}
    assert set(arrays) - texts == set(tensors)
    for name, tensor in tensors.items():
        assert tensor.dtype == arrays[name].dtype
        np.testing.assert_array_equal(tensor, arrays[name])


def test_npz_is_a_sound_zip_of_aligned_arrays(server):
    data = ask(server, FULL, "npz").body
    archive = zipfile.ZipFile(io.BytesIO(data))
    assert archive.testzip() is None
    for member in archive.infolist():
        assert member.compress_type == zipfile.ZIP_STORED
        n_name, n_extra = struct.unpack("<HH", data[member.header_offset + 26:member.header_offset + 30])
        assert (member.header_offset + 30 + n_name + n_extra) % 64 == 0  # so that it can be mapped
    assert data == ask(server, FULL, "npz").body


@pytest.mark.parametrize("format", ["npz", "safetensors"])
def test_f2_is_the_nearest_half(server, format):
    body = {**FULL, "outputs": MAPS}
    exact = npz(server, body)
    half = npz(server, {**body, "dtype": "f2"}) if format == "npz" else safetensors(server, {**body, "dtype": "f2"})[1]
    for name in MAPS:
        assert half[name].dtype == np.float16
        np.testing.assert_array_equal(half[name], exact[name].astype(np.float16))


def test_u1_is_the_nearest_255th(server):
    body = {**FULL, "outputs": MAPS[:2], "normalize": "max"}
    exact, small = npz(server, body), npz(server, {**body, "dtype": "u1"})
    for name in MAPS[:2]:
        assert small[name].dtype == np.uint8
        np.testing.assert_array_equal(small[name], np.rint(np.clip(exact[name], 0, 1) * np.float32(255)))


@pytest.mark.parametrize("normalize", ["none", "max"])
@pytest.mark.parametrize("reduce", ["sum", "mean"])
def test_reduce_is_over_the_selected_heads(server, reduce, normalize):
    body = {**FULL, "outputs": ["attentions", "similarities", "head_outputs", "pairs"], "normalize": normalize}
    all_heads, reduced = npz(server, body), npz(server, {**body, "reduce": reduce})
    for name in MAPS[:3]:
        expected = getattr(all_heads[name].astype(float), reduce)(axis=1, keepdims=True)
        np.testing.assert_allclose(reduced[name], expected, rtol=1e-5, atol=1e-6)
    assert reduced["heads"].tolist() == [1, 7]
    np.testing.assert_array_equal(reduced["pairs_head"], all_heads["pairs_head"])


@pytest.mark.parametrize("special_tokens", ["keep", "mask"])
def test_normalized_similarities_have_maximum_1(server, special_tokens):
    body = {**FULL, "outputs": ["similarities", "pairs"], "special_tokens": special_tokens, "threshold": 0.5}
    raw, normal = npz(server, body), npz(server, {**body, "normalize": "max"})
    free = raw["special_tokens_mask"] == 0 if special_tokens == "mask" else np.ones(len(raw["tokens"]), bool)
    inside = np.ix_(free, free)
    for l in range(3):
        for h in range(2):
            s, n = raw["similarities"][l, h], normal["similarities"][l, h]
            np.testing.assert_allclose(n[inside], s[inside] / s[inside].max(), rtol=1e-5, atol=1e-7)
            assert not n[~free].any() and not n[:, ~free].any()
            i, j = np.nonzero(np.triu(n) >= 0.5)
            here = (raw["pairs_layer"] == raw["layers"][l]) & (raw["pairs_head"] == raw["heads"][h])
            assert set(zip(i, j)) == set(zip(raw["pairs_i"][here], raw["pairs_j"][here]))


def test_a_selection_is_a_slice_of_everything(server):
    whole, part = npz(server, {**FULL, "layers": "all", "heads": "all"}), npz(server, FULL)
    layers, heads = [0, 5, 11], [1, 7]
    for name in MAPS[:3]:
        np.testing.assert_allclose(part[name], whole[name][np.ix_(layers, heads)], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(part["hidden_states"], whole["hidden_states"][[0, 1, 6, 12]], rtol=1e-4, atol=1e-4)


def test_max_pairs_keeps_the_strongest(server):
    body = {"text": TEXT, "layers": "all", "outputs": ["pairs"], "digits": 9}
    whole, cut = ask(server, body).json(), ask(server, {**body, "max_pairs": 50}).json()
    assert cut["pairs_total"] == whole["pairs_total"] > 50 and len(cut["pairs"]) == 50
    strongest = sorted((p["normalized"] for p in whole["pairs"]), reverse=True)[:50]
    assert sorted((p["normalized"] for p in cut["pairs"]), reverse=True) == strongest
    assert all(pair in whole["pairs"] for pair in cut["pairs"])


HOOKS = {"attentions": "attn.hook_pattern", "scores": "attn.hook_attn_scores", "queries": "attn.hook_q",
         "keys": "attn.hook_k", "values": "attn.hook_v", "head_outputs": "attn.hook_z"}


@pytest.mark.parametrize("read", [npz, safetensors])
@pytest.mark.parametrize("dtype, reduce", [("f4", "none"), ("f2", "mean")])
def test_hooks_are_the_arrays_under_other_names(server, read, dtype, reduce):
    body = {**FULL, "dtype": dtype, "reduce": reduce,
            "outputs": [*HOOKS, "hidden_states", "similarities", "pairs"]}
    plain, named = (read(server, body, names) for names in ("", "&names=hooks"))
    if read is safetensors:
        plain, named = plain[1], named[1]  # beside metadata
    for output, hook in HOOKS.items():
        assert output in plain and output not in named
        for array, layer in zip(plain[output], plain["layers"]):
            expected = array.swapaxes(0, 1) if hook[-2:] in ("_q", "_k", "_v", "_z") else array
            found = named[f"blocks.{layer}.{hook}"]
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)
    states = [named[name] for name in ["blocks.0.hook_resid_pre",
                                       *(f"blocks.{layer}.hook_resid_post" for layer in plain["layers"])]]
    np.testing.assert_array_equal(np.stack(states), plain["hidden_states"])
    np.testing.assert_array_equal(named["similarities"], plain["similarities"])
    others = set(named) - {name for name in named if name.startswith("blocks.")}
    assert others == set(plain) - set(HOOKS) - {"hidden_states"}


@pytest.mark.parametrize("query, status, word", [
    ("format=npz&names=torch", 422, "allowed: hooks"),
    ("format=npz&names", 422, "names must have a value"), ("format=npz&names=hooks&names=hooks", 422, "twice"),
    ("format=npz&format=npz", 422, "twice"), ("format=%6Epz&nam%65s=hooks", 200, ""),
    ("format=npz&name=hooks", 422, "allowed: format, names"), ("format=xml", 406, "allowed: json")])
def test_queries_are_read_or_refused(server, query, status, word):
    answer = server.post(f"/analyze?{query}", {"text": "hi", "outputs": ["attentions"]})
    assert answer.status == status and (status == 200 or word in answer.json()["detail"]), answer.body[:300]
