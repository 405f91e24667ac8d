/* test_sparse.c - sparse vectors and contacts of a few numbers, whose results are known. */
#include "engine/analysis/contacts.h"
#include "engine/analysis/sparse.h"

#include "tests/unit/chaos.h"
#include "tests/unit/suite.h"

#include <math.h>

/* ---- sparse vectors ---- */

enum { V = 6 };
static const float logits[2][V] = {{0.5F, -1, 2, 0.25F, 0, -3}, {0.25F, -2, 1, 0.5F, -1, 4}};

static size_t find(const hs_sparse_head *head, hs_sparse_entry ret_entries[V])
{
    double sums[V] = {0};
    hs_sparse_add(head, logits[0], 1, V, sums);
    hs_sparse_add(head, logits[1], 1, V, sums);
    return hs_sparse_find(head, sums, V, ret_entries);
}

static void check_entry(const hs_sparse_entry *entry, int32_t id, double weight)
{
    ck_assert_int_eq(entry->id, id);
    ck_assert_double_eq_tol((double)entry->weight, weight, 1e-6);
}

/* Entries 0 and 3 are equal, and 1 and 4 have no weight. */
START_TEST(the_largest_come_first_and_of_equal_ones_the_lower_id)
{
    hs_sparse_entry entries[V];
    ck_assert_uint_eq(find(&(hs_sparse_head){0}, entries), 4);
    check_entry(&entries[0], 5, log(5));
    check_entry(&entries[1], 2, log(3));
    check_entry(&entries[2], 0, log(1.5));
    check_entry(&entries[3], 3, log(1.5));
}
END_TEST

START_TEST(sums_are_over_tokens_and_the_most_are_kept)
{
    hs_sparse_entry entries[V];
    ck_assert_uint_eq(find(&(hs_sparse_head){.sums = true, .twice = true, .n_most = 2}, entries), 2);
    check_entry(&entries[0], 2, log1p(log(3)) + log1p(log(2)));
    check_entry(&entries[1], 5, log1p(log(5)));
}
END_TEST

/* ---- contacts ---- */

enum { T = 5, R = T - 2 };

/* One head whose residues attend evenly: X is 2 a everywhere, and its correction takes all of it. */
START_TEST(even_attention_leaves_the_bias)
{
    const float weight = 3, bias = -1;
    const int32_t ids[T] = {0, 7, 8, 9, 2};
    float map[T * T];
    const hs_architecture architecture = {
        .shape = {.n_layers = 1, .n_heads = 1},
        .contacts = {.weight = {.data = &weight, .n_rows = 1, .n_columns = 1},
                     .bias = {.data = &bias, .n_rows = 1, .n_columns = 1}}};
    for (size_t i = 0; i < (size_t)T * T; i++)
        map[i] = 0.2F;
    hs_contacts *contacts = hs_contacts_create(&architecture, ids, T);
    ck_assert_ptr_nonnull(contacts);
    hs_contacts_add(contacts, map, 0);
    hs_contacts_finish(contacts);
    for (size_t i = 0; i < (size_t)R * R; i++)
        ck_assert_float_eq_tol(contacts->values[i], 1 / (1 + expf(1)), 1e-6F);
    free(contacts);
    chaos_refuse(0);
    contacts = hs_contacts_create(&architecture, ids, T);
    ck_assert(chaos_stop());
    ck_assert_ptr_null(contacts);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sparse");
    TCase *tc = tcase_create("sparse");
    tcase_add_test(tc, the_largest_come_first_and_of_equal_ones_the_lower_id);
    tcase_add_test(tc, sums_are_over_tokens_and_the_most_are_kept);
    tcase_add_test(tc, even_attention_leaves_the_bias);
    suite_add_tcase(suite, tc);
    return tests_run(suite);
}
