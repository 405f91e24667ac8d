/* conllu_words.c - reads the lines twice: first the words of the text, then the head of each. */
#include "server/corpus/input/conllu_words.h"

#include "server/corpus/input/conllu.h"

#include <stdlib.h>
#include <string.h>

enum { FORM = 1, UPOS = 3, HEAD = 6, DEPREL = 7 };

/* A record being read. Lines are numbered from 1, as its words are. */
typedef struct parse {
    const char *record, *end;
    const hs_text *text;
    size_t at;          /* in the text: bytes before it have been passed */
    uint32_t point;     /* as code points */
    int32_t *surface;   /* [1 + HS__SENTENCE_WORDS_MAX]: the text's word of each word; -1: none */
    hs__sentence *into; /* with HS__SENTENCE_WORDS_MAX words */
} parse;

/* Passes n bytes of the text. */
static void text_pass(parse *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p->point += ((unsigned char)p->text->bytes[p->at + i] & 0xc0) != 0x80;
    p->at += n;
}

/* Finds the form after what has been passed. Returns false if it is not there. */
static bool form_find(parse *p, const hs__conllu_part *form, hs__sentence_word *word)
{
    const char *from = p->text->bytes + p->at;
    const char *found = form->n ? memmem(from, p->text->n_bytes - p->at, form->bytes, form->n) : NULL;
    if (!found)
        return false;
    text_pass(p, (size_t)(found - from));
    word->start = p->point;
    text_pass(p, form->n);
    word->end = p->point;
    return true;
}

/* Adds the word that a line stands for, if it is one of the text. Returns false if that is not possible. */
static bool word_add(parse *p, const hs__conllu_part *line, unsigned long *covered)
{
    hs__conllu_range range;
    if (!hs__conllu_range_read(line, &range) || range.first <= *covered)
        return true;
    const hs__conllu_part form = hs__conllu_column(line, FORM), pos = hs__conllu_column(line, UPOS);
    hs__sentence_word word = {.head = -1, .pos = pos.bytes, .n_pos = pos.n};
    if (range.last < range.first || range.last > HS__SENTENCE_WORDS_MAX || !form_find(p, &form, &word))
        return false;
    for (unsigned long k = range.first; k <= range.last; k++)
        p->surface[k] = (int32_t)p->into->n_words;
    p->into->words[p->into->n_words++] = word;
    *covered = range.last;
    return true;
}

static bool words_read(parse *p)
{
    unsigned long covered = 0;
    for (const char *at = p->record; at < p->end;) {
        const hs__conllu_part line = hs__conllu_line_take(&at, p->end);
        if (!word_add(p, &line, &covered))
            return false;
    }
    return p->into->n_words > 0;
}

/* Gives a word of the text the head of one of its parts, unless it has one. */
static void head_read(parse *p, const hs__conllu_part *line)
{
    const hs__conllu_part head = hs__conllu_column(line, HEAD), relation = hs__conllu_column(line, DEPREL),
                          pos = hs__conllu_column(line, UPOS);
    hs__conllu_range range;
    unsigned long number;
    if (!hs__conllu_range_read(line, &range) || range.last != range.first ||
        range.first > HS__SENTENCE_WORDS_MAX || p->surface[range.first] < 0)
        return;
    const int32_t at = p->surface[range.first];
    hs__sentence_word *word = &p->into->words[at];
    if (word->n_pos == 1 && *word->pos == '_') { /* a range has none of its own */
        word->pos = pos.bytes;
        word->n_pos = pos.n;
    }
    if (word->head >= 0 || !hs__conllu_number_read(&head, &number) || number == 0 ||
        number > HS__SENTENCE_WORDS_MAX || p->surface[number] < 0 || p->surface[number] == at)
        return;
    word->head = p->surface[number];
    word->relation = relation.bytes;
    word->n_relation = relation.n;
}

hs_status hs__sentence_find(const char *record, size_t n_bytes, const hs_text *text, hs__sentence *ret)
{
    *ret = (hs__sentence){0};
    parse p = {.record = record, .end = record + n_bytes, .text = text, .into = ret};
    ret->words = calloc(HS__SENTENCE_WORDS_MAX, sizeof *ret->words);
    p.surface = malloc((1 + HS__SENTENCE_WORDS_MAX) * sizeof *p.surface);
    if (!ret->words || !p.surface) {
        free(p.surface);
        return HS_NO_MEMORY;
    }
    memset(p.surface, -1, (1 + HS__SENTENCE_WORDS_MAX) * sizeof *p.surface);
    const bool found = words_read(&p);
    for (const char *at = record; found && at < p.end;) {
        const hs__conllu_part line = hs__conllu_line_take(&at, p.end);
        head_read(&p, &line);
    }
    free(p.surface);
    return found ? HS_OK : HS_NOT_FOUND;
}

void hs__sentence_finish(hs__sentence *sentence)
{
    free(sentence->words);
    *sentence = (hs__sentence){0};
}
