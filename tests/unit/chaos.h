/* chaos.h - makes one allocation after the other fail, to test what happens when memory runs out.
 *
 * The unit tests are linked with -Wl,--wrap for everything that hands out memory (see WRAPPED in the
 * Makefile). So every allocation of headscope passes through here, and so do those of jansson (json.c), and
 * of SQLite after chaos_sqlite. Those inside other libraries do not.
 *
 *     size_t live = chaos_live();
 *     bool refused = true;
 *     for (size_t nth = 0; refused; nth++) {
 *         chaos_refuse(nth);
 *         hs_status st = hs_thing_create(&thing, NULL);
 *         refused = chaos_stop();
 *         ck_assert(refused ? st != HS_OK : st == HS_OK);
 *         hs_thing_destroy(thing);
 *         ck_assert_uint_eq(chaos_live(), live);
 *     }
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* From now on the nth allocation, counted from 0 and over all threads, fails; those after it succeed again.
 */
void chaos_refuse(size_t nth);
/* No more refusals. Returns true if there was one since chaos_refuse. */
bool chaos_stop(void);
/* SQLite's allocations count from now on. Call it before anything uses SQLite. */
void chaos_sqlite(void);
/* Blocks and mappings now in use, and file descriptors now open. */
size_t chaos_live(void);
/* Returns the most bytes of blocks that were in use at one time since chaos_peak_begin, less those of then.
 */
void chaos_peak_begin(void);
size_t chaos_peak(void);
