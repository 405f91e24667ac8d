/* page_template.h - the page that static/report builds, with two places to fill. */
#pragma once

#include "model/status.h"

#include <stdio.h>

/* Writes one of the two places. */
typedef hs_status hs__page_part(FILE *file, void *data, hs_error *err);

/* Writes the page: body reads without a script; script_data is for the page's script, NULL: none. The caller
 * checks the file for failed writes. HS_UNSUPPORTED: this build has no page; else what a part returned. */
HS_MUST_USE hs_status hs__page_fill(FILE *file, hs__page_part *body, hs__page_part *script_data, void *data,
                                    hs_error *err);
