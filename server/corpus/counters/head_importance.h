/* head_importance.h - gradient importance: how much the loss of a text rests on each head, to first order.
 *
 *     importance[l][h] = |sum over tokens t of <o_t, dL/do_t>|
 *
 * o_t are the rows of the head's output and L the mean loss of the text's predictions (predicted_texts.h):
 * Michel, Levy and Neubig 2019 (arXiv 1905.10650), whose mask of a head is a factor of its output. */
#pragma once

#include "server/corpus/counters/predicted_texts.h"

typedef struct hs__importance hs__importance;

/* Returns true if a run counts it. Then its engine has been prepared for gradients. */
bool hs__importance_is_on(const json_t *identity);
/* The same of a run's job. */
bool hs__importance_is_set(const hs__corpus_job *job);

/* Returns an upper bound of the bytes that the two functions below allocate. */
uint64_t hs__importance_bytes(const hs__corpus_job *job);
/* Creates the scratch of one thread for texts of the job. HS_NO_MEMORY. */
HS_MUST_USE hs_status hs__importance_create(const hs__corpus_job *job, hs__importance **ret, hs_error *err);
/* Computes the importance of all heads in a text: ret_values [l][h]. Adds its predictions to ret_loss. Fails
 * with HS_NO_MEMORY and HS_CANCELLED. */
HS_MUST_USE hs_status hs__importance_compute(hs__importance *importance, hs_workspace *ws,
                                             const hs__predicted_text *text, const hs_run_control *control,
                                             double *ret_values, hs__loss *ret_loss, hs_error *err);
void hs__importance_destroy(hs__importance *importance); /* NULL is fine */
