/* fuzz_tokenizer.c - the tokens of any text are sound: ids of the vocabulary, offsets inside the text and in
 * order, and no more tokens than requested. Truncation changes no token that is kept.
 *
 * The first byte chooses the tokenizer and the options, the second the number of tokens. A byte 0xFE in the
 * rest begins the second text. */
#include "model/tokenizer/tokenizer_internal.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

static const char vocab[] =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##b\n##c\n##a\nab\n!\n中\n[\nmask\n]\ni\n##\xcc\x87\n"
    "\xe1\x84\x92\n##\xe1\x85\xa1\n##\xe1\x86\xab\né\n##é\n";

#define SPECIAL(name, type) "{\"SpecialToken\":{\"id\":\"" name "\",\"type_id\":" type "}}"
#define TEXT(name, type)    "{\"Sequence\":{\"id\":\"" name "\",\"type_id\":" type "}}"
#define FIRST_TEXT          SPECIAL("<s>", "0") "," TEXT("A", "0") "," SPECIAL("</s>", "0")
#define SECOND_TEXT         TEXT("B", "1") "," SPECIAL("</s>", "1")
static const char byte_pairs[] =
    "{\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
    "\"post_processor\":{\"type\":\"Sequence\",\"processors\":["
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true},"
    "{\"type\":\"TemplateProcessing\",\"single\":[" FIRST_TEXT "],\"pair\":[" FIRST_TEXT "," SECOND_TEXT "],"
    "\"special_tokens\":{\"<s>\":{\"ids\":[0]},\"</s>\":{\"ids\":[2]}}}]},"
    "\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"vocab\":{"
    "\"<s>\":0,\"<pad>\":1,\"</s>\":2,\"<unk>\":3,\"<mask>\":4,\"a\":5,\"b\":6,\"!\":7,\"Ġ\":8,\"Ċ\":9,"
    "\"Ã\":10,\"©\":11,\"ä\":12,\"¸\":13,\"ab\":14,\"Ġa\":15,\"Ã©\":16,\"ä¸\":17,\"ĠĠ\":18},"
    "\"merges\":[\"a b\",\"Ġ a\",\"Ã ©\",\"ä ¸\",\"Ġ Ġ\"]}}";
static const char unigram[] =
    "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":["
    "{\"type\":\"NFKD\"},{\"type\":\"StripAccents\"}]},"
    "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"▁\",\"prepend_scheme\":\"always\"},"
    "\"post_processor\":"
    "{\"type\":\"TemplateProcessing\",\"single\":[" FIRST_TEXT "],\"pair\":[" FIRST_TEXT "," SECOND_TEXT "],"
    "\"special_tokens\":{\"<s>\":{\"ids\":[0]},\"</s>\":{\"ids\":[2]}}},"
    "\"model\":{\"type\":\"Unigram\",\"unk_id\":3,\"vocab\":["
    "[\"<s>\",0],[\"<pad>\",0],[\"</s>\",0],[\"<unk>\",0],[\"<mask>\",0],[\"▁\",-3.5],[\"a\",-4.5],"
    "[\"▁a\",-5],[\"b\",-4],[\"ab\",-6],[\"!\",-2],[\"e\",-3],[\"f\",-4],[\"fi\",-4]]}}";

/* trims: offsets leave out spaces, so that pieces of nothing else are at no character. */
static const struct {
    const char *vocab, *json, *config;
    bool trims;
} tokenizers[] = {
    {.vocab = vocab, .config = "{}"},
    {.vocab = vocab, .config = "{\"do_lower_case\":false,\"tokenize_chinese_chars\":false}"},
    {.vocab = vocab, .config = "{\"strip_accents\":false}"},
    {.vocab = vocab,
     .config = "{\"added_tokens_decoder\":{\"30\":{\"content\":\"b中\",\"normalized\":true},"
               "\"31\":{\"content\":\"É!\",\"normalized\":true},\"32\":{\"content\":\"<x>\"}}}"},
    {.json = byte_pairs, .config = "{}", .trims = true},
    {.json = unigram, .config = "{}"},
};
#define TOKENIZERS (sizeof tokenizers / sizeof *tokenizers)
#define VOCAB_SIZE 40

static hs_bytes bytes_of(const char *text)
{
    return (hs_bytes){text, text ? strlen(text) : 0};
}

static const hs_tokenizer *tokenizer_of(size_t which)
{
    static hs_tokenizer *made[TOKENIZERS];
    if (!made[which]) {
        const hs_tokenizer_files files = {.vocab_txt = bytes_of(tokenizers[which].vocab),
                                          .tokenizer_json = bytes_of(tokenizers[which].json),
                                          .tokenizer_config = bytes_of(tokenizers[which].config)};
        require(!hs__tokenizer_create(&files, VOCAB_SIZE, &made[which], NULL));
    }
    return made[which];
}

static uint32_t count_chars(const hs_text *text)
{
    uint32_t n = 0;
    for (size_t i = 0; i < text->n_bytes; i++)
        n += ((unsigned char)text->bytes[i] & 0xC0) != 0x80;
    return n;
}

/* One text's tokens, from index `at` of the encoding up to its [SEP]; returns the index behind that. */
static size_t check_text(const hs_tokenizer *tokenizer, const hs_encoding *e, size_t at, const hs_text *text,
                         uint8_t type, bool trims)
{
    const uint32_t n_chars = count_chars(text);
    uint32_t start = 0;
    uint32_t end = 0;
    int32_t word = 0;
    for (; at < e->n_tokens && !e->special[at]; at++) {
        require(e->types[at] == type);
        require(e->starts[at] >= start && e->ends[at] >= end);
        require(e->starts[at] + !trims <= e->ends[at] && e->ends[at] <= n_chars);
        require(e->word_ids[at] == word || e->word_ids[at] == word + 1);
        require(e->ids[at] >= 0 && e->ids[at] < VOCAB_SIZE);
        start = e->starts[at];
        end = e->ends[at];
        word = e->word_ids[at];
    }
    require(at < e->n_tokens && e->ids[at] == hs_tokenizer_special_ids(tokenizer)->sep);
    require(e->word_ids[at] == -1 && e->types[at] == type && !e->starts[at] && !e->ends[at]);
    return at + 1;
}

static void check(const hs_tokenizer *tokenizer, const hs_encoding *e, const hs_text texts[2], size_t n_texts,
                  bool trims)
{
    require(e->n_tokens >= 1 + n_texts);
    require(e->special[0] && e->ids[0] == hs_tokenizer_special_ids(tokenizer)->cls && !e->types[0]);
    size_t at = 1;
    for (size_t i = 0; i < n_texts; i++)
        at = check_text(tokenizer, e, at, &texts[i], (uint8_t)i, trims);
    require(at == e->n_tokens);
}

/* The text's tokens in the short encoding are the first of those in the long one. */
static void check_prefix(const hs_encoding *shorter, const hs_encoding *longer, uint8_t type)
{
    size_t at = 0;
    while (type && longer->types[at] != type)
        at++;
    for (size_t i = 1; i < shorter->n_tokens; i++) {
        if (shorter->types[i] != type || shorter->special[i])
            continue;
        while (longer->special[at])
            at++;
        require(at < longer->n_tokens && shorter->ids[i] == longer->ids[at]);
        require(shorter->starts[i] == longer->starts[at] && shorter->ends[i] == longer->ends[at]);
        require(shorter->word_ids[i] == longer->word_ids[at]);
        at++;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const size_t which = (data[0] & 0x7F) % TOKENIZERS;
    const hs_tokenizer *tokenizer = tokenizer_of(which);
    const char *bytes = (const char *)data + 2;
    const char *cut = memchr(bytes, 0xFE, size - 2);
    const size_t n_first = cut ? (size_t)(cut - bytes) : size - 2;
    const hs_text texts[2] = {{bytes, n_first}, {cut ? cut + 1 : NULL, cut ? size - 3 - n_first : 0}};
    const size_t n_texts = cut ? 2 : 1;
    const hs_text *pair = cut ? &texts[1] : NULL;
    hs_encode_options options = {.tokens_max = 1 + n_texts + data[1] % 64,
                                 .split_special_tokens = data[0] & 0x80};
    hs_encoding cut_short = {0};
    hs_encoding whole = {0};
    hs_error err = {0};
    const hs_status st = hs_tokenizer_encode(tokenizer, &texts[0], pair, &options, &cut_short, &err);
    require(st == HS_OK || (st == HS_BAD_REQUEST && err.text[0] != '\0'));
    if (st)
        return 0;
    const size_t tokens_max = options.tokens_max;
    options.tokens_max = SIZE_MAX;
    require(!hs_tokenizer_encode(tokenizer, &texts[0], pair, &options, &whole, NULL));
    check(tokenizer, &cut_short, texts, n_texts, tokenizers[which].trims);
    check(tokenizer, &whole, texts, n_texts, tokenizers[which].trims);
    require(!whole.truncated && cut_short.truncated == (whole.n_tokens > tokens_max));
    require(cut_short.n_tokens == (cut_short.truncated ? tokens_max : whole.n_tokens));
    for (uint8_t type = 0; type < n_texts; type++)
        check_prefix(&cut_short, &whole, type);
    hs_encoding_finish(&cut_short);
    hs_encoding_finish(&whole);
    return 0;
}
