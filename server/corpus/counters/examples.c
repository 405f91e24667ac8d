/* examples.c - the first text, if it is counted, and a random sample of texts, with each head's figures in
 * them.
 *
 * The sample keeps the texts with the lowest hashes of their numbers; text 0, of which the statistics keep
 * the similarity, has the lowest. So it does not depend on the order of texts, on workers, shards or
 * interruptions, and samples of shards can be merged. All workers share one sample: a list sorted by hash,
 * under a lock. */
#include "server/corpus/counters/examples.h"

#include "model/base/bytes.h"
#include "model/base/utf8.h"
#include "server/corpus/report/html.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define EXAMPLES_MAX 128
/* Limit on the text of an example: the page has each twice. */
#define TEXT_BYTES_MAX 16384

/* Bytes of a head's extremes: as JSON in memory, and when written. */
enum { EXTREMES_BYTES = 8192, EXTREMES_TEXT = 1024 };

static const char *const names[HS__EXAMPLE_FIGURES] = {
    [HS__EXAMPLE_REPEATED] = "repeated_share", [HS__EXAMPLE_SAME_SENTENCE] = "same_sentence_share",
    [HS__EXAMPLE_DISTANCE] = "mean_distance",  [HS__EXAMPLE_FOCAL] = "focal_share",
    [HS__EXAMPLE_HIGH] = "high_pairs",         [HS__EXAMPLE_SEPARATOR] = "separator_attention",
};

typedef struct example_sample {
    pthread_mutex_t lock;
    size_t n_maps, n;
    hs__example kept[EXAMPLES_MAX]; /* by hash, ascending */
} example_sample;

static void measure(const hs__corpus_job *job, const void *options, hs__counter_size *size)
{
    const uint64_t n_maps = hs__corpus_maps(job);
    (void)options;
    size->saved += n_maps * EXAMPLES_MAX * HS__EXAMPLE_FIGURES;
    size->report += n_maps * EXTREMES_BYTES;
    size->report_text += n_maps * EXTREMES_TEXT;
}

/* ---- the sample ---- */

/* No two numbers tie. */
static uint64_t hash(uint64_t number)
{
    return number ? hs_mix(number + HS_MIX_STEP) : 0;
}

static example_sample *sample_create(size_t n_maps)
{
    example_sample *sample = calloc(1, sizeof *sample);
    if (sample && pthread_mutex_init(&sample->lock, NULL)) {
        free(sample);
        return NULL;
    }
    if (sample)
        sample->n_maps = n_maps;
    return sample;
}

static void example_finish(hs__example *example)
{
    free((void *)example->text.bytes);
    free((void *)example->pair.bytes);
    free(example->figures);
    *example = (hs__example){0};
}

static void destroy(void *counts)
{
    example_sample *sample = counts;
    for (size_t i = 0; i < sample->n; i++)
        example_finish(&sample->kept[i]);
    pthread_mutex_destroy(&sample->lock);
    free(sample);
}

static bool wants(const example_sample *sample, uint64_t number)
{
    return sample->n < EXAMPLES_MAX || hash(number) < hash(sample->kept[sample->n - 1].number);
}

/* Returns true if the sample would keep this text now. Once false, it stays false. */
static bool sample_wants(example_sample *sample, uint64_t number)
{
    pthread_mutex_lock(&sample->lock);
    const bool is_sampled = wants(sample, number);
    pthread_mutex_unlock(&sample->lock);
    return is_sampled;
}

/* Adds an example if it belongs to the sample. Takes ownership of its text and figures in any case. */
static void sample_add(example_sample *sample, hs__example *example)
{
    pthread_mutex_lock(&sample->lock);
    if (wants(sample, example->number)) {
        size_t at = sample->n;
        if (at == EXAMPLES_MAX)
            example_finish(&sample->kept[--at]);
        for (; at && hash(sample->kept[at - 1].number) > hash(example->number); at--)
            sample->kept[at] = sample->kept[at - 1];
        sample->kept[at] = *example;
        sample->n += sample->n < EXAMPLES_MAX;
        *example = (hs__example){0};
    }
    pthread_mutex_unlock(&sample->lock);
    example_finish(example);
}

/* ---- checkpoint; NAN is null ---- */

/* Returns a text as JSON; NULL if there is none. */
static json_t *text_json(const hs_text *text)
{
    return text->bytes ? json_stringn(text->bytes, text->n_bytes) : NULL;
}

static json_t *example_save(const hs__example *example, size_t n_figures)
{
    json_t *figures = json_array();
    for (size_t k = 0; k < n_figures; k++)
        json_array_append_new(figures, isfinite(example->figures[k]) ? json_real((double)example->figures[k])
                                                                     : json_null());
    return json_pack("{sI sI sI so so* so}", "number", (json_int_t)example->number, "file",
                     (json_int_t)example->file, "line", (json_int_t)example->line, "text",
                     text_json(&example->text), "text_pair", text_json(&example->pair), "figures", figures);
}

static json_t *sample_json(example_sample *sample)
{
    json_t *saved = json_array();
    pthread_mutex_lock(&sample->lock);
    for (size_t i = 0; saved && i < sample->n; i++)
        if (json_array_append_new(saved,
                                  example_save(&sample->kept[i], sample->n_maps * HS__EXAMPLE_FIGURES))) {
            json_decref(saved);
            saved = NULL;
        }
    pthread_mutex_unlock(&sample->lock);
    return saved;
}

/* Copies a text of a checkpoint. Its bytes are NULL if memory is short. */
static hs_text text_load(const char *bytes, size_t n)
{
    char *copy = malloc(n + 1);
    if (copy)
        memcpy(copy, bytes, n);
    return (hs_text){copy, n};
}

static hs_status example_load(example_sample *sample, json_t *saved, size_t n_files, hs_error *err)
{
    const size_t n = sample->n_maps * HS__EXAMPLE_FIGURES;
    json_int_t number, file, line;
    const char *text, *pair = NULL;
    size_t n_text, n_pair = 0;
    json_t *figures;
    if (json_unpack(saved, "{sI sI sI ss% s?s% so}", "number", &number, "file", &file, "line", &line, "text",
                    &text, &n_text, "text_pair", &pair, &n_pair, "figures", &figures) ||
        json_array_size(figures) != n || number < 0 || line < 0 || file < 0 || (uint64_t)file >= n_files)
        return hs_fail(err, HS_INVALID, "the saved example texts are damaged");
    hs__example example = {.number = (uint64_t)number,
                           .file = (uint32_t)file,
                           .line = (uint64_t)line,
                           .text = text_load(text, n_text),
                           .pair = pair ? text_load(pair, n_pair) : (hs_text){0},
                           .figures = malloc(n * sizeof(float))};
    if (!example.text.bytes || (pair && !example.pair.bytes) || !example.figures) {
        example_finish(&example);
        return hs_fail(err, HS_NO_MEMORY, "no memory for example texts");
    }
    for (size_t k = 0; k < n; k++) {
        const json_t *figure = json_array_get(figures, k);
        example.figures[k] = json_is_number(figure) ? (float)json_number_value(figure) : NAN;
    }
    sample_add(sample, &example);
    return HS_OK;
}

static hs_status sample_read(example_sample *sample, const json_t *saved, size_t n_files, hs_error *err)
{
    hs_status st =
        json_is_array(saved) ? HS_OK : hs_fail(err, HS_INVALID, "there are no saved example texts");
    for (size_t i = 0; !st && i < json_array_size(saved); i++)
        st = example_load(sample, json_array_get(saved, i), n_files, err);
    return st;
}

static size_t files_count(const hs__corpus_results *results)
{
    return json_array_size(json_object_get(results->names, "inputs"));
}

static hs_status save(const hs__corpus_results *results, void *counts, json_t *checkpoint, hs_error *err)
{
    (void)results;
    return json_object_set_new(checkpoint, "sample", sample_json(counts))
               ? hs_fail(err, HS_NO_MEMORY, "no memory to save the run")
               : HS_OK;
}

static hs_status load(const hs__corpus_results *results, const json_t *checkpoint, void **counts,
                      hs_error *err)
{
    const hs_corpus_options o = hs_corpus_stats_options(results->stats);
    *counts = sample_create(o.n_layers * o.n_heads);
    return *counts ? sample_read(*counts, json_object_get(checkpoint, "sample"), files_count(results), err)
                   : hs_fail(err, HS_NO_MEMORY, "no memory to resume the run");
}

static hs_status merge(hs__corpus_results *results, void **counts, const hs__corpus_results *from,
                       void **from_counts, const char *from_dir, hs_error *err)
{
    json_t *other = sample_json(*from_counts);
    (void)from, (void)from_dir;
    const hs_status st = sample_read(*counts, other, files_count(results), err);
    json_decref(other);
    return st;
}

static hs_status begin(hs__counting *counting, bool anew, hs_error *err)
{
    if (anew)
        *counting->counts = sample_create(hs__corpus_maps(counting->job));
    return *counting->counts ? HS_OK : hs_fail(err, HS_NO_MEMORY, "no memory to begin");
}

const hs__example *hs__example_first(const void *counts)
{
    const example_sample *sample = counts;
    return sample && sample->n ? &sample->kept[0] : NULL;
}

/* ---- a worker ---- */

typedef struct worker {
    hs__tally tally;
    float
        *figures[HS_CORPUS_BATCH]; /* [l][h][HS__EXAMPLE_FIGURES] of the pass's texts that become examples */
} worker;

static example_sample *sample_of(const worker *w)
{
    return *w->tally.counting->counts;
}

static void worker_end(void *state)
{
    worker *w = state;
    for (size_t k = 0; k < HS_CORPUS_BATCH; k++)
        free(w->figures[k]);
}

static hs_status text(void *state, hs__text *t, hs_error *err)
{
    const worker *w = state;
    t->sampled = sample_wants(sample_of(w), hs__text_number(t));
    return t->sampled ? hs__text_reach(
                            t, hs_tokenizer_cuts_left(hs_model_tokenizer(w->tally.counting->job->model)), err)
                      : HS_OK;
}

static hs_status start(void *state, hs__text *t, hs_error *err)
{
    worker *w = state;
    if (!t->sampled)
        return HS_OK;
    float *figures = calloc(sample_of(w)->n_maps * HS__EXAMPLE_FIGURES, sizeof *figures);
    w->figures[t->place] = figures;
    return figures ? HS_OK : hs_fail(err, HS_NO_MEMORY, "no memory for an example");
}

static void head(void *state, hs__text *t, hs__text_head *head)
{
    const worker *w = state;
    const hs_corpus_observation *observation = head->observation;
    float *to = w->figures[t->place];
    if (!to)
        return;
    to += head->map * HS__EXAMPLE_FIGURES;
    to[HS__EXAMPLE_REPEATED] = observation->repeated_share;
    to[HS__EXAMPLE_SAME_SENTENCE] = observation->same_sentence_share;
    to[HS__EXAMPLE_DISTANCE] = observation->mean_distance;
    to[HS__EXAMPLE_FOCAL] = observation->focal_share;
    to[HS__EXAMPLE_HIGH] = (float)observation->high_pairs;
    to[HS__EXAMPLE_SEPARATOR] = observation->separator_attention;
}

/* Cuts a text that is too long, between characters, and gives its memory back. */
static hs_text text_cut(hs_text text)
{
    if (text.n_bytes <= TEXT_BYTES_MAX)
        return text;
    const size_t n = hs_utf8_whole(text.bytes, TEXT_BYTES_MAX);
    const char *shorter = realloc((void *)text.bytes, n + 1);
    return (hs_text){shorter ? shorter : text.bytes, n};
}

static hs_status pass(void *state, hs__text_pass *p, hs_error *err)
{
    worker *w = state;
    (void)err;
    for (size_t k = 0; k < p->n; k++) {
        hs__text *t = &p->texts[k];
        if (!w->figures[k])
            continue;
        hs__example example = {.number = hs__text_number(t),
                               .file = (uint32_t)t->record.file,
                               .line = t->record.line,
                               .text = text_cut(t->reached),
                               .pair = text_cut(t->reached_pair),
                               .figures = w->figures[k]};
        w->figures[k] = NULL;
        t->reached = t->reached_pair = (hs_text){0};
        sample_add(sample_of(w), &example);
    }
    return HS_OK;
}

/* ---- report.json: the sample's texts with the highest and lowest figures ---- */

enum { EXTREMES = 3 };

/* Index of the sample's text with the best figure that is not among taken; n_examples when there is none. */
static size_t extreme_find(const hs__example *examples, size_t n_examples, size_t at, double sign,
                           const size_t taken[EXTREMES], size_t n_taken)
{
    size_t best = n_examples;
    for (size_t i = 0; i < n_examples; i++) {
        const double value = sign * (double)examples[i].figures[at];
        bool is_taken = false;
        for (size_t k = 0; k < n_taken; k++)
            is_taken |= taken[k] == i;
        if (!is_taken && isfinite(value) &&
            (best == n_examples || value > sign * (double)examples[best].figures[at]))
            best = i;
    }
    return best;
}

static json_t *extremes_json(const hs__example *examples, size_t n, size_t at, double sign)
{
    size_t taken[EXTREMES] = {0};
    json_t *list = json_array();
    for (size_t k = 0; k < EXTREMES; k++) {
        const size_t i = taken[k] = extreme_find(examples, n, at, sign, taken, k);
        if (i == n)
            break;
        json_array_append_new(
            list, json_pack("[I o]", (json_int_t)i, hs__report_number((double)examples[i].figures[at])));
    }
    return list;
}

/* {figure: [l][h] -> [[index among texts, value], ..]} */
static json_t *side_json(const hs_corpus_options *o, const hs__example *examples, size_t n, double sign)
{
    json_t *side = json_object();
    for (int f = 0; f < HS__EXAMPLE_FIGURES; f++) {
        json_t *layers = json_array();
        for (size_t l = 0; l < o->n_layers; l++) {
            json_t *heads = json_array();
            for (size_t h = 0; h < o->n_heads; h++)
                json_array_append_new(
                    heads,
                    extremes_json(examples, n, (l * o->n_heads + h) * HS__EXAMPLE_FIGURES + (size_t)f, sign));
            json_array_append_new(layers, heads);
        }
        json_object_set_new(side, names[f], layers);
    }
    return side;
}

/* second: the name of its second text. */
static json_t *example_json(const hs__example *example, json_t *file, const char *second)
{
    const uint64_t window = example->number / HS__WINDOW_NUMBERS;
    json_t *json =
        json_pack("{sI sO sI so so*}", "number", (json_int_t)(example->number % HS__WINDOW_NUMBERS), "file",
                  file ? file : json_null(), "line", (json_int_t)example->line, "text",
                  text_json(&example->text), second, text_json(&example->pair));
    if (window)
        json_object_set_new(json, "window", json_integer((json_int_t)window));
    return json;
}

static void report(const hs__corpus_results *results, void *counts, json_t *to)
{
    const example_sample *sample = counts;
    const hs__example *examples = sample->kept;
    const hs_corpus_options o = hs_corpus_stats_options(results->stats);
    const json_t *inputs = json_object_get(results->names, "inputs");
    const char *second = json_object_get(results->identity, "stack") ? "text_target" : "text_pair";
    json_t *texts = json_array();
    for (size_t i = 0; i < sample->n; i++)
        json_array_append_new(texts,
                              example_json(&examples[i], json_array_get(inputs, examples[i].file), second));
    json_object_set_new(to, "examples",
                        json_pack("{so so so}", "texts", texts, "highest",
                                  side_json(&o, examples, sample->n, 1), "lowest",
                                  side_json(&o, examples, sample->n, -1)));
}

/* ---- report.html ---- */

/* Returns a string as a text; an empty one if it is none. */
static hs_text text_of(const json_t *string)
{
    return json_is_string(string) ? (hs_text){json_string_value(string), json_string_length(string)}
                                  : (hs_text){"", 0};
}

/* The beginning of a text: at most `most` bytes, whole characters. */
static void beginning_write(FILE *out, hs_text text, size_t most)
{
    const size_t n = text.n_bytes > most ? hs_utf8_whole(text.bytes, most) : text.n_bytes;
    hs__html_bytes(out, text.bytes, n);
    fputs(n < text.n_bytes ? "…" : "", out);
}

static void extremes_write(const json_t *report, const char *side, const char *figure, size_t l, size_t h,
                           FILE *out)
{
    const json_t *layers =
        json_object_get(json_object_get(json_object_get(report, "examples"), side), figure);
    const json_t *list = json_array_get(json_array_get(layers, l), h);
    fputs("<td>", out);
    for (size_t k = 0; k < json_array_size(list); k++) {
        const json_t *extreme = json_array_get(list, k);
        const size_t i = (size_t)json_integer_value(json_array_get(extreme, 0));
        const json_t *text = json_array_get(hs__report_value(report, "examples.texts", (hs__indices){0}), i);
        fprintf(out, "<a href=\"#text-%zu\" data-head=\"%zu\">%.3g · line %lld: ", i, h,
                json_number_value(json_array_get(extreme, 1)),
                (long long)json_integer_value(json_object_get(text, "line")));
        beginning_write(out, text_of(json_object_get(text, "text")), 48);
        fputs("</a><br>", out);
    }
    fputs("</td>", out);
}

/* Writes links to the texts in which a layer's heads have most and least of each figure. */
static void links_write(const hs__drawing *d, hs__indices at, FILE *out)
{
    static const char *const titles[HS__EXAMPLE_FIGURES] = {
        [HS__EXAMPLE_REPEATED] = "repeated-token share", [HS__EXAMPLE_SAME_SENTENCE] = "same-sentence share",
        [HS__EXAMPLE_DISTANCE] = "mean distance",        [HS__EXAMPLE_FOCAL] = "focal share",
        [HS__EXAMPLE_HIGH] = "number of high pairs",     [HS__EXAMPLE_SEPARATOR] = "attention on separators",
    };
    for (size_t f = 0; f < HS__EXAMPLE_FIGURES; f++) {
        fprintf(
            out,
            "<details%s><summary>By %s</summary><div class=\"wide\"><table class=\"examples\"><thead><tr><th "
            "scope=\"col\">Head</th><th scope=\"col\">Highest</th><th "
            "scope=\"col\">Lowest</th></tr></thead><tbody>\n",
            f == HS__EXAMPLE_REPEATED ? " open" : "", titles[f]);
        for (size_t h = 0; h < d->o.n_heads; h++) {
            fprintf(out, "<tr><th scope=\"row\">%zu</th>", h);
            extremes_write(d->report, "highest", names[f], at.l, h, out);
            extremes_write(d->report, "lowest", names[f], at.l, h, out);
            fputs("</tr>\n", out);
        }
        fputs("</tbody></table></div></details>\n", out);
    }
}

/* Writes a text as the value of a query. */
static void percent_write(FILE *out, hs_text text)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~";
    for (size_t i = 0; i < text.n_bytes; i++)
        if (memchr(plain, text.bytes[i], sizeof plain - 1))
            putc(text.bytes[i], out);
        else
            fprintf(out, "%%%02X", (unsigned char)text.bytes[i]);
}

/* Writes the options that decide a text's tokens, as the viewer has them in its address. */
static void options_write(const json_t *report, FILE *out)
{
    static const struct {
        const char *parameter, *path;
        bool always;
    } options[] = {{"lang=", "provenance.options.source_language", false},
                   {"tlang=", "provenance.options.target_language", false},
                   {"prompt=%3D", "provenance.options.prompt_name", true}}; /* "=": none */
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        const json_t *value = hs__report_value(report, options[i].path, (hs__indices){0});
        if (json_is_string(value) || options[i].always)
            fprintf(out, "&amp;%s", options[i].parameter);
        percent_write(out, text_of(value));
    }
    if (json_is_true(hs__report_value(report, "provenance.options.split_special_tokens", (hs__indices){0})))
        fputs("&amp;literal=1", out);
}

/* The viewer's address where `headscope serve` listens by itself; the page puts its own server's there. The
 * bytes of pair are NULL if there is none. */
static void viewer_link(const json_t *report, hs_text text, hs_text pair, FILE *out)
{
    const char *stack =
        json_string_value(hs__report_value(report, "provenance.options.stack", (hs__indices){0}));
    const bool decodes = stack && strcmp(stack, "encoder") != 0;
    const json_t *layers = hs__report_value(report, "layers", (hs__indices){0});
    const json_t *model = hs__report_value(report, "provenance.model.name", (hs__indices){0});
    const char *center =
        json_string_value(hs__report_value(report, "provenance.options.center", (hs__indices){0}));
    fputs("<a class=\"viewer\" href=\"http://127.0.0.1:8080/#view=head&amp;model=", out);
    percent_write(out, text_of(model));
    options_write(report, out);
    fprintf(out, "%s&amp;max=%lld&amp;layer=%lld&amp;head=0&amp;text=",
            center && !strcmp(center, "text") ? "&amp;center=1" : "",
            (long long)json_integer_value(
                hs__report_value(report, "provenance.options.max_tokens", (hs__indices){0})),
            (long long)json_integer_value(json_array_get(layers, json_array_size(layers) - 1)));
    percent_write(out, text);
    if (decodes)
        fprintf(out, "&amp;stack=%s", strcmp(stack, "cross") ? "decoder" : "cross");
    if (pair.bytes)
        fputs(decodes ? "&amp;target=" : "&amp;pair=", out);
    percent_write(out, pair);
    fputs("\" target=\"_blank\" rel=\"noopener\">Open in the viewer</a>", out);
}

/* Writes the texts that links_write links to. */
static void texts_write(const json_t *report, FILE *out)
{
    const json_t *texts = hs__report_value(report, "examples.texts", (hs__indices){0});
    fputs("<ol class=\"texts\">\n", out);
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const json_t *text = json_array_get(texts, i);
        const json_t *target = json_object_get(text, "text_target"),
                     *second = target ? target : json_object_get(text, "text_pair");
        const hs_text words = text_of(json_object_get(text, "text")),
                      pair = second ? text_of(second) : (hs_text){0};
        fprintf(out, "<li id=\"text-%zu\"><b>line %lld</b> ", i,
                (long long)json_integer_value(json_object_get(text, "line")));
        hs__html_bytes(out, words.bytes, words.n_bytes);
        fputs(pair.bytes ? " | " : "", out);
        hs__html_bytes(out, pair.bytes, pair.n_bytes);
        putc(' ', out);
        viewer_link(report, words, pair, out);
        fputs("</li>\n", out);
    }
    fputs("</ol>\n", out);
}

static void page(const hs__drawing *d, hs__indices at, FILE *out)
{
    fprintf(out,
            "<section id=\"examples\" aria-label=\"Examples\"><h2>Examples for layer <span "
            "data-pick=\"layer\">%d</span></h2><p class=\"muted\">The texts with the highest and lowest "
            "figures among those drawn at random and the input's first one, if it was counted; threshold "
            "%.3g.</p><div class=\"panels\">\n",
            d->o.layers[at.l], (double)d->o.thresholds[d->o.threshold_main]);
    links_write(d, at, out);
    fputs("</div>\n", out);
    texts_write(d->report, out);
    fputs("</section>", out);
}

static const hs__report_panel panels[] = {
    {"examples", "l", .write = links_write},
};

const hs__counter hs__counter_examples = {
    .name = "examples",
    .measure = measure,
    .begin = begin,
    .worker_bytes = sizeof(worker),
    .worker_end = worker_end,
    .text = text,
    .start = start,
    .head = head,
    .pass = pass,
    .save = save,
    .load = load,
    .merge = merge,
    .destroy = destroy,
    .report = report,
    .section = "examples",
    .title = "Examples",
    .page = page,
    .panels = panels,
    .n_panels = sizeof panels / sizeof *panels,
};
