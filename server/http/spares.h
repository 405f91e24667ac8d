/* spares.h - descriptors and addresses that are kept for the moment when a limit of the process is reached.
 *
 * A limit that is lowered or reached would otherwise end all service: no connection is accepted any more,
 * and no request gets memory for its refusal. Loop thread only. */
#pragma once

#include <stdbool.h>

enum { HS_SPARE_DESCRIPTORS = 8 };

typedef struct hs_spares {
    int descriptors[HS_SPARE_DESCRIPTORS];
    void *memory;
    bool kept; /* all of them, or none */
} hs_spares;

/* Keeps the spares, or gives them back if nothing beyond them can be had. Returns true if they are kept. Logs
 * each change with the limit that was reached. Call it every second. */
bool hs__spares_check(hs_spares *spares);

void hs__spares_release(hs_spares *spares);
