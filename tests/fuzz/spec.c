/* posenc_spec_parse: any text is a spec or is refused; a spec that is printed reads as itself. */
#define _DEFAULT_SOURCE
#define POSENC_IMPLEMENTATION
#include "posenc.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static posenc_spec first[POSENC_SPECS], second[POSENC_SPECS];
    static char printed[2 * POSENC_SPEC_TEXT];
    char *text = fuzz_string(data, n);
    posenc_error why;
    int count = -1, again = -1;
    why.text[0] = 0;
    memset(first, 0xEE, sizeof first);
    memset(second, 0xEE, sizeof second);
    if (posenc_spec_parse(first, &count, POSENC_SPECS, text, &why) != POSENC_OK) {
        FUZZ_HOLDS(count == 0 && strlen(why.text) > 10);
    } else {
        FUZZ_HOLDS(count >= 1 && count <= POSENC_SPECS);
        FUZZ_HOLDS(posenc_spec_print(printed, sizeof printed, first, count) < sizeof printed);
        if (strlen(printed) < POSENC_SPEC_TEXT) {
            FUZZ_HOLDS(posenc_spec_parse(second, &again, POSENC_SPECS, printed, &why) == POSENC_OK);
            FUZZ_HOLDS(again == count && memcmp(first, second, sizeof first) == 0);
        }
    }
    free(text);
    return 0;
}
