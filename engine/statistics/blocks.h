/* blocks.h - sums over blocks of neighbouring texts, and intervals of what follows from them.
 *
 * Texts of one document depend on each other and are neighbours in a corpus, so whole runs of neighbours are
 * drawn in a bootstrap. Block b holds the texts with b = number >> shift. The shift grows by 1, and blocks
 * are added in twos, when a number would lie beyond the last block. So the blocks follow from the texts
 * alone, in any order and for any shards; there are 64 to 128 of them from the 64th text on.
 *
 *     words = hs_blocks_at(blocks, number);                 adds a text to its block
 *     hs_bootstrap_init(&bootstrap, blocks, word);          draws blocks that have texts
 *     hs_bootstrap_draw(&bootstrap, by_block, draws);       a sum over the blocks of each draw
 *     interval = hs_bootstrap_interval(&bootstrap, draws);  of any function of such sums */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define HS_BLOCKS_MAX       128
#define HS_BLOCKS_SHIFT_MAX 57

typedef struct hs_blocks {
    uint64_t shift;
    size_t n_max;    /* blocks, a power of 2 up to HS_BLOCKS_MAX */
    size_t n_words;  /* of a block */
    int64_t words[]; /* [n_max][n_words] */
} hs_blocks;

/* Creates empty blocks, HS_BLOCKS_MAX of them, for free; NULL if memory is short. */
hs_blocks *hs_blocks_create(size_t n_words);
/* Creates fewer blocks, for many words. */
hs_blocks *hs_blocks_create_few(size_t n_max, size_t n_words);
size_t hs_blocks_bytes(size_t n_max, size_t n_words);
/* Returns the words of a text's block, after all others have been made coarse enough. Borrowed until the next
 * call. */
int64_t *hs_blocks_at(hs_blocks *blocks, uint64_t number);
/* Adds the sums of `from`, which has as many blocks and words. */
void hs_blocks_merge(hs_blocks *blocks, const hs_blocks *from);
/* Sets all sums to 0. */
void hs_blocks_clear(hs_blocks *blocks);

/* ---- bootstrap ---- */

#define HS_BOOTSTRAP_DRAWS      200
#define HS_BOOTSTRAP_BLOCKS_MIN 8 /* with fewer there are no intervals */

/* [0] is of the blocks as they are, the others of the draws. */
typedef double hs_draws[1 + HS_BOOTSTRAP_DRAWS];

typedef struct hs_bootstrap {
    size_t n_blocks, run; /* blocks that have texts; how many neighbours are drawn together */
    size_t n_units;       /* different texts, and at most n_blocks: with fewer than HS_BOOTSTRAP_BLOCKS_MIN
                             there are no intervals. Copies of a text are no evidence */
    uint8_t times[HS_BLOCKS_MAX][1 + HS_BOOTSTRAP_DRAWS]; /* how often a block is in each draw */
} hs_bootstrap;

/* Draws from the blocks whose given word is not 0, as often as there are such blocks. n_different: of their
 * texts, or SIZE_MAX. Two bootstraps of the same blocks have the same draws. */
void hs_bootstrap_init(hs_bootstrap *bootstrap, const hs_blocks *blocks, size_t word, size_t n_different);
/* Sums a number of each block over the blocks of each draw. */
void hs_bootstrap_draw(const hs_bootstrap *bootstrap, const double by_block[HS_BLOCKS_MAX], hs_draws ret);

/* A 95 % interval; NAN if there is none. */
typedef struct hs_interval {
    double low, high;
} hs_interval;

/* Returns the percentile interval of a figure, widened for the number of blocks (Hesterberg 2015). Draws that
 * are not finite are left out; if they are over half, there is no interval. */
hs_interval hs_bootstrap_interval(const hs_bootstrap *bootstrap, const hs_draws draws);
/* Returns the two-sided p-value of the hypothesis that the figure is `null`, from the standard deviation of
 * its draws and Student's t; NAN if there is none. */
double hs_bootstrap_p(const hs_bootstrap *bootstrap, const hs_draws draws, double null);

/* Returns the 97.5 % point of Student's t, within 1e-5 for 2 degrees of freedom and from 3 on. */
double hs_student_975(double freedom);

/* Adjusts n p-values by Benjamini and Hochberg (1995), so that a limit bounds the fraction of false
 * discoveries. NAN stays. scratch is [n]. */
void hs_p_adjust(double *p, size_t n, size_t *scratch);

/* Adds n words. They may wrap around, as sums of a damaged checkpoint do. */
void hs_words_add(int64_t *words, const int64_t *from, size_t n);
