/* products.c - products of packed weights whose tasks threads share. */
#include "engine/pass/pass.h"
#include "engine/pass/team.h"

static void task_multiply(void *context, size_t task, size_t slot)
{
    const hs__product *p = context;
    (void)slot;
    hs__linear_run(p->linear, p->n_rows, p->n_threads, p->x, p->y, task);
}

void hs__product_share(hs__team *team, hs__product product)
{
    hs__team_share(team, hs__linear_tasks(product.linear, product.n_rows, product.n_threads), task_multiply,
                   &product);
}

void hs__product_run(const hs_engine *engine, hs__product product)
{
    hs_runtime_share(engine->runtime, product.n_threads,
                     hs__linear_tasks(product.linear, product.n_rows, product.n_threads), task_multiply,
                     &product);
}
