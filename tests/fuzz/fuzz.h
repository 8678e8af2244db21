/* What the fuzzing harnesses share. A harness defines LLVMFuzzerTestOneInput; libFuzzer calls it
   with millions of inputs and keeps those that reach something new. `make fuzz` builds and runs
   them all; build/fuzz/NAME FILE runs one again on an input that was found.

   Readers of files get a real one, in a folder of TMPDIR.                                        */
#ifndef POSENC_FUZZ_H
#define POSENC_FUZZ_H
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* What must hold for any input. An abort is a finding, and its line says which. */
#define FUZZ_HOLDS(CONDITION) do { if (!(CONDITION)) {                                             \
    fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #CONDITION);                 \
    abort(); } } while (0)

static char fuzz_folder[256];              /* ours alone, removed at the end */

static inline void fuzz_clean_up(void)
{
    static const char *const names[] = { "model.safetensors", "model.safetensors.index.json",
                                         "a.safetensors", "b.safetensors" };
    char path[320];
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", fuzz_folder, names[i]);
        unlink(path);
    }
    rmdir(fuzz_folder);
}

/* Makes the file, or empties it and writes it anew; returns its path. */
static inline const char *fuzz_file(const char *name, const void *bytes, size_t n)
{
    static char path[320];
    if (!fuzz_folder[0]) {
        const char *folder = getenv("TMPDIR");
        snprintf(fuzz_folder, sizeof fuzz_folder, "%.200s/posenc_fuzz_XXXXXX",
                 folder && *folder ? folder : "/tmp");
        FUZZ_HOLDS(mkdtemp(fuzz_folder) != NULL);
        atexit(fuzz_clean_up);
    }
    snprintf(path, sizeof path, "%s/%s", fuzz_folder, name);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    FUZZ_HOLDS(file >= 0 && (n == 0 || write(file, bytes, n) == (ssize_t)n));
    close(file);
    return path;
}

/* the input as a string of just its size; free() it */
static inline char *fuzz_string(const uint8_t *data, size_t n)
{
    char *text = (char *)malloc(n + 1);
    if (n) memcpy(text, data, n);
    text[n] = 0;
    return text;
}

/* Few mutations keep the length of a header right, and nothing behind it would be reached. This
   puts it right: the header ends at the last brace of the file and the blanks behind it. Returns
   0 if there is none.                                                                            */
static inline int fuzz_mend_length(uint8_t *file, size_t n)
{
    size_t length = n > 8 ? n - 8 : 0;
    while (length > 0 && file[8 + length - 1] != '}') length--;
    while (length > 0 && 8 + length < n && file[8 + length] == ' ') length++;
    for (int i = 0; i < 8 && length; i++) file[i] = (uint8_t)((uint64_t)length >> 8 * i);
    return length > 0;
}
#endif
