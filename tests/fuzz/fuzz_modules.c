/* fuzz_modules.c - the files of a sentence encoder's modules are refused, or give values within their
 * limits. The first byte chooses the file. */
#include "model/families/family.h"
#include "tests/fuzz/fuzz.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define HIDDEN 8

static void parse_modules(const hs_bytes *file)
{
    hs__modules modules;
    hs_error err = {0};
    const hs_status st = hs__modules_parse(file, &modules, &err);
    require(st == err.status && (st || (modules.n >= 2 && modules.n <= HS__MODULES_MAX)));
    for (size_t i = 0; i < modules.n; i++)
        require(modules.paths[i][0] != '.' && !strchr(modules.paths[i], '/'));
}

static void parse_pooling(const hs_bytes *file)
{
    hs_sentence_head head = {0};
    hs_error err = {0};
    const hs_status st = hs__pooling_parse(file, HIDDEN, &head, &err);
    require(st == err.status && head.pooling.n <= HS_N_POOLS && (st || head.pooling.n > 0));
    for (size_t i = 0; i < head.pooling.n; i++)
        require(head.pooling.ways[i] < HS_N_POOLS);
}

static void parse_splade(const hs_bytes *file)
{
    hs_sparse_head head = {0};
    hs_error err = {0};
    const hs_status st = hs__splade_parse(file, HIDDEN, &head, &err);
    require(st == err.status && head.exists == (st == HS_OK));
}

static void parse_dense(const hs_bytes *file)
{
    hs__dense_shape shape;
    hs_error err = {0};
    const hs_status st = hs__dense_parse(file, &shape, &err);
    require(st == err.status);
    require(st || (shape.n_in >= 1 && shape.n_in <= HS_N_POOLS * HS_HIDDEN_MAX && shape.n_out >= 1 &&
                   shape.n_out <= HS_HIDDEN_MAX));
}

static void parse_prompts(const hs_bytes *file)
{
    hs_sentence_head head = {0};
    hs_error err = {0};
    const hs_status st = hs__prompts_parse(file, &head, &err);
    require(st == err.status && head.n_prompts <= HS_PROMPTS_MAX && head.default_prompt <= head.n_prompts);
    require(!st || !head.prompts);
    require(!head.prompts == (head.n_prompts == 0));
    for (size_t i = 0; head.prompts && i < head.n_prompts; i++)
        require(head.prompts[i].name[0] && strlen(head.prompts[i].name) <= HS_PROMPT_NAME_BYTES_MAX &&
                strlen(head.prompts[i].text) <= HS_PROMPT_TEXT_BYTES_MAX);
    free(head.prompts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const hs_bytes file = {data + 1, size - 1};
    switch (data[0] % 8) {
    case 0:
        parse_modules(&file);
        break;
    case 1:
        parse_pooling(&file);
        break;
    case 2:
        parse_dense(&file);
        break;
    case 4:
        parse_splade(&file);
        break;
    default:
        parse_prompts(&file);
    }
    return 0;
}
