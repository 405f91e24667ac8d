/* test_names.c - what the program makes of names from outside, of its machine's files, and of models' places.
 */
#include "server/base/catalog.h"
#include "server/base/identifier.h"
#include "server/base/machine.h"
#include "server/base/printable.h"
#include "server/base/training_point.h"
#include "tests/unit/faults.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CALLS_MAX = 1000 };

/* ---- unprintable characters ---- */

static const struct {
    const char *text, *escaped;
} texts[] = {
    {"a name", "a name"},
    {"a\x1b[2J", "a\\u001b[2J"},
    {"\x7f", "\\u007f"},
    {"\xc2\x9b", "\\u009b"}, /* C1 */
    {"\xd8\x9c", "\\u061c"}, /* Arabic letter mark */
    {"\xe2\x80\xae"
     "a",
     "\\u202ea"}, /* right-to-left override */
    {"caf\xc3\xa9 \xe4\xb8\xad", "caf\xc3\xa9 \xe4\xb8\xad"},
    {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},
    {"\xc2", "\xc2"}, /* not UTF-8: cut, and followed by what does not belong */
    {"\xc2\x1b", "\xc2\\u001b"},
    {"\xe2\x80", "\xe2\x80"},
    {"\xe2"
     "a\xae",
     "\xe2"
     "a\xae"},
    {"\xe2\x80"
     "a",
     "\xe2\x80"
     "a"},
};
enum { N_TEXTS = sizeof texts / sizeof *texts };

START_TEST(unprintable_characters_are_escaped)
{
    char copy[64], *printed;
    size_t n;
    ck_assert_str_eq(hs__printable(texts[_i].text, copy, sizeof copy), texts[_i].escaped);
    FILE *out = open_memstream(&printed, &n);
    ck_assert_ptr_nonnull(out);
    hs__print(out, "%s\n\n", texts[_i].text);
    ck_assert_int_eq(fclose(out), 0);
    ck_assert(n == strlen(texts[_i].escaped) + 2 && strncmp(printed, texts[_i].escaped, n - 2) == 0);
    ck_assert_str_eq(printed + n - 2, "\n\n");
    free(printed);
}
END_TEST

START_TEST(line_ends_inside_a_text_are_escaped_and_copies_are_cut)
{
    char copy[9], *printed;
    size_t n;
    FILE *out = open_memstream(&printed, &n);
    ck_assert_ptr_nonnull(out);
    hs__print(out, "a\nb\n");
    ck_assert_int_eq(fclose(out), 0);
    ck_assert_str_eq(printed, "a\\u000ab\n");
    free(printed);
    ck_assert_str_eq(hs__printable("\x1b\x1b", copy, sizeof copy), "\\u001b");
}
END_TEST

/* ---- models' places ---- */

static const struct {
    const char *path, *name;
} places[] = {
    {"some/folder", "folder"},
    {"some/folder//", "folder"},
    {"/some/model", "some"},
    {"/some/checkpoint/", "some"},
    {"/some/models--org--one-name/snapshots/c0ffee", "one-name"},
    {"/some/models--/snapshots/c0ffee", "c0ffee"},
    {"/some/other/snapshots/c0ffee", "c0ffee"},
    {"model", "top"}, /* the current folder is /tmp/.../top */
    {"checkpoint", "top"},
    {".", "top"},
    {"..", "above"},
    {"/", ""},
};
enum { N_PLACES = sizeof places / sizeof *places };

static char top[] = "/tmp/headscope-names-XXXXXX";

static void setup(void)
{
    char command[200];
    ck_assert_ptr_nonnull(mkdtemp(top));
    snprintf(command, sizeof command, "mkdir -p %s/above/top/model %s/above/top/checkpoint", top, top);
    ck_assert_int_eq(system(command), 0);
    snprintf(command, sizeof command, "%s/above/top", top);
    ck_assert_int_eq(chdir(command), 0);
}

static void teardown(void)
{
    char command[100];
    ck_assert_int_eq(chdir("/"), 0);
    snprintf(command, sizeof command, "rm -r %s", top);
    ck_assert_int_eq(system(command), 0);
}

START_TEST(a_model_is_named_after_its_folder)
{
    char name[HS_MODEL_NAME_BYTES];
    hs__place_name(places[_i].path, strlen(places[_i].path), name);
    ck_assert_str_eq(name, places[_i].name);
}
END_TEST

START_TEST(long_names_and_paths_are_cut_or_refused)
{
    static char path[PATH_MAX + 16], value[PATH_MAX + 32];
    static hs_catalog_options options;
    char name[HS_MODEL_NAME_BYTES], dir[PATH_MAX];
    hs_error err = {0};
    memset(path, 'a', sizeof path - 1);
    hs__place_name(path, strlen(path), name);
    ck_assert_uint_eq(strlen(name), HS_MODEL_NAME_BYTES - 1);
    memcpy(path + sizeof path - 7, "/model",
           6); /* the folder above has the name, and the path is too long to look */
    hs__place_name(path, strlen(path), name);
    ck_assert_uint_eq(strlen(name), HS_MODEL_NAME_BYTES - 1);
    snprintf(value, sizeof value, "%.*s=model", HS_MODEL_NAME_BYTES, path);
    ck_assert_int_eq(hs__catalog_add(&options, value, &err), HS_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "a model's name has at most"));
    snprintf(value, sizeof value, "name=%s", path);
    ck_assert_int_eq(hs__catalog_choose(&options, value, NULL), HS_OK);
    ck_assert_int_eq(hs__model_place_dir(&options.places[0], dir, NULL), HS_INVALID);
}
END_TEST

static const char *const unsound[] = {"", "=model", "name=", "a,", "a,,b"};
enum { N_UNSOUND = sizeof unsound / sizeof *unsound };

START_TEST(places_that_are_none_are_refused)
{
    static hs_catalog_options options;
    ck_assert_int_eq(hs__catalog_add(&options, unsound[_i], NULL), HS_INVALID);
}
END_TEST

START_TEST(a_catalog_has_a_bound)
{
    static hs_catalog_options options;
    hs_error err = {0};
    ck_assert_uint_eq(hs__catalog_places(&options), 1);
    ck_assert_uint_eq(hs__catalog_find(&options, HS_EMBEDDED_NAME), 0);
    for (int k = 0; k < HS_CATALOG_MAX; k++)
        ck_assert_int_eq(hs__catalog_add(&options, "one=model", NULL), HS_OK);
    ck_assert_int_eq(hs__catalog_add(&options, "mode", &err), HS_TOO_LARGE);
    ck_assert_uint_eq(hs__catalog_places(&options), HS_CATALOG_MAX);
    ck_assert_uint_eq(hs__catalog_find(&options, "none"), SIZE_MAX);
    ck_assert_int_eq(hs__catalog_choose(&options, HS_EMBEDDED_NAME, NULL), HS_OK);
    ck_assert(options.n_places == 1 && options.places[0].n_dir == 0);
}
END_TEST

/* ---- points of a training ---- */

static const struct {
    const char *name, *family;
    int64_t step, seed; /* -1: unknown; both: the name says nothing */
} points[] = {
    {"pythia-70m-step1000", "pythia-70m", 1000, -1},
    {"pythia-70m-seed3@step143000", "pythia-70m", 143000, 3},
    {"multiberts-seed_0-step_20k", "multiberts", 20000, 0},
    {"multiberts-seed_3-step_2000k", "multiberts", 2000000, 3},
    {"multiberts-seed_24", "multiberts", -1, 24},
    {"checkpoint-1000", "", 1000, -1},
    {"a-ckpt-5-b", "a-b", 5, -1},
    {"OLMo-1B-step1000-tokens4B", "OLMo-1B", 1000, -1},
    {"OLMo-2-stage1-step140000-tokens294B", "OLMo-2-stage1", 140000, -1},
    {"TinyLlama-1.1B-step-50K-105b", "TinyLlama-1.1B", 50000, -1},
    {"TinyLlama-1.1B-intermediate-step-1431k-3T", "TinyLlama-1.1B-intermediate", 1431000, -1},
    {"Step-1M_SEED-7", "", 1000000, 7},
    {"seed1-step0", "", 0, 1},
    {"timestep-100", "timestep-100", -1, -1},
    {"stepfun-3", "stepfun-3", -1, -1},
    {"step", "step", -1, -1},
    {"model-step-", "model-step-", -1, -1},
    {"step-3.5-flash", "step-3.5-flash", -1, -1},
    {"two-step-model", "two-step-model", -1, -1},
    {"seed-oss-36b", "seed-oss-36b", -1, -1},
    {"model-seed-36b", "model-seed-36b", -1, -1},
    {"model-seed3k", "model-seed3k", -1, -1},
    {"step1-step2", "step1-step2", -1, -1},
    {"a-seed1-seed1", "a-seed1-seed1", -1, -1},
    {"step1000x", "step1000x", -1, -1},
    {"step1000kk", "step1000kk", -1, -1},
    {"step1234567890123", "step1234567890123", -1, -1},
    {"pythia-70m-step1000-untrained-0", "pythia-70m-step1000-untrained-0", -1, -1},
    {"bert-base-uncased", "bert-base-uncased", -1, -1},
    {"", "", -1, -1},
};
enum { N_POINTS = sizeof points / sizeof *points };

START_TEST(names_say_step_and_seed)
{
    hs__training_point found;
    const bool says = points[_i].step >= 0 || points[_i].seed >= 0;
    ck_assert_int_eq(hs__training_point_read(points[_i].name, &found), says);
    ck_assert_str_eq(found.family, points[_i].family);
    ck_assert_int_eq(found.step, points[_i].step);
    ck_assert_int_eq(found.seed, points[_i].seed);
}
END_TEST

/* Finds the point of a model of the command line. */
static bool point_find(const char *value, hs__training_point *ret)
{
    static hs_catalog_options options;
    ck_assert_int_eq(hs__catalog_choose(&options, value, NULL), HS_OK);
    return hs__training_point_find(&options.places[0], ret);
}

static void state_write(const char *text)
{
    FILE *file = fopen("run/trainer_state.json", "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

START_TEST(a_model_has_the_point_of_its_name_then_of_its_place)
{
    hs__training_point found;
    ck_assert_int_eq(system("mkdir -p run/seed2/checkpoint-30"), 0);
    ck_assert(point_find("EleutherAI/pythia-70m-seed3@step1000", &found));
    ck_assert(found.step == 1000 && found.seed == 3);
    ck_assert_str_eq(found.family, "pythia-70m");
    ck_assert(point_find("mine=EleutherAI/pythia-70m-seed3@step1000", &found));
    ck_assert(found.step == 1000 && found.seed == 3);
    ck_assert_str_eq(found.family, "mine");
    ck_assert(point_find("mine-seed5=run/seed2/checkpoint-30", &found));
    ck_assert(found.step == 30 && found.seed == 5);
    ck_assert(!point_find("run", &found));
    state_write("{\"epoch\": 1.5, \"global_step\": 77}");
    ck_assert(point_find("run", &found) && found.step == 77 && found.seed == -1);
    ck_assert(point_find("run-step5=run", &found) && found.step == 5);
    static const char *const states[] = {"", "{", "[77]", "{\"global_step\": -1}",
                                         "{\"global_step\": \"77\"}"};
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        state_write(unsound[i]);
        ck_assert(!point_find("run", &found));
    }
}
END_TEST

START_TEST(random_weights_have_no_point)
{
    static hs_catalog_options options;
    hs__training_point found;
    ck_assert_int_eq(hs__catalog_choose(&options, "a-step5=top", NULL), HS_OK);
    ck_assert(hs__training_point_find(&options.places[0], &found));
    ck_assert_int_eq(hs__catalog_untrain(&options, "1", NULL), HS_OK);
    ck_assert(!hs__training_point_find(&options.places[0], &found));
}
END_TEST

START_TEST(revisions_of_one_model_have_names_of_their_own)
{
    static const char *const given[] = {"org/a@step1", "org/a@refs/pr/2", "org/a", "org/b@step1",
                                        "a=org/a@step9"},
                             *const due[] = {"a-step1", "a-refs-pr-2", "a", "b", "a-step9"};
    static hs_catalog_options options;
    for (size_t i = 0; i < 5; i++)
        ck_assert_int_eq(hs__catalog_add(&options, given[i], NULL), HS_OK);
    hs__catalog_tell_apart(&options);
    for (size_t i = 0; i < 5; i++)
        ck_assert_str_eq(options.places[i].name, due[i]);
}
END_TEST

/* ---- the machine ---- */

/* A file of /proc or a control group that cannot be read is passed over. */
START_TEST(the_machine_is_measured_with_what_can_be_read)
{
    const size_t n_cores = (size_t)sysconf(_SC_NPROCESSORS_ONLN);
    const uint64_t limit = hs__memory_limit();
    bool failed = true;
    ck_assert_uint_gt(limit, 0);
    ck_assert_uint_le(hs__cores_usable(), n_cores);
    for (size_t nth = 0; failed; nth++) {
        ck_assert_uint_lt(nth, CALLS_MAX);
        faults_begin(nth, ENOENT);
        const size_t cores = hs__cores_usable();
        (void)hs__memory_limit();
        (void)hs__memory_available();
        failed = faults_end();
        ck_assert(cores >= 1 && cores <= n_cores);
    }
    ck_assert_uint_eq(hs__memory_limit(), limit);
}
END_TEST

START_TEST(identifiers_differ_also_without_random_bits)
{
    char first[HS_IDENTIFIER_BYTES], second[HS_IDENTIFIER_BYTES];
    faults_begin(0, ENOSYS);
    hs__identifier_make(first);
    ck_assert(faults_end());
    hs__identifier_make(second);
    ck_assert_uint_eq(strspn(first, "0123456789abcdef"), HS_IDENTIFIER_BYTES - 1);
    ck_assert_uint_eq(strspn(second, "0123456789abcdef"), HS_IDENTIFIER_BYTES - 1);
    ck_assert_str_ne(first, second);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("names");
    TCase *tests = tcase_create("names");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, unprintable_characters_are_escaped, 0, N_TEXTS);
    tcase_add_test(tests, line_ends_inside_a_text_are_escaped_and_copies_are_cut);
    tcase_add_loop_test(tests, a_model_is_named_after_its_folder, 0, N_PLACES);
    tcase_add_test(tests, long_names_and_paths_are_cut_or_refused);
    tcase_add_loop_test(tests, places_that_are_none_are_refused, 0, N_UNSOUND);
    tcase_add_test(tests, a_catalog_has_a_bound);
    tcase_add_loop_test(tests, names_say_step_and_seed, 0, N_POINTS);
    tcase_add_test(tests, a_model_has_the_point_of_its_name_then_of_its_place);
    tcase_add_test(tests, random_weights_have_no_point);
    tcase_add_test(tests, revisions_of_one_model_have_names_of_their_own);
    tcase_add_test(tests, the_machine_is_measured_with_what_can_be_read);
    tcase_add_test(tests, identifiers_differ_also_without_random_bits);
    suite_add_tcase(suite, tests);
    return tests_run(suite);
}
