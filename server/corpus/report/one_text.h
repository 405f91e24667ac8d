/* one_text.h - the paper's figures 4, 5 and 9: maps and marked tokens of one text.
 *
 * The text is the first of the examples. A run analyses it at its end. The member "one_text" of report.json
 * has the result: {number, tokens, maps: [{kind, layer, head, values}], high: [tokens], heads: [{head, pairs:
 * [[i, j, N]]}]}. head is null for all heads of a layer. Runs of earlier versions lack it. */
#pragma once

#include "server/corpus/report/panels.h"

#define HS__ONE_TEXT_TOKENS 64
#define HS__ONE_TEXT_PAIRS  12 /* strongest pairs of a head */

/* Figure 4: attention of one head and of all heads, layer by layer. */
hs_status hs__one_text_attention(hs__drawing *d, const hs__report_panel *panel, hs__place at,
                                 hs__picture *ret, hs_error *err);
/* Figure 5: attention and similarity of a head, with its high-attention tokens marked. */
hs_status hs__one_text_marked(hs__drawing *d, const hs__report_panel *panel, hs__place at, hs__picture *ret,
                              hs_error *err);
/* The tokens: with a panel's `which` 0 those of high attention are marked, with k those of the strongest
 * pairs of the kth head. */
hs_status hs__one_text_tokens(hs__drawing *d, const hs__report_panel *panel, hs__place at, hs__picture *ret,
                              hs_error *err);
