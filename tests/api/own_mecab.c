/* own_mecab.c - stands for MeCab in test_japanese.py: the part of the C interface of 0.996 that the program
 * uses. It cuts a text at spaces, and what lies between into words of two characters. It fails at a text with
 * U+0007, and at one without a NUL behind it, which MeCab reads. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 12288 }; /* the program sends no more at once */

typedef struct mecab_node_t {
    struct mecab_node_t *prev, *next, *enext, *bnext;
    void *rpath, *lpath;
    const char *surface, *feature;
    unsigned int id;
    unsigned short length, rlength, rcAttr, lcAttr, posid;
    unsigned char char_type, stat, isbest;
} mecab_node_t;

typedef struct mecab_dictionary_info_t {
    const char *filename, *charset;
} mecab_dictionary_info_t;

typedef struct mecab_model_t {
    mecab_dictionary_info_t info;
    char charset[32];
} mecab_model_t;

typedef struct mecab_lattice_t {
    const char *text;
    size_t n_bytes;
    mecab_node_t *nodes;
} mecab_lattice_t;

/* Reads the charset from dicrc of the folder behind -d, or of OWN_DICTIONARY. */
mecab_model_t *mecab_model_new(int n_arguments, char **arguments)
{
    char path[4096];
    mecab_model_t *model = calloc(1, sizeof *model);
    snprintf(path, sizeof path, "%s/dicrc", n_arguments == 5 ? arguments[4] : getenv("OWN_DICTIONARY"));
    FILE *file = fopen(path, "r");
    const int n = file && model ? fscanf(file, "%31s", model->charset) : 0;
    if (file)
        fclose(file);
    if (n != 1) {
        free(model);
        return NULL;
    }
    model->info = (mecab_dictionary_info_t){"sys.dic", model->charset};
    return model;
}

void mecab_model_destroy(mecab_model_t *model)
{
    free(model);
}

mecab_model_t *mecab_model_new_tagger(mecab_model_t *model)
{
    return model;
}

void mecab_destroy(mecab_model_t *tagger)
{
    (void)tagger;
}

const mecab_dictionary_info_t *mecab_model_dictionary_info(mecab_model_t *model)
{
    return &model->info;
}

const char *mecab_strerror(mecab_model_t *tagger)
{
    (void)tagger;
    return "it is broken";
}

mecab_lattice_t *mecab_model_new_lattice(mecab_model_t *model)
{
    (void)model;
    return calloc(1, sizeof(mecab_lattice_t));
}

void mecab_lattice_destroy(mecab_lattice_t *lattice)
{
    free(lattice->nodes);
    free(lattice);
}

void mecab_lattice_set_sentence2(mecab_lattice_t *lattice, const char *text, size_t n_bytes)
{
    lattice->text = text;
    lattice->n_bytes = n_bytes;
}

const char *mecab_lattice_get_sentence(mecab_lattice_t *lattice)
{
    return lattice->text;
}

mecab_node_t *mecab_lattice_get_bos_node(mecab_lattice_t *lattice)
{
    return lattice->nodes;
}

/* Returns the end of a word of at most two characters. */
static size_t word_end(const mecab_lattice_t *lattice, size_t at)
{
    int n_characters = 0;
    for (; at < lattice->n_bytes && lattice->text[at] != ' '; at++)
        if ((lattice->text[at] & 0xC0) != 0x80 && ++n_characters > 2)
            break;
    return at;
}

int mecab_parse_lattice(mecab_model_t *tagger, mecab_lattice_t *lattice)
{
    enum { FIRST = 2, LAST = 3 };
    size_t n = 0;
    (void)tagger;
    if (lattice->n_bytes > TEXT_MAX || lattice->text[lattice->n_bytes] ||
        memchr(lattice->text, '\a', lattice->n_bytes))
        return 0;
    mecab_node_t *nodes = lattice->nodes = calloc(lattice->n_bytes + 2, sizeof *nodes);
    if (!nodes)
        return 0;
    nodes[n++].stat = FIRST;
    for (size_t at = 0, end; at<lattice->n_bytes; at = end> at ? end : at + 1) {
        end = word_end(lattice, at);
        nodes[n].surface = lattice->text + at;
        nodes[n].length = (unsigned short)(end - at);
        n += end > at;
    }
    nodes[n].surface = NULL;
    nodes[n].length = 0;
    nodes[n].stat = LAST;
    for (size_t i = 0; i < n; i++)
        nodes[i].next = &nodes[i + 1];
    return 1;
}
