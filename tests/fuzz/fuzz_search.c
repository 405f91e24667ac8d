/* fuzz_search.c - the parameters of a search are refused with the name of the wrong one, or give pairs that
 * meet them: at most as many as requested, the strongest first.
 *
 * If the first byte of the input is odd, typical texts are searched for, else pairs. Then the parameters
 * follow, one on each line: layer, head, limit, and of pairs also from, to, of, min and distance; of texts
 * also by. A parameter "~", or one that is missing, is not given. */
#include "model/tokenizer/tokenizer_internal.h"
#include "server/corpus/search/pair_search.h"
#include "server/corpus/search/text_index.h"
#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXTS = 3, LAYERS = 2, HEADS = 2, PARAMETERS = 8 };

static char dir[] = "/tmp/fuzz-search-XXXXXX";
static const uint16_t layers[LAYERS] = {0, 3};

static void dir_remove(void)
{
    char path[64];
    snprintf(path, sizeof path, "%s/" HS__TEXT_INDEX_FILE, dir);
    unlink(path);
    rmdir(dir);
}

static hs_tokenizer *tokenizer_make(void)
{
    static const char vocab[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nwar\nold\n!\n";
    const hs_tokenizer_files files = {.vocab_txt = {vocab, sizeof vocab - 1}, .tokenizer_config = {"{}", 2}};
    hs_tokenizer *tokenizer;
    require(!hs__tokenizer_create(&files, 9, &tokenizer, NULL));
    return tokenizer;
}

static void text_add(hs__text_index *index, const hs_tokenizer *tokenizer, size_t number)
{
    static const char body[] = "the old war!";
    static const hs__token_label labels[4] = {
        {"DET", "det"}, {"ADJ", "amod"}, {"NOUN", "root"}, {"PUNCT", "punct"}};
    const hs_text text = {body, sizeof body - 1};
    const hs_encode_options options = {.tokens_max = 8};
    hs_encoding encoding = {0};
    hs__index_maps maps[LAYERS * HEADS] = {0};
    float figures[LAYERS * HEADS * HS__TOP_FIGURES];
    require(!hs_tokenizer_encode(tokenizer, &text, NULL, &options, &encoding, NULL));
    for (size_t k = 0; k < LAYERS * HEADS; k++)
        for (size_t of = 0; of < 2; of++) {
            maps[k].n[of] = 4;
            for (uint16_t i = 0; i < 4; i++)
                maps[k].pairs[of][i] = (hs__index_pair){(uint16_t)(i + 1), (uint16_t)((i + k + of) % 4 + 1),
                                                        0.9f - 0.2f * (float)i};
        }
    for (size_t k = 0; k < sizeof figures / sizeof *figures; k++)
        figures[k] = k % HS__TOP_FIGURES == HS__TOP_SYNTAX_SIMILARITY ? NAN : (float)(number + k % 7) / 10;
    const hs__indexed_text indexed = {.number = number,
                                      .line = number + 1,
                                      .file = "texts.conllu",
                                      .body = text,
                                      .encoding = &encoding,
                                      .first = 1,
                                      .labels = labels,
                                      .n_labels = 4};
    require(!hs__text_index_add(index, &indexed, figures, maps, NULL));
    hs_encoding_finish(&encoding);
}

/* Writes the database of a small run, once. */
static void database_make(void)
{
    hs_tokenizer *tokenizer = tokenizer_make();
    const hs__text_index_options options = {.n_texts = TEXTS,
                                            .n_examples = 2,
                                            .layers = layers,
                                            .n_layers = LAYERS,
                                            .n_heads = HEADS,
                                            .tokenizer = tokenizer};
    hs__text_index *index;
    require(mkdtemp(dir) && !atexit(dir_remove));
    require(!hs__text_index_open(dir, true, &options, &index, NULL));
    for (size_t t = 0; t < TEXTS; t++)
        text_add(index, tokenizer, t);
    require(!hs__text_index_commit(index, NULL));
    hs__text_index_close(index);
    hs__tokenizer_destroy(tokenizer);
}

static void answer_check(const hs__search_query *query, bool by_text, const json_t *answer)
{
    const json_t *list = json_object_get(answer, by_text ? "examples" : "pairs");
    const size_t n = json_array_size(list);
    double last = INFINITY;
    require(n <= (query->limit ? strtoul(query->limit, NULL, 10) : HS__SEARCH_LIMIT));
    for (size_t k = 0; k < n; k++) {
        const json_t *found = json_array_get(list, k);
        const double value = json_number_value(json_object_get(found, by_text ? "value" : "weight"));
        require(value <= last && json_is_string(json_object_get(found, "body")));
        last = value;
        if (!by_text)
            require(value >= (query->min ? strtod(query->min, NULL) - 1e-6 : 0));
    }
    if (!by_text)
        require(json_integer_value(json_object_get(answer, "total")) >= (json_int_t)n &&
                json_integer_value(json_object_get(answer, "texts")) == TEXTS);
}

static void search_try(const hs__search_query *query, bool by_text)
{
    json_t *answer = NULL;
    const char *wrong = NULL;
    hs_error err = {0};
    const hs_status st =
        (by_text ? hs__search_examples : hs__search_pairs)(dir, query, &answer, &wrong, &err);
    require(st == err.status && (st == HS_OK || st == HS_INVALID || st == HS_NO_MEMORY));
    require((st == HS_INVALID) == (wrong != NULL) && (st == HS_OK) == (answer != NULL));
    if (answer)
        answer_check(query, by_text, answer);
    json_decref(answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool made;
    char *text = size ? strndup((const char *)data + 1, size - 1) : NULL, *rest = text;
    const char *values[PARAMETERS] = {NULL};
    if (!text)
        return 0;
    if (!made)
        database_make();
    made = true;
    for (size_t k = 0; k < PARAMETERS && rest; k++) {
        values[k] = strsep(&rest, "\n");
        if (strcmp(values[k], "~") == 0)
            values[k] = NULL;
    }
    const bool by_text = *data & 1;
    const hs__search_query query = {.layer = values[0],
                                    .head = values[1],
                                    .limit = values[2],
                                    .by = by_text ? values[3] : NULL,
                                    .from = by_text ? NULL : values[3],
                                    .to = values[4],
                                    .of = values[5],
                                    .min = values[6],
                                    .distance = values[7]};
    search_try(&query, by_text);
    free(text);
    return 0;
}
