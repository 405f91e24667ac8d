/* post_processor_byte_level.c - ByteLevel as a post-processor: leaves white space out of the offsets of
 * tokens that include it. It adds no special tokens. */
#include "model/tokenizer/part_options.h"
#include "model/tokenizer/parts.h"

typedef struct byte_level {
    hs__part part;
    hs__trim trim;
} byte_level;

static hs_status configure(hs__part *part, const json_t *options, hs_error *err)
{
    static const char file[] = "tokenizer.json";
    hs__trim *trim = &((byte_level *)part)->trim;
    *trim = (hs__trim){true, true};
    const hs_status st = hs__option_bool(options, file, "trim_offsets", &trim->spaces, err);
    return st ? st : hs__option_bool(options, file, "add_prefix_space", &trim->keeps_first, err);
}

static hs__trim trim_of(const hs__part *part)
{
    return ((const byte_level *)part)->trim;
}

const hs__part_type hs__byte_level_post_processor = {.stage = HS__POST_PROCESSOR,
                                                     .name = "ByteLevel",
                                                     .size = sizeof(byte_level),
                                                     .configure = configure,
                                                     .trim = trim_of};
