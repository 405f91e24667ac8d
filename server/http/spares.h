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

/* Keeps the spares, or gives them back if nothing beyond them can be had. Returns 0 if they are kept, else
 * the errno of the limit that was reached, and logs it once. Call it every second. */
int hs__spares_check(hs_spares *spares);

void hs__spares_release(hs_spares *spares);
