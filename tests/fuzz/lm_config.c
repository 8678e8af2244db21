/* Config files of demos/lm: any text is read or refused in a sentence; keys and values that come
   out are what a flag can be, and reading them again gives the same. The other things a person
   writes or a file holds (budgets, notes of checkpoints) are read along. Build with -Idemos.       
            */
#define _DEFAULT_SOURCE
#define POSENC_IMPLEMENTATION
#include "posenc.h"
#include "fuzz.h"
#include "lm/checkpoint.h"
#include "lm/settings.h"

/* key=value lines, as they come out */
static int take(void *user, const char *key, const char *value, int line, kit_error *why)
{
    kit_text *t = (kit_text *)user;
    (void)why;
    FUZZ_HOLDS(line >= 1 && *key && strlen(key) < LM_CONFIG_KEY);
    FUZZ_HOLDS(!strchr(key, '_') && !strpbrk(key, " \t:#\"'") && !strchr(value, '\n'));
    kit_put(t, "%s=%s\n", key, value);
    return 1;
}

/* what came out, written as a file that quotes everything */
static void read_again(const kit_text *out)
{
    kit_text file = { NULL, 0, 0 }, again = { NULL, 0, 0 };
    kit_error why;
    for (const char *at = out->data; at && *at; at = strchr(at, '\n') + 1) {
        int key = (int)strcspn(at, "="), value = (int)strcspn(at + key + 1, "\n");
        char quote = memchr(at + key + 1, '"', (size_t)value) ? '\'' : '"';
        if (value == 0 || memchr(at + key + 1, quote, (size_t)value)) goto done;
        kit_put(&file, "%.*s: %c%.*s%c\n", key, at, quote, value, at + key + 1, quote);
    }
    FUZZ_HOLDS(!file.data || lm_config_parse(file.data, file.size, "again", take, &again, &why));
    FUZZ_HOLDS(out->size == again.size && (!out->size || strcmp(out->data, again.data) == 0));
done:
    kit_text_free(&file);
    kit_text_free(&again);
}

static void read_budget(const char *text)
{
    char said[24];
    uint64_t tokens = lm_read_tokens(text);
    if (!tokens) return;
    lm_say_tokens(said, sizeof said, tokens);
    FUZZ_HOLDS(tokens <= 1000000000000000u && lm_read_tokens(said) > 0);
}

static void read_note(const char *text)
{
    lm_note n, again;
    kit_text t = { NULL, 0, 0 };
    kit_error why;
    why.text[0] = 0;
    if (!lm_note_read(&n, text, &why)) {
        FUZZ_HOLDS(strlen(why.text) > 10);
        return;
    }
    lm_note_write(&t, &n, NULL);
    FUZZ_HOLDS(lm_note_read(&again, t.data, &why) && memcmp(&n, &again, sizeof n) == 0);
    kit_text_free(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char *text = fuzz_string(data, n);
    kit_text out = { NULL, 0, 0 };
    kit_error why;
    why.text[0] = 0;
    read_budget(text);
    read_note(text);
    if (lm_config_parse(text, n, "input", take, &out, &why)) read_again(&out);
    else FUZZ_HOLDS(strlen(why.text) > 10);
    kit_text_free(&out);
    free(text);
    return 0;
}
