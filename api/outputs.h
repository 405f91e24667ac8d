/* outputs.h - everything that can be asked for, one row each.
 *
 * A request's set of outputs, the taps of the pass, the bound on an answer's size, all three writers, the
 * command line's help and the tests walk this table. There are two kinds of rows:
 *
 *     arrays      axes, and `part`, which finds or makes the block of one layer and head; written as
 *                 nested lists, or as one array of the dtype asked for
 *     structures  more than an array (pairs, segments, ...): made and written as their hs__structure says
 *
 * Adding an output is a row in outputs.c and its functions; docs/tour.md shows how. */
#pragma once

#include "api/answer.h"
#include "api/formats/arrays.h"
#include "api/formats/json_text.h"

/* What dtype u1 can hold: numbers in [0, 1]. */
typedef enum hs__range { HS__RANGE_ANY, HS__RANGE_UNIT, HS__RANGE_UNIT_IF_NORMALIZED } hs__range;

/* What an answer's size depends on. No product of these can overflow: shapes are within HS_..._MAX, T within
 * HS_POSITIONS_MAX. */
typedef struct hs__measures {
    const hs__analysis_request *wanted;
    const hs_shape *shape;
    size_t n_tokens, n_heads; /* heads of all layers asked for */
    size_t number;            /* longest JSON number and its comma */
    size_t token;             /* longest JSON token and its comma */
} hs__measures;

/* How a structure is made and written; result is what compute returned. */
typedef struct hs__structure {
    hs_status (*compute)(const hs__answer *answer, void **ret_result, hs_error *err);
    void (*destroy)(void *result); /* never NULL */
    void (*write_json)(hs__buffer *buffer, const hs__answer *answer, const void *result);
    void (*add_arrays)(hs__arrays *arrays, const hs__answer *answer, const void *result);
    size_t (*json_bytes_max)(const hs__measures *measures);
    size_t (*array_bytes_max)(const hs__measures *measures);
    /* Where what is answered may be a part: how many there are, under this name. */
    const char *total_name;
    uint64_t (*total)(const void *result);
} hs__structure;

typedef struct hs__output {
    const char *name;
    unsigned taps; /* what the pass must keep */

    /* Arrays. The first axis is LAYER or STATE, the second may be HEAD; reduce is over that one. part gives
     * the rest of the axes at l and h (0 without HEAD), on any thread with an `into` of its own; that has
     * room for hs__answer_part_floats and behind them for hs_effective_attention, and what is returned stays
     * until it is used again. */
    hs_axis axes[HS_AXES_MAX + 1];
    const float *(*part)(const hs__answer *answer, size_t l, size_t h, float *into);
    hs__range range;
    hs_status (*prepare)(hs__answer *answer, hs_error *err); /* once, before any part; or NULL */
    const char *hook; /* "attn.hook_pattern": TransformerLens's name within a block; or NULL */

    const hs__structure *structure; /* NULL: an array */

    bool is_default;        /* answered when no outputs are named */
    bool every_head;        /* looks at all heads of a layer, whichever were asked for */
    bool every_layer;       /* and at all layers */
    const char *implied_by; /* answered when this field is there, and not asked for by name; or NULL */
    bool by_passes;         /* of its own, once the heads are there: see job.c */
    bool needs_predictor;   /* the checkpoint's head for masked tokens */
    unsigned (*choose_taps)(const hs__analysis_request *wanted); /* those of taps that are needed; or NULL */
} hs__output;

/* Row i; NULL past the last. */
const hs__output *hs__output_at(size_t i);
/* The number of the row that is asked for by that name (NULL: none), or HS__OUTPUTS_MAX. */
size_t hs__output_find(const char *name, size_t n_bytes);
/* All names, in quotes of that kind: "a", "b". */
void hs__outputs_list(char *ret, size_t n_ret, const char *quote);

/* ---- sets ---- */

unsigned hs__outputs_default(void);
unsigned hs__outputs_taps(const hs__analysis_request *wanted);
bool hs__outputs_every_head(unsigned outputs);
bool hs__outputs_every_layer(unsigned outputs);
bool hs__outputs_by_passes(unsigned outputs);
/* What the field of that name adds. */
unsigned hs__outputs_implied(const char *field);

/* 422 when dtype u1, which holds [0, 1] only, is asked of arrays that leave that range. */
int hs__outputs_check_dtype(const hs__analysis_request *wanted, hs__problem *problem);

/* Computes the structures. HS_CANCELLED when the request was. */
HS_MUST_USE hs_status hs__outputs_compute(hs__answer *answer, hs_error *err);
/* Releases what the answer owns. */
void hs__outputs_finish(hs__answer *answer);

/* ---- array outputs ---- */

/* Lengths of the axes as answered; returns how many. */
size_t hs__output_lengths(const hs__output *output, const hs__analysis_request *wanted, const hs_shape *shape,
                          size_t n_tokens, size_t ret_lengths[HS_AXES_MAX]);
/* How many of the axes l and h walk: 1, or 2 where there is a HEAD axis. */
size_t hs__output_n_walked(const hs__output *output);
/* The block at l and h, reduced as asked; valid until the slot's next call. */
const float *hs__output_part(const hs__output *output, const hs__answer *answer, size_t l, size_t h,
                             size_t slot);
