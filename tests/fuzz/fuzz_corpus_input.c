/* fuzz_corpus_input.c - a file of texts in any format is refused with a reason, or gives records in the
 * order of their lines. Each record has a text inside the file, or a reason why it has none. A second
 * reading gives the same records.
 *
 * The first byte of the input chooses the format, the field and the reading of quotation marks. */
#include "model/base/utf8.h"
#include "server/corpus/input/input.h"
#include "server/corpus/input/records.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WITH_FIELD = 0x80, WITHOUT_QUOTES = 0x40 };

/* Checks that words ascend in the text, and that their heads are among them. */
static void sentence_read(const hs__record *line, const hs_text *text)
{
    hs__sentence sentence = {0};
    hs_status st = HS_NOT_FOUND;
    if (line->layout.format == HS__FORMAT_CONLLU &&
        hs_utf8_valid(text->bytes, text->n_bytes) == text->n_bytes)
        st = hs__sentence_find(line->bytes, line->n_bytes, text, &sentence);
    for (size_t w = 0; !st && w < sentence.n_words; w++) {
        const hs__sentence_word *word = &sentence.words[w];
        require(word->start < word->end && (w == 0 || word->start >= word[-1].end));
        require(word->end <= hs_utf8_count(text->bytes, text->n_bytes));
        require(word->head >= -1 && word->head < (int32_t)sentence.n_words && word->head != (int32_t)w);
    }
    hs__sentence_finish(&sentence);
}

static void line_read(const hs__record *line, const hs__input_format *given)
{
    hs__record_text value;
    if (line->too_long)
        return;
    const hs_status st = hs__record_text_find(&line->layout, given, line->bytes, line->n_bytes, &value);
    require(st == HS_OK || st == HS_BAD_REQUEST || st == HS_NO_MEMORY);
    require(st != HS_BAD_REQUEST || *value.why);
    require(st != HS_OK || value.text.n_bytes + value.pair.n_bytes <= line->n_bytes);
    if (!st)
        sentence_read(line, &value.text);
    hs__record_text_finish(&value);
}

static hs_status all_read(const char *path, const hs__input_format *settings, hs__input_position *ret_place)
{
    hs__record_stream *input;
    hs__record line;
    hs_error err = {0};
    uint64_t last = 0, number = 0;
    require(hs__record_stream_open(&path, 1, settings, NULL, &input, &err) == HS_OK);
    hs_status st;
    while (!(st = hs__record_stream_next(input, &line, &err)) && line.bytes) {
        require(line.line >= last && line.number == number++);
        last = line.line;
        line_read(&line, settings);
    }
    require(st == err.status && (st != HS_OK) == (*err.text != '\0'));
    hs__record_stream_position(input, ret_place);
    json_decref(hs__record_stream_formats(input));
    hs__record_stream_close(input);
    return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    hs__input_format settings = {0};
    hs__input_position first, second;
    hs__text_format format;
    bool packed;
    char path[64];
    const int fd = memfd_create("texts", MFD_CLOEXEC);
    if (!size || fd < 0)
        return 0;
    settings.format = (hs__text_format)(data[0] % WITHOUT_QUOTES % HS__FORMATS);
    settings.no_quotes = data[0] & WITHOUT_QUOTES;
    snprintf(settings.field, sizeof settings.field, "%s", data[0] & WITH_FIELD ? "a.b" : "");
    require(write(fd, data + 1, size - 1) == (ssize_t)(size - 1));
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const hs_status st = all_read(path, &settings, &first);
    require(all_read(path, &settings, &second) == st);
    require(st || (first.n_bytes == second.n_bytes && strcmp(first.sha256, second.sha256) == 0));
    hs_error err = {0};
    require(hs__record_stream_check(path, &settings, &format, &packed, &err) == err.status);
    close(fd);
    return 0;
}
