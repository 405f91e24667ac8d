/* mecab.c - words of Japanese texts by MeCab, a library and a dictionary that the machine has or has not.
 *
 * The library is loaded when a model needs it, through the C interface of version 0.996, which has not
 * changed since 2013. The program builds without it. MeCab is C++, and an exception of its would end the
 * program. So a call gets at most MECAB_BYTES_MAX of text, and the memory that it may need is tried before.
 * That bound also keeps the time linear: MeCab's grows with the square of a run of letters or digits. */
#include "model/base/library.h"
#include "model/tokenizer/tokenizer_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>

#define PATH_BYTES 4096

/* MeCab takes up to 0.7 KB for a byte of text, measured with ipadic and unidic_lite. malloc maps blocks over
 * 32 MiB by themselves and learns nothing from them. */
enum { MECAB_BYTES_MAX = 12 << 10, MEMORY_BYTES = 33 << 20 };

/* ---- the library ---- */

typedef struct mecab_model mecab_model;
typedef struct mecab_tagger mecab_tagger;
typedef struct mecab_lattice mecab_lattice;

/* The first members of mecab_node_t. */
typedef struct mecab_node {
    struct mecab_node *prev, *next, *enext, *bnext;
    void *rpath, *lpath;
    const char *surface; /* [length], in the sentence */
    const char *feature;
    unsigned int id;
    unsigned short length, rlength, right, left, part_of_speech;
    unsigned char kind, state;
} mecab_node;

enum { STATE_FIRST = 2, STATE_LAST = 3 }; /* MECAB_BOS_NODE, MECAB_EOS_NODE: no words */

/* The first members of mecab_dictionary_info_t. */
typedef struct mecab_dictionary {
    const char *file, *charset;
} mecab_dictionary;

#define FUNCTIONS(X)                                                                                         \
    X(model_new, mecab_model *, (int n_arguments, char **arguments))                                         \
    X(model_destroy, void, (mecab_model *))                                                                  \
    X(model_new_tagger, mecab_tagger *, (mecab_model *))                                                     \
    X(model_new_lattice, mecab_lattice *, (mecab_model *))                                                   \
    X(model_dictionary_info, const mecab_dictionary *, (mecab_model *))                                      \
    X(destroy, void, (mecab_tagger *))                                                                       \
    X(lattice_destroy, void, (mecab_lattice *))                                                              \
    X(lattice_set_sentence2, void, (mecab_lattice *, const char *text, size_t n_bytes))                      \
    X(lattice_get_sentence, const char *, (mecab_lattice *))                                                 \
    X(lattice_get_bos_node, mecab_node *, (mecab_lattice *))                                                 \
    X(parse_lattice, int, (mecab_tagger *, mecab_lattice *))                                                 \
    X(strerror, const char *, (mecab_tagger *))

struct hs__mecab {
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a declared name takes none */
#define X(name, type, parameters) type(*name) parameters;
    FUNCTIONS(X)
#undef X
    mecab_model *model;
    mecab_tagger *tagger; /* safe on any thread: what changes is in the lattice */
};

#define INSTEAD                                                                                              \
    "Or copy vocab.txt to a folder of its own: with --tokenizer and this folder the model opens, and "       \
    "--input-ids takes the ids that AutoTokenizer.from_pretrained(DIR)(TEXT).input_ids has in Python"

/* Loads the library, which stays until the program ends. */
static hs_status library_load(hs__mecab *mecab, hs_error *err)
{
    const hs_library_function list[] = {
#define X(name, type, parameters) {"mecab_" #name, (void **)&mecab->name},
        FUNCTIONS(X)
#undef X
    };
    bool found = false;
    const char *missing = hs_library_load("libmecab.so.2", list, sizeof list / sizeof *list, &found);
    if (!missing)
        return HS_OK;
    return hs_fail(err, HS_UNSUPPORTED,
                   "this model's tokenizer needs MeCab (%s%s): install it with apt-get install libmecab2 "
                   "mecab-ipadic-utf8. " INSTEAD,
                   found ? "without " : "", missing);
}

/* ---- dictionaries ----
 *
 * Packages of Python have the dictionary NAME in the folder NAME/dicdir of site-packages. */

static const struct {
    const char *name;
    const char *folders[3]; /* NULL after the last */
    const char *advice;
} dictionaries[] = {
    {"ipadic",
     {"/var/lib/mecab/dic/ipadic-utf8", "/usr/lib64/mecab/dic/ipadic", NULL},
     "Install it with apt-get install mecab-ipadic-utf8, or"},
    {"unidic_lite", {NULL}, "Debian has no package of it:"},
    {"unidic",
     {"/var/lib/mecab/dic/unidic", "/usr/share/mecab/dic/unidic", NULL},
     "Install it with apt-get install unidic-mecab, or"},
};
#define N_DICTIONARIES (sizeof dictionaries / sizeof *dictionaries)

/* Returns true if a folder of a dictionary is there. */
static bool is_there(const char *folder)
{
    char file[PATH_BYTES + 16];
    struct stat info;
    snprintf(file, sizeof file, "%s/dicrc", folder);
    return stat(file, &info) == 0;
}

/* Finds the folder of a dictionary: below that of the environment if it names one, else where packages put
 * it. */
static bool folder_find(size_t index, char ret_folder[PATH_BYTES])
{
    static const char *const endings[] = {"/dicdir", ""};
    const char *given = getenv(HS__DICTIONARIES_VARIABLE);
    if (given && *given) {
        for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
            const int n =
                snprintf(ret_folder, PATH_BYTES, "%s/%s%s", given, dictionaries[index].name, endings[i]);
            if (n < PATH_BYTES && is_there(ret_folder))
                return true;
        }
        return false;
    }
    for (const char *const *folder = dictionaries[index].folders; *folder; folder++) {
        snprintf(ret_folder, PATH_BYTES, "%s", *folder);
        if (is_there(ret_folder))
            return true;
    }
    return false;
}

static hs_status dictionary_find(const char *name, char ret_folder[PATH_BYTES], hs_error *err)
{
    size_t i = 0;
    while (i < N_DICTIONARIES && strcmp(dictionaries[i].name, name) != 0)
        i++;
    if (i == N_DICTIONARIES)
        return hs_fail(
            err, HS_BAD_MODEL,
            HS__TOKENIZER_CONFIG
            ": mecab_kwargs.mecab_dic is '%.64s'; supported: ipadic, unidic_lite, unidic, and null "
            "for the dictionary of MeCab's own settings",
            name);
    if (folder_find(i, ret_folder))
        return HS_OK;
    return hs_fail(
        err, HS_UNSUPPORTED,
        "this model's tokenizer needs MeCab's dictionary %s, which was not found. %s run pip install "
        "%s and set " HS__DICTIONARIES_VARIABLE " to the folder that python3 -c \"import sysconfig; "
        "print(sysconfig.get_path('purelib'))\" prints. " INSTEAD,
        name, dictionaries[i].advice, strcmp(name, "unidic_lite") ? name : "unidic-lite");
}

/* Opens the model of a folder, or of MeCab's own settings if it is NULL. Only the latter read ~/.mecabrc. */
static hs_status model_open(hs__mecab *mecab, char *folder, hs_error *err)
{
    char name[] = "mecab", settings[] = "-r", no_settings[] = "/dev/null", dictionary[] = "-d";
    char *arguments[] = {name, settings, no_settings, dictionary, folder, NULL};
    mecab->model = mecab->model_new(folder ? 5 : 1, arguments);
    if (!mecab->model)
        return hs_fail(err, HS_UNSUPPORTED,
                       "MeCab cannot open its dictionary %.256s (%.256s): install it again, for example with "
                       "apt-get install --reinstall mecab-ipadic-utf8",
                       folder ? folder : "of /etc/mecabrc", mecab->strerror(NULL));
    const mecab_dictionary *info = mecab->model_dictionary_info(mecab->model);
    if (strcasecmp(info->charset, "utf-8") != 0 && strcasecmp(info->charset, "utf8") != 0)
        return hs_fail(
            err, HS_UNSUPPORTED,
            "MeCab's dictionary %.256s is in %.40s: install one in UTF-8, for example with apt-get "
            "install mecab-ipadic-utf8",
            info->file, info->charset);
    mecab->tagger = mecab->model_new_tagger(mecab->model);
    return mecab->tagger ? HS_OK : hs_fail(err, HS_NO_MEMORY, "no memory for MeCab");
}

void hs__mecab_close(hs__mecab *mecab)
{
    if (!mecab)
        return;
    if (mecab->tagger)
        mecab->destroy(mecab->tagger);
    if (mecab->model)
        mecab->model_destroy(mecab->model);
    free(mecab);
}

/* Returns true if the memory of a call is there. */
static bool memory_try(void)
{
    void *volatile memory = malloc(MEMORY_BYTES);
    const bool ok = memory != NULL;
    free(memory);
    return ok;
}

hs_status hs__mecab_open(const char *dictionary, hs__mecab **ret_mecab, hs_error *err)
{
    char folder[PATH_BYTES];
    hs__mecab *mecab = calloc(1, sizeof *mecab);
    if (!mecab || !memory_try()) {
        free(mecab);
        return hs_fail(err, HS_NO_MEMORY, "no memory for MeCab");
    }
    hs_status st = library_load(mecab, err);
    if (!st && dictionary)
        st = dictionary_find(dictionary, folder, err);
    if (!st)
        st = model_open(mecab, dictionary ? folder : NULL, err);
    if (st)
        hs__mecab_close(mecab);
    else
        *ret_mecab = mecab;
    return st;
}

/* ---- words ---- */

/* Returns the first end of a character at or behind a place. */
static size_t whole(const unsigned char *bytes, size_t n_bytes, size_t at)
{
    while (at < n_bytes && hs_utf8_continues(bytes[at]))
        at++;
    return at;
}

/* Appends the words of a lattice's best path. MeCab keeps the length of a word, with the white space before
 * it, in 16 bits, which MECAB_BYTES_MAX does not reach. The words are checked all the same: they are in
 * order, and of whole characters. */
static bool words_put(const hs__mecab *mecab, mecab_lattice *lattice, const unsigned char *bytes,
                      hs__span stretch, hs__spans *words)
{
    const char *sentence = mecab->lattice_get_sentence(lattice);
    size_t at = stretch.start;
    bool ok = true;
    for (const mecab_node *node = mecab->lattice_get_bos_node(lattice); node && ok; node = node->next) {
        if (node->state == STATE_FIRST || node->state == STATE_LAST)
            continue;
        const size_t place = stretch.start + (size_t)(node->surface - sentence);
        const size_t start = whole(bytes, stretch.end, place > at ? place : at);
        const size_t end = place + node->length < stretch.end ? place + node->length : stretch.end;
        at = whole(bytes, stretch.end, end > start ? end : start);
        ok = hs__spans_put(words, start, at);
    }
    return ok;
}

/* Cuts one stretch. MeCab gets a copy that ends with NUL. Behind white space at the end of a sentence it
 * looks for words of length 0, which Darts takes for "up to the next NUL". */
static bool stretch_cut(const hs__mecab *mecab, const unsigned char *bytes, hs__span stretch,
                        hs__spans *words)
{
    const size_t n_bytes = stretch.end - stretch.start;
    char *sentence = memory_try() ? malloc(n_bytes + 1) : NULL;
    mecab_lattice *lattice = sentence ? mecab->model_new_lattice(mecab->model) : NULL;
    bool ok = lattice != NULL;
    if (ok) {
        memcpy(sentence, bytes + stretch.start, n_bytes);
        sentence[n_bytes] = '\0';
        mecab->lattice_set_sentence2(lattice, sentence, n_bytes);
        ok = mecab->parse_lattice(mecab->tagger, lattice) && words_put(mecab, lattice, bytes, stretch, words);
        mecab->lattice_destroy(lattice);
    }
    free(sentence);
    return ok;
}

bool hs__mecab_cut(const hs__mecab *mecab, const unsigned char *bytes, hs__span text, hs__spans *words)
{
    bool ok = true;
    while (text.start < text.end && ok) {
        hs__span stretch = text;
        if (text.end - text.start > MECAB_BYTES_MAX)
            stretch.end = text.start + hs_utf8_whole((const char *)bytes + text.start, MECAB_BYTES_MAX);
        ok = stretch_cut(mecab, bytes, stretch, words);
        text.start = stretch.end;
    }
    return ok;
}
