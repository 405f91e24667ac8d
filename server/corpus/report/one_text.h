/* one_text.h - the paper's figures 4, 5 and 9: maps and marked tokens of one text.
 *
 * The text is the first of the examples. A run analyses it at its end. The member "one_text" of report.json
 * has the result: {number, tokens, maps: [{kind, layer, head, values}], high: [tokens], heads: [{head, pairs:
 * [[i, j, N]]}]}. head is null for all heads of a layer. Runs of earlier versions lack it. */
#pragma once

#include "server/corpus/report/panels.h"

#define HS__ONE_TEXT_TOKENS 64
#define HS__ONE_TEXT_PAIRS  12 /* strongest pairs of a head */

/* A panel's `which`. */
enum {
    HS__ONE_TEXT_ATTENTION, /* figure 4: attention of one head and of all heads, layer by layer */
    HS__ONE_TEXT_HIGH,      /* figure 4: the tokens, with those of high attention marked */
    HS__ONE_TEXT_MARKED, /* figure 5: attention and similarity of a head, and its tokens of high attention */
    HS__ONE_TEXT_MOST,   /* figure 9: the tokens, with those of the strongest pairs of a head marked */
    HS__ONE_TEXT_FEWEST  /* figure 9: the same of the head with the fewest pairs of the same token */
};

hs_status hs__one_text_draw(hs__drawing *d, const hs__report_panel *panel, hs__place at, hs_picture *ret,
                            hs_error *err);
