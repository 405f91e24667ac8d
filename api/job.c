/* job.c - prepares the job of one request: reads and checks it, tokenizes its texts, plans what passes keep.
 *
 * A job has one sequence, or with interventions two and one for each text that they patch from. A sequence
 * that the head cache lacks needs a pass, which may also compute sequences of other jobs. */
#include "api/internal.h"

#include "model/base/clock.h"
#include "model/base/memory.h"
#include "model/base/utf8.h"

#include <stdio.h>
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

/* ---- prepare ---- */

static bool ends_sentence(const hs__analysis_request *analysis, const hs_encoding *encoding, size_t i)
{
    if (!analysis->has_sentence_ends)
        return encoding->roles[i] == HS_ROLE_SENTENCE_END;
    for (size_t k = 0; k < analysis->n_sentence_ends; k++)
        if (analysis->sentence_ends[k] == encoding->ids[i])
            return true;
    return false;
}

/* Encodes a text, words or ids: of the request, of a source, or what a decoder reads of them. */
static hs_status encode_whole(const hs_job *job, const hs_tokenizer *tokenizer, const hs__input *input,
                              size_t tokens_max, int32_t language, hs_encoding *ret_encoding,
                              size_t *ret_n_prompt, hs_error *err)
{
    const hs_encode_options options = {tokens_max, job->analysis.split_special_tokens, language};
    if (input->ids)
        return hs_tokenizer_encode_ids(tokenizer, input->ids, input->types, input->n_ids, ret_encoding, err);
    if (input->words)
        return hs_tokenizer_encode_words(tokenizer, input->words, input->n_words, &options, ret_encoding,
                                         err);
    return hs_prompt_encode(tokenizer, job->analysis.prompt, &input->text,
                            input->text_pair.bytes ? &input->text_pair : NULL, &options, ret_encoding,
                            ret_n_prompt, err);
}

/* Replaces a whole text by its window that the request names. */
static int window_cut(hs_job *job, const char *pointer, hs_encoding *encoding, hs_windows *ret_windows)
{
    const hs__analysis_request *analysis = &job->analysis;
    hs_encoding window;
    hs_status st =
        hs_windows_plan(encoding, analysis->max_tokens, analysis->stride, ret_windows, &job->error);
    if (st == HS_INVALID || st == HS_TOO_LARGE)
        return hs__refuse(&job->problem, 422, pointer, "the text cannot be cut into windows: %s",
                          job->error.text);
    if (!st && analysis->window >= ret_windows->n)
        return hs__refuse(&job->problem, 422, pointer,
                          "window is %zu; this text has %zu window%s of %zu tokens: allowed are 0 to %zu",
                          analysis->window, ret_windows->n, ret_windows->n == 1 ? "" : "s",
                          analysis->max_tokens, ret_windows->n - 1);
    if (!st)
        st = hs_window_make(ret_windows, encoding, analysis->window, &window, &job->error);
    if (st)
        return hs__job_refuse(job);
    hs_encoding_finish(encoding);
    *encoding = window;
    return 0;
}

/* Encodes the input of the request or of a source. pointer: to what names it, if it has no such window. */
static int encode_input(hs_job *job, const hs__input *input, const char *pointer, hs_encoding *ret_encoding,
                        size_t *ret_n_prompt, hs_windows *ret_windows)
{
    const bool is_cut = job->analysis.has_window && !input->ids;
    const size_t tokens_max = is_cut ? HS_WINDOWS_TOKENS_MAX : job->analysis.max_tokens;
    const hs_tokenizer *tokenizer = hs_model_tokenizer(hs__job_model(job)->model);
    if (encode_whole(job, tokenizer, input, tokens_max, job->analysis.source_language, ret_encoding,
                     ret_n_prompt, &job->error))
        return hs__job_refuse(job);
    return is_cut ? window_cut(job, pointer, ret_encoding, ret_windows) : 0;
}

/* Refuses a text without tokens. */
static int check_tokens(hs_job *job, const hs_encoding *encoding)
{
    if (encoding->n_tokens > 0)
        return 0;
    return hs__refuse(&job->problem, 422, job->analysis.input.words ? "/words" : "/text",
                      "the text has no tokens, and this model's tokenizer adds none; send a text that is "
                      "not empty");
}

/* Encodes what a decoder reads, after its start token. */
static hs_status target_encode(hs_job *job, const hs__served_model *decoder, const hs__input *input,
                               hs_encoding *ret_target)
{
    const size_t max_tokens = job->analysis.max_tokens, positions = decoder->shape->n_positions;
    const hs_tokenizer *tokenizer = hs_model_target_tokenizer(decoder->model);
    const hs_encode_options options = {.tokens_max = max_tokens < positions ? max_tokens : positions,
                                       .split_special_tokens = job->analysis.split_special_tokens,
                                       .language = job->analysis.target_language};
    if (!input->ids)
        return hs_target_encode(decoder->model, &input->text, &options, ret_target, &job->error);
    const hs_status st =
        hs_tokenizer_encode_ids(tokenizer, input->ids, input->types, input->n_ids, ret_target, &job->error);
    return st ? st : hs_encoding_begin(tokenizer, hs__job_start(job, decoder), ret_target, &job->error);
}

/* Encodes the text whose states a decoder reads. */
static int read_text_encode(hs_job *job, const hs__input *input, hs_encoding *source)
{
    const hs__served_model *model = hs__job_model(job);
    const size_t most = job->analysis.max_tokens, positions = model->encoder->shape->n_positions;
    size_t n_prompt;
    const hs_status st =
        encode_whole(job, hs_model_tokenizer(model->model), input, most < positions ? most : positions,
                     job->analysis.source_language, source, &n_prompt, &job->error);
    return st ? hs__job_refuse(job) : check_tokens(job, source);
}

/* Encodes both texts of a decoder: the one whose states it reads, and the one that it reads. */
static int decoder_encode(hs_job *job, const hs__input *input, const hs__input *decoder_input,
                          hs_encoding *source, hs_encoding *target)
{
    if (read_text_encode(job, input, source))
        return job->problem.status;
    return target_encode(job, hs__job_model(job), decoder_input, target) ? hs__job_refuse(job) : 0;
}

/* Adds the text whose states sequences [first, first + n) of a decoder read. */
static hs__job_sequence *encoder_add(hs_job *job, const hs_encoding *text, size_t first, size_t n)
{
    hs__job_sequence *encoder = &job->sequences[job->n_sequences++];
    for (size_t i = first; i < first + n; i++)
        job->sequences[i].source = encoder;
    *encoder = (hs__job_sequence){
        .model = hs__job_model(job)->encoder, .encoding = text, .selection = &job->encoder_selection};
    return encoder;
}

/* Adds the texts whose states the sequences of a decoder read: that of the request, also without the
 * interventions in it, and those of the sources. */
static void encoders_add(hs_job *job)
{
    const hs__analysis_request *analysis = &job->analysis;
    const size_t n_own = analysis->n_own_interventions, n_changed = analysis->n_interventions - n_own;
    hs__job_sequence *encoder =
        encoder_add(job, &job->encoder_text, 0, n_changed > 0 ? 1 : job->first_source);
    encoder->interventions = n_changed > 0 ? analysis->interventions + n_own : NULL;
    encoder->n_interventions = n_changed;
    if (n_changed > 0)
        encoder_add(job, &job->encoder_text, 1, 1);
    for (size_t k = 0; k < analysis->n_sources; k++)
        encoder_add(job, &job->source_encoder_texts[k], job->first_source + k, 1);
}

/* Encodes a source, or of a decoder both of its texts. */
static int source_encode(hs_job *job, size_t k)
{
    const hs__source *source = &job->analysis.sources[k];
    hs_encoding *e = &job->source_encodings[k];
    size_t n_prompt;
    hs_windows windows;
    if (hs__job_model(job)->encoder)
        return decoder_encode(job, &source->input, &source->decoder_input, &job->source_encoder_texts[k], e);
    return encode_input(job, &source->input, source->pointer, e, &n_prompt, &windows);
}

/* Tokenizes a source, which must have as many tokens as the text, and adds its sequence. */
static int source_tokenize(hs_job *job, size_t k)
{
    const char *what = hs__job_model(job)->encoder ? "target" : "text";
    const size_t T = job->text.encoding.n_tokens;
    const hs_encoding *e = &job->source_encodings[k];
    if (source_encode(job, k))
        return job->problem.status;
    if (e->n_tokens != T)
        return hs__refuse(&job->problem, 422, job->analysis.sources[k].pointer,
                          "a patch needs a %s of as many tokens: this one has %zu tokens, and the %s of "
                          "the request has %zu; POST /tokenize shows the tokens",
                          what, e->n_tokens, what, T);
    job->sources[k] = (hs_sequence){
        .ids = e->ids, .types = hs__job_model(job)->shape->n_types ? e->types : NULL, .n_tokens = T};
    job->sequences[job->n_sequences++] = (hs__job_sequence){
        .model = job->analysis.model, .encoding = e, .selection = &job->source_selections[k]};
    return 0;
}

/* Tokenizes the texts that patches take values from, and checks the patches' positions. */
static int sources_tokenize(hs_job *job)
{
    const hs__analysis_request *analysis = &job->analysis;
    const size_t T = job->text.encoding.n_tokens;
    job->first_source = job->n_sequences;
    for (size_t k = 0; k < analysis->n_sources; k++)
        if (source_tokenize(job, k))
            return job->problem.status;
    for (size_t i = 0; i < analysis->n_interventions; i++) {
        hs_intervention *patch = &analysis->interventions[i];
        char pointer[64];
        if (!hs_intervention_is_patch(patch))
            continue;
        patch->from = &job->sources[analysis->source_of[i]];
        snprintf(pointer, sizeof pointer, "/interventions/%d/positions", analysis->named_at[i]);
        if (patch->n_positions > 0 && patch->positions[patch->n_positions - 1] >= T)
            return hs__refuse(&job->problem, 422, pointer,
                              "position %zu is outside the text, which has %zu tokens: allowed are 0 to %zu",
                              patch->positions[patch->n_positions - 1], T, T - 1);
    }
    return 0;
}

/* Encodes the request's text. */
static int text_encode(hs_job *job)
{
    hs__job_text *text = &job->text;
    if (encode_input(job, &job->analysis.input, "/window", &text->encoding, &text->n_prompt, &text->windows))
        return job->problem.status;
    return check_tokens(job, &text->encoding);
}

/* Encodes what the request gives and lets the model write more, which the request then has as ids. */
static int text_write(hs_job *job)
{
    const hs__analysis_request *analysis = &job->analysis;
    if (analysis->max_new_tokens == 0)
        return 0;
    if (analysis->model->encoder ? read_text_encode(job, &analysis->input, &job->encoder_text)
                                 : text_encode(job))
        return job->problem.status;
    const int status = hs__job_write(job);
    hs_encoding_finish(&job->encoder_text);
    hs_encoding_finish(&job->text.encoding);
    return status;
}

static int tokenize(hs_job *job)
{
    const hs__analysis_request *analysis = &job->analysis;
    hs__job_text *text = &job->text;
    const hs__served_model *reader = hs__target_model(analysis);
    if (text_write(job))
        return job->problem.status;
    if (reader != analysis->model && target_encode(job, reader, &analysis->decoder_input, &job->reader_text))
        return hs__job_refuse(job);
    if (analysis->model->encoder ? decoder_encode(job, &analysis->input, &analysis->decoder_input,
                                                  &job->encoder_text, &text->encoding)
                                 : text_encode(job))
        return job->problem.status;
    const hs_encoding *e = &text->encoding;
    text->sentences = malloc(e->n_tokens * (sizeof *text->sentences + 1));
    if (!text->sentences)
        return hs__job_refuse_memory(job, "the sentences");
    text->ends = (uint8_t *)(text->sentences + e->n_tokens);
    for (size_t i = 0; i < e->n_tokens; i++)
        text->ends[i] = ends_sentence(analysis, e, i);
    hs_sentences_find(text->ends, e->texts, e->special, e->n_tokens, text->sentences);
    const size_t n_own = analysis->n_own_interventions;
    const bool starts = n_own == analysis->n_interventions; /* no layer has the baseline's states otherwise */
    job->sequences[job->n_sequences++] = (hs__job_sequence){
        .model = analysis->model,
        .encoding = e,
        .interventions = analysis->interventions,
        .n_interventions = n_own,
        .selection = &job->selection,
        .first_changed = starts ? hs_interventions_first_layer(analysis->interventions, n_own,
                                                               hs__job_model(job)->shape->n_layers)
                                : 0};
    if (analysis->n_interventions)
        job->sequences[job->n_sequences++] =
            (hs__job_sequence){.model = analysis->model, .encoding = e, .selection = &job->selection};
    if (sources_tokenize(job))
        return job->problem.status;
    if (analysis->model->encoder)
        encoders_add(job);
    return 0;
}

/* Selects all that any patch takes from its source. Cross heads have a key for each token that they read. */
static void plan_sources(hs_job *job)
{
    const hs_shape *shape = hs__job_model(job)->shape;
    hs_selection *selection = &job->source_selections[0];
    bool layers[HS_LAYERS_MAX] = {false}, heads[HS_HEADS_MAX] = {false};
    *selection = (hs_selection){.layers = job->source_layers, .heads = job->source_heads};
    if (job->analysis.effects_of.kind == HS_INTERVENE_PATCH) {
        selection->taps = HS_KEEP(HEAD_OUTPUT) | HS_KEEP(EVERY_STATE);
        memset(layers, true, sizeof layers);
        memset(heads, true, sizeof heads);
    }
    for (size_t i = 0; i < job->analysis.n_interventions; i++) {
        const hs_intervention *patch = &job->analysis.interventions[i];
        const bool state = patch->kind == HS_INTERVENE_PATCH_STATE;
        if (!hs_intervention_is_patch(patch))
            continue;
        selection->taps |= state ? HS_KEEP(HIDDEN_STATE) : HS_KEEP(HEAD_OUTPUT);
        for (size_t l = 0; l < patch->n_layers; l++)
            if (!state || patch->layers[l] > 0) /* the embeddings are state 0 */
                layers[patch->layers[l] - state] = true;
        for (size_t h = 0; !state && h < patch->n_heads; h++)
            heads[patch->heads[h]] = true;
    }
    for (size_t l = 0; l < shape->n_layers; l++)
        if (layers[l])
            job->source_layers[selection->n_layers++] = (uint16_t)l;
    for (size_t h = 0; h < shape->n_heads; h++)
        if (heads[h])
            job->source_heads[selection->n_heads++] = (uint16_t)h;
    for (size_t k = job->analysis.n_sources; k-- > 0;) {
        job->source_selections[k] = *selection;
        job->source_selections[k].n_memory =
            job->analysis.stack == HS_STACK_CROSS ? job->source_encoder_texts[k].n_tokens : 0;
    }
}

/* Returns what these outputs of the request read of the pass, and the lens. */
static unsigned taps_of(const hs_job *job, hs__outputs outputs)
{
    const hs__analysis_request *analysis = &job->analysis;
    return hs__outputs_taps(analysis, outputs, job->again) |
           (analysis->predictions.lens ? HS_KEEP(EVERY_STATE) : 0);
}

static hs__measures measures_of(const hs_job *job)
{
    const hs__answer answer = hs__job_describe(job);
    const hs__analysis_request *analysis = &job->analysis;
    return (hs__measures){.analysis = analysis,
                          .architecture = answer.model->architecture,
                          .shape = answer.model->shape,
                          .n_tokens = job->text.encoding.n_tokens,
                          .n_keys = hs__answer_keys(&answer),
                          .n_heads = analysis->n_layers * analysis->n_heads,
                          .n_threads = job->request->n_threads > 1 ? job->request->n_threads : 1};
}

/* Returns an upper bound of the bytes of results that are made head by head. */
static size_t results_bytes(const hs_job *job)
{
    const hs__measures m = measures_of(job);
    return hs__outputs_result_bytes(&m, hs__outputs_observing(job->analysis.outputs));
}

/* Returns an upper bound of the bytes that the job takes beside maps that are shown. */
static size_t capture_bytes(const hs_job *job)
{
    size_t n_bytes = 0;
    for (size_t i = 0; i < job->n_sequences && job->selection.taps; i++)
        n_bytes += hs_capture_bytes(job->sequences[i].model->shape, job->sequences[i].selection,
                                    job->sequences[i].encoding->n_tokens);
    const hs__answer answer = hs__job_describe(job);
    const hs__measures m = measures_of(job);
    const unsigned requested = hs__outputs_own(&job->analysis);
    for (unsigned kind = 0; kind < HS__OWN_COUNT; kind++)
        n_bytes += requested >> kind & 1 ? hs__own_passes_by_kind[kind]->bytes_max(&answer) : 0;
    return n_bytes + results_bytes(job) + hs__outputs_prepare_bytes(&m) +
           hs__outputs_again_bytes(&m, job->again);
}

/* Returns true if an intervention replaces a head's attention, which then is another than its queries and
 * keys give. */
static bool replaces_attention(const hs__analysis_request *analysis)
{
    for (size_t i = 0; i < analysis->n_interventions; i++)
        if (analysis->interventions[i].kind == HS_INTERVENE_UNIFORM ||
            analysis->interventions[i].kind == HS_INTERVENE_IDENTITY)
            return true;
    return false;
}

/* Lets outputs that read one map after the other compute them again if --max-maps does not allow to keep
 * them. Maps are kept if attention is replaced, and for outputs that read rectangular maps. */
static void plan_again(hs_job *job)
{
    hs__outputs repeating = hs__outputs_repeating(job->analysis.outputs);
    if (job->analysis.stack == HS_STACK_CROSS)
        repeating &= ~(HS__OUTPUT_BIT(contributions) | HS__OUTPUT_BIT(rollout) |
                       (job->analysis.head_distance == HS__DISTANCE_JS ? HS__OUTPUT_BIT(head_distances) : 0));
    if (!repeating || replaces_attention(&job->analysis) ||
        capture_bytes(job) <= job->api->options.capture_bytes_max)
        return;
    job->again = repeating;
    job->selection.taps = taps_of(job, job->analysis.outputs);
}

/* Lets outputs that read each head alone observe the pass, so that it keeps only the maps that others need.
 * Maps that the head cache would keep for the next request are kept, and maps of so few heads that each
 * thread would need as many, if --max-maps allows them. With interventions maps are kept if they fit: the
 * pass can then start in a layer whose maps the baseline has computed. */
static void plan_observed(hs_job *job)
{
    const hs__analysis_request *analysis = &job->analysis;
    hs_selection *selection = &job->selection;
    const size_t n_bytes =
        hs_capture_bytes(hs__job_model(job)->shape, selection, job->text.encoding.n_tokens);
    const hs__outputs observing = hs__outputs_observing(analysis->outputs);
    const unsigned kept = taps_of(job, analysis->outputs & ~observing),
                   shown = hs__outputs_taps(analysis, observing, 0);
    const bool serves = n_bytes <= job->api->options.cache_bytes_max / 2 ||
                        selection->n_layers * selection->n_heads <= job->request->n_threads;
    const size_t n_taken = analysis->n_interventions > 0 ? capture_bytes(job) : n_bytes + results_bytes(job);
    const bool fits = n_taken <= job->api->options.capture_bytes_max;
    if (((serves || analysis->n_interventions > 0) && fits) || !(shown & ~kept))
        return;
    job->sequences[0].first_changed = 0;
    job->observed = observing;
    job->observed_taps = shown;
    selection->taps = kept | HS_KEEP(COLUMNS); /* a pass needs something to keep */
}

/* Returns the bytes of the maps that a thread of a pass shows the job's outputs. */
static size_t observed_bytes(const hs_job *job)
{
    const size_t T = job->text.encoding.n_tokens, K = job->selection.n_memory ? job->selection.n_memory : T;
    const unsigned taps = job->observed_taps;
    return (T * K * ((taps & HS_KEEP(ATTENTION)) != 0) + T * T * ((taps & ~HS_KEEP(ATTENTION)) != 0)) *
           sizeof(float);
}

/* Returns the bytes of the search for pairs in one map (hs_pair_pool). */
static size_t search_bytes(const hs_job *job)
{
    const size_t T = job->text.encoding.n_tokens, n_all = T * (T - 1) / 2, n = 4 * job->analysis.max_pairs;
    return (job->observed & HS__OUTPUT_BIT(pairs) ? n < n_all ? n : n_all : 0) * sizeof(hs_pair);
}

/* Selects the layers, heads and taps that the outputs need. */
static void plan(hs_job *job)
{
    const hs__analysis_request *analysis = &job->analysis;
    hs_selection *selection = &job->selection;
    *selection =
        (hs_selection){.layers = analysis->layers,
                       .n_layers = analysis->n_layers,
                       .heads = analysis->heads,
                       .n_heads = analysis->n_heads,
                       .taps = taps_of(job, analysis->outputs),
                       .n_memory = analysis->stack == HS_STACK_CROSS ? job->encoder_text.n_tokens : 0};
    /* The viewer requests the outputs of single heads after the maps. Head outputs are small (d columns next
     * to 2 T), and capturing them now saves the pass of that request. */
    const unsigned maps = HS_KEEP(ATTENTION) | HS_KEEP(SIMILARITY);
    if ((selection->taps & maps) == maps && job->api->options.cache_bytes_max > 0)
        selection->taps |= HS_KEEP(HEAD_OUTPUT);
    if (hs__outputs_every_head(analysis->outputs)) {
        selection->n_heads = hs__job_model(job)->shape->n_heads;
        selection->heads = hs_all_numbers;
    }
    if (hs__outputs_every_layer(analysis->outputs)) {
        selection->n_layers = hs__job_model(job)->shape->n_layers;
        selection->layers = hs_all_numbers;
    }
    job->encoder_selection.taps = selection->taps ? HS_KEEP(LAST_STATE) : 0;
    plan_sources(job);
    plan_again(job);
    plan_observed(job);
}

/* Returns the mask of tokens that figures leave out: the special ones if requested, else NULL. A text of
 * special tokens only is always masked, because it has nothing to compare. */
static const uint8_t *masked_tokens(const hs__analysis_request *analysis, const hs_encoding *e)
{
    const bool text = memchr(e->special, 0, e->n_tokens) != NULL;
    return analysis->special_tokens || !text ? e->special : NULL;
}

/* Returns the answer without its results. */
hs__answer hs__job_describe(const hs_job *job)
{
    const hs__job_text *text = &job->text;
    const hs__analysis_request *analysis = &job->analysis;
    const hs__heads *heads = job->sequences[0].heads,
                    *baseline = analysis->n_interventions ? job->sequences[1].heads : NULL,
                    *memory = job->sequences[0].source ? job->sequences[0].source->heads : NULL,
                    *other = analysis->effects_of.kind == HS_INTERVENE_PATCH
                                 ? job->sequences[job->first_source + analysis->effects_of.source].heads
                                 : NULL;
    hs__answer answer = {.model = hs__job_model(job),
                         .request = job->request,
                         .analysis = analysis,
                         .encoding = &text->encoding,
                         .windows = &text->windows,
                         .source = hs__job_model(job)->encoder ? &job->encoder_text : NULL,
                         .reader = job->reader_text.n_tokens ? &job->reader_text : NULL,
                         .n_prompt = text->n_prompt,
                         .n_given = text->n_given,
                         .sentences = text->sentences,
                         .ends = text->ends,
                         .masked = masked_tokens(analysis, &text->encoding),
                         .capture = heads ? heads->capture : NULL,
                         .baseline = baseline ? baseline->capture : NULL,
                         .again = job->again,
                         .other = other ? other->capture : NULL,
                         .memory = memory ? memory->capture : NULL};
    memcpy(answer.own, job->own, sizeof answer.own);
    return answer;
}

/* Refuses a sentence vector if nothing is left to pool beside the prompt. */
static int check_pooling(hs_job *job)
{
    const hs__analysis_request *analysis = &job->analysis;
    const bool pools = analysis->outputs & HS__OUTPUT_BIT(embedding) ||
                       analysis->target.kind == HS_TARGET_VECTOR || analysis->target.kind == HS_TARGET_COSINE;
    if (!pools || job->text.n_prompt < job->text.encoding.n_tokens ||
        !hs__job_model(job)->architecture->sentence.without_prompt)
        return 0;
    return hs__refuse(
        &job->problem, 422, "/text",
        "the sentence vector of %s leaves out the %zu tokens of the prompt, and the text has no "
        "other; send a longer text, or prompt_name \"\"",
        hs__job_model(job)->name, job->text.n_prompt);
}

/* Refuses positions of predictions and of the target beyond the text's tokens. Positions ascend. */
static int check_positions(hs_job *job)
{
    const hs__prediction_request *analysis = &job->analysis.predictions;
    const size_t n = analysis->n_positions, T = job->text.encoding.n_tokens;
    if (n == 0 || analysis->positions[n - 1] < T)
        return hs__target_check(&job->analysis, job->reader_text.n_tokens ? job->reader_text.n_tokens : T,
                                &job->problem);
    return hs__refuse(
        &job->problem, 422, "/predictions/positions",
        "predictions: position %zu is outside the text, which has %zu tokens: allowed are 0 to %zu",
        analysis->positions[n - 1], T, T - 1);
}

static int check_reduced(hs_job *job)
{
    const hs__answer answer = hs__job_describe(job);
    return hs__reduced_check(&job->analysis, job->text.encoding.n_tokens, hs__answer_keys(&answer),
                             &job->problem);
}

/* Chooses how many threads of a pass show maps, as many as fit beside n_kept bytes. Returns the bytes of
 * these maps, and of the search for pairs in each. */
static size_t slots_plan(hs_job *job, size_t n_kept)
{
    const size_t n_bytes = observed_bytes(job) + search_bytes(job),
                 limit = job->api->options.capture_bytes_max;
    const size_t n_fit = n_bytes > 0 && n_kept < limit ? (limit - n_kept) / n_bytes : 0;
    job->n_slots = n_fit < job->request->n_threads ? n_fit : job->request->n_threads;
    job->n_slots = job->n_slots > 1 ? job->n_slots : 1;
    return n_bytes * job->n_slots;
}

/* Refuses a request whose maps take more than one request may. */
static int refuse_maps(hs_job *job, size_t n_bytes, const char *hint)
{
    const size_t limit = job->api->options.capture_bytes_max, T = job->text.encoding.n_tokens;
    hs_selection one = job->selection;
    one.n_layers = one.n_heads = 1;
    const size_t head =
        job->observed ? observed_bytes(job) : hs_capture_bytes(hs__job_model(job)->shape, &one, T);
    char keeping[400];
    const bool keeps = *hs__outputs_keeping(&job->analysis, job->again, keeping, sizeof keeping);
    return hs__refuse(&job->problem, 422, NULL,
                      "computing the heads would take %.1f MB of memory, the limit is %.1f MB: %s. Of %zu "
                      "tokens one head takes %.1f MB%s%s%s; --max-maps raises the limit",
                      (double)n_bytes / 1e6, (double)limit / 1e6, hint, T, (double)head / 1e6,
                      keeps ? ", and the maps of all heads are kept for " : "", keeping,
                      keeps && replaces_attention(&job->analysis)
                          ? ", since interventions uniform and identity replace attention"
                          : "");
}

/* Refuses a request whose answer or heads could exceed the limits, before any pass. */
static int check_limits(hs_job *job)
{
    const hs_api_options *options = &job->api->options;
    const char *hint =
        job->analysis.outputs & HS__OUTPUT_BIT(value_zeroing)
            ? "value_zeroing computes a layer once for each token, so ask for a smaller max_tokens"
            : "ask for fewer layers, heads or outputs, or a smaller max_tokens";
    const size_t kept = capture_bytes(job);
    const size_t capture = kept + slots_plan(job, kept);
    const size_t answer =
        hs__answer_bytes_max(&job->analysis, job->format, hs__job_model(job), &job->text.encoding,
                             &job->encoder_text, job->request->body_bytes);
    if (answer > options->answer_bytes_max)
        return hs__refuse(&job->problem, 422, NULL,
                          "the answer could take %.1f MB, the limit is %.1f MB: %s%s", (double)answer / 1e6,
                          (double)options->answer_bytes_max / 1e6, hint,
                          job->format == HS__JSON ? ", fewer digits, or for the format npz"
                          : hs__format_is_figure(job->format) || job->analysis.dtype != HS__DTYPE_F4
                              ? ""
                              : ", or dtype f2 or u1");
    if (capture > options->capture_bytes_max)
        return refuse_maps(job, capture, hint);
    job->answer_bytes_max = answer;
    if (hs__job_reserve(job, capture))
        return job->problem.status;
    job->over_budget = job->request->hold && !job->request->hold(job->request->hold_data, answer);
    if (job->over_budget)
        return hs__refuse(&job->problem, 503, NULL,
                          "no memory for %.1f MB more until clients read earlier answers: try again later",
                          (double)answer / 1e6);
    return 0;
}

/* Refuses interventions that the passes would refuse, which other requests may share. */
static int check_interventions(hs_job *job)
{
    const hs__analysis_request *analysis = &job->analysis;
    const hs__served_model *model = analysis->model;
    const size_t n_own = analysis->n_own_interventions, n_other = analysis->n_interventions - n_own;
    hs_status st = hs_interventions_check(model->shape, analysis->interventions, n_own, &job->error);
    if (!st && n_other)
        st = hs_interventions_check(model->encoder->shape, analysis->interventions + n_own, n_other,
                                    &job->error);
    return st ? hs__refuse(&job->problem, 422, "/interventions", "%s", job->error.text) : 0;
}

/* Refuses a job beside others that runs passes of its own, for which they would wait. */
static int check_beside(hs_job *job)
{
    job->crowded = job->request->beside && hs__job_is_long(job);
    return job->crowded ? hs__refuse(&job->problem, 503, NULL,
                                     "other requests wait for this one's thread: send it again later")
                        : 0;
}

static int body_read(hs_job *job, bool tokens_only)
{
    if (hs__analysis_request_parse(job->request, tokens_only, &job->analysis, &job->problem))
        return job->problem.status;
    job->analysis.model =
        hs__model_choose(job->api, json_object_get(job->analysis.body, "model"), &job->problem);
    if (!job->analysis.model || hs__stack_choose(&job->analysis, &job->problem))
        return job->problem.status;
    return hs__analysis_request_read(&job->analysis, &job->problem);
}

static void prepare_analyze(hs_job *job)
{
    const hs_request *request = job->request;
    hs__problem *problem = &job->problem;
    bool hooks = false;
    if (hs__format_choose(request->query, request->accept, &job->format, &hooks, problem) ||
        hs__content_type_check(request->content_type, problem) || body_read(job, false))
        return;
    job->analysis.hooks = hooks;
    if (hs__figure_prepare(&job->analysis, hs__format_is_figure(job->format), problem) ||
        (job->format != HS__JSON && !hs__format_is_figure(job->format) &&
         hs__outputs_check_dtype(&job->analysis, problem)) ||
        hs__outputs_check_interventions(&job->analysis, problem) ||
        hs__outputs_check_stack(&job->analysis, problem) || check_interventions(job) ||
        hs__effects_of_check(&job->analysis, hs__target_model(&job->analysis)->architecture, problem) ||
        check_beside(job) || tokenize(job) || check_pooling(job) || check_positions(job) ||
        check_reduced(job))
        return;
    plan(job);
    if (check_limits(job) || !job->selection.taps)
        return;
    /* Only a pass shows maps to outputs that observe it. */
    for (size_t i = job->observed ? 1 : 0; i < job->n_sequences; i++) {
        const hs__heads_key key = hs__job_key(job, &job->sequences[i]);
        job->sequences[i].heads = hs__head_cache_find(job->api->cache, &key, job->sequences[i].selection);
    }
}

static void prepare_tokenize(hs_job *job)
{
    const hs_request *request = job->request;
    hs__answer_format format;
    if (hs__format_choose(request->query, NULL, &format, NULL, &job->problem))
        return;
    if (format != HS__JSON)
        hs__refuse(&job->problem, 406, NULL,
                   "the answer of this path is always application/json: ask for that, or send no Accept");
    else if (!hs__json_accepted(request->accept, &job->problem) &&
             !hs__content_type_check(request->content_type, &job->problem) && !body_read(job, true) &&
             !hs__outputs_check_stack(&job->analysis, &job->problem))
        tokenize(job);
}

hs_job *hs_job_create(hs_api *api, const hs_request *request)
{
    const double start = hs_clock_ms();
    hs_job *job = calloc(1, sizeof *job);
    if (!job)
        return NULL;
    job->api = api;
    job->request = request;
    job->problem.request_line = request->line;
    if (request->operation == HS_ANALYZE)
        prepare_analyze(job);
    else if (request->operation == HS_TOKENIZE)
        prepare_tokenize(job);
    else
        hs__json_accepted(request->accept, &job->problem);
    job->stage_ms[HS_STAGE_TOKENIZE] =
        hs_clock_ms() - start - job->waited_ms - job->stage_ms[HS_STAGE_FORWARD];
    return job;
}

void hs_job_destroy(hs_job *job)
{
    if (!job)
        return;
    for (size_t i = 0; i < job->n_sequences; i++) {
        hs__heads_release(job->api->cache, job->sequences[i].heads);
    }
    hs__results_destroy(job->results);
    hs_encoding_finish(&job->text.encoding);
    hs_encoding_finish(&job->encoder_text);
    hs_encoding_finish(&job->reader_text);
    for (size_t k = 0; k < HS__SOURCES_MAX; k++) {
        hs_encoding_finish(&job->source_encodings[k]);
        hs_encoding_finish(&job->source_encoder_texts[k]);
    }
    free(job->text.sentences);
    hs__model_release(job->api, job->analysis.model);
    hs__analysis_request_finish(&job->analysis);
    for (unsigned kind = 0; kind < HS__OWN_COUNT; kind++)
        free(job->own[kind]);
    hs__job_release(job);
    free(job);
}

bool hs_job_crowded(const hs_job *job)
{
    return job->crowded;
}
