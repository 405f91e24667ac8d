/* report_arrays.c - one table: axes, unit and meaning of every array, as docs/reference/arrays.md has them.
 */
#include "server/corpus/report/report_arrays.h"

#include <string.h>

#define HEADS  "threshold layer head"
#define BINS   "threshold layer head bin_of_20"
#define PARTS  "part threshold layer head"
#define MAP    "layer head query_position key_position"
#define LAYERS "layer token_position token_position"
#define HEAD   "layer head"
#define FOCUS  "layer rank"
#define LABEL  "label outcome layer head"

static const struct described {
    const char *name, *axes, *unit, *meaning;
} rows[] = {
    {"thresholds", "threshold", "similarity", "similarity thresholds, ascending"},
    {"layers", "layer", "layer", "the model's numbers of the layers"},
    {"texts", "", "texts", "texts counted, without empty ones"},
    {"tokens", "", "tokens", "tokens of all texts"},
    {"all_pairs", "", "pairs", "pairs i < j of all texts"},
    {"all_repeated", "", "pairs", "of all pairs, those of the same token"},
    {"all_same_sentence", "", "pairs", "of all pairs, those in one sentence"},
    {"all_repeated_same_sentence", "", "pairs", "of all pairs, those of the same token in one sentence"},
    {"all_distance", "distance", "pairs", "all pairs by distance j - i in tokens, from 0"},
    {"high", HEADS, "pairs", "pairs of high similarity"},
    {"repeated", HEADS, "pairs", "of high pairs, those of the same token"},
    {"same_sentence", HEADS, "pairs", "of high pairs, those in one sentence"},
    {"repeated_same_sentence", HEADS, "pairs", "of high pairs, those of the same token in one sentence"},
    {"repeated_hist", BINS, "texts", "texts by the share of their high pairs of the same token"},
    {"repeated_same_sentence_hist", BINS, "texts",
     "texts by the share of their high pairs of the same token in one sentence"},
    {"same_sentence_hist", BINS, "texts", "texts by the share of their high pairs in one sentence"},
    {"focal_hist", BINS, "texts", "texts by the share of their high pairs with the focal token"},
    {"texts_with_high", HEADS, "texts", "texts with a high pair"},
    {"distance", HEADS " distance", "pairs", "high pairs by distance j - i in tokens, from 0"},
    {"location", "layer head earlier_position later_position", "pairs",
     "high pairs by position, at the main threshold"},
    {"focal_share_sum", HEADS, "share of pairs",
     "share with the focal token, summed over texts with a high pair"},
    {"unique_focal", "threshold layer focal_tokens", "texts",
     "texts by the number of different focal tokens among a layer's heads, from 0"},
    {"attention_sum", MAP, "attention", "attention, summed over texts"},
    {"attention_sum_no_columns", MAP, "attention",
     "attention without each text's high-attention columns, summed"},
    {"attention_sum_no_columns_no_diagonal", MAP, "attention",
     "attention without high-attention columns and diagonal, summed"},
    {"reached", "position", "texts", "texts with more tokens than the position's number"},
    {"similarity_sum", LAYERS, "similarity", "similarity, summed over heads and texts"},
    {"normalized_sum", LAYERS, "normalised similarity", "normalised similarity, summed over heads and texts"},
    {"first_similarity", LAYERS, "similarity", "similarity of the first text, summed over heads"},
    {"normalized_hist", "layer head bin_of_101", "pairs",
     "all pairs by normalised similarity; bin 0 is below 0"},
    {"column_hist", "layer head bin_of_100", "tokens",
     "tokens by the attention that they get, as a share of the text's most"},
    {"signal_hist", "layer head bin_of_101", "pairs",
     "signal pairs by normalised similarity; bin 0 is below 0"},
    {"noise_hist", "layer head bin_of_101", "pairs",
     "noise pairs by normalised similarity; bin 0 is below 0"},
    {"signal_moments", "layer head moment", "mixed",
     "signal pairs, the sum of their normalised similarity and of its square"},
    {"noise_moments", "layer head moment", "mixed",
     "noise pairs, the sum of their normalised similarity and of its square"},
    {"focus_ids", FOCUS, "vocabulary id",
     "tokens that got high attention most often; -1 where there are no more"},
    {"focus_counts", FOCUS, "times", "how often, over heads and texts"},
    {"attention_mass", "layer head role", "attention",
     "attention on the first token, separators, sentence ends, commas, the rest, summed over queries and "
     "texts"},
    {"segmentation", "layer count", "boundaries", "boundaries at sentence ends, boundaries, sentence ends"},
    {"part_high", PARTS, "pairs", "high of one part of the corpus"},
    {"part_repeated", PARTS, "pairs", "repeated of one part"},
    {"part_same_sentence", PARTS, "pairs", "same_sentence of one part"},
    {"part_distance_sum", PARTS, "tokens", "distances of high pairs of one part, summed"},
    {"part_texts_with_high", PARTS, "texts", "texts_with_high of one part"},
    {"part_focal_share_sum", PARTS, "share of pairs", "focal_share_sum of one part"},
    {"sentences", "", "sentences", "sentences of all texts"},
    {"focal_ids", FOCUS, "vocabulary id", "tokens that were focal most often; -1 where there are no more"},
    {"focal_counts", FOCUS, "times", "how often, over heads and texts"},
    {"profiles_self", HEAD, "share of attention", "attention on the token itself, mean over texts"},
    {"profiles_previous", HEAD, "share of attention", "attention on the previous token, mean over texts"},
    {"profiles_next", HEAD, "share of attention", "attention on the next token, mean over texts"},
    {"profiles_first", HEAD, "share of attention", "attention on the first token, mean over texts"},
    {"profiles_separator", HEAD, "share of attention", "attention on separators, mean over texts"},
    {"profiles_punctuation", HEAD, "share of attention",
     "attention on sentence ends and commas, mean over texts"},
    {"profiles_same_token", HEAD, "share of attention",
     "attention on other tokens of the same id, mean over texts"},
    {"profiles_same_sentence", HEAD, "share of attention",
     "attention on tokens of the same sentence without special tokens, mean over texts"},
    {"profiles_entropy", HEAD, "nats", "entropy of attention, mean over tokens and texts"},
    {"profiles_entropy_first", HEAD, "nats", "entropy of the first token's attention, mean over texts"},
    {"profiles_confidence", HEAD, "share of attention",
     "highest attention of a token, mean over tokens and texts"},
    {"profiles_mean_distance", HEAD, "tokens", "distance of attention, mean over texts"},
    {"profiles_offsets", "layer head offset", "share of attention",
     "attention on the token -8 to 8 away, mean over texts"},
    {"profiles_label", HEAD, "label", "0 position, 1 special, 2 broad, 3 other"},
    {"even_same_sentence_sum", "", "share of attention",
     "what evenly spread attention would put on tokens of the same sentence, summed over texts"},
    {"head_distances", "layer_and_head layer_and_head", "distance",
     "distance of heads: 1 - CKA, or Jensen-Shannon"},
    {"masked_tokens", "", "tokens", "masked tokens"},
    {"masked_right", "", "tokens", "masked tokens that the model found"},
    {"masked_loss_sum", "", "nats", "-ln p of masked tokens, summed"},
    {"label_confusion", "label predicted_label", "texts", "texts by their label and the predicted one"},
    {"label_loss_sum", "label", "nats", "-ln p of the text's label, summed over its texts"},
    {"label_bin_texts", "bin_of_10", "texts", "texts by the probability of the predicted label"},
    {"label_bin_right", "bin_of_10", "texts", "of these, those that the model labels right"},
    {"label_bin_confidence_sum", "bin_of_10", "probability",
     "of the predicted label, summed over these texts"},
    {"label_high", LABEL, "pairs", "high of the texts of a label that the model labels wrong, and right"},
    {"label_repeated", LABEL, "pairs", "repeated of these texts"},
    {"label_same_sentence", LABEL, "pairs", "same_sentence of these texts"},
    {"label_distance_sum", LABEL, "tokens", "distances of high pairs of these texts, summed"},
    {"label_texts_with_high", LABEL, "texts", "texts_with_high of these texts"},
    {"label_focal_share_sum", LABEL, "share of pairs", "focal_share_sum of these texts"},
    {"label_separator_sum", LABEL, "share of attention",
     "attention on the first token, separators and sentence ends, summed over these texts"},
    {"label_effect_texts", "label", "texts", "texts of a label whose heads were switched off in turn"},
    {"label_effect_sum", "label layer head", "logit",
     "change of the label's logit without the head, summed over these texts"},
    {"label_effect_squares", "label layer head", "squared logit", "the squares of these changes, summed"},
    {"label_effect_kl_sum", "label layer head", "nats",
     "divergence of all labels' probabilities without the head, summed over these texts"},
};

/* Arrays of labelled texts, in report.npz; report.json has the names in `labels`. */
static const struct described label_names = {"label_names", "label", "name", "names of the labels"};

/* Arrays of CoNLL-U input, in report.npz alone. */
static const struct described syntax_rows[] = {
    {"syntax_relations", "relation", "name",
     "all relations but punct together, then each, most frequent first"},
    {"syntax_count", "relation", "pairs", "pairs of a word and its head"},
    {"syntax_right", "layer head relation direction", "pairs",
     "pairs in which the word attends most to its head, and the head most to the word"},
    {"syntax_similarity_right", "layer head relation direction", "pairs",
     "pairs in which the head is the most similar other word, and the word is"},
    {"syntax_offset", "relation direction", "words", "the fixed distance that is right most often"},
    {"syntax_offset_right", "relation direction", "pairs", "pairs in which it is right"},
};

static json_t *axes_json(const char *axes)
{
    json_t *list = json_array();
    while (*axes) {
        const size_t n = strcspn(axes, " ");
        json_array_append_new(list, json_stringn(axes, n));
        axes += n + (axes[n] == ' ');
    }
    return list;
}

static void row_add(json_t *object, const struct described *row)
{
    json_object_set_new(
        object, row->name,
        json_pack("{so ss ss}", "axes", axes_json(row->axes), "unit", row->unit, "meaning", row->meaning));
}

json_t *hs__report_arrays_json(const hs_corpus_array *arrays, size_t n, bool has_syntax)
{
    json_t *object = json_object();
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
            if (strcmp(rows[k].name, arrays[i].name) == 0)
                row_add(object, &rows[k]);
    if (json_object_get(object, "label_confusion"))
        row_add(object, &label_names);
    for (size_t k = 0; has_syntax && k < sizeof syntax_rows / sizeof *syntax_rows; k++)
        row_add(object, &syntax_rows[k]);
    return object;
}
