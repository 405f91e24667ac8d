/* memory_budget.h - bounds the memory in which all running requests compute: captured heads, effects. Any
 * thread.
 *
 * A thread must not wait while it holds some of the budget: two such threads could wait for each other. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct hs__budget_waiter hs__budget_waiter;

typedef struct hs__budget {
    pthread_mutex_t mutex; /* guards everything below */
    pthread_cond_t changed;
    size_t bytes, bytes_max;
    hs__budget_waiter *first, *last; /* served in this order */
} hs__budget;

/* Nothing is taken at first. */
void hs__budget_init(hs__budget *budget, size_t bytes_max);
void hs__budget_finish(hs__budget *budget);

/* Takes n_bytes <= bytes_max. Returns false if too little is left or other threads wait. */
bool hs__budget_try(hs__budget *budget, size_t n_bytes);
/* Waits for n_bytes <= bytes_max and takes them. Returns false only if *cancelled becomes nonzero. cancelled
 * may be NULL. */
bool hs__budget_take(hs__budget *budget, size_t n_bytes, const atomic_int *cancelled);
/* Gives back n_bytes that were taken, and wakes those that wait. */
void hs__budget_give_back(hs__budget *budget, size_t n_bytes);
