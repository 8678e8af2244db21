/* depth/verdicts.h - what people say about deep stacks, the rule that decides, and what ours says

   The rules stand here before anything is measured. What is not a number satisfies none. */
#ifndef DEPTH_VERDICTS_H
#define DEPTH_VERDICTS_H

#include "figures.h"

typedef enum verdict { NOT_MEASURED, HOLDS, IN_PART, WRONG } verdict;

typedef struct claim {
    const char *said, *rule;
    char ours[300];
    verdict verdict;
} claim;

static const char *verdict_word(verdict v)
{
    static const char *const word[] = { "not measured", "holds", "in part", "does not hold" };
    return word[v];
}

/* v at or beyond `holds` in the direction of `holds` from `wrong`; at or beyond `wrong`; between */
static verdict judge(double v, double holds, double wrong)
{
    if (!isfinite(v)) return NOT_MEASURED;
    if (holds > wrong ? v >= holds : v <= holds) return HOLDS;
    return (holds > wrong ? v <= wrong : v >= wrong) ? WRONG : IN_PART;
}

/* ---- figures that verdicts and texts share ------------------------------------------------------
   NaN when the stack was not run. */

static const stack *usual(const study *y, int depth)
{
    return study_find(y, PRE_NORM, y->set->spec[0], depth, 1);
}
static const stack *kind_at(const study *y, int kind)
{
    return study_find(y, kind, y->set->spec[0], deepest(y->set), 1);
}

/* the greatest depth that every encoding was run at */
static int shared_depth(const settings *s) { return s->depths.item[(s->depths.count - 1) / 2 * 2]; }

static double at_layer(const study *y, const stack *k, int phase, int layer, int measure)
{
    return k ? layer_mean(y, k, phase, layer, measure) : NAN;
}
/* R² for a sentence: -0.00 is 0.00 */
static double known(double r2) { return r2 < 0 && r2 > -0.005 ? 0 : r2; }

static double at_top(const study *y, const stack *k, int phase, int measure)
{
    return k ? layer_mean(y, k, phase, k->depth, measure) : NAN;
}

/* mean over the blocks from..to, counted from 1 */
static double over_blocks(const study *y, const stack *k, int phase, int measure, int from, int to)
{
    double sum = 0;
    for (int l = from; k && l <= to; l++) sum += layer_mean(y, k, phase, l, measure);
    return k ? sum / (to - from + 1) : NAN;
}

/* largest (sign 1) or smallest (-1) over the blocks; NaN if one of them is */
static double extreme(const study *y, const stack *k, int phase, int measure, int sign)
{
    double best = k ? layer_mean(y, k, phase, 1, measure) : NAN;
    for (int l = 2; k && l <= k->depth; l++) {
        double v = layer_mean(y, k, phase, l, measure);
        if (!(sign * v <= sign * best)) best = v;
    }
    return best;
}

/* weakest gradient of a block against the strongest, with the weights it starts with */
static double gradient_evenness(const study *y, const stack *k)
{
    return extreme(y, k, UNTRAINED, GRADIENT, -1) / extreme(y, k, UNTRAINED, GRADIENT, 1);
}

static double bits_at(const study *y, const stack *k) { return k ? tail_mean(y, k, BITS_1X) : NAN; }

/* what the longer text costs, in bits per byte */
static double rise(const study *y, const stack *k, int bits)
{
    return k ? tail_mean(y, k, bits) - tail_mean(y, k, BITS_1X) : NAN;
}

/* bits per held-out byte for somebody who knows how often each byte occurs and nothing else */
static double bytes_alone(const kit_corpus *c, long held)
{
    double count[256], all = 256, sum = 0;
    for (int i = 0; i < 256; i++) count[i] = 1;
    for (size_t i = 0; i < c->train.size; i++, all++) count[(unsigned char)c->train.data[i]]++;
    for (long i = 1; i <= held; i++)
        sum -= log(count[(unsigned char)c->held.data[i]] / all) / log(2);
    return sum / (double)held;
}

/* ---- the claims ------------------------------------------------------------------------------ */

enum { FADES, FADES_WITHOUT, KNOWS, COLLAPSES, COLLAPSES_USUAL, UNIFORM, LOCAL, HIGHWAY, FAINT,
       FAINT_QK, POST_FAILS, LONGER, CLAIMS };

KIT_FORMAT(3, 4) static void say(claim *c, verdict v, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(c->ours, sizeof c->ours, format, args);
    va_end(args);
    if (v == NOT_MEASURED) snprintf(c->ours, sizeof c->ours, "what it needs was not run");
    c->verdict = v;
}

static claim claim_fades(const study *y)
{
    claim c = { "The positional signal that is added at the bottom fades with depth.",
                "a linear probe behind the last block has lost half of its R², or no more than a "
                "fifth", "", NOT_MEASURED };
    const stack *k = usual(y, deepest(y->set));
    double before = at_layer(y, k, TRAINED, 0, R2), behind = at_top(y, k, TRAINED, R2);
    say(&c, judge(behind / before, 0.5, 0.8),
        "R² %.2f below, %.2f behind block %d of the usual stack (%s, trained)",
        before, known(behind), deepest(y->set), y->set->spec[0]);
    return c;
}

static claim claim_fades_without(const study *y)
{
    claim c = { "Without residuals it is lost.",
                "untrained, R² behind the last block below 0.1, or above 0.5", "", NOT_MEASURED };
    double normed = at_top(y, kind_at(y, NO_RESIDUAL), UNTRAINED, R2);
    double neither = at_top(y, kind_at(y, NEITHER), UNTRAINED, R2);
    say(&c, judge(fmax(normed, neither), 0.1, 0.5), "R² %.2f with norms, %.2f without",
        known(normed), known(neither));
    return c;
}

static claim claim_knows(const study *y)
{
    claim c = { "A causal stack finds positions without any encoding.",
                "trained without an encoding, R² of 0.1 in some layer, or nowhere above 0.05", "",
                NOT_MEASURED };
    const stack *k = study_find(y, PRE_NORM, "none", shared_depth(y->set), 1);
    const stack *wide = study_find(y, PRE_NORM, "none", deepest(y->set), 0);
    double most = extreme(y, k, TRAINED, R2, 1);
    say(&c, judge(most, 0.1, 0.05),
        "R² up to %.2f trained, %.2f untrained (depth %d); tokens that see both sides: %.2f",
        most, extreme(y, k, UNTRAINED, R2, 1), shared_depth(y->set),
        known(extreme(y, wide, UNTRAINED, R2, 1)));
    return c;
}

/* ln of the distance from rank one at least doubles from layer to layer while double can tell */
static claim claim_collapses(const lonely *a)
{
    claim c = { "Attention alone loses its rank doubly exponentially.",
                "the logarithm of the distance from rank one doubles from each layer to the "
                "next, down to 1e-12", "", NOT_MEASURED };
    double least = HUGE_VAL;
    for (int l = 1; l < ALONE_LAYERS && a->away[0][l] > 1e-12; l++)
        if (a->away[0][l + 1] > 1e-12 || l == 1)
            least = fmin(least, log(a->away[0][l + 1]) / log(a->away[0][l]));
    say(&c, judge(least, 2, 1.2), "%.2g, %.2g, %.2g behind layers 1, 2, 3", a->away[0][1],
        a->away[0][2], a->away[0][3]);
    return c;
}

static claim claim_collapses_usual(const study *y)
{
    claim c = { "So a deep transformer makes all tokens alike.",
                "trained, tokens of one text have a mean cosine of 0.9 in some layer, or nowhere "
                "above 0.6", "", NOT_MEASURED };
    double most = extreme(y, usual(y, deepest(y->set)), TRAINED, COSINE, 1);
    say(&c, judge(most, 0.9, 0.6), "at most %.2f in the usual stack of %d; without residuals %.2f",
        most, deepest(y->set), at_top(y, kind_at(y, NO_RESIDUAL), TRAINED, COSINE));
    return c;
}

static claim claim_uniform(const study *y)
{
    claim c = { "In deep layers attention becomes uniform.",
                "trained, relative entropy of the upper half of the blocks above 0.95, or below "
                "0.85", "", NOT_MEASURED };
    const stack *k = usual(y, deepest(y->set));
    int half = deepest(y->set) / 2;
    double upper = over_blocks(y, k, TRAINED, ENTROPY, half + 1, deepest(y->set));
    double lower = over_blocks(y, k, TRAINED, ENTROPY, 1, half > 0 ? half : 1);
    say(&c, judge(upper, 0.95, 0.85),
        "%.2f in the upper half, %.2f in the lower (%s, depth %d)",
        upper, lower, y->set->spec[0], deepest(y->set));
    return c;
}

/* the encoding whose most local head is the most local one */
static const char *most_local(const study *y, double *share)
{
    const char *best = y->set->spec[0];
    *share = -1;
    for (int e = 0; e < y->set->specs; e++) {
        const stack *k = study_find(y, PRE_NORM, y->set->spec[e], shared_depth(y->set), 1);
        double v = extreme(y, k, TRAINED, NEAREST, 1);
        if (v > *share) { *share = v; best = y->set->spec[e]; }
    }
    return best;
}

/* judged by the first encoding: sine waves bring no preference for near places along */
static claim claim_local(const study *y)
{
    claim c = { "Self-attention has no sense of near and far, so it cannot be local.",
                "trained, the most local head sees less than 1.1 times the uniform share of near "
                "places, or more than 1.5 times", "", NOT_MEASURED };
    const stack *k = usual(y, shared_depth(y->set));
    double uniform = look_uniform(LENGTH, 1, REACH, REACH).near;
    double before = extreme(y, k, UNTRAINED, NEAREST, 1),
           behind = extreme(y, k, TRAINED, NEAREST, 1);
    double most;
    const char *best = most_local(y, &most);
    say(&c, judge(behind / uniform, 1.1, 1.5),
        "share within %d places: uniform %.2f; most local head %.2f untrained, %.2f trained (%s, "
        "depth %d); of all encodings %.2f (%s)",
        REACH, uniform, before, behind, y->set->spec[0], shared_depth(y->set), most, best);
    return c;
}

static claim claim_highway(const study *y)
{
    claim c = { "Deep self-attention lacks the gradient highway of residual connections.",
                "at the start, the weakest gradient of a block is below a hundredth of the "
                "strongest, or above a tenth", "", NOT_MEASURED };
    double even = gradient_evenness(y, kind_at(y, PRE_NORM));
    say(&c, judge(even, 0.01, 0.1),
        "weakest to strongest: %.2g in the usual stack of %d, %.2g without residuals and norms",
        even, deepest(y->set), gradient_evenness(y, kind_at(y, NEITHER)));
    return c;
}

static claim claim_faint(const study *y, double alone)
{
    claim c = { "Without residuals the gradient vanishes, and that is why such stacks do not "
                "train.",
                "both: it does not train (within 0.1 bits of byte counts), and its gradient is "
                "below a hundredth of the usual stack's", "", NOT_MEASURED };
    const stack *k = kind_at(y, NO_RESIDUAL);
    double bits = bits_at(y, k), least = extreme(y, k, UNTRAINED, GRADIENT, -1);
    double share = least / extreme(y, kind_at(y, PRE_NORM), UNTRAINED, GRADIENT, -1);
    verdict v = judge(share, 0.01, 0.1);
    if (!(bits > alone - 0.1)) v = isfinite(bits) ? WRONG : NOT_MEASURED;
    say(&c, v,
        "with norms: %.2f bits per byte (byte counts alone: %.2f), weakest gradient %.2g times the "
        "usual stack's",
        bits, alone, share);
    return c;
}

static claim claim_faint_qk(const study *y)
{
    claim c = { "What vanishes is the gradient of queries and keys, since attention to equal "
                "tokens changes nothing.",
                "without residuals, with norms, at the start: in some block below a hundredth of "
                "the usual stack's weakest, or nowhere below a tenth", "", NOT_MEASURED };
    double least = extreme(y, kind_at(y, NO_RESIDUAL), UNTRAINED, QK_GRADIENT, -1);
    double other = extreme(y, kind_at(y, PRE_NORM), UNTRAINED, QK_GRADIENT, -1);
    say(&c, judge(least / other, 0.01, 0.1),
        "weakest norm %.1e; %.1e in the usual stack of %d",
        least, other, deepest(y->set));
    return c;
}

static claim claim_post_fails(const study *y)
{
    claim c = { "Post-norm stacks do not train when they are deep.",
                "0.2 bits per byte behind pre-norm at the greatest depth, or no more than 0.05", "",
                NOT_MEASURED };
    double pre = bits_at(y, kind_at(y, PRE_NORM)), post = bits_at(y, kind_at(y, POST_NORM));
    say(&c, judge(post - pre, 0.2, 0.05),
        "%.2f bits per byte at depth %d, pre-norm %.2f, no norm %.2f",
        post, deepest(y->set), pre, bits_at(y, kind_at(y, NO_NORM)));
    return c;
}

/* counted over the encodings that can read longer texts at all */
static claim claim_longer(const study *y)
{
    claim c = { "Depth makes a model worse beyond its training length.",
                "at 4x the rise is 0.05 bits larger at the greatest depth than at the smallest, "
                "for all encodings or for none", "", NOT_MEASURED };
    const settings *s = y->set;
    int worse = 0, all = 0;
    for (int e = 0; e < s->specs; e++) {
        double deep = rise(y, study_find(y, PRE_NORM, s->spec[e], shared_depth(s), 1), BITS_4X);
        double flat = rise(y, study_find(y, PRE_NORM, s->spec[e], s->depths.item[0], 1), BITS_4X);
        if (!isfinite(deep - flat)) continue;
        all++;
        worse += deep - flat > 0.05;
    }
    say(&c,
        all == 0 || shared_depth(s) == s->depths.item[0] ? NOT_MEASURED
        : worse == all                                   ? HOLDS
        : worse                                          ? IN_PART
                                                         : WRONG,
        "so for %d of %d encodings, depth %d against %d", worse, all, shared_depth(s),
        s->depths.item[0]);
    return c;
}

static void claims_make(claim c[CLAIMS], const study *y, const lonely *a, double alone)
{
    c[FADES] = claim_fades(y);
    c[FADES_WITHOUT] = claim_fades_without(y);
    c[KNOWS] = claim_knows(y);
    c[COLLAPSES] = claim_collapses(a);
    c[COLLAPSES_USUAL] = claim_collapses_usual(y);
    c[UNIFORM] = claim_uniform(y);
    c[LOCAL] = claim_local(y);
    c[HIGHWAY] = claim_highway(y);
    c[FAINT] = claim_faint(y, alone);
    c[FAINT_QK] = claim_faint_qk(y);
    c[POST_FAILS] = claim_post_fails(y);
    c[LONGER] = claim_longer(y);
}

#endif
