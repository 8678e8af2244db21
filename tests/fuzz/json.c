/* kit/read_json.h: any bytes are read or refused; what was read can be walked and found again. */
#define _DEFAULT_SOURCE
#include "fuzz.h"
#include "kit/read_json.h"

/* every node inside this one, once; returns how many there were */
static size_t walk(const kit_json_node *n)
{
    size_t nodes = 1, inside = 0;
    for (const kit_json_node *k = kit_json_first(n); k; k = kit_json_next(n, k), inside++) {
        if (n->type == KIT_JSON_OBJECT) {
            FUZZ_HOLDS(k->type == KIT_JSON_TEXT && k->as.text[k->count] == 0);
            FUZZ_HOLDS(kit_json_find_bytes(n, k->as.text, k->count) == kit_json_value(k));
            nodes += 1 + walk(kit_json_value(k));
        } else {
            FUZZ_HOLDS(inside > 8 || kit_json_element(n, inside) == k);
            nodes += walk(k);
        }
    }
    FUZZ_HOLDS(n->type < KIT_JSON_LIST || inside == n->count);
    FUZZ_HOLDS(nodes == n->span);
    return nodes;
}

static void ask(const kit_json *d, const char *key)
{
    const kit_json_node *node;
    const char *text;
    kit_error why;
    uint64_t u;
    double real;
    int number;
    kit_json_int_at(d, d->node, key, KIT_NEEDED, 1, 100, &number, &why);
    kit_json_u64_at(d, d->node, key, KIT_NEEDED, &u, &why);
    kit_json_real_at(d, d->node, key, KIT_OPTIONAL, 0, 1, &real, &why);
    kit_json_flag_at(d, d->node, key, KIT_OPTIONAL, &number, &why);
    kit_json_text_at(d, d->node, key, KIT_NEEDED, &text, &why);
    kit_json_inside_at(d, d->node, key, KIT_NEEDED, KIT_JSON_LIST, &node, &why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    kit_json doc;
    kit_error why;
    why.text[0] = 0;
    if (!kit_json_read(&doc, "input", (const char *)data, n, 0, &why)) {
        FUZZ_HOLDS(strncmp(why.text, "input, line ", 12) == 0 && !doc.node);
        return 0;
    }
    FUZZ_HOLDS(walk(doc.node) == doc.nodes);
    ask(&doc, "a");
    ask(&doc, "");
    kit_json_free(&doc);
    return 0;
}
