/* panels.h - the panels of a report by name: what each is made from. */
#pragma once

#include "server/corpus/report/drawing.h"

/* Returns panel k, of the report or of a counter; NULL if there are only k. */
const hs__report_panel *hs__panel_at(size_t k);

/* Lays out a panel that is no table; the picture stays empty if there is nothing to draw. Release it with
 * hs_picture_finish, also on failure. */
HS_MUST_USE hs_status hs__panel_draw(hs__drawing *d, const hs__report_panel *panel, hs__indices at,
                                     hs_picture *ret, hs_error *err);
