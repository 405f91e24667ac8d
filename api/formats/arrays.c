#include "api/formats/arrays.h"

#include "api/formats/narrow.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "both formats are little-endian, and so are we");

size_t hs__kind_bytes(hs__kind kind)
{
    static const size_t bytes[] = {
        [HS__KIND_F4] = 4, [HS__KIND_F2] = 2,   [HS__KIND_U1] = 1,   [HS__KIND_I4] = 4,
        [HS__KIND_I8] = 8, [HS__KIND_BOOL] = 1, [HS__KIND_TEXT] = 4,
    };
    return bytes[kind];
}

static hs__array *next_array(hs__arrays *arrays, const char *name, hs__kind kind)
{
    if (arrays->n == HS__ARRAYS_MAX) {
        arrays->failed = true;
        return NULL;
    }
    hs__array *array = &arrays->items[arrays->n++];
    *array = (hs__array){.name = name, .kind = kind};
    return array;
}

void *hs__arrays_add(hs__arrays *arrays, const char *name, hs__kind kind, size_t n_dimensions, size_t d0,
                     size_t d1)
{
    hs__array *array = next_array(arrays, name, kind);
    if (!array)
        return NULL;
    array->n_dimensions = n_dimensions;
    array->shape[0] = d0;
    array->shape[1] = d1;
    const size_t n = (n_dimensions > 0 ? d0 : 1) * (n_dimensions > 1 ? d1 : 1);
    array->bytes = n * hs__kind_bytes(kind);
    array->data = calloc(array->bytes + 1, 1);
    arrays->failed |= !array->data;
    return array->data;
}

/* Code points of valid UTF-8; other bytes count as U+FFFD each. NULL ret only counts. */
static size_t decode(const hs_text *text, uint32_t *ret)
{
    size_t n = 0;
    for (size_t i = 0; i < text->n_bytes; n++) {
        const unsigned char c = (unsigned char)text->bytes[i];
        const size_t length = c < 0x80 ? 1 : c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
        uint32_t point = length == 1 ? c : c & (0x7fu >> length);
        bool wrong = (c >= 0x80 && c < 0xc2) || c > 0xf4 || length > text->n_bytes - i;
        for (size_t k = 1; k < length && !wrong; k++) {
            const unsigned char next = (unsigned char)text->bytes[i + k];
            wrong = (next & 0xc0) != 0x80;
            point = point << 6 | (next & 0x3f);
        }
        wrong = wrong || point > 0x10ffff || (point >= 0xd800 && point < 0xe000);
        if (ret)
            ret[n] = wrong ? 0xfffd : point;
        i += wrong ? 1 : length;
    }
    return n;
}

void hs__arrays_add_texts(hs__arrays *arrays, const char *name, const hs_text *texts, size_t n, bool scalar)
{
    hs__array *array = next_array(arrays, name, HS__KIND_TEXT);
    if (!array)
        return;
    array->width = 1; /* NumPy has no <U0 in files */
    for (size_t i = 0; i < n; i++) {
        const size_t points = decode(&texts[i], NULL);
        array->width = points > array->width ? points : array->width;
    }
    array->n_dimensions = scalar ? 0 : 1;
    array->shape[0] = n;
    array->bytes = n * array->width * sizeof(uint32_t);
    uint32_t *data = array->data = calloc(array->bytes + 1, 1);
    arrays->failed |= !data;
    for (size_t i = 0; i < n && data; i++)
        decode(&texts[i], data + i * array->width);
}

static void add_integers(hs__arrays *arrays, const char *name, const int32_t *values, size_t n)
{
    int64_t *to = hs__arrays_add(arrays, name, HS__KIND_I8, 1, n, 0);
    for (size_t i = 0; i < n && to; i++)
        to[i] = values[i];
}

static void add_numbers(hs__arrays *arrays, const char *name, const uint16_t *values, size_t n)
{
    int64_t *to = hs__arrays_add(arrays, name, HS__KIND_I8, 1, n, 0);
    for (size_t i = 0; i < n && to; i++)
        to[i] = values[i];
}

static void add_bytes(hs__arrays *arrays, const char *name, const uint8_t *values, size_t n)
{
    int64_t *to = hs__arrays_add(arrays, name, HS__KIND_I8, 1, n, 0);
    for (size_t i = 0; i < n && to; i++)
        to[i] = values[i];
}

/* int64 like HuggingFace's, so that they index torch tensors. */
static void add_tokens(hs__arrays *arrays, const hs__answer *a)
{
    const hs_encoding *e = a->encoding;
    const size_t T = e->n_tokens;
    add_integers(arrays, "input_ids", e->ids, T);
    add_bytes(arrays, "token_type_ids", e->types, T);
    add_bytes(arrays, "special_tokens_mask", e->special, T);
    int64_t *offsets = hs__arrays_add(arrays, "offset_mapping", HS__KIND_I8, 2, T, 2);
    for (size_t i = 0; i < T && offsets; i++) {
        offsets[2 * i] = e->starts[i];
        offsets[2 * i + 1] = e->ends[i];
    }
    add_integers(arrays, "sentence_ids", a->sentences, T);
    add_integers(arrays, "word_ids", e->word_ids, T);
    add_numbers(arrays, "layers", a->ask->layers, a->ask->n_layers);
    add_numbers(arrays, "heads", a->ask->heads, a->ask->n_heads);
}

static void add_large(hs__arrays *arrays, const hs__answer *a, const char *name, unsigned output)
{
    static const hs__kind kinds[] = {[HS__F4] = HS__KIND_F4, [HS__F2] = HS__KIND_F2, [HS__U1] = HS__KIND_U1};
    if (!(a->ask->outputs & output))
        return;
    hs__array *array = next_array(arrays, name, kinds[a->ask->dtype]);
    if (!array)
        return;
    const size_t T = a->encoding->n_tokens;
    array->output = output;
    if (output == HS__HIDDEN_STATES) {
        array->n_dimensions = 3;
        array->shape[0] = a->ask->n_layers + 1;
        array->shape[1] = T;
        array->shape[2] = a->capture->hidden;
        array->shape[3] = 1;
    } else {
        array->n_dimensions = 4;
        array->shape[0] = a->ask->n_layers;
        array->shape[1] = hs__answer_map_heads(a->ask);
        array->shape[2] = T;
        array->shape[3] = output == HS__HEAD_OUTPUTS ? a->capture->head_width : T;
    }
    array->bytes =
        array->shape[0] * array->shape[1] * array->shape[2] * array->shape[3] * hs__kind_bytes(array->kind);
}

static void add_pairs(hs__arrays *arrays, const hs__answer *a)
{
    const size_t n = a->n_pairs;
    int32_t *layer = hs__arrays_add(arrays, "pairs_layer", HS__KIND_I4, 1, n, 0);
    int32_t *head = hs__arrays_add(arrays, "pairs_head", HS__KIND_I4, 1, n, 0);
    int32_t *i = hs__arrays_add(arrays, "pairs_i", HS__KIND_I4, 1, n, 0);
    int32_t *j = hs__arrays_add(arrays, "pairs_j", HS__KIND_I4, 1, n, 0);
    float *similarity = hs__arrays_add(arrays, "pairs_similarity", HS__KIND_F4, 1, n, 0);
    float *normalized = hs__arrays_add(arrays, "pairs_normalized", HS__KIND_F4, 1, n, 0);
    int32_t *distance = hs__arrays_add(arrays, "pairs_distance", HS__KIND_I4, 1, n, 0);
    uint8_t *same_token = hs__arrays_add(arrays, "pairs_same_token", HS__KIND_BOOL, 1, n, 0);
    uint8_t *same_sentence = hs__arrays_add(arrays, "pairs_same_sentence", HS__KIND_BOOL, 1, n, 0);
    for (size_t p = 0; p < n && !arrays->failed; p++) {
        const hs_pair *pair = &a->pairs[p];
        layer[p] = pair->layer;
        head[p] = pair->head;
        i[p] = pair->i;
        j[p] = pair->j;
        similarity[p] = pair->similarity;
        normalized[p] = pair->normalized;
        distance[p] = pair->j - pair->i;
        same_token[p] = a->encoding->ids[pair->i] == a->encoding->ids[pair->j];
        same_sentence[p] = a->sentences[pair->i] == a->sentences[pair->j];
    }
}

/* Ragged: each flat array has beside it where the part of head l * n_heads + h starts, and one more for the
 * end. */
static void add_regions(hs__arrays *arrays, const hs__answer *a)
{
    const size_t n = a->ask->n_layers * a->ask->n_heads;
    size_t n_high = 0, n_runs = 0, n_means = 0;
    for (size_t k = 0; k < n; k++) {
        n_high += a->regions[k].n_high;
        n_runs += a->regions[k].n_runs;
        n_means += a->regions[k].n_runs * a->regions[k].n_runs;
    }
    int32_t *high = hs__arrays_add(arrays, "regions_high_attention", HS__KIND_I4, 1, n_high, 0);
    int64_t *high_at = hs__arrays_add(arrays, "regions_high_attention_offsets", HS__KIND_I8, 1, n + 1, 0);
    int32_t *runs = hs__arrays_add(arrays, "regions_runs", HS__KIND_I4, 2, n_runs, 2);
    int64_t *runs_at = hs__arrays_add(arrays, "regions_runs_offsets", HS__KIND_I8, 1, n + 1, 0);
    float *means = hs__arrays_add(arrays, "regions_means", HS__KIND_F4, 1, n_means, 0);
    int64_t *means_at = hs__arrays_add(arrays, "regions_means_offsets", HS__KIND_I8, 1, n + 1, 0);
    for (size_t k = 0; k < n && !arrays->failed; k++) {
        const hs__regions *r = &a->regions[k];
        high_at[k + 1] = high_at[k] + (int64_t)r->n_high;
        runs_at[k + 1] = runs_at[k] + (int64_t)r->n_runs;
        means_at[k + 1] = means_at[k] + (int64_t)(r->n_runs * r->n_runs);
        for (size_t i = 0; i < r->n_high; i++)
            high[high_at[k] + (int64_t)i] = r->high[i];
        for (size_t i = 0; i < r->n_runs; i++) {
            runs[2 * (runs_at[k] + (int64_t)i)] = r->runs[i].start;
            runs[2 * (runs_at[k] + (int64_t)i) + 1] = r->runs[i].end;
        }
        memcpy(means + means_at[k], r->means, r->n_runs * r->n_runs * sizeof(float));
    }
}

/* -1 where a segment has no token of the text, or of its pair. */
static void put_slice(int32_t *chars, size_t at, const hs__slice *slice)
{
    if (!chars)
        return;
    chars[2 * at] = slice->present ? (int32_t)slice->start : -1;
    chars[2 * at + 1] = slice->present ? (int32_t)slice->end : -1;
}

static void add_segments(hs__arrays *arrays, const hs__answer *a)
{
    size_t n = 0;
    for (size_t l = 0; l < a->ask->n_layers; l++)
        n += a->segments[l].n;
    int32_t *layer = hs__arrays_add(arrays, "segments_layer", HS__KIND_I4, 1, n, 0);
    int32_t *tokens = hs__arrays_add(arrays, "segments_tokens", HS__KIND_I4, 2, n, 2);
    int32_t *chars = hs__arrays_add(arrays, "segments_chars", HS__KIND_I4, 2, n, 2);
    int32_t *pair_chars =
        a->ask->has_pair ? hs__arrays_add(arrays, "segments_pair_chars", HS__KIND_I4, 2, n, 2) : NULL;
    float *cohesion = hs__arrays_add(arrays, "segments_cohesion", HS__KIND_F4, 1, n, 0);
    float *contrast = hs__arrays_add(arrays, "segments_contrast", HS__KIND_F4, 1, n, 0);
    size_t at = 0;
    for (size_t l = 0; l < a->ask->n_layers && !arrays->failed; l++) {
        for (size_t i = 0; i < a->segments[l].n; i++, at++) {
            const hs_segment *segment = &a->segments[l].items[i];
            hs__slice slices[2];
            hs__answer_slices(a, segment, slices);
            layer[at] = a->ask->layers[l];
            tokens[2 * at] = segment->start;
            tokens[2 * at + 1] = segment->end;
            put_slice(chars, at, &slices[0]);
            put_slice(pair_chars, at, &slices[1]);
            cohesion[at] = segment->cohesion;
            contrast[at] = segment->contrast;
        }
    }
}

static void add_figures(hs__arrays *arrays, const hs__answer *a, const char *name, size_t offset)
{
    const size_t n_layers = a->ask->n_layers, n_heads = a->ask->n_heads;
    float *to = hs__arrays_add(arrays, name, HS__KIND_F4, 2, n_layers, n_heads);
    for (size_t i = 0; i < n_layers * n_heads && to; i++)
        memcpy(&to[i], (const char *)&a->summaries[i] + offset, sizeof *to);
}

static void add_summary(hs__arrays *arrays, const hs__answer *a)
{
#define FIGURE(name) add_figures(arrays, a, "summary_" #name, offsetof(hs_head_summary, name))
    FIGURE(max_similarity);
    FIGURE(repeated_share);
    FIGURE(same_sentence_share);
    FIGURE(repeated_same_sentence_share);
    FIGURE(mean_distance);
    FIGURE(focal_share);
    FIGURE(attention_entropy);
    FIGURE(separator_attention);
    FIGURE(snr_dprime);
#undef FIGURE
    const size_t n_layers = a->ask->n_layers, n_heads = a->ask->n_heads;
    int64_t *high = hs__arrays_add(arrays, "summary_high_pairs", HS__KIND_I8, 2, n_layers, n_heads);
    int32_t *focal = hs__arrays_add(arrays, "summary_focal_position", HS__KIND_I4, 2, n_layers, n_heads);
    for (size_t i = 0; i < n_layers * n_heads && !arrays->failed; i++) {
        high[i] = (int64_t)a->summaries[i].high_pairs;
        focal[i] = a->summaries[i].focal_token;
    }
}

void hs__arrays_collect(hs__arrays *arrays, const hs__answer *a)
{
    add_tokens(arrays, a);
    add_large(arrays, a, "attentions", HS__ATTENTIONS);
    add_large(arrays, a, "similarities", HS__SIMILARITIES);
    add_large(arrays, a, "head_outputs", HS__HEAD_OUTPUTS);
    add_large(arrays, a, "hidden_states", HS__HIDDEN_STATES);
    if (a->ask->outputs & HS__PAIRS)
        add_pairs(arrays, a);
    if (a->ask->outputs & HS__REGIONS)
        add_regions(arrays, a);
    if (a->ask->outputs & HS__SEGMENTS)
        add_segments(arrays, a);
    if (a->ask->outputs & HS__SUMMARY)
        add_summary(arrays, a);
}

static char *put_floats(hs__kind kind, const float *from, size_t n, char *to)
{
    if (kind == HS__KIND_F4)
        memcpy(to, from, n * sizeof *from);
    else if (kind == HS__KIND_F2)
        hs__narrow_f2(from, n, (uint16_t *)(void *)to);
    else
        hs__narrow_u1(from, n, (uint8_t *)to);
    return to + n * hs__kind_bytes(kind);
}

void hs__array_write(const hs__array *array, const hs__answer *a, char *to)
{
    if (!array->output) {
        memcpy(to, array->data, array->bytes);
        return;
    }
    const bool states = array->output == HS__HIDDEN_STATES;
    const size_t n_heads = states ? 1 : array->shape[1];
    const size_t n = states ? array->shape[1] * array->shape[2] : array->shape[2] * array->shape[3];
    for (size_t l = 0; l < array->shape[0] && !hs__answer_cancelled(a); l++) {
        for (size_t h = 0; h < n_heads; h++)
            to = put_floats(array->kind,
                            states ? hs__answer_hidden_state(a, l) : hs__answer_map(a, array->output, l, h),
                            n, to);
    }
}

void hs__arrays_finish(hs__arrays *arrays)
{
    for (size_t i = 0; i < arrays->n; i++)
        free(arrays->items[i].data);
    arrays->n = 0;
}

const char *hs__model_sha256(const hs__answer *answer, char hex[HS_SHA256_HEX])
{
    if (atomic_load(&answer->model->hashed))
        return answer->model->sha256;
    hs_model_sha256(answer->model->model, hex);
    return hex;
}
