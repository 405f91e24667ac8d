/* post_processor_byte_level.c - ByteLevel as a post-processor: leaves white space out of the offsets of
 * tokens that include it. It adds no special tokens. */
#include "model/tokenizer/part_options.h"
#include "model/tokenizer/parts.h"

#include <stdlib.h>

typedef struct byte_level {
    hs__part part;
    hs__trim trim;
} byte_level;

static hs_status create(const json_t *options, hs__part **ret_part, hs_error *err)
{
    static const char file[] = "tokenizer.json";
    hs__trim trim = {true, true};
    hs_status st = hs__option_bool(options, file, "trim_offsets", &trim.spaces, err);
    if (!st)
        st = hs__option_bool(options, file, "add_prefix_space", &trim.keeps_first, err);
    if (st)
        return st;
    byte_level *self = malloc(sizeof *self);
    if (!self)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    *self = (byte_level){.part.type = &hs__byte_level_post_processor, .trim = trim};
    *ret_part = &self->part;
    return HS_OK;
}

static void destroy(hs__part *part)
{
    free(part);
}

static hs__trim trim_of(const hs__part *part)
{
    return ((const byte_level *)part)->trim;
}

const hs__part_type hs__byte_level_post_processor = {
    .stage = HS__POST_PROCESSOR, .name = "ByteLevel", .create = create, .destroy = destroy, .trim = trim_of};
