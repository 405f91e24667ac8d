/* tape.h - what a forward pass keeps for its backward pass, and the state of a backward pass.
 *
 * Steps of the pass write to the tape instead of the workspace, so that keeping costs almost nothing. Norms
 * and activations are cheap beside products, so their outputs are computed again from what is kept. */
#pragma once

#include "engine/gradients.h"
#include "engine/pass/pass.h"

/* Arrays that a pass keeps of one block of T tokens. */
typedef struct hs__kept {
    float *qkv;        /* [T][n_out] as the scores read them */
    float *raw;        /* [T][n_out] before the norms of q and k; NULL: there are none */
    float *memory_kv;  /* [n_memory][2B] of cross attention, else NULL */
    float *raw_memory; /* as raw */
    float *attention;  /* [n_heads][T][K] */
    float *context;    /* [T][A] */
    float *attended;   /* [T][H] what the heads add, before attention_out_norm */
    float *inner;      /* [T][inner_step] what the activation reads, or what a gate multiplies */
    float *gate;       /* [T][inner_step] what the gate's activation reads */
    float *fed;        /* [T][H] what the feed-forward part adds, before ffn_out_norm */
} hs__kept;

/* Scratch of one thread for one head of T queries and K keys. R are the rows of the table of relative
 * positions. */
typedef struct hs__head_back_scratch {
    float *values;                /* V' in panels, [d][K] */
    float *keys;                  /* K in panels, [K][d] */
    float *scores;                /* K' in panels, [d][K]; with caps only, and so is the next */
    float *capped;                /* what a strip's scores were before the cap */
    float *strip;                 /* rows of dy/dA, then of dy/ds */
    float *packed;                /* a strip in panels */
    float *queries, *outputs;     /* [d][T] q' and dy/dO' */
    float *part;                  /* [d][K] what a strip adds to one of the next two */
    float *key_sums, *value_sums; /* [d][K] dy/dk' and dy/dv' */
    float *query_rows, *key_rows; /* [T][R], [K][R] sums of dy/ds by row of the table */
    float *table;                 /* [R][d] */
    float *added;                 /* [max(T, K)][d] what the table adds to dy/dq or dy/dk */
} hs__head_back_scratch;

/* Scratch of a backward pass over T tokens. */
typedef struct hs__back_scratch {
    float *g;                /* [T][H] gradient of the state */
    float *sum;              /* [T][H] of what a block adds to the state */
    float *normed;           /* [T][H] of what a block reads */
    float *middle;           /* [T][H] the state between the two parts of a block; the feed-forward part's
                              * gradient if it is parallel */
    float *part;             /* [max(T, n_memory)][H] a product that is to be added */
    float *qkv;              /* [T][A + 2B] */
    float *memory_kv;        /* [n_memory][2B] of decoders */
    float *memory;           /* [n_memory][H] of decoders */
    float *context;          /* [T][A] */
    float *inner;            /* [T][inner_step] */
    float *gate;             /* as inner, if there is a gate */
    float *slope;            /* [T][inner_step] */
    float *convolved;        /* [T][H] of what the convolution's activation reads, if there is one */
    float *unfolded;         /* [T][H width] */
    float *words, *embedded; /* [T][E] */
    float *row;              /* [max(H, E)] */
    hs__head_back_scratch *heads; /* [n_threads] */
} hs__back_scratch;

struct hs_tape {
    const hs_engine *engine;
    hs_sequence text;    /* a copy, without the caller's capture */
    size_t n_unpadded;   /* as in hs_capture */
    size_t block_bytes;  /* of the block that holds all of this */
    size_t n_threads;    /* of a backward pass */
    bool complete;       /* all blocks are kept; else one layer at a time, in the same memory */
    size_t again;        /* the layer that is kept now, if not complete; SIZE_MAX: none */
    hs_capture *nothing; /* keeps nothing; owned */
    float **x;           /* [n_blocks] of [T][H]: what enters each block */
    hs__kept *kept;      /* [n_blocks] */
    float *convolved;    /* [T][H] what the convolution's activation reads, or NULL */
    float *unnormed;     /* [T][H] what the final norm reads */
    float *last;         /* [T][H] */
    hs__back_scratch scratch;
};

/* Returns what is kept of a block, or NULL: the pass has no tape, or keeps another layer. */
static inline const hs__kept *hs__tape_kept(const hs_tape *tape, size_t block)
{
    if (!tape)
        return NULL;
    const size_t layer = block / hs_architecture_layer_blocks(tape->engine->architecture);
    return tape->complete || layer == tape->again ? &tape->kept[block] : NULL;
}

/* Runs a plan. With a tape the plan has one sequence, and the tape keeps what it says. */
HS_MUST_USE hs_status hs__engine_run_taped(const hs_engine *engine, hs_workspace *ws, const hs_plan *plan,
                                           const hs_run_control *control, hs_tape *tape, hs_error *err);

/* Records as hs_tape_record a tape that keeps every layer if that takes at most bytes_max. */
HS_MUST_USE hs_status hs__tape_record(const hs_engine *engine, hs_workspace *ws, const hs_sequence *sequence,
                                      const hs_run_control *control, size_t bytes_max, hs_tape **ret_tape,
                                      hs_error *err);

/* Computes the blocks of a layer of a tape that is not complete again, with a team of its own. Fails as
 * hs_engine_run; the tape then keeps no layer. */
HS_MUST_USE hs_status hs__tape_layer_again(hs_tape *tape, hs_workspace *ws, size_t layer,
                                           const hs_run_control *control, hs_error *err);

/* ---- backward, one head ---- */

typedef struct hs__head_back {
    const hs__head *head;       /* with q, k, v and context as the pass left them */
    const hs__head *to;         /* with the gradients of q, k, v and context, in the same layout */
    const float *attention;     /* [T][K] */
    const float *raw_q, *raw_k; /* before the head's norms, rows as q and k; or NULL */
    bool more_keys;             /* another head of the group has written the gradients of k and v */
    bool keys_done;             /* no other head will */
    float *ret_attention;       /* [T][K], or NULL, and so are the next */
    float *ret_output;          /* [T][d] */
    float *ret_attribution;     /* [T] */
    float *relevance;           /* [T][K]: the head's share is added */
    float share;                /* of the mean */
} hs__head_back;

/* Lays out the scratch of one thread for T queries and up to K keys. */
void hs__head_back_layout(const hs_engine *engine, size_t T, size_t K, hs__arena *arena,
                          hs__head_back_scratch *ret_scratch);
/* Computes the gradients of q, k and v of a head from that of its output, which it changes in place to that
 * of A V. */
void hs__attend_back(const hs_engine *engine, const hs__head_back_scratch *scratch,
                     const hs__head_back *back);

/* Computes n rows of the gradient of x + r from that of norm(x + r): ret = base + that. r and base may be
 * NULL, norm may be the identity, ret may be g or base. Rows are H long and lie side by side. */
void hs__norm_back(const hs_engine *engine, const hs__packed_norm *norm, size_t n, size_t H, const float *x,
                   const float *r, const float *g, const float *base, float *ret);
