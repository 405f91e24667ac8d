/* page_template.h - the page that static/report builds, with two places to fill. */
#pragma once

#include "model/base/status.h"

#include <stdio.h>

typedef enum hs__page_piece {
    HS__PAGE_HEAD,   /* up to the report, which reads without a script */
    HS__PAGE_MIDDLE, /* from there up to the data of the page's script, which may be empty */
    HS__PAGE_TAIL
} hs__page_piece;

/* Writes a piece of the page. The caller checks the file for failed writes. HS_UNSUPPORTED: this build has no
 * page. */
HS_MUST_USE hs_status hs__page_write(FILE *file, hs__page_piece piece, hs_error *err);
