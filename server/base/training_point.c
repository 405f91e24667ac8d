/* training_point.c - reads names word by word, and a trainer's state. */
#include "server/base/training_point.h"

#include "model/files/hub_cache.h"
#include "model/files/json.h"
#include "server/base/atomic_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRAINER_STATE "trainer_state.json"
#define SEPARATORS    "-_@/"

enum { DIGITS_MAX = 12, TRAINER_STATE_BYTES = 8 << 20 };

/* ---- names ---- */

typedef struct word {
    const char *text;
    size_t n;
} word;

/* Meanings of the words of a name. */
typedef enum meaning { OF_FAMILY, STEP, SEED, TOKENS, RANDOM } meaning;

static word word_at(const char *text)
{
    return (word){text, strcspn(text, SEPARATORS)};
}

static const char *end_of(word w)
{
    return w.text + w.n;
}

/* Returns true if the word begins with `start`, and moves it behind that. */
static bool skip(word *w, const char *start)
{
    const size_t n = strlen(start);
    if (w->n < n || strncasecmp(w->text, start, n) != 0)
        return false;
    *w = (word){w->text + n, w->n - n};
    return true;
}

/* Reads digits, if has_unit also with k or M behind them. Returns -1 if the word has anything else. */
static int64_t count_read(word w, bool has_unit)
{
    const size_t n_digits = strspn(w.text, "0123456789");
    const char unit = n_digits + 1 == w.n && has_unit ? w.text[n_digits] : '\0';
    const int64_t scale = n_digits == w.n ? 1 : unit == 'k' || unit == 'K' ? 1000 : unit == 'M' ? 1000000 : 0;
    char digits[DIGITS_MAX + 1] = "";
    if (!n_digits || n_digits > DIGITS_MAX || !scale)
        return -1;
    memcpy(digits, w.text, n_digits);
    return strtoll(digits, NULL, 10) * scale;
}

/* Reads "step1000", or "step" and "1000" as two words. Returns the end of the last word read; NULL: it is
 * something else. */
static const char *pair_read(word w, const char *name, bool has_unit, int64_t *ret)
{
    word rest = w;
    if (!skip(&rest, name))
        return NULL;
    if (!rest.n && *end_of(rest))
        rest = word_at(end_of(rest) + 1);
    *ret = count_read(rest, has_unit);
    return *ret >= 0 ? end_of(rest) : NULL;
}

/* Returns true for "tokens4B", "105b" and "3T". */
static bool is_tokens(word w)
{
    (void)skip(&w, "tokens");
    const size_t n = strspn(w.text, "0123456789.");
    return n > 0 && n + 1 == w.n && strchr("MBTbt", w.text[n]);
}

/* Finds what the words at w say. *ret_end: the end of those words. */
static meaning word_read(word w, bool behind_step, int64_t *ret, const char **ret_end)
{
    static const struct {
        const char *name;
        meaning means;
    } names[] = {{"step", STEP}, {"checkpoint", STEP}, {"ckpt", STEP}, {"seed", SEED}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if ((*ret_end = pair_read(w, names[i].name, names[i].means == STEP, ret)))
            return names[i].means;
    *ret_end = end_of(w);
    word rest = w;
    return behind_step && is_tokens(w) ? TOKENS : skip(&rest, "untrained") && !rest.n ? RANDOM : OF_FAMILY;
}

bool hs__training_point_read(const char *name, hs__training_point *ret)
{
    hs__training_point found = {.step = -1, .seed = -1};
    size_t n_family = 0;
    bool sound = true;
    for (const char *at = name, *end; sound && *at; at = *end ? end + 1 : end) {
        int64_t value = -1;
        const word w = word_at(at);
        const meaning means = word_read(w, found.step >= 0, &value, &end);
        int64_t *to = means == STEP ? &found.step : &found.seed;
        if (means == OF_FAMILY)
            n_family += (size_t)snprintf(found.family + n_family, sizeof found.family - n_family, "%s%.*s",
                                         n_family ? "-" : "", (int)w.n, w.text);
        else if (means != TOKENS) {
            sound = means != RANDOM && *to < 0;
            *to = value;
        }
        sound &= n_family < sizeof found.family;
    }
    *ret = found;
    if (sound && (found.step >= 0 || found.seed >= 0))
        return true;
    *ret = (hs__training_point){.step = -1, .seed = -1};
    snprintf(ret->family, sizeof ret->family, "%s", name);
    return false;
}

/* ---- models ---- */

/* Fills in what the point leaves open. */
static void fill_in(const char *name, hs__training_point *point)
{
    hs__training_point other;
    if (!hs__training_point_read(name, &other))
        return;
    point->step = point->step < 0 ? other.step : point->step;
    point->seed = point->seed < 0 ? other.seed : point->seed;
}

/* Returns `global_step` of a folder's trainer_state.json, or -1. */
static int64_t trainer_step(const char *dir)
{
    char path[PATH_MAX];
    int fd;
    uint64_t n_bytes;
    hs_error why = {0};
    int64_t step = -1;
    if (snprintf(path, sizeof path, "%s/" TRAINER_STATE, dir) >= PATH_MAX ||
        hs__file_open(path, &fd, &n_bytes, &why))
        return -1;
    char *bytes = n_bytes <= TRAINER_STATE_BYTES ? malloc(n_bytes + 1) : NULL;
    json_t *state = NULL;
    if (bytes && pread(fd, bytes, n_bytes, 0) == (ssize_t)n_bytes &&
        !hs_json_load(bytes, n_bytes, 0, &state, NULL)) {
        const json_t *value = json_object_get(state, "global_step");
        step = json_is_integer(value) && json_integer_value(value) >= 0 ? json_integer_value(value) : -1;
    }
    json_decref(state);
    free(bytes);
    close(fd);
    return step;
}

bool hs__training_point_find(const hs_model_place *place, hs__training_point *ret)
{
    char dir[PATH_MAX];
    struct stat info;
    hs_hub_name hub;
    (void)hs__training_point_read(place->name, ret);
    if (place->is_untrained)
        return false;
    if (!place->n_dir || snprintf(dir, sizeof dir, "%.*s", (int)place->n_dir, place->dir) >= PATH_MAX)
        return ret->step >= 0 || ret->seed >= 0;
    if (stat(dir, &info) && hs_hub_name_parse(place->dir, place->n_dir, &hub)) {
        fill_in(hub.revision, ret);
        fill_in(strchr(hub.repository, '/') ? strchr(hub.repository, '/') + 1 : hub.repository, ret);
    } else {
        char name[HS_MODEL_NAME_BYTES];
        hs__place_name(dir, strlen(dir), name);
        fill_in(name, ret);
        ret->step = ret->step < 0 ? trainer_step(dir) : ret->step;
    }
    return ret->step >= 0 || ret->seed >= 0;
}

/* ---- reports ---- */

static json_t *known_json(int64_t value)
{
    return value < 0 ? json_null() : json_integer(value);
}

json_t *hs__training_point_json(const hs__training_point *point)
{
    return json_pack("{ss so so}", "family", point->family, "step", known_json(point->step), "seed",
                     known_json(point->seed));
}

static int64_t known_value(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= 0 ? json_integer_value(value) : -1;
}

bool hs__training_point_of(const json_t *model, hs__training_point *ret)
{
    const char *name = json_string_value(json_object_get(model, "name"));
    const json_t *training = json_object_get(model, "training");
    const char *family = json_string_value(json_object_get(training, "family"));
    if (!family)
        return hs__training_point_read(name ? name : "", ret);
    *ret = (hs__training_point){.step = known_value(json_object_get(training, "step")),
                                .seed = known_value(json_object_get(training, "seed"))};
    const int n = snprintf(ret->family, sizeof ret->family, "%s", family);
    return n < (int)sizeof ret->family && (ret->step >= 0 || ret->seed >= 0);
}
