/* plan_maps.c - plans what the passes of a job keep, and in how much memory.
 *
 * A map of a head is kept in the capture, shown once to outputs while the pass computes it, or computed again
 * after the pass. This file alone chooses, by the memory that each takes. */
#include "api/internal.h"

#include <string.h>

/* ==== what sequences keep ==== */

/* Selects the layers, heads and taps that the outputs need. */
static void select_maps(hs_job *job)
{
    const hs__analysis_request *analysis = &job->analysis;
    hs_selection *selection = &job->selection;
    *selection = (hs_selection){.layers = analysis->layers,
                                .n_layers = analysis->n_layers,
                                .heads = analysis->heads,
                                .n_heads = analysis->n_heads,
                                .taps = job->needs.taps,
                                .n_memory = hs__text_n_memory(&job->texts.text)};
    /* The viewer requests the outputs of single heads after the maps. Head outputs are small (d columns next
     * to 2 T), and capturing them now saves the pass of that request. */
    const unsigned maps = HS_KEEP(ATTENTION) | HS_KEEP(SIMILARITY);
    if ((selection->taps & maps) == maps && job->api->options.cache_bytes_max > 0)
        selection->taps |= HS_KEEP(HEAD_OUTPUT);
    if (job->needs.every_head) {
        selection->n_heads = job->analysis.model->shape->n_heads;
        selection->heads = hs_all_numbers;
    }
    if (job->needs.every_layer) {
        selection->n_layers = job->analysis.model->shape->n_layers;
        selection->layers = hs_all_numbers;
    }
    job->encoder_selection.taps = selection->taps || job->analysis.n_sources > 0 ? HS_KEEP(LAST_STATE) : 0;
}

/* Selects all that interventions take from their sources. Cross heads have a key for each token that they
 * read. */
static void plan_sources(hs_job *job)
{
    const hs_shape *shape = job->analysis.model->shape;
    hs_selection *selection = &job->source_selections[0];
    bool layers[HS_LAYERS_MAX] = {false}, heads[HS_HEADS_MAX] = {false};
    *selection = (hs_selection){.layers = job->source_layers, .heads = job->source_heads};
    if (job->analysis.effects_of.kind == HS_INTERVENE_PATCH) {
        selection->taps = HS_KEEP(HEAD_OUTPUT) | HS_KEEP(EVERY_STATE);
        memset(layers, true, sizeof layers);
        memset(heads, true, sizeof heads);
    }
    for (size_t i = 0; i < job->analysis.n_interventions; i++) {
        const hs_intervention *taker = &job->analysis.interventions[i];
        const bool state = hs_intervention_is_of_state(taker);
        if (job->analysis.changes[i].n_sources == 0)
            continue;
        selection->taps |= state ? HS_KEEP(HIDDEN_STATE) : HS_KEEP(HEAD_OUTPUT);
        for (size_t l = 0; l < taker->n_layers; l++)
            if (!state || taker->layers[l] > 0) /* the embeddings are state 0 */
                layers[taker->layers[l] - state] = true;
        for (size_t h = 0; !state && h < taker->n_heads; h++)
            heads[taker->heads[h]] = true;
    }
    for (size_t l = 0; l < shape->n_layers; l++)
        if (layers[l])
            job->source_layers[selection->n_layers++] = (uint16_t)l;
    for (size_t h = 0; h < shape->n_heads; h++)
        if (heads[h])
            job->source_heads[selection->n_heads++] = (uint16_t)h;
    for (size_t k = job->analysis.n_sources; k-- > 0;) {
        job->source_selections[k] = *selection;
        job->source_selections[k].n_memory = hs__text_n_memory(&job->texts.sources[k]);
    }
}

/* ==== kept, shown or computed again ==== */

static hs__measures measures_of(const hs_job *job)
{
    const hs__analysis_request *analysis = &job->analysis;
    return (hs__measures){.analysis = analysis,
                          .architecture = analysis->model->architecture,
                          .shape = analysis->model->shape,
                          .text = &job->texts.text,
                          .n_tokens = job->texts.text.rows.n_tokens,
                          .n_keys = job->texts.text.keys->n_tokens,
                          .n_source = job->texts.text.memory.n_tokens,
                          .n_heads = analysis->n_layers * analysis->n_heads,
                          .n_threads = job->request->n_threads > 1 ? job->request->n_threads : 1};
}

/* Returns an upper bound of the bytes that the job takes beside maps that are shown. */
static size_t capture_bytes(const hs_job *job)
{
    size_t n_bytes = hs__steering_bytes(job);
    for (size_t i = 0; i < job->n_sequences; i++)
        if (job->sequences[i].selection->taps)
            n_bytes += hs_capture_bytes(job->sequences[i].model->shape, job->sequences[i].selection,
                                        job->sequences[i].encoding->n_tokens);
    const hs__answer answer = hs__job_describe(job);
    const hs__measures m = measures_of(job);
    for (unsigned kind = 0; kind < HS__OWN_COUNT; kind++)
        n_bytes += job->needs.own >> kind & 1 ? hs__own_passes_by_kind[kind]->bytes_max(&answer) : 0;
    return n_bytes + hs__outputs_bytes(&m, job->analysis.outputs, job->again) + job->weights_bytes;
}

/* Returns true if an intervention replaces a head's attention, which then is another than its queries and
 * keys give. */
static bool replaces_attention(const hs__analysis_request *analysis)
{
    for (size_t i = 0; i < analysis->n_interventions; i++) {
        const hs_intervention_kind kind = analysis->interventions[i].kind;
        if (kind == HS_INTERVENE_UNIFORM || kind == HS_INTERVENE_IDENTITY || kind == HS_INTERVENE_CUT)
            return true;
    }
    return false;
}

/* Lets outputs that read one map after the other compute them again if --max-maps does not allow to keep
 * them. Maps are kept if attention is replaced. */
static void plan_again(hs_job *job)
{
    if (!job->needs.repeating || replaces_attention(&job->analysis) || capture_bytes(job) <= job->bytes_max)
        return;
    job->again = job->needs.repeating;
    job->selection.taps = hs__outputs_needs(&job->analysis, job->analysis.outputs, job->again).taps;
}

/* Lets outputs that read each head alone observe the pass, so that it keeps only the maps that others need.
 * Maps that the head cache would keep for the next request are kept, and maps of so few heads that each
 * thread would need as many, if --max-maps allows them. With interventions maps are kept if they fit: the
 * pass can then start in a layer whose maps the baseline has computed. */
static void plan_observed(hs_job *job)
{
    const hs__analysis_request *analysis = &job->analysis;
    hs_selection *selection = &job->selection;
    if (!job->needs.observing)
        return;
    const size_t n_bytes =
        hs_capture_bytes(job->analysis.model->shape, selection, job->texts.text.rows.n_tokens);
    const hs__outputs observing = job->needs.observing;
    const unsigned kept = hs__outputs_needs(analysis, analysis->outputs & ~observing, job->again).taps;
    /* A pass shows the lengths of outputs in place of these. */
    const unsigned shown = hs__outputs_needs(analysis, observing, 0).taps & ~HS_KEEP(HEAD_OUTPUT);
    const hs__measures m = measures_of(job);
    const bool serves = n_bytes <= job->api->options.cache_bytes_max / 2 ||
                        selection->n_layers * selection->n_heads <= job->request->n_threads;
    const size_t n_taken =
        analysis->n_interventions > 0 ? capture_bytes(job) : n_bytes + hs__outputs_bytes(&m, observing, 0);
    const bool fits = n_taken <= job->bytes_max;
    if (((serves || analysis->n_interventions > 0) && fits) || !(shown & ~kept))
        return;
    job->sequences[0].first_changed = 0;
    job->observed = observing;
    job->observed_taps = shown;
    selection->taps = kept | HS_KEEP(COLUMNS); /* a pass needs something to keep */
}

/* Returns the bytes of the maps, and of the lengths, that a thread of a pass shows the job's outputs. */
static size_t observed_bytes(const hs_job *job)
{
    const size_t T = job->texts.text.rows.n_tokens, K = job->selection.n_memory ? job->selection.n_memory : T;
    const unsigned taps = job->observed_taps;
    return (T * K * ((taps & HS_KEEP(ATTENTION)) != 0) + (T * T + T) * ((taps & ~HS_KEEP(ATTENTION)) != 0)) *
           sizeof(float);
}

/* Returns the bytes of the search for pairs in one map (hs_pair_pool). */
static size_t search_bytes(const hs_job *job)
{
    const size_t T = job->texts.text.rows.n_tokens, n_all = T * (T - 1) / 2, n = 4 * job->analysis.max_pairs;
    return (job->observed & HS__OUTPUT_BIT(pairs) ? n < n_all ? n : n_all : 0) * sizeof(hs_pair);
}

/* ==== limits ==== */

/* Chooses how many threads of a pass show maps, as many as fit beside n_kept bytes. Returns the bytes of
 * these maps, and of the search for pairs in each. */
static size_t slots_plan(hs_job *job, size_t n_kept)
{
    const size_t n_bytes = observed_bytes(job) + search_bytes(job), limit = job->bytes_max;
    const size_t n_fit = n_bytes > 0 && n_kept < limit ? (limit - n_kept) / n_bytes : 0;
    job->n_slots = n_fit < job->request->n_threads ? n_fit : job->request->n_threads;
    job->n_slots = job->n_slots > 1 ? job->n_slots : 1;
    return n_bytes * job->n_slots;
}

/* Says why the limit is below --max-maps, if it is. */
static const char *reason_of_limit(const hs_job *job)
{
    return job->bytes_max < job->api->options.capture_bytes_max
               ? " beside the weights that gradients keep in memory"
               : "";
}

/* Refuses a request whose maps take more than one request may. */
static int refuse_maps(hs_job *job, size_t n_bytes, const char *hint)
{
    const size_t limit = job->bytes_max, T = job->texts.text.rows.n_tokens;
    hs_selection one = job->selection;
    one.n_layers = one.n_heads = 1;
    const size_t head =
        job->observed ? observed_bytes(job) : hs_capture_bytes(job->analysis.model->shape, &one, T);
    char keeping[400];
    const bool keeps = *hs__outputs_of_maps(job->analysis.outputs & ~job->needs.observing & ~job->again,
                                            keeping, sizeof keeping);
    return hs__refuse(&job->problem, 422, NULL,
                      "computing the heads would take %.1f MB of memory, the limit is %.1f MB%s: %s. Of %zu "
                      "tokens one head takes %.1f MB%s%s%s; --max-maps raises the limit",
                      (double)n_bytes / 1e6, (double)limit / 1e6, reason_of_limit(job), hint, T,
                      (double)head / 1e6, keeps ? ", and the maps of all heads are kept for " : "", keeping,
                      keeps && replaces_attention(&job->analysis)
                          ? ", since interventions uniform, identity and cut replace attention"
                          : "");
}

/* Refuses gradients that take more memory than one request may, with the weights that they need. */
static int refuse_gradients(hs_job *job, size_t n_bytes, const char *hint)
{
    return hs__refuse(
        &job->problem, 422, NULL,
        "computing gradients would take %.1f MB of memory, of which the transposed weights of %s "
        "take %.1f MB, the limits are %.1f MB and %.1f MB%s: %s; --max-maps raises the limits",
        (double)n_bytes / 1e6, job->analysis.model->name, (double)job->weights_bytes / 1e6,
        (double)job->bytes_max / 1e6, (double)hs__weights_bytes_max(job->api) / 1e6, reason_of_limit(job),
        hint);
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
    const size_t answer = hs__answer_bytes_max(&job->analysis, job->format, job->analysis.model,
                                               &job->texts.text, job->request->body_bytes);
    if (answer > options->answer_bytes_max)
        return hs__refuse(&job->problem, 422, NULL,
                          "the answer could take %.1f MB, the limit is %.1f MB: %s%s", (double)answer / 1e6,
                          (double)options->answer_bytes_max / 1e6, hint,
                          job->format == HS__JSON ? ", fewer digits, or for the format npz"
                          : hs__format_is_figure(job->format) || job->analysis.dtype != HS__DTYPE_F4
                              ? ""
                              : ", or dtype f2 or u1");
    if (capture > job->bytes_max || job->weights_bytes > hs__weights_bytes_max(job->api))
        return hs__needs_gradient(&job->analysis) ? refuse_gradients(job, capture, hint)
                                                  : refuse_maps(job, capture, hint);
    job->answer_bytes_max = answer;
    if (hs__job_reserve(job, capture, job->weights_bytes))
        return job->problem.status;
    job->over_budget = job->request->hold && !job->request->hold(job->request->hold_data, answer);
    if (job->over_budget)
        return hs__refuse(&job->problem, 503, NULL,
                          "no memory for %.1f MB more until clients read earlier answers: try again later",
                          (double)answer / 1e6);
    return 0;
}

int hs__maps_plan(hs_job *job)
{
    job->weights_bytes = hs__job_weights_bytes(job);
    select_maps(job);
    plan_sources(job);
    plan_again(job);
    plan_observed(job);
    return check_limits(job);
}
