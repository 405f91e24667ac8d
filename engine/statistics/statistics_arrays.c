/* statistics_arrays.c - the arrays of the corpus statistics, one row each, and their lengths in a run.
 *
 * docs/reference/arrays.md describes the same arrays. A new one is a row here, its number in
 * statistics_state.h, and what is added to it or, if it is HS_MADE, how it is read (statistics_read.c). */
#include "engine/statistics/statistics_state.h"

#include <string.h>

/* ---- the table ---- */

#define AXES(...)                                                                                            \
    {                                                                                                        \
        __VA_ARGS__                                                                                          \
    }
#define NONE   AXES({NULL, 0, 0})
#define HEAD   AXES(HS_AXIS_LAYER, HS_AXIS_HEAD)
#define HEADS  AXES(HS_AXIS_THRESHOLD, HS_AXIS_LAYER, HS_AXIS_HEAD)
#define PARTS  AXES({"part", 0, HS__PARTS}, HS_AXIS_THRESHOLD, HS_AXIS_LAYER, HS_AXIS_HEAD)
#define SHARES AXES(HS_AXIS_THRESHOLD, HS_AXIS_LAYER, HS_AXIS_HEAD, {"bin_of_20", HS_CORPUS_SHARE_BINS})
#define MAP                                                                                                  \
    AXES(HS_AXIS_LAYER, HS_AXIS_HEAD, {"query_position", 0, HS__CELLS}, {"key_position", 0, HS__CELLS})
#define SYMMETRIC  AXES(HS_AXIS_LAYER, {"token_position", 0, HS__CELLS}, {"token_position", 0, HS__CELLS})
#define HALF       AXES(HS_AXIS_LAYER, {"word", 2}, {"row", 0, HS__CELLS}, {"column", 0, HS__CELLS})
#define FOCUS      AXES(HS_AXIS_LAYER, {"rank", HS_CORPUS_FOCUS_MAX})
#define VOCABULARY AXES(HS_AXIS_LAYER, {"id", 0, HS__VOCABULARY})
#define HIST       AXES(HS_AXIS_LAYER, HS_AXIS_HEAD, {"bin_of_101", HS__N_BINS})
#define MOMENTS    AXES(HS_AXIS_LAYER, HS_AXIS_HEAD, {"moment", 3})
#define PROFILE(figure, name, unit, meaning, only)                                                           \
    [HS__F_PROFILES_SELF + HS__PROFILE_##figure] = {name, HEAD, unit, meaning, HS_REAL, HS_MADE, false, only}

const hs_array_row hs__stats_rows[HS__N_FIELDS] = {
    [HS__F_THRESHOLDS] = {"thresholds", AXES(HS_AXIS_THRESHOLD), "similarity",
                          "similarity thresholds, ascending", .kind = HS_REAL, .place = HS_MADE},
    [HS__F_LAYERS] = {"layers", AXES(HS_AXIS_LAYER), "layer", "the model's numbers of the layers",
                      .place = HS_MADE},
    [HS__F_MAP_STEP] = {"map_step", NONE, "tokens", "edge of a map's cell, which is a sum over its positions",
                        .place = HS_MADE},
    [HS__F_TEXTS] = {"texts", NONE, "texts", "texts counted, without empty ones"},
    [HS__F_TOKENS] = {"tokens", NONE, "tokens", "tokens of all texts"},
    [HS__F_ALL_PAIRS] = {"all_pairs", NONE, "pairs", "pairs i < j of all texts"},
    [HS__F_ALL_REPEATED] = {"all_repeated", NONE, "pairs", "of all pairs, those of the same token"},
    [HS__F_ALL_SAME_SENTENCE] = {"all_same_sentence", NONE, "pairs", "of all pairs, those in one sentence"},
    [HS__F_ALL_BOTH] = {"all_repeated_same_sentence", NONE, "pairs",
                        "of all pairs, those of the same token in one sentence"},
    [HS__F_ALL_ORDINARY] = {"all_ordinary", NONE, "pairs",
                            "of all pairs, those without special tokens, which are in no sentence"},
    [HS__F_ALL_DISTANCE] = {"all_distance", AXES({"distance", 0, HS__POSITIONS}), "pairs",
                            "all pairs by distance j - i in tokens, from 0"},
    [HS__F_HIGH] = {"high", HEADS, "pairs", "pairs of high similarity", .place = HS_MADE},
    [HS__F_HIGH_ORDINARY] = {"high_ordinary", HEADS, "pairs", "of high pairs, those without special tokens",
                             .place = HS_MADE},
    [HS__F_REPEATED] = {"repeated", HEADS, "pairs", "of high pairs, those of the same token",
                        .place = HS_MADE},
    [HS__F_SAME_SENTENCE] = {"same_sentence", HEADS, "pairs", "of high pairs, those in one sentence",
                             .place = HS_MADE},
    [HS__F_BOTH] = {"repeated_same_sentence", HEADS, "pairs",
                    "of high pairs, those of the same token in one sentence", .place = HS_MADE},
    [HS__F_REPEATED_HIST] = {"repeated_hist", SHARES, "texts",
                             "texts by the share of their high pairs of the same token"},
    [HS__F_BOTH_HIST] = {"repeated_same_sentence_hist", SHARES, "texts",
                         "texts by the share of their high pairs of the same token in one sentence"},
    [HS__F_SAME_SENTENCE_HIST] = {"same_sentence_hist", SHARES, "texts",
                                  "texts by the share of their high pairs in one sentence"},
    [HS__F_FOCAL_HIST] = {"focal_hist", SHARES, "texts",
                          "texts by the share of their high pairs with the focal token"},
    [HS__F_TEXTS_WITH_HIGH] = {"texts_with_high", HEADS, "texts", "texts with a high pair", .place = HS_MADE},
    [HS__F_DISTANCE] = {"distance",
                        AXES(HS_AXIS_THRESHOLD, HS_AXIS_LAYER, HS_AXIS_HEAD, {"distance", 0, HS__POSITIONS}),
                        "pairs", "high pairs by distance j - i in tokens, from 0"},
    [HS__F_LOCATION] = {"location",
                        AXES(HS_AXIS_LAYER, HS_AXIS_HEAD, {"earlier_position", 0, HS__CELLS},
                             {"later_position", 0, HS__CELLS}),
                        "pairs", "high pairs by position, at the main threshold", .npz_only = true},
    [HS__F_FOCAL_SHARE_SUM] = {"focal_share_sum", HEADS, "share of pairs",
                               "share with the focal token, summed over texts with a high pair",
                               .kind = HS_REAL, .place = HS_MADE},
    [HS__F_UNIQUE_FOCAL] = {"unique_focal",
                            AXES(HS_AXIS_THRESHOLD, HS_AXIS_LAYER, {"focal_tokens", 0, HS__FOCAL_NUMBERS}),
                            "texts",
                            "texts by the number of different focal tokens among a layer's heads, from 0"},
    [HS__F_ATTENTION] = {"attention_sum", MAP, "attention", "attention, summed over texts",
                         .kind = HS_UNITS_28, .npz_only = true},
    [HS__F_NO_COLUMNS] = {"attention_sum_no_columns", MAP, "attention",
                          "attention without each text's high-attention columns, summed", .kind = HS_REAL,
                          .place = HS_MADE, .npz_only = true},
    [HS__F_NO_COLUMNS_NO_DIAGONAL] = {"attention_sum_no_columns_no_diagonal", MAP, "attention",
                                      "attention without high-attention columns and diagonal, summed",
                                      .kind = HS_REAL, .place = HS_MADE, .npz_only = true,
                                      .only = HS__WITH_OWN_TEXT},
    [HS__F_REACHED] = {"reached", AXES({"position", 0, HS__POSITIONS}), "texts",
                       "texts with more tokens than the position's number"},
    [HS__F_SIMILARITY_SUM] = {"similarity_sum", SYMMETRIC, "similarity",
                              "similarity, summed over heads and texts", .kind = HS_REAL, .place = HS_MADE,
                              .npz_only = true},
    [HS__F_NORMALIZED_SUM] = {"normalized_sum", SYMMETRIC, "normalised similarity",
                              "normalised similarity, summed over heads and texts", .kind = HS_REAL,
                              .place = HS_MADE, .npz_only = true},
    [HS__F_FIRST_SIMILARITY_SUM] = {"first_similarity", SYMMETRIC, "similarity",
                                    "similarity of the first text, summed over heads", .kind = HS_REAL,
                                    .place = HS_MADE, .npz_only = true},
    [HS__F_NORMALIZED_HIST] = {"normalized_hist", HIST, "pairs",
                               "all pairs by normalised similarity; bin 0 is below 0", .place = HS_MADE},
    [HS__F_COLUMN_HIST] = {"column_hist", AXES(HS_AXIS_LAYER, HS_AXIS_HEAD, {"bin_of_100", HS_CORPUS_BINS}),
                           "tokens", "tokens by the attention that they get, as a share of the text's most"},
    [HS__F_SIGNAL_HIST] = {"signal_hist", HIST, "pairs",
                           "signal pairs by normalised similarity; bin 0 is below 0"},
    [HS__F_NOISE_HIST] = {"noise_hist", HIST, "pairs",
                          "noise pairs by normalised similarity; bin 0 is below 0"},
    [HS__F_SPECIAL_HIST] =
        {"special_hist", HIST, "pairs",
         "pairs with a special token, which are neither signal nor noise, by normalised similarity"},
    [HS__F_SIGNAL_MOMENTS] = {"signal_moments", MOMENTS, "mixed",
                              "signal pairs, the sum of their normalised similarity and of its square",
                              .kind = HS_REAL_37},
    [HS__F_NOISE_MOMENTS] = {"noise_moments", MOMENTS, "mixed",
                             "noise pairs, the sum of their normalised similarity and of its square",
                             .kind = HS_REAL_37},
    [HS__F_FOCUS_IDS] = {"focus_ids", FOCUS, "vocabulary id",
                         "tokens that got high attention most often; -1 where there are no more",
                         .place = HS_MADE},
    [HS__F_FOCUS_COUNTS] = {"focus_counts", FOCUS, "times", "how often, over heads and texts",
                            .place = HS_MADE},
    [HS__F_MASS] = {"attention_mass", AXES(HS_AXIS_LAYER, HS_AXIS_HEAD, {"role", HS_ROLE_COUNT}), "attention",
                    "attention on the first token, separators, sentence ends, commas, the rest, summed over "
                    "queries and texts",
                    .kind = HS_REAL_37},
    [HS__F_SEGMENTATION] = {"segmentation", AXES(HS_AXIS_LAYER, {"count", 3}), "boundaries",
                            "boundaries at sentence ends, boundaries, sentence ends"},
    [HS__F_PART_HIGH] = {"part_high", PARTS, "pairs", "high of one part of the corpus"},
    [HS__F_PART_HIGH_ORDINARY] = {"part_high_ordinary", PARTS, "pairs", "high_ordinary of one part"},
    [HS__F_PART_REPEATED] = {"part_repeated", PARTS, "pairs", "repeated of one part"},
    [HS__F_PART_SAME_SENTENCE] = {"part_same_sentence", PARTS, "pairs", "same_sentence of one part"},
    [HS__F_PART_DISTANCE_SUM] = {"part_distance_sum", PARTS, "tokens",
                                 "distances of high pairs of one part, summed"},
    [HS__F_PART_TEXTS_WITH_HIGH] = {"part_texts_with_high", PARTS, "texts", "texts_with_high of one part"},
    [HS__F_PART_FOCAL_SHARE_SUM] = {"part_focal_share_sum", PARTS, "share of pairs",
                                    "focal_share_sum of one part", .kind = HS_UNITS_36},
    [HS__F_SENTENCES] = {"sentences", NONE, "sentences", "sentences of all texts"},
    [HS__F_FOCAL_IDS] = {"focal_ids", FOCUS, "vocabulary id",
                         "tokens that were focal most often; -1 where there are no more", .place = HS_MADE},
    [HS__F_FOCAL_COUNTS] = {"focal_counts", FOCUS, "times", "how often, over heads and texts",
                            .place = HS_MADE},
    PROFILE(SELF, "profiles_self", "share of attention", "attention on the token itself, mean over texts",
            HS__WITH_OWN_TEXT),
    PROFILE(PREVIOUS, "profiles_previous", "share of attention",
            "attention on the previous token, mean over texts", HS__WITH_OWN_TEXT),
    PROFILE(NEXT, "profiles_next", "share of attention", "attention on the next token, mean over texts",
            HS__WITH_OWN_TEXT),
    PROFILE(FIRST, "profiles_first", "share of attention", "attention on the first token, mean over texts",
            0),
    PROFILE(SEPARATOR, "profiles_separator", "share of attention", "attention on separators, mean over texts",
            0),
    PROFILE(PUNCTUATION, "profiles_punctuation", "share of attention",
            "attention on sentence ends and commas, mean over texts", 0),
    PROFILE(SAME_TOKEN, "profiles_same_token", "share of attention",
            "attention on other tokens of the same id, mean over texts", HS__WITH_OWN_TEXT),
    PROFILE(SAME_SENTENCE, "profiles_same_sentence", "share of attention",
            "attention on tokens of the same sentence without special tokens, mean over texts",
            HS__WITH_OWN_TEXT),
    PROFILE(ENTROPY, "profiles_entropy", "nats", "entropy of attention, mean over tokens and texts", 0),
    PROFILE(ENTROPY_FIRST, "profiles_entropy_first", "nats",
            "entropy of the first token's attention, mean over texts", 0),
    PROFILE(CONFIDENCE, "profiles_confidence", "share of attention",
            "highest attention of a token, mean over tokens and texts", 0),
    PROFILE(MEAN_DISTANCE, "profiles_mean_distance", "tokens", "distance of attention, mean over texts",
            HS__WITH_OWN_TEXT),
    [HS__F_PROFILES_OFFSETS] = {"profiles_offsets",
                                AXES(HS_AXIS_LAYER, HS_AXIS_HEAD, {"offset", 2 * HS_PROFILE_REACH + 1}),
                                "share of attention", "attention on the token -8 to 8 away, mean over texts",
                                .kind = HS_REAL, .place = HS_MADE, .only = HS__WITH_OWN_TEXT},
    [HS__F_PROFILES_LABEL] = {"profiles_label", HEAD, "label", "0 position, 1 special, 2 broad, 3 other",
                              .place = HS_MADE, .only = HS__WITH_OWN_TEXT},
    [HS__F_EVEN_SAME_SENTENCE] =
        {"even_same_sentence_sum", NONE, "share of attention",
         "what evenly spread attention would put on tokens of the same sentence, summed over texts",
         .kind = HS_REAL_37, .only = HS__WITH_OWN_TEXT},
    [HS__F_HEAD_DISTANCES] = {"head_distances",
                              AXES({"layer_and_head", 0, HS__DISTANCE_HEADS},
                                   {"layer_and_head", 0, HS__DISTANCE_HEADS}),
                              "distance", "distance of heads: 1 - CKA, or Jensen-Shannon", .kind = HS_REAL,
                              .place = HS_MADE},
    [HS__F_MASKED_TOKENS] = {"masked_tokens", NONE, "tokens", "masked tokens", .only = HS__WITH_MASKED},
    [HS__F_MASKED_RIGHT] = {"masked_right", NONE, "tokens", "masked tokens that the model found",
                            .only = HS__WITH_MASKED},
    [HS__F_MASKED_LOSS] = {"masked_loss_sum", NONE, "nats", "-ln p of masked tokens, summed",
                           .kind = HS_REAL_37, .only = HS__WITH_MASKED},
    [HS__F_ATTENDED] = {"attention_reached",
                        AXES({"query_position", 0, HS__CELLS}, {"key_position", 0, HS__CELLS}), "positions",
                        "positions of the target and the text that the records reach, for cross heads",
                        .npz_only = true, .only = HS__WITH_CROSSES},
    /* Not shown: others are made of them. */
    [HS__F_PART_BOTH] = {NULL, PARTS, "pairs", "repeated_same_sentence of one part"},
    [HS__F_HIGH_COLUMNS] = {NULL, MAP, "attention", "attention in each text's high-attention columns",
                            .kind = HS_UNITS_28},
    [HS__F_DIAGONAL] = {NULL, AXES(HS_AXIS_LAYER, HS_AXIS_HEAD, {"cell", 0, HS__CELLS}), "attention",
                        "attention on the diagonal without high-attention columns", .kind = HS_UNITS_28,
                        .only = HS__WITH_STEPS},
    [HS__F_SIMILARITY] = {NULL, HALF, "similarity", "similarity_sum of i < j: integers, then fractions"},
    [HS__F_NORMALIZED] = {NULL, HALF, "normalised similarity",
                          "normalized_sum of i < j: integers, then fractions"},
    [HS__F_FIRST_SIMILARITY] = {NULL, HALF, "similarity",
                                "first_similarity of i < j: integers, then fractions"},
    [HS__F_FIRST_TOKENS] = {NULL, NONE, "tokens", "tokens of text number 0", .only = HS__WITH_STEPS},
    [HS__F_FOCUS] = {NULL, VOCABULARY, "times", "how often each token got high attention"},
    [HS__F_FOCAL] = {NULL, VOCABULARY, "times", "how often each token was focal, at the main threshold"},
    [HS__F_PROFILES] = {NULL, AXES(HS_AXIS_LAYER, HS_AXIS_HEAD, {"figure", HS__PROFILE_N}), "mixed",
                        "figures of profiles, summed over texts", .kind = HS_REAL_37},
    [HS__F_DISTANCES] = {NULL, AXES({"head", 0, HS__DISTANCE_HEADS}, {"head", 0, HS__DISTANCE_HEADS}),
                         "mixed", "HSIC or JS on and above the diagonal, summed over texts",
                         .kind = HS_REAL_37},
};

void hs__stats_lengths(const hs__stats_header *header, size_t ret_lengths[HS__STATS_LENGTHS])
{
    const size_t lengths[HS__STATS_LENGTHS] = {
        [HS_THRESHOLDS] = header->n_thresholds,
        [HS_LAYERS] = header->n_layers,
        [HS_HEADS] = header->n_heads,
        [HS__PARTS] = header->n_parts,
        [HS__POSITIONS] = header->tokens_max,
        [HS__VOCABULARY] = header->vocab_size,
        [HS__FOCAL_NUMBERS] = header->n_heads + 1,
        [HS__CELLS] = hs__stats_cells(header),
        [HS__DISTANCE_HEADS] = hs__stats_distance_heads(header),
        [HS__WITH_OWN_TEXT] = !header->crosses,
        [HS__WITH_CROSSES] = header->crosses,
        [HS__WITH_MASKED] = header->masked,
        [HS__WITH_STEPS] = hs__stats_step(header) > 1,
    };
    memcpy(ret_lengths, lengths, sizeof lengths);
}

uint64_t hs_corpus_rows_digest(uint64_t digest)
{
    return hs_rows_digest(digest, hs__stats_rows, HS__N_FIELDS);
}
