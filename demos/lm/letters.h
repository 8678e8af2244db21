/* lm/letters.h - bytes as a model makes them, shown on a terminal

   A model of bytes may draw any byte at any time. Half a letter is held back until the rest has
   come; what can be no part of UTF-8 is shown as U+FFFD. Control bytes would steer the terminal:
   they are shown as the picture Unicode has of them, but for line feeds and tabs. */
#ifndef LM_LETTERS_H
#define LM_LETTERS_H

#include "kit/files.h"

/* low, high: what the next byte may be, in a letter of `need` bytes of which n are held */
typedef struct lm_letters { unsigned char held[4], low, high; int n, need; } lm_letters;

#define LM_NO_LETTER "\xEF\xBF\xBD"

/* U+2400 and on are pictures of the control bytes, U+2421 of DEL */
static inline void lm__letter_picture(kit_text *t, unsigned code)
{
    unsigned char picture[3] = { 0xE2, 0x90, 0x80 };
    picture[2] = (unsigned char)(0x80 + (code == 127 ? 0x21 : code));
    kit_put_bytes(t, picture, 3);
}

/* A whole letter; U+0080 to U+009F steer some terminals as well. */
static inline void lm__letter_whole(lm_letters *l, kit_text *t)
{
    unsigned first = l->held[0];
    int steers = l->n == 1 && (first < 32 || first == 127) && first != '\n' && first != '\t';
    if (steers) lm__letter_picture(t, first);
    else if (l->n == 2 && first == 0xC2 && l->held[1] < 0xA0) kit_put_string(t, LM_NO_LETTER);
    else kit_put_bytes(t, l->held, (size_t)l->n);
    l->n = 0;
}

/* How long the letter is that begins so, and what its second byte may be: no overlong forms, no
   surrogates, nothing above U+10FFFF. 0: no letter begins so. */
static inline int lm__letter_begin(lm_letters *l, unsigned char b)
{
    l->low = b == 0xE0 ? 0xA0 : b == 0xF0 ? 0x90 : 0x80;
    l->high = b == 0xED ? 0x9F : b == 0xF4 ? 0x8F : 0xBF;
    return b < 0x80 ? 1 : b < 0xC2 ? 0 : b < 0xE0 ? 2 : b < 0xF0 ? 3 : b < 0xF5 ? 4 : 0;
}

/* what is ready goes behind what t holds */
static inline void lm_letters_put(lm_letters *l, kit_text *t, unsigned char b)
{
    if (l->n > 0 && (b < l->low || b > l->high)) {        /* the letter breaks off: b begins anew */
        kit_put_string(t, LM_NO_LETTER);
        l->n = 0;
    }
    if (l->n == 0) l->need = lm__letter_begin(l, b);
    else { l->low = 0x80; l->high = 0xBF; }
    if (l->need == 0) { kit_put_string(t, LM_NO_LETTER); return; }
    l->held[l->n++] = b;
    if (l->n == l->need) lm__letter_whole(l, t);
}

/* no more comes */
static inline void lm_letters_end(lm_letters *l, kit_text *t)
{
    if (l->n > 0) kit_put_string(t, LM_NO_LETTER);
    l->n = 0;
}

#endif
