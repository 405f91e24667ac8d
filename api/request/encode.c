/* encode.c - encodes the texts of a request: text, words or ids, after a prompt, cut into windows, and what a
 * decoder reads. Needs the request and its model's tokenizers, and no engine. */
#include "api/request/encode.h"

#include "engine/analysis/analysis.h"
#include "model/base/utf8.h"

#include <stdlib.h>
#include <string.h>

/* ---- prompts ---- */

/* Returns prompt and text side by side, owned by the caller; bytes NULL: no memory. */
static hs_text join(const hs_text *prompt, const hs_text *text)
{
    const size_t n_bytes = prompt->n_bytes + text->n_bytes;
    char *bytes = malloc(n_bytes);
    if (bytes) {
        memcpy(bytes, prompt->bytes, prompt->n_bytes);
        memcpy(bytes + prompt->n_bytes, text->bytes, text->n_bytes);
    }
    return (hs_text){bytes, n_bytes};
}

/* Takes the first n_points code points and the words in them off the offsets and words of the first text. */
static void shift(hs_encoding *e, uint32_t n_points)
{
    int32_t first_word = -1;
    for (size_t i = 0; i < e->n_tokens; i++) {
        if (e->texts[i] || e->special[i])
            continue;
        const bool is_prompt = e->ends[i] <= n_points;
        if (!is_prompt && first_word < 0)
            first_word = e->word_ids[i];
        e->word_ids[i] = is_prompt ? -1 : e->word_ids[i] - first_word;
        e->starts[i] = e->starts[i] > n_points ? e->starts[i] - n_points : 0;
        e->ends[i] = is_prompt ? 0 : e->ends[i] - n_points;
    }
}

static hs_status count_prompt(const hs_tokenizer *tokenizer, const hs_text *prompt,
                              const hs_encode_options *options, size_t *ret_n_prompt, hs_error *err)
{
    hs_encoding alone = {0};
    const hs_status st = hs_tokenizer_encode(tokenizer, prompt, NULL, options, &alone, err);
    if (!st)
        *ret_n_prompt = alone.n_tokens - (alone.n_tokens > 0 && alone.special[alone.n_tokens - 1]);
    hs_encoding_finish(&alone);
    return st;
}

hs_status hs_prompt_encode(const hs_tokenizer *tokenizer, const hs_prompt *prompt, const hs_text *text,
                           const hs_text *pair, const hs_encode_options *options, hs_encoding *ret_encoding,
                           size_t *ret_n_prompt, hs_error *err)
{
    *ret_n_prompt = 0;
    if (!prompt || !prompt->text[0])
        return hs_tokenizer_encode(tokenizer, text, pair, options, ret_encoding, err);
    const hs_text before = {prompt->text, strlen(prompt->text)}, whole = join(&before, text);
    if (!whole.bytes)
        return hs_fail(err, HS_NO_MEMORY, "no memory for the prompt");
    hs_status st = count_prompt(tokenizer, &before, options, ret_n_prompt, err);
    if (!st)
        st = hs_tokenizer_encode(tokenizer, &whole, pair, options, ret_encoding, err);
    if (!st)
        shift(ret_encoding, (uint32_t)hs_utf8_count(before.bytes, before.n_bytes));
    free((void *)whole.bytes);
    return st;
}

/* ---- targets ---- */

/* Returns true if the tokenizer puts the language of a target behind it, and transformers' shift_tokens_right
 * makes it the start token: mBART. */
static bool language_starts(const hs_model *model)
{
    return hs_model_decoder(model)->starts_with_language &&
           hs_tokenizer_languages(hs_model_target_tokenizer(model))->last;
}

int32_t hs_target_start(const hs_model *model, int32_t language)
{
    const int32_t start = hs_model_decoder(model)->start_id;
    if (!language_starts(model))
        return start;
    if (language)
        return language;
    return start >= 0 ? start : hs_model_target_language(model);
}

hs_status hs_target_encode(const hs_model *model, const hs_text *text, const hs_encode_options *options,
                           hs_encoding *ret, hs_error *err)
{
    const hs_tokenizer *tokenizer = hs_model_target_tokenizer(model);
    const int32_t named = options->language, language = named ? named : hs_model_target_language(model);
    const bool moves = language_starts(model);
    hs_encode_options of_text = *options;
    int32_t start = hs_target_start(model, named);
    of_text.tokens_max -= !moves;
    of_text.language = language > 0 ? language : 0;
    hs_status st = hs_tokenizer_encode(tokenizer, text, NULL, &of_text, ret, err);
    if (st)
        return st;
    if (moves)
        start = ret->ids[--ret->n_tokens];
    st = hs_encoding_begin(tokenizer, start, ret, err);
    if (st)
        hs_encoding_finish(ret);
    return st;
}

/* ---- one text ---- */

/* The arguments of hs__texts_encode, for the functions below. */
typedef struct reader {
    const hs__analysis_request *analysis;
    hs__texts *texts;
    hs__problem *problem;
    hs_error *err;
} reader;

/* Encodes a text, words or ids: of the request, of a source, or what a decoder reads of them. */
static hs_status encode_whole(const reader *r, const hs__input *input, size_t tokens_max,
                              hs_encoding *ret_encoding, size_t *ret_n_prompt)
{
    const hs_tokenizer *tokenizer = hs_model_tokenizer(r->analysis->model->model);
    const hs_encode_options options = {tokens_max, r->analysis->split_special_tokens,
                                       r->analysis->source_language};
    if (input->ids)
        return hs_tokenizer_encode_ids(tokenizer, input->ids, input->types, input->n_ids, ret_encoding,
                                       r->err);
    if (input->words)
        return hs_tokenizer_encode_words(tokenizer, input->words, input->n_words, &options, ret_encoding,
                                         r->err);
    return hs_prompt_encode(tokenizer, r->analysis->prompt, &input->text,
                            input->text_pair.bytes ? &input->text_pair : NULL, &options, ret_encoding,
                            ret_n_prompt, r->err);
}

/* Replaces a whole text by its window that the request names. */
static int window_cut(const reader *r, const char *pointer, hs_encoding *encoding, hs_windows *ret_windows)
{
    const hs__analysis_request *analysis = r->analysis;
    hs_encoding window;
    hs_status st = hs_windows_plan(encoding, analysis->max_tokens, analysis->stride, ret_windows, r->err);
    if (st == HS_INVALID || st == HS_TOO_LARGE)
        return hs__refuse(r->problem, 422, pointer, "the text cannot be cut into windows: %s", r->err->text);
    if (!st && analysis->window >= ret_windows->n)
        return hs__refuse(r->problem, 422, pointer,
                          "window is %zu; this text has %zu window%s of %zu tokens: allowed are 0 to %zu",
                          analysis->window, ret_windows->n, ret_windows->n == 1 ? "" : "s",
                          analysis->max_tokens, ret_windows->n - 1);
    if (!st)
        st = hs_window_make(ret_windows, encoding, analysis->window, &window, r->err);
    if (st)
        return hs__refuse_error(r->problem, r->err);
    hs_encoding_finish(encoding);
    *encoding = window;
    return 0;
}

/* Encodes the input of the request or of a source. pointer: to what names it, if it has no such window. */
static int encode_input(const reader *r, const hs__input *input, const char *pointer,
                        hs_encoding *ret_encoding, size_t *ret_n_prompt, hs_windows *ret_windows)
{
    const bool is_cut = r->analysis->has_window && !input->ids;
    const size_t tokens_max = is_cut ? HS_WINDOWS_TOKENS_MAX : r->analysis->max_tokens;
    if (encode_whole(r, input, tokens_max, ret_encoding, ret_n_prompt))
        return hs__refuse_error(r->problem, r->err);
    return is_cut ? window_cut(r, pointer, ret_encoding, ret_windows) : 0;
}

/* Refuses a text without tokens. */
static int check_tokens(const reader *r, const hs_encoding *encoding)
{
    if (encoding->n_tokens > 0)
        return 0;
    return hs__refuse(r->problem, 422, r->analysis->input.words ? "/words" : "/text",
                      "the text has no tokens, and this model's tokenizer adds none; send a text that is "
                      "not empty");
}

/* Encodes what a decoder reads, after its start token. */
static hs_status target_encode(const reader *r, const hs__served_model *decoder, const hs__input *input,
                               hs_encoding *ret_target)
{
    const size_t max_tokens = r->analysis->max_tokens, positions = decoder->shape->n_positions;
    const hs_tokenizer *tokenizer = hs_model_target_tokenizer(decoder->model);
    const hs_encode_options options = {.tokens_max = max_tokens < positions ? max_tokens : positions,
                                       .split_special_tokens = r->analysis->split_special_tokens,
                                       .language = r->analysis->target_language};
    if (!input->ids)
        return hs_target_encode(decoder->model, &input->text, &options, ret_target, r->err);
    const hs_status st =
        hs_tokenizer_encode_ids(tokenizer, input->ids, input->types, input->n_ids, ret_target, r->err);
    return st ? st
              : hs_encoding_begin(tokenizer, hs_target_start(decoder->model, r->analysis->target_language),
                                  ret_target, r->err);
}

/* Encodes the text whose states a decoder reads. */
static int memory_encode(const reader *r, const hs__input *input, hs_encoding *ret_memory)
{
    const hs__served_model *model = r->analysis->model;
    const size_t most = r->analysis->max_tokens, positions = model->encoder->shape->n_positions;
    size_t n_prompt;
    const hs_status st = encode_whole(r, input, most < positions ? most : positions, ret_memory, &n_prompt);
    return st ? hs__refuse_error(r->problem, r->err) : check_tokens(r, ret_memory);
}

/* Encodes both sides of a decoder's text. */
static int decoder_encode(const reader *r, const hs__input *input, const hs__input *decoder_input,
                          hs__text_read *ret_text)
{
    if (memory_encode(r, input, &ret_text->memory))
        return r->problem->status;
    return target_encode(r, r->analysis->model, decoder_input, &ret_text->rows)
               ? hs__refuse_error(r->problem, r->err)
               : 0;
}

/* ---- all texts ---- */

/* Encodes a source. Only those of patches are cut into windows as the text is. */
static int source_encode(const reader *r, size_t k)
{
    const hs__source *source = &r->analysis->sources[k];
    hs__text_read *text = &r->texts->sources[k];
    size_t n_prompt;
    hs_windows windows;
    if (r->analysis->model->encoder)
        return decoder_encode(r, &source->input, &source->decoder_input, text);
    if (source->patches)
        return encode_input(r, &source->input, source->pointer, &text->rows, &n_prompt, &windows);
    return encode_whole(r, &source->input, r->analysis->max_tokens, &text->rows, &n_prompt)
               ? hs__refuse_error(r->problem, r->err)
               : 0;
}

/* Refuses a source without tokens, and one to patch from that has not as many as the text. */
static int source_check(const reader *r, size_t k)
{
    const char *what = r->analysis->model->encoder ? "target" : "text";
    const size_t T = r->texts->text.rows.n_tokens, n = r->texts->sources[k].rows.n_tokens;
    if (n == 0)
        return hs__refuse(r->problem, 422, r->analysis->sources[k].pointer, "the text has no tokens");
    if (n == T || !r->analysis->sources[k].patches)
        return 0;
    return hs__refuse(r->problem, 422, r->analysis->sources[k].pointer,
                      "a patch needs a %s of as many tokens: this one has %zu tokens, and the %s of "
                      "the request has %zu; POST /tokenize shows the tokens",
                      what, n, what, T);
}

static bool ends_sentence(const hs__analysis_request *analysis, const hs_encoding *encoding, size_t i)
{
    if (!analysis->has_sentence_ends)
        return encoding->roles[i] == HS_ROLE_SENTENCE_END;
    for (size_t k = 0; k < analysis->n_sentence_ends; k++)
        if (analysis->sentence_ends[k] == encoding->ids[i])
            return true;
    return false;
}

/* Encodes the request's text for a model that reads no other. */
static int text_encode(const reader *r)
{
    hs__text_read *text = &r->texts->text;
    if (encode_input(r, &r->analysis->input, "/window", &text->rows, &text->n_prompt, &text->windows))
        return r->problem->status;
    return check_tokens(r, &text->rows);
}

/* Finds the sentences of the text. */
static int sentences_find(const reader *r)
{
    hs__text_read *text = &r->texts->text;
    const hs_encoding *e = &text->rows;
    text->sentences = malloc(e->n_tokens * (sizeof *text->sentences + 1));
    if (!text->sentences) {
        hs_fail(r->err, HS_NO_MEMORY, "no memory for the sentences");
        return hs__refuse_error(r->problem, r->err);
    }
    text->ends = (uint8_t *)(text->sentences + e->n_tokens);
    for (size_t i = 0; i < e->n_tokens; i++)
        text->ends[i] = ends_sentence(r->analysis, e, i);
    hs_sentences_find(text->ends, e->texts, e->special, e->n_tokens, text->sentences);
    return 0;
}

/* Points keys at what the requested heads attend to: the memory for cross heads, else the rows. */
static void keys_set(const hs__analysis_request *analysis, hs__text_read *text)
{
    text->keys = analysis->stack == HS_STACK_CROSS ? &text->memory : &text->rows;
}

int hs__texts_encode(const hs__analysis_request *analysis, hs__texts *texts, hs__problem *problem,
                     hs_error *err)
{
    const reader r = {analysis, texts, problem, err};
    const hs__served_model *follower = hs__target_model(analysis);
    hs__text_read *text = &texts->text;
    keys_set(analysis, text);
    if (follower != analysis->model && target_encode(&r, follower, &analysis->decoder_input, &text->reader))
        return hs__refuse_error(problem, err);
    if ((analysis->model->encoder ? decoder_encode(&r, &analysis->input, &analysis->decoder_input, text)
                                  : text_encode(&r)) ||
        sentences_find(&r))
        return problem->status;
    for (size_t k = 0; k < analysis->n_sources; k++) {
        keys_set(analysis, &texts->sources[k]);
        if (source_encode(&r, k) || source_check(&r, k))
            return problem->status;
    }
    return 0;
}

int hs__texts_encode_given(const hs__analysis_request *analysis, hs__texts *texts, hs__problem *problem,
                           hs_error *err)
{
    const reader r = {analysis, texts, problem, err};
    return analysis->model->encoder ? memory_encode(&r, &analysis->input, &texts->text.memory)
                                    : text_encode(&r);
}

static void text_finish(hs__text_read *text)
{
    hs_encoding_finish(&text->rows);
    hs_encoding_finish(&text->memory);
    hs_encoding_finish(&text->reader);
    free(text->sentences);
}

void hs__texts_finish(hs__texts *texts)
{
    text_finish(&texts->text);
    for (size_t k = 0; k < HS__SOURCES_MAX; k++)
        text_finish(&texts->sources[k]);
}
