/* words.c - writes and reads integers as base64, and the sums of counters that are words. */
#include "server/corpus/counters/words.h"

#include <nettle/base64.h>
#include <stdlib.h>
#include <string.h>

json_t *hs__words_save(const int64_t *words, size_t n)
{
    const size_t n_text = BASE64_ENCODE_RAW_LENGTH(n * sizeof *words);
    char *text = malloc(n_text + 1);
    if (!text)
        return NULL;
    base64_encode_raw(text, n * sizeof *words, (const uint8_t *)words);
    json_t *saved = json_stringn_nocheck(text, n_text);
    free(text);
    return saved;
}

bool hs__words_load(const json_t *saved, int64_t *ret_words, size_t n)
{
    const size_t n_text = json_string_length(saved);
    struct base64_decode_ctx decoder;
    if (!json_is_string(saved) || n_text != BASE64_ENCODE_RAW_LENGTH(n * sizeof *ret_words))
        return false;
    size_t n_bytes = BASE64_DECODE_LENGTH(n_text);
    uint8_t *bytes = malloc(n_bytes + 1);
    base64_decode_init(&decoder);
    const bool sound = bytes &&
                       base64_decode_update(&decoder, &n_bytes, bytes, n_text, json_string_value(saved)) &&
                       base64_decode_final(&decoder) && n_bytes == n * sizeof *ret_words;
    if (sound)
        memcpy(ret_words, bytes, n_bytes);
    free(bytes);
    return sound;
}

json_t *hs__numbers_save(const int64_t *numbers, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer((json_int_t)numbers[i]));
    return list;
}

bool hs__numbers_load(const json_t *list, int64_t least, int64_t *ret_numbers, size_t n)
{
    bool sound = json_array_size(list) == n;
    for (size_t i = 0; sound && i < n; i++) {
        const json_t *number = json_array_get(list, i);
        ret_numbers[i] = json_integer_value(number);
        sound = json_is_integer(number) && ret_numbers[i] >= least;
    }
    return sound;
}

/* ---- sums ---- */

static size_t blocks_of(hs__sums_size size)
{
    return size.n_blocks ? size.n_blocks : HS_BLOCKS_MAX;
}

hs__sums *hs__sums_create(const hs__sums_kind *kind, size_t n_outer, size_t n_layers, size_t n_heads,
                          hs_error *err)
{
    const hs__sums_size size = kind->size(n_outer, n_layers, n_heads);
    hs_blocks *blocks = size.block_words ? hs_blocks_create_few(blocks_of(size), size.block_words) : NULL;
    hs__sums *s = calloc(1, sizeof *s + size.words * sizeof *s->words);
    if (!s || (size.block_words && !blocks)) {
        free(s);
        free(blocks);
        hs_fail(err, HS_NO_MEMORY, "no memory for %s", kind->what);
        return NULL;
    }
    s->kind = kind;
    s->n_outer = n_outer;
    s->n_layers = n_layers;
    s->n_heads = n_heads;
    s->n_words = size.words;
    s->blocks = blocks;
    return s;
}

hs__sums *hs__sums_create_like(const hs__sums *s, hs_error *err)
{
    return hs__sums_create(s->kind, s->n_outer, s->n_layers, s->n_heads, err);
}

void hs__sums_destroy(void *sums)
{
    hs__sums *s = sums;
    if (s)
        free(s->blocks);
    free(s);
}

void hs__sums_measure(const hs__sums_kind *kind, size_t n_outer, size_t n_layers, size_t n_heads,
                      hs__counter_size *size)
{
    const hs__sums_size n = kind->size(n_outer, n_layers, n_heads);
    const size_t bytes =
        sizeof(hs__sums) + n.words * sizeof(int64_t) + hs_blocks_bytes(blocks_of(n), n.block_words);
    size->shared += bytes;
    size->worker += bytes;
    size->saved_words += n.words + blocks_of(n) * n.block_words;
}

static void sums_add(hs__sums *to, const hs__sums *from)
{
    hs__words_add(to->words, from->words, to->n_words);
    if (to->blocks)
        hs_blocks_merge(to->blocks, from->blocks);
}

void hs__sums_move(hs__sums *to, hs__sums *from)
{
    sums_add(to, from);
    memset(from->words, 0, from->n_words * sizeof *from->words);
    if (from->blocks)
        hs_blocks_clear(from->blocks);
}

hs_status hs__sums_gather(hs__counting *counting, void *state, hs_error *err)
{
    (void)err;
    hs__sums_move(*counting->counts, state);
    return HS_OK;
}

hs_status hs__sums_begin(hs__counting *counting, bool anew, hs_error *err)
{
    const hs_corpus_options *o = counting->statistics;
    if (!anew)
        return HS_OK;
    *counting->counts =
        hs__sums_create(counting->counter->sums, o->n_thresholds, o->n_layers, o->n_heads, err);
    return *counting->counts ? HS_OK : HS_NO_MEMORY;
}

bool hs__sums_match(const hs__counting *counting)
{
    const hs_corpus_options *o = counting->statistics;
    const hs__sums *s = *counting->counts;
    return !s || (s->n_outer == o->n_thresholds && s->n_layers == o->n_layers && s->n_heads == o->n_heads);
}

hs_status hs__sums_merge(hs__corpus_results *results, void **counts, const hs__corpus_results *from,
                         void **from_counts, const char *from_dir, hs_error *err)
{
    (void)results, (void)from, (void)from_dir, (void)err;
    if (*counts && *from_counts) {
        sums_add(*counts, *from_counts);
        return HS_OK;
    }
    hs__sums_destroy(*counts);
    *counts = NULL;
    return HS_OK;
}

static json_t *blocks_json(const hs__sums *s)
{
    json_t *saved = json_object();
    int failed = json_object_set_new(saved, "shift", json_integer((json_int_t)s->blocks->shift)) |
                 json_object_set_new(saved, "blocks",
                                     hs__words_save(s->blocks->words, s->blocks->n_max * s->blocks->n_words));
    if (s->kind->beside)
        failed |= json_object_set_new(saved, s->kind->beside, hs__words_save(s->words, s->n_words));
    if (!failed)
        return saved;
    json_decref(saved);
    return NULL;
}

hs_status hs__sums_save(const hs__corpus_results *results, void *counts, json_t *checkpoint, hs_error *err)
{
    const hs__sums *s = counts;
    (void)results;
    if (!s)
        return HS_OK;
    json_t *saved = s->blocks ? blocks_json(s) : hs__words_save(s->words, s->n_words);
    return json_object_set_new(checkpoint, s->kind->member, saved)
               ? hs_fail(err, HS_NO_MEMORY, "no memory to save the run")
               : HS_OK;
}

static bool blocks_read(hs__sums *s, const json_t *saved)
{
    const json_t *shift = json_object_get(saved, "shift");
    s->blocks->shift = (uint64_t)json_integer_value(shift);
    return json_is_integer(shift) && s->blocks->shift <= HS_BLOCKS_SHIFT_MAX &&
           hs__words_load(json_object_get(saved, "blocks"), s->blocks->words,
                          s->blocks->n_max * s->blocks->n_words) &&
           (!s->kind->beside ||
            hs__words_load(json_object_get(saved, s->kind->beside), s->words, s->n_words));
}

hs_status hs__sums_load(const hs__sums_kind *kind, size_t n_outer, const hs__corpus_results *results,
                        const json_t *checkpoint, void **ret_sums, hs_error *err)
{
    const json_t *saved = json_object_get(checkpoint, kind->member);
    const hs_corpus_options o = hs_corpus_stats_options(results->stats);
    hs__sums *s = saved ? hs__sums_create(kind, n_outer, o.n_layers, o.n_heads, err) : NULL;
    if (!s)
        return saved ? HS_NO_MEMORY : HS_OK;
    if (!(s->blocks ? blocks_read(s, saved) : hs__words_load(saved, s->words, s->n_words))) {
        hs__sums_destroy(s);
        return hs_fail(err, HS_INVALID, "%s are damaged", kind->what);
    }
    *ret_sums = s;
    return HS_OK;
}
