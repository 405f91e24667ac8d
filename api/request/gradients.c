/* gradients.c - the fields attribution, steps and baseline, and what outputs of gradients require. */
#include "api/request/fields.h"

#include "engine/analysis/attribution.h"

#include <string.h>

enum { STEPS = 32 }; /* of integrated gradients, if the request names none */

void hs__gradients_complete(hs__analysis_request *analysis)
{
    if (hs__needs_gradient(analysis))
        analysis->outputs |= HS__OUTPUT_BIT(target);
    if (analysis->outputs & HS__OUTPUT_BIT(token_attributions) && analysis->model->encoder)
        analysis->outputs |= HS__OUTPUT_BIT(source_token_attributions);
}

static const hs_special_ids *special_ids(const hs__analysis_request *analysis)
{
    return hs_tokenizer_special_ids(hs_model_tokenizer(analysis->model->model));
}

hs__attribution_request hs__attribution_of(const hs__analysis_request *analysis)
{
    hs__attribution_request attribution = analysis->attribution;
    const hs_special_ids *ids = special_ids(analysis);
    if (attribution.method == HS__ATTRIBUTION_UNNAMED)
        attribution.method = HS__GRADIENT_X_INPUT;
    if (attribution.baseline == HS__BASELINE_UNNAMED)
        attribution.baseline = ids->mask >= 0  ? HS__BASELINE_MASK
                               : ids->pad >= 0 ? HS__BASELINE_PAD
                                               : HS__BASELINE_ZERO;
    attribution.steps = attribution.steps ? attribution.steps : STEPS;
    return attribution;
}

int32_t hs__baseline_id(const hs__analysis_request *analysis)
{
    const hs_special_ids *ids = special_ids(analysis);
    const unsigned baseline = hs__attribution_of(analysis).baseline;
    return baseline == HS__BASELINE_MASK ? ids->mask : baseline == HS__BASELINE_PAD ? ids->pad : -1;
}

int hs__attribution_check(const hs__analysis_request *analysis, hs__problem *problem)
{
    const hs__attribution_request *named = &analysis->attribution;
    const bool baseline = named->baseline != HS__BASELINE_UNNAMED;
    if (named->method != HS__ATTRIBUTION_UNNAMED && !(analysis->outputs & HS__OUTPUT_BIT(token_attributions)))
        return hs__refuse(problem, 422, "/attribution",
                          "attribution belongs to the output token_attributions: ask for it");
    if ((named->steps || baseline) && named->method != HS__INTEGRATED_GRADIENTS)
        return hs__refuse(problem, 422, named->steps ? "/steps" : "/baseline",
                          "%s belongs to attribution \"integrated_gradients\": ask for it, or leave %s out",
                          named->steps ? "steps" : "baseline", named->steps ? "steps" : "baseline");
    if (!baseline || named->baseline == HS__BASELINE_ZERO || hs__baseline_id(analysis) >= 0)
        return 0;
    return hs__refuse(problem, 422, "/baseline", "the tokenizer of %s has no %s token: send baseline \"%s\"",
                      analysis->model->name, named->baseline == HS__BASELINE_MASK ? "mask" : "padding",
                      named->baseline == HS__BASELINE_MASK && special_ids(analysis)->pad >= 0 ? "pad"
                                                                                              : "zero");
}

/* ==== the default target ==== */

bool hs__first_mask(const hs__analysis_request *analysis, const hs_encoding *text, size_t *ret_position)
{
    const int32_t mask = special_ids(analysis)->mask;
    const hs_predictor *predictor = &hs__target_model(analysis)->architecture->predictor;
    for (size_t i = 0; i < text->n_tokens && predictor->decoder.data && !predictor->next; i++)
        if (text->ids[i] == mask) {
            *ret_position = i;
            return true;
        }
    return false;
}

/* Returns a target of the checkpoint, as an example: a logit if it has some. */
static const char *example_target(const hs_architecture *architecture, const char *of_token)
{
    switch (architecture->task_head.task) {
    case HS_TASK_SEQUENCE:
        return "{\"class\": \"LABEL\"}";
    case HS_TASK_TOKENS:
        return "{\"class\": \"LABEL\", \"position\": 1}";
    case HS_TASK_SPAN:
        return "{\"span\": [3, 5]}";
    default:
        return architecture->predictor.decoder.data ? of_token : "{\"cosine\": [0.1, ...]}";
    }
}

/* Returns true if the checkpoint has logits of tokens or classes. */
static bool has_logits(const hs_architecture *architecture)
{
    return architecture->predictor.decoder.data || architecture->task_head.task != HS_TASK_NONE;
}

/* Returns the kind of the checkpoint's logits. */
static hs_target_kind logit_kind(const hs_architecture *architecture)
{
    switch (architecture->task_head.task) {
    case HS_TASK_SEQUENCE:
    case HS_TASK_TOKENS:
        return HS_TARGET_CLASS;
    case HS_TASK_SPAN:
        return HS_TARGET_SPAN;
    default:
        return HS_TARGET_TOKENS;
    }
}

/* Refuses logit_attributions where the target is no sum of what heads and layers write. A target that is no
 * logit is named only if a logit would do. */
static int check_logits(const hs__analysis_request *analysis, hs__problem *problem)
{
    const hs__served_model *model = hs__target_model(analysis);
    const hs_architecture *architecture = model->architecture;
    hs_target target = analysis->target;
    if (target.kind == HS_TARGET_NONE && architecture->task_head.task == HS_TASK_SEQUENCE)
        target.kind = HS_TARGET_CLASS; /* the predicted one */
    const bool is_logit =
        target.kind == HS_TARGET_TOKENS || target.kind == HS_TARGET_CLASS || target.kind == HS_TARGET_SPAN;
    const hs_target logit = {.kind = is_logit ? target.kind : logit_kind(architecture)};
    const char *refusal = has_logits(architecture) ? hs_logit_attribution_refusal(architecture, &logit)
                                                   : "the checkpoint has no logits";
    if (!(analysis->outputs & HS__OUTPUT_BIT(logit_attributions)))
        return 0;
    if (model != analysis->model)
        return hs__refuse(problem, 422, "/stack",
                          "logit_attributions: heads of the encoder write into no state of the decoder: send "
                          "stack \"decoder\" or \"cross\", or ask for head_attributions");
    if (refusal)
        return hs__refuse(problem, 422, "/outputs",
                          "logit_attributions: a target of %s is no sum of parts: %s; ask for "
                          "head_attributions, which every model has",
                          model->name, refusal);
    if (is_logit)
        return 0;
    return hs__refuse(problem, 422, "/target",
                      "logit_attributions: %s is no logit, so it is no sum of parts: send a target such "
                      "as %s, or ask for head_attributions",
                      target.kind == HS_TARGET_NONE ? "the default target" : "the target",
                      example_target(architecture, "{\"token\": \"TOKEN\", \"position\": 1}"));
}

int hs__gradients_check(const hs__analysis_request *analysis, const hs_encoding *text, hs__problem *problem)
{
    const hs__served_model *model = hs__target_model(analysis);
    const hs_predictor *predictor = &model->architecture->predictor;
    const char *precision = hs_engine_precision(model->engine);
    size_t position;
    if (!hs__needs_gradient(analysis))
        return 0;
    if (strcmp(precision, "fp32") != 0)
        return hs__refuse(problem, 422, "/outputs",
                          "gradients are computed in fp32, and %s is served with --precision %s: start it "
                          "without",
                          model->name, precision);
    if (analysis->target.kind == HS_TARGET_VECTOR)
        return hs__refuse(problem, 422, "/target/embedding",
                          "the gradient of 1 - cosine between a sentence vector and itself is 0: send cosine "
                          "with the vector of another text");
    if (check_logits(analysis, problem))
        return problem->status;
    if (hs__target_exists(analysis, model->architecture) || hs__first_mask(analysis, text, &position) ||
        (predictor->next && predictor->decoder.data && text->n_tokens > 1))
        return 0;
    return hs__refuse(
        problem, 422, "/target",
        "gradients require target, the number to follow, such as %s: the text has no default "
        "(the predicted class of a text, the token at a mask, or the loss of a causal model)",
        example_target(model->architecture, "{\"log_probability\": \"TOKEN\", \"position\": 1}"));
}
