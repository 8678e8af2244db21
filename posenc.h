/* posenc.h - v0.1.0 - positional encodings, attention and transformers in one C file

   In ONE source file:                          Everywhere else:
       #define POSENC_IMPLEMENTATION                #include "posenc.h"
       #include "posenc.h"                      Link with -lm. Nothing else is needed;
                                                -fopenmp makes it use all cores.
   THREE DOORS
     1  You have buffers and want positions in them. No set-up, no memory, cannot fail.
            posenc_rope_forward(posenc_heads_bthd(q, B, T, H, D), NULL, POSENC_HALF, 10000.0);
     2  You want layers with gradients, still in your own buffers.
            posenc_attention_forward(out, lse, q, k, v, &how, scratch);
     3  You want to train a transformer.
            posenc_model_create(&model, &config, &why);

   WHERE DOES POSITION ENTER? Five verbs cover every encoding in this file.

     tokens -> embedding ->(+)-> norm -> q,k,v ->(turn)-> scores ->(+)-> softmax -> values -> ...
                            ^                      ^                ^
     positions ---------> [add]                  [rot]        [bias]  [ctx]
       [pos]          sinusoidal, learned,    rope, mrope,  alibi, t5,      terms that also
     0..T-1, offset,  binary, continuous,     xpos, qtemp,  relative,       read the content
     packed, padding, fourier, 2-D, 3-D ...   2-D ...       swin, kerple ...
     grid, random

   READING IT
     Start at [4]. Each formula appears once, forward beside backward. PE__STAMPED above a loop
     and PE__EACH in it only help the compiler [3.3]. Everything after the double rule at [10] is
     about speed and can be skipped without loss.

   CONTENTS
     [1] Platform       [2] Public API     [3] Ground           [4] Layers
     [5] Encodings      [6] Attention      [7] Transformer      [8] Training
     [9] Checkpoint    [10] Which CPU     [11] Kernels         [12] Licence
     Search for "[4.5]" or "[5.7]" to reach a section.

   SWITCHES (define before the include)
     POSENC_IMPLEMENTATION       in one file: the code itself
     POSENC_STATIC               everything static to that file
     POSENC_MALLOC, POSENC_FREE  your allocator; both or neither. Used behind door three only.
     POSENC_ASSERT(c)            your assert; doors one and two check their arguments with it
     POSENC_NO_STDIO             no checkpoints, no <stdio.h> files
     POSENC_NO_SIMD              plain C only
     POSENC_DETERMINISTIC        the plain C tier uses fmaf() and joins the SIMD tiers bit for bit
     POSENC_DOUBLE               posenc_float is double: slow, for gradient checks
     POSENC_CBLAS                large products by the BLAS you link (cblas.h): no promise on bits

   PROMISES
     - Same binary, same seed: same bits, for any number of threads. AVX2, AVX-512 and NEON agree.
     - Doors one and two allocate nothing and keep nothing. Door three allocates when a model is
       made and never inside a training step.
     - The library never prints, exits, reads the clock, the environment or rand(), and starts
       no thread except through OpenMP, when compiled with it.
     - No fast-math is needed or wanted: it deletes the checks for NaN.

   Licence: MIT, at the end of the file.                                                          */

#ifndef POSENC_H
#define POSENC_H

/* ---- [1] platform ---------------------------------------------------------------------------- */

#include <stddef.h>
#include <stdint.h>

#define POSENC_VERSION        100              /* major*10000 + minor*100 + patch */
#define POSENC_VERSION_STRING "0.1.0"

#ifdef POSENC_DOUBLE
typedef double posenc_float;
#else
typedef float posenc_float;
#endif

#ifndef POSENC_DEF
#  ifdef POSENC_STATIC
#    if defined(__GNUC__)
#      define POSENC_DEF static __attribute__((unused))
#    else
#      define POSENC_DEF static
#    endif
#  else
#    define POSENC_DEF extern
#  endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- [2] PUBLIC API -----------------------------------------------------------------------------

   One legend for all sizes:  B batch   T time (tokens)   C channels   H heads   D width of a head
                              F hidden width   V vocabulary   L layers   R rows (B*T, or any)
   Arguments come as outputs, saved, inputs, weights, sizes. The gradient of x is dx. Gradients
   of parameters are ADDED to, gradients of activations are OVERWRITTEN; exceptions say so.
   Arrays are row-major and contiguous, last index fastest. Weights are (out, in), as in PyTorch. */

/* ---- [2.1] status -------------------------------------------------------------------------------
   Calls that prepare (parse, create, load) return a status and leave a sentence with the numbers in
   *why, which may be NULL. Calls that apply are void.                                            */

typedef enum posenc_status {
    POSENC_OK = 0,
    POSENC_OUT_OF_MEMORY,        /* an allocation failed: ask posenc_model_bytes() beforehand     */
    POSENC_BAD_CONFIG,           /* what was asked for cannot be: the sentence says what can      */
    POSENC_BAD_INPUT,            /* a token, target or position outside its range                 */
    POSENC_FILE,                 /* a file could not be opened, written or renamed                */
    POSENC_BAD_FILE,             /* a file was read and is not what it should be                  */
    POSENC_NOT_FINITE,           /* NaN or infinity in training: the sentence names step, tensor  */
    POSENC_FULL                  /* no slot left in a cache: forget some, or make a larger one    */
} posenc_status;

typedef struct posenc_error { char text[512]; } posenc_error;

/* the status in a few words; takes an int, so that it fits printers of enums */
POSENC_DEF const char *posenc_explain(int status);

/* ---- [2.2] the encodings: one row each ----------------------------------------------------------
   From this table come the enum, the names, the spec strings, the tests' loops, demos/gallery and
   README's table. Columns: token, name, where it enters, parameters learnt, keys of its spec string,
   one line, beyond the training length, source.                                                  */

#define PE__TURN_KEYS "base,layout,dim,offset,nope_every"

#define POSENC_ENCODINGS(X)                                                                        \
    X(NONE,       "none",       NOWHERE,   0, "",                                                  \
      "no position at all: the control",                                                           \
      "as within, or as badly",                       "Haviv et al. 2022")                         \
    X(SINUSOIDAL, "sinusoidal", EMBEDDING, 0, "base,layout,frequencies,scaled",                    \
      "fixed waves of many lengths added to the embedding",                                        \
      "defined, never seen: fails early",             "Vaswani et al. 2017")                       \
    X(SINONLY,    "sinonly",    EMBEDDING, 0, "base",                                              \
      "sines alone, a frequency of its own for each channel",                                      \
      "as sinusoidal",                                "pos-enc-bench")                             \
    X(BINARY,     "binary",     EMBEDDING, 0, "digits",                                            \
      "the bits of the position, 0 and 1",                                                         \
      "until the digits run out",                     "pos-enc-bench")                             \
    X(BINARY_NORM, "binary_norm", EMBEDDING, 0, "digits",                                          \
      "the bits of the position, -1 and 1",                                                        \
      "until the digits run out",                     "pos-enc-bench")                             \
    X(DECIMAL,    "decimal",    EMBEDDING, 0, "digits",                                            \
      "the decimal digits of the position, 0 to 9",                                                \
      "until the digits run out",                     "pos-enc-bench")                             \
    X(DECIMAL_NORM, "decimal_norm", EMBEDDING, 0, "digits",                                        \
      "the decimal digits of the position, -1 to 1",                                               \
      "until the digits run out",                     "pos-enc-bench")                             \
    X(INTEGER,    "integer",    EMBEDDING, 0, "length,spread",                                     \
      "the position itself as a number",                                                           \
      "a larger number than any seen",                "pos-enc-bench")                             \
    X(LEARNED,    "learned",    EMBEDDING, 1, "rows,offset,init",                                  \
      "a free vector for each position",                                                           \
      "impossible",                                   "Gehring et al. 2017, BERT, GPT-2")          \
    X(SININIT,    "sininit",    EMBEDDING, 1, "rows,offset,base",                                  \
      "a free vector for each position that starts as sinusoidal",                                 \
      "impossible",                                   "PositionalEncodingExample")                 \
    X(CONTINUOUS, "continuous", EMBEDDING, 1, "hidden,depth,length,init",                          \
      "a small network that turns the position into a vector",                                     \
      "defined, straight lines",                      "ml-positional-encoding")                    \
    X(SINCOS2D,   "sincos2d",   EMBEDDING, 0, "base,layout,width,swap",                            \
      "sinusoidal on a grid: half the channels for the row, half for the column",                  \
      "as sinusoidal",                                "MAE, timm")                                 \
    X(SINCOS3D,   "sincos3d",   EMBEDDING, 0, "base,width,height",                                 \
      "sinusoidal in space and time: a third of the channels for each axis",                       \
      "as sinusoidal",                                "positional-encodings")                      \
    X(FOURIER,    "fourier",    EMBEDDING, 0, "length,resolution,bands,axes,width,height",         \
      "waves of whole numbers of half periods over the input",                                     \
      "repeats itself, mirrored",                     "Jaegle et al. 2021 (Perceiver)")            \
    X(RANDOM_FOURIER, "random_fourier", EMBEDDING, 0, "length,init,axes,width,height",             \
      "waves of frequencies drawn once and never trained",                                         \
      "defined, never seen",                          "Tancik et al. 2020, SAM")                   \
    X(LEARNED_FOURIER, "learned_fourier", EMBEDDING, 1,                                            \
      "length,features,hidden,init,axes,width,height",                                             \
      "waves of trained frequencies, mixed by a small network",                                    \
      "defined, never seen",                          "Li et al. 2021")                            \
    X(ROPE,       "rope",       QUERY_KEY, 0, PE__TURN_KEYS ",over,scaling,factor,original,fast,"  \
      "slow,low,high,attention,mscale,mscale_all,truncate,proportion,short,long,length",           \
      "turn queries and keys by an angle that grows with the position",                            \
      "unseen angles: rescale the frequencies",       "Su et al. 2021")                            \
    X(LROPE,      "lrope",      QUERY_KEY, 1, PE__TURN_KEYS ",over",                               \
      "rope whose frequencies are trained, layer by layer",                                        \
      "as rope",                                      "PositionalEncodingExample")                 \
    X(ROPE2D,     "rope2d",     QUERY_KEY, 0, PE__TURN_KEYS ",width,split,factor",                 \
      "rope on a grid: half the pairs turn with the row, half with the column",                    \
      "as rope",                                      "EVA-02, Qwen2-VL, Pixtral")                 \
    X(ROPE_PIXEL, "rope_pixel", QUERY_KEY, 0,                                                      \
      "layout,dim,offset,nope_every,width,height,resolution",                                      \
      "rope over a picture measured from -1 to 1, octaves apart",                                  \
      "any resolution: the picture stays -1 to 1",    "timm")                                      \
    X(ROPE_DINO,  "rope_dino",  QUERY_KEY, 0, PE__TURN_KEYS ",width,height",                       \
      "rope over the patch centres of a picture measured from -1 to 1",                            \
      "any resolution: the picture stays -1 to 1",    "DINOv3")                                    \
    X(MROPE,      "mrope",      QUERY_KEY, 0, PE__TURN_KEYS ",sections,order",                     \
      "rope for text and pictures: pairs shared out among time, row and column",                   \
      "as rope",                                      "Qwen2-VL, Qwen3-VL")                        \
    X(XPOS,       "xpos",       QUERY_KEY, 0, PE__TURN_KEYS ",scale_base,center",                  \
      "rope whose scores also fade with the distance; causal models only",                         \
      "built for it",                                 "Sun et al. 2022")                           \
    X(QTEMP,      "qtemp",      QUERY_KEY, 0, "form,rate,original,every",                          \
      "sharper queries further on, so that attention does not thin out",                           \
      "built for it",                                 "Llama 4, Ministral 3, Qwen")                \
    X(RELATIVE,   "relative",   SCORE,     1, "distance,bidirectional,init,per_layer",             \
      "a learned number per head and clipped distance",                                            \
      "last rows are shared",                         "ml-positional-encoding")                    \
    X(ALIBI,      "alibi",      SCORE,     0, "bias_max,heads",                                    \
      "a penalty that grows with the distance, one slope per head",                                \
      "built for it",                                 "Press et al. 2021")                         \
    X(LALIBI,     "lalibi",     SCORE,     1, "bias_max,per_layer",                                \
      "alibi whose slopes are trained",                                                            \
      "built for it",                                 "Kazemnejad et al. 2023 (code)")             \
    X(T5,         "t5",         SCORE,     1, "buckets,distance,bidirectional,init,per_layer",     \
      "a learned number per head and logarithmic bucket of distances",                             \
      "last bucket is shared",                        "Raffel et al. 2019")                        \
    X(SWIN,       "swin",       SCORE,     1, "width,height,init,per_layer",                       \
      "a learned number per head and offset on a grid, down and across",                           \
      "impossible",                                   "Liu et al. 2021 (Swin)")                    \
    X(KERPLE,     "kerple",     SCORE,     1, "form,per_layer",                                    \
      "a trained penalty that flattens with the distance",                                         \
      "built for it",                                 "Chi et al. 2022")                           \
    X(SANDWICH,   "sandwich",   SCORE,     0, "buckets",                                           \
      "what sinusoids would add to the score, as a bias",                                          \
      "built for it",                                 "Chi et al. 2023")

typedef enum posenc_where {                 /* where an encoding enters */
    POSENC_NOWHERE, POSENC_EMBEDDING, POSENC_QUERY_KEY, POSENC_SCORE
} posenc_where;

#define PE__X(token, name, where, learns, keys, line, beyond, source) POSENC_##token,
typedef enum posenc_encoding { POSENC_ENCODINGS(PE__X) POSENC_ENCODING_COUNT } posenc_encoding;
#undef PE__X

typedef struct posenc_encoding_info {
    const char *name;
    posenc_where where;
    int learns;                             /* 1: has parameters                                  */
    const char *keys;                       /* comma-separated keys its spec string takes         */
    const char *line;                       /* what it does                                       */
    const char *beyond;                     /* what happens beyond the training length            */
    const char *source;                     /* the paper, or the models or projects it is from    */
} posenc_encoding_info;

/* row i of the table, or NULL outside it */
POSENC_DEF const posenc_encoding_info *posenc_encoding_get(int i);

/* ---- [2.3] spec strings -------------------------------------------------------------------------
   name[:key=value,...] joined with '+':   rope    rope:base=500000,layout=half    learned+alibi
   The same choices are fields of a plain struct; zero means the default given beside the field. A
   list of numbers is separated by '/': mrope:sections=16/24/24                                   */

typedef enum posenc_layout {                /* how sines and cosines, or the two of a pair, lie   */
    POSENC_LAYOUT_DEFAULT,                  /* rope: half; waves: interleaved                     */
    POSENC_INTERLEAVED,                     /* (2i, 2i+1): GPT-J, original LLaMA, RoFormer        */
    POSENC_HALF,                            /* (i, i + n/2): GPT-NeoX, Hugging Face Llama         */
    POSENC_CONCAT,                          /* waves: all sines, then all cosines (tensor2tensor) */
    POSENC_COSFIRST                         /* waves: all cosines, then all sines                 */
} posenc_layout;
typedef enum posenc_scaling {               /* rules that change rope's frequencies [5.7.1]       */
    POSENC_SCALING_NONE, POSENC_LINEAR_SCALING, POSENC_NTK, POSENC_DYNAMIC, POSENC_YARN,
    POSENC_LLAMA3, POSENC_LONGROPE, POSENC_PROPORTIONAL, POSENC_FACTORS
} posenc_scaling;
enum { POSENC_PAPER, POSENC_T2T };          /* frequencies: base^(-2i/C), or base^(-i/(C/2 - 1))  */
enum { POSENC_ALL, POSENC_FIRST };          /* spread: a number in all channels, or in the first  */
enum { POSENC_LINEAR_BANDS, POSENC_LOG_BANDS };     /* bands: evenly spaced, or evenly in octaves */
enum { POSENC_OVER_HEAD, POSENC_OVER_WIDTH };       /* over: pairs within heads, or across them   */
enum { POSENC_HALVES, POSENC_ALTERNATE };   /* split: a list of frequencies per axis, or one list */
enum { POSENC_CHUNKED, POSENC_WOVEN };      /* order of mrope's sections: one by one, or in turns */
enum { POSENC_FORM_DEFAULT, POSENC_TEMPER_LLAMA4, POSENC_TEMPER_MINISTRAL, POSENC_TEMPER_SMOOTH,
       POSENC_TEMPER_LOGN, POSENC_KERPLE_LOG, POSENC_KERPLE_POWER };              /* form, by row */
enum { POSENC_AXES = 3, POSENC_FACTORS_MAX = 128 };  /* most coordinates a token has; pairs in a list */

typedef struct posenc_spec {
    int encoding;                           /* POSENC_ROPE, ...                                   */
    double base;                            /* 10000 (rope_dino 100)    waves and turns           */
    int layout;                             /* half for turns, interleaved for waves              */
    int frequencies;                        /* paper    sinusoidal: paper or t2t                  */
    int scaled;                             /* 0        sinusoidal: 1 has a learned factor        */
    int dim, offset;           /* head width, 0: channels that turn, and the first; learned: rows
                                  that come before position 0                                     */
    int over;                               /* head     rope, lrope: or the whole width           */
    int nope_every;                  /* 0        n: every n-th layer does not turn (Llama 4: 4)   */
    int scaling;                            /* none     rope: one of posenc_scaling               */
    double factor, original;         /* how much longer than trained (rope2d: 1); the trained length
                                        (qtemp: 8192). A scaling names what it needs              */
    double fast, slow, low, high;           /* 32, 1, 1, 4  ends of the ramps of yarn and llama3  */
    double attention, mscale, mscale_all;   /* 0        magnitude, in this order of precedence    */
    int truncate;                           /* 1        yarn: -1 leaves the ramp's ends unrounded */
    double proportion;                      /* 1        proportional: share of pairs that turn    */
    double length;             /* context: u = p / length; scaling: frequencies for this length
                                  (0: that of the batch)                                          */
    int width, height;    /* columns and rows of the grid; smallest square that holds the context */
    int axes, swap;                         /* 1, 0     coordinates; sincos2d: columns first      */
    int split, order;                       /* halves, chunked    rope2d, mrope                   */
    int sections[POSENC_AXES];              /* mrope: pairs of time, row, column                  */
    double resolution;                      /* length; rope_pixel 256     finest wave             */
    int bands, spread;                      /* linear, all        fourier, integer                */
    int digits;                             /* channels   binary, decimal                         */
    double scale_base, center;              /* 512, context/2     xpos                            */
    int form;                               /* llama4; log        qtemp, kerple                   */
    double rate;                            /* 0.1      qtemp                                     */
    int every;                              /* 1        qtemp: every n-th layer                   */
    int rows;                               /* context + offset   learned, sininit                */
    int hidden, depth, features;            /* 128, 2, channels   networks                        */
    int distance;                           /* 128      clip distance         relative, t5        */
    int buckets;                            /* 32       t5; 128   sandwich                        */
    int bidirectional;       /* 1 yes, -1 no; 0: t5 yes unless the model is causal, relative yes  */
    int per_layer;                          /* 0        1: a learned bias for each layer          */
    double bias_max;                        /* 8        alibi's slopes go down to 2^-bias_max     */
    int heads;                              /* H        alibi: heads with a slope                 */
    double init;   /* standard deviation of a learned table: 0.02 (t5 1/sqrt(C), Fourier rows 1)  */
    float short_factor[POSENC_FACTORS_MAX], long_factor[POSENC_FACTORS_MAX];  /* 0 ends the list  */
} posenc_spec;

enum { POSENC_SPEC_TEXT = 4096, POSENC_SPECS = 8 }; /* longest spec string; most encodings in one */

/* Fills list[0..*count-1]; room says how many fit. Text NULL or "" means none.                   */
POSENC_DEF posenc_status posenc_spec_parse(posenc_spec *list, int *count, int room,
                                           const char *text, posenc_error *why);
/* Writes the list as a spec string of at most room bytes, ending in 0; returns the length
   needed.                                                                                        */
POSENC_DEF size_t posenc_spec_print(char *text, size_t room, const posenc_spec *list, int count);

/* ---- [2.4] views and positions ------------------------------------------------------------------
   A view of somebody else's queries, keys or values: element (b,t,h,d) lives at
   data[b*sb + t*st + h*sh + d]. Strides are counted in elements; d is contiguous.                */

typedef struct posenc_heads {
    posenc_float *data;
    int B, T, H, D;
    ptrdiff_t sb, st, sh;
} posenc_heads;

POSENC_DEF posenc_heads posenc_heads_bthd(posenc_float *data, int B, int T, int H, int D);
POSENC_DEF posenc_heads posenc_heads_bhtd(posenc_float *data, int B, int H, int T, int D);

/* Positions are doubles everywhere: exact past 2^24, fractional when wanted. NULL means 0..T-1.  */
POSENC_DEF void posenc_positions_range (double *p, int T, double offset);         /* offset + t   */
POSENC_DEF void posenc_positions_mask  (double *p, const unsigned char *keep, int B, int T);
                                       /* counts real tokens only; padding gets max(0, count - 1) */
POSENC_DEF void posenc_positions_packed(double *p, const int *segment, int B, int T);
                                         /* starts again at 0 wherever the segment number changes */
POSENC_DEF void posenc_positions_grid  (double *p, int rows, int columns);
                                       /* p (rows*columns, 2): row and column, in reading order   */
POSENC_DEF void posenc_positions_padding(double *p, const int *tokens, int pad, int B, int T);
                        /* RoBERTa, fairseq: real tokens count from pad + 1 on, padding stays at pad */
/* n distinct whole numbers below `most`, drawn by seed and sorted: a short text in a long one's
   places (Ruoss et al. 2023). Returns 0 and counts 0..n-1 when there are not that many.          */
POSENC_DEF int  posenc_positions_random(double *p, int n, double most, uint64_t seed);
/* Augmentation (SHAPE, CAPE) of n tokens of `axes` coordinates each, in place: all coordinates of an
   axis times one factor, log-uniform in 1/stretch .. stretch, plus one shift in -shift .. shift, plus a
   jitter of each token's own in -jitter .. jitter. Zeros (stretch 0 or 1) leave that part out.   */
POSENC_DEF void posenc_positions_augment(double *p, int n, int axes, double shift, double jitter,
                                         double stretch, uint64_t seed);
/* Text and pictures in one row (Qwen2-VL): p (tokens, 3), time, row and column. A run of text of n
   tokens is { 0, 0, n }; a picture or video is { frames, rows, columns }, its frames `step` apart in
   time. Text goes on behind the largest coordinate so far. Returns the position that follows: token t
   of a later decoding step stands at that plus t, on all axes.                                   */
typedef struct posenc_block { int frames, rows, columns; double step; } posenc_block;
POSENC_DEF double posenc_positions_mrope(double *p, const posenc_block *block, int blocks);

/* ---- [2.5] door one: encodings on your own buffers ----------------------------------------------
   Pure functions, no allocation, no state. Angles are computed in double and applied in float.   */

/* Added to embeddings. x (B,T,C); pos (T) shared by the batch; tables (T,C) or (rows,C).         */

/* table[t,2i] = sin(p_t w_i), table[t,2i+1] = cos(p_t w_i), w_i = base^(-2i/C). Overwrites table.
   Odd C: the last channel is the sine of the last frequency.                                     */
POSENC_DEF void posenc_sinusoidal(posenc_float *table, const double *pos, int T, int C,
                                  double base);
/* The waves of the row in the first channels, those of the column in the rest; pos (T,2), never
   NULL. Each half is 2*ceil(C/4) wide and has the frequencies of that width; what stands over is
   cut off.                                                                                       */
POSENC_DEF void posenc_sincos2d(posenc_float *table, const double *pos, int T, int C, double base);
/* x[b,t] += table[t]: for any table. Backward: dtable[t] += sum over b of dx[b,t]; dx passes as
   it is.                                                                                         */
POSENC_DEF void posenc_rows_forward(posenc_float *x, const posenc_float *table, int B, int T,
                                    int C);
POSENC_DEF void posenc_rows_backward(posenc_float *dtable, const posenc_float *dx, int B, int T,
                                     int C);
/* x[b,t] += table[p_t]. Backward: dtable[p_t] += dx[b,t]. Positions are rounded to the nearest row;
   one outside 0..rows-1 adds nothing and learns nothing.                                         */
POSENC_DEF void posenc_learned_forward(posenc_float *x, const posenc_float *table,
                                       const double *pos, int B, int T, int C, int rows);
POSENC_DEF void posenc_learned_backward(posenc_float *dtable, const posenc_float *dx,
                                        const double *pos, int B, int T, int C, int rows);

/* x[b,t] += W3 relu(W2 relu(W1 u + b1) + b2) + b3 with u = p_t / length.
   w1 (hidden)  b1 (hidden)  w2 (hidden,hidden)  b2 (hidden)  w3 (C,hidden)  b3 (C)
   scratch: posenc_continuous_scratch(T,C,hidden) elements, kept untouched from forward to
   backward.                                                                                      */
typedef struct posenc_continuous { posenc_float *w1, *b1, *w2, *b2, *w3, *b3; } posenc_continuous;
POSENC_DEF size_t posenc_continuous_scratch(int T, int C, int hidden);
POSENC_DEF void posenc_continuous_forward(posenc_float *x, posenc_float *scratch,
                                          const posenc_continuous *w, const double *pos,
                                          double length, int B, int T, int C, int hidden);
POSENC_DEF void posenc_continuous_backward(const posenc_continuous *dw, const posenc_float *dx,
                                           posenc_float *scratch, const posenc_continuous *w,
                                           int B, int T, int C, int hidden);

/* Turning queries and keys, in place. pos (T), or (B,T) with posenc_turns below. D must be even. */
POSENC_DEF void posenc_rope_forward (posenc_heads x,  const double *pos, int layout, double base);
POSENC_DEF void posenc_rope_backward(posenc_heads dx, const double *pos, int layout, double base);
/* The same with frequencies scale_i * w_i, scale (D/2). Backward turns dx back in place and adds to
   dscale; x holds the queries or keys as they were BEFORE the turn.                              */
POSENC_DEF void posenc_lrope_forward (posenc_heads x, const posenc_float *scale, const double *pos,
                                      int layout, double base);
POSENC_DEF void posenc_lrope_backward(posenc_heads dx, posenc_float *dscale, posenc_heads x,
                                      const posenc_float *scale, const double *pos, int layout,
                                      double base);

/* What every member of the rope family is made of: angles and lengths that grow with the position,
       theta_i = scale_i sum_a p_a frequency[a,i]        m_i = magnitude exp(growth_i (p_0 - center))
   a table of m cos and m sin, and one function that applies it.                                  */
typedef struct posenc_rotation {
    int pairs, axes;                        /* axes 0 means 1: positions on a line                */
    const double *frequency;                /* (axes, pairs)                                      */
    const double *growth;                   /* (pairs); NULL: lengths stay                        */
    double center, magnitude;               /* magnitude 0 means 1                                */
    const posenc_float *scale;              /* (pairs) trained factors; NULL: none                */
} posenc_rotation;

/* cosine, sine (rows, pairs); row of token (b,t) is b*row_b + t, row_b 0 when the batch shares
   them. Turns channels offset .. offset + 2*pairs - 1 of each head; a row past rows is left
   alone.                                                                                         */
typedef struct posenc_turns {
    posenc_float *cosine, *sine;
    int rows, pairs, row_b, offset, layout;
} posenc_turns;
/* pos (rows, axes); NULL, with one axis: 0, 1, 2, ...                                            */
POSENC_DEF void posenc_turns_fill(posenc_turns turns, const double *pos, const posenc_rotation *by);
/* The turn that takes a vector from where it was turned `before` to where `now` puts it: applied to
   cached keys, it moves them (context shift) or changes their frequencies (dynamic, longrope)
   without the keys as they were. Lengths are divided and multiplied.                             */
POSENC_DEF void posenc_turns_between(posenc_turns turns, const double *pos_now,
                                     const posenc_rotation *now, const double *pos_before,
                                     const posenc_rotation *before);
/* dscale[i] += sum of sum_a p_a frequency[a,i] * dtheta_i, from x and its gradient dx, both taken
   before the turn, or both after it                                                              */
POSENC_DEF void posenc_turns_backward(posenc_float *dscale, posenc_heads dx, posenc_heads x,
                                      posenc_turns turns, const double *pos,
                                      const posenc_rotation *by);
POSENC_DEF void posenc_turn     (posenc_heads x,  posenc_turns turns);      /* forward, in place  */
POSENC_DEF void posenc_turn_back(posenc_heads dx, posenc_turns turns);      /* its transpose      */
/* frequency[i] = base^(-2i/dim), i < dim/2 */
POSENC_DEF void posenc_rope_frequencies(double *frequency, int dim, double base);
/* for a grid, (2, dim/2): base^(-4i/dim), i < dim/4, for the row and once more for the column    */
POSENC_DEF void posenc_rope2d_frequencies(double *frequency, int dim, double base);
/* x[b,t,h] *= tau[b*row_b + t]: a query's temperature. Its own backward.                         */
POSENC_DEF void posenc_temper(posenc_heads x, const posenc_float *tau, int row_b);
/* Weights of a query or key projection, (H*D, C), from one layout to the other: rows offset ..
   offset + dim - 1 of each head are put in the order of layout `to`; scores stay the same. C 1 for
   a bias. w may not be from.                                                                     */
POSENC_DEF void posenc_layout_convert(posenc_float *w, const posenc_float *from, int H, int D, int C,
                                      int dim, int offset, int to);
/* A table of positions for another length: rows in between are mixed, as if both tables covered the
   same stretch (linear interpolation between centres).                                           */
POSENC_DEF void posenc_learned_resize(posenc_float *table, int rows, const posenc_float *from,
                                      int from_rows, int C);

/* Added to scores. A bias that depends on the distance d = p_i - p_j alone (query minus key,
   positive for the past) is one vector per head: bias (H, future + 1 + past), entry d + future
   for d = -future .. past. It is never a T x T matrix; attention [2.7] reads it as it is. All of
   these ADD to bias, so that several may be combined: clear it first.                            */
POSENC_DEF void posenc_alibi_slopes(posenc_float *slope, int H, double bias_max);
POSENC_DEF void posenc_alibi_forward(posenc_float *bias, int H, int past, int future,
                                     double bias_max);
/* table (2*clip + 1, H), row clamp(-d, -clip, clip) + clip. Backward adds to dtable.             */
POSENC_DEF void posenc_relative_forward(posenc_float *bias, const posenc_float *table, int clip,
                                        int H, int past, int future);
POSENC_DEF void posenc_relative_backward(posenc_float *dtable, const posenc_float *dbias, int clip,
                                         int H, int past, int future);
/* table (buckets, H); small distances have a bucket each, larger ones share them logarithmically */
POSENC_DEF int  posenc_t5_bucket(int distance, int buckets, int max_distance, int bidirectional);
POSENC_DEF void posenc_t5_forward(posenc_float *bias, const posenc_float *table, int buckets,
                                  int max_distance, int bidirectional, int H, int past, int future);
POSENC_DEF void posenc_t5_backward(posenc_float *dtable, const posenc_float *dbias, int buckets,
                                   int max_distance, int bidirectional, int H, int past,
                                   int future);
/* scores[h,i,j] += bias of distance (i + Tk - Tq) - j, for people with an attention of their own */
POSENC_DEF void posenc_bias_expand(posenc_float *scores, const posenc_float *bias, int H, int Tq,
                                   int Tk, int past, int future);

/* ---- [2.5.1] any encoding of the table, by its spec ---------------------------------------------
   posenc_spec s = { .encoding = POSENC_BINARY };  or from a text with posenc_spec_parse
       posenc_spec_complete(&s, &shape, &why);              fills in defaults, or says what is wrong
       posenc_spec_rows_forward(x, scratch, &s, w, ...);    an encoding that enters at the EMBEDDING
       by = posenc_spec_rotation(room, &s, 0, T);           QUERY_KEY: then posenc_turns_fill, _turn
       posenc_spec_bias_forward(bias, &s, w, H, past, future);                                SCORE
   w lists the tensors that the encoding has, in the order of posenc_spec_parts; NULL if none. Turns
   take layout and offset from the spec; lrope's are scaled by its tensor: by.scale = w[0].       */

typedef struct posenc_shape { int C, H, D, context, causal; } posenc_shape; /* of the model it is for */

POSENC_DEF posenc_status posenc_spec_complete(posenc_spec *s, const posenc_shape *shape,
                                              posenc_error *why);
enum { POSENC_PARTS = 6 };                  /* most tensors one encoding has                      */
typedef struct posenc_part {
    const char *name;
    int rows, columns;                      /* columns 0: a vector                                */
    int fixed;                              /* 1: drawn once, never trained                       */
} posenc_part;
POSENC_DEF int posenc_spec_parts(posenc_part part[POSENC_PARTS], const posenc_spec *s,
                                 const posenc_shape *shape);
/* How many coordinates it reads of each token, and the coordinates of T tokens from positions with
   `given` numbers each (T, given): an index on a grid becomes row and column, patches of a picture
   are measured from -1 to 1, text has the same place on all axes of mrope. at (T, axes).         */
POSENC_DEF int  posenc_spec_axes(const posenc_spec *s);
POSENC_DEF void posenc_spec_coordinates(double *at, const posenc_spec *s, const double *pos, int given,
                                        int T);
/* Can every token stand at these coordinates? finite, whole where a table or digits need it, inside.
   NULL: tokens 0 .. T-1.                                                                         */
POSENC_DEF posenc_status posenc_spec_check_positions(const posenc_spec *s, const double *at, int T,
                                                     posenc_error *why);

/* x[b,t] += E(at_t); x (B,T,C), at (T, axes), or NULL: tokens 0 .. T-1, on a grid in reading order.
   Backward adds to dw (NULL entries are frozen) from the scratch that forward left; dx passes as it
   is.                                                                                            */
POSENC_DEF size_t posenc_spec_rows_scratch(const posenc_spec *s, int T, int C);
POSENC_DEF void posenc_spec_rows_forward(posenc_float *x, posenc_float *scratch, const posenc_spec *s,
                                         posenc_float *const *w, const double *at, int B, int T,
                                         int C);
POSENC_DEF void posenc_spec_rows_backward(posenc_float *const *dw, const posenc_float *dx,
                                          posenc_float *scratch, const posenc_spec *s,
                                          posenc_float *const *w, const double *at, int B, int T,
                                          int C);
/* Frequencies of a QUERY_KEY encoding (but qtemp) in `room`, (POSENC_AXES + 1) * dim/2 doubles. key 1:
   for keys, which xpos treats the other way round. length: tokens in all, read by the scalings
   dynamic and longrope.                                                                          */
POSENC_DEF posenc_rotation posenc_spec_rotation(double *room, const posenc_spec *s, int key,
                                                double length);
/* qtemp: tau (T) for posenc_temper or for attention's q_scale                                    */
POSENC_DEF void posenc_spec_temperature(posenc_float *tau, const posenc_spec *s, const double *pos,
                                        int T);
/* bias (H, future + 1 + past) as in [2.5], added to; dw added to                                 */
POSENC_DEF void posenc_spec_bias_forward(posenc_float *bias, const posenc_spec *s,
                                         posenc_float *const *w, int H, int past, int future);
POSENC_DEF void posenc_spec_bias_backward(posenc_float *const *dw, const posenc_float *dbias,
                                          const posenc_spec *s, posenc_float *const *w, int H,
                                          int past, int future);
/* the whole number that stands for a token in q_at and k_at of attention: its position, or for swin
   row * (2 width - 1) + column, so that a distance tells how far down and how far across         */
POSENC_DEF int posenc_spec_place(const posenc_spec *s, const double *at);

/* ---- [2.5.2] an encoding of your own ------------------------------------------------------------
   A struct of callbacks, named in a model's spec string like any other. They run on the CPU, whatever
   the model runs on, once a step for each row, pair or distance. Fill in the one that fits:
     row        what is added to the embedding at position p                          (and backward)
     frequency  of pair i, for queries and keys: theta = p * frequency
     bias       what is added to a score at distance d = p_query - p_key              (and backward)
   It may learn `parameters` numbers (w), which start as `start` leaves them (NULL: zeros). A backward
   receives the gradient of what its forward gave and adds to dw. p is the first coordinate of a token,
   pairs lie in halves, and the name is known to models alone, not to posenc_spec_parse.          */
typedef struct posenc_custom {
    const char *name;
    void *user;                             /* handed to every callback                           */
    int parameters;
    void (*start)(void *user, posenc_float *w);
    void (*row)(void *user, posenc_float *row, double p, int C, const posenc_float *w);
    void (*row_backward)(void *user, posenc_float *dw, const posenc_float *drow, double p, int C,
                         const posenc_float *w);
    double (*frequency)(void *user, int i, int pairs);
    double (*bias)(void *user, int h, int H, int d, const posenc_float *w);
    void (*bias_backward)(void *user, posenc_float *dw, double dbias, int h, int H, int d,
                          const posenc_float *w);
} posenc_custom;

/* ---- [2.6] door two: layers, forward beside backward ----------------------------------------- */

/* c (m,n) = a b, or c += a b with POSENC_ADD. a is (m,k), or (k,m) with POSENC_A_T; b is (k,n), or
   (n,k) with POSENC_B_T. c must not overlap a or b.                                              */
enum { POSENC_A_T = 1, POSENC_B_T = 2, POSENC_ADD = 4 };
POSENC_DEF void posenc_product(posenc_float *c, const posenc_float *a, const posenc_float *b,
                               int m, int n, int k, int form);
/* y = x w' + b.   x (R,in)  w (out,in)  b (out) or NULL  y (R,out).
   Backward overwrites dx (NULL: not wanted; with add: adds to it) and adds to dw, db (NULL:
   frozen)                                                                                        */
POSENC_DEF void posenc_linear_forward(posenc_float *y, const posenc_float *x, const posenc_float *w,
                                      const posenc_float *b, int R, int in, int out);
POSENC_DEF void posenc_linear_backward(posenc_float *dx, posenc_float *dw, posenc_float *db,
                                       const posenc_float *dy, const posenc_float *x,
                                       const posenc_float *w, int R, int in, int out, int add);

/* The same products with x, w and dy rounded to bfloat16 on the way in (8 bits of mantissa instead of
   24) and sums in float, where the processor has a unit for it; elsewhere they are the functions above.
   scratch: posenc_bf16_scratch(R, in, out) elements. unit: "amx", "avx512_bf16", or "none".      */
#define POSENC_BF16_PRODUCTS 1
POSENC_DEF const char *posenc_bf16_unit(void);
POSENC_DEF size_t posenc_bf16_scratch(int R, int in, int out);
POSENC_DEF void posenc_linear_forward_bf16(posenc_float *y, const posenc_float *x,
                                           const posenc_float *w, const posenc_float *b, int R,
                                           int in, int out, posenc_float *scratch);
POSENC_DEF void posenc_linear_backward_bf16(posenc_float *dx, posenc_float *dw, posenc_float *db,
                                            const posenc_float *dy, const posenc_float *x,
                                            const posenc_float *w, int R, int in, int out, int add,
                                            posenc_float *scratch);

/* The forward of a few rows, at most POSENC_FEW_ROWS at full speed: reading w is all the work then, and
   w (out,in) in bfloat16 is half as much of it. x and sums stay float.                           */
enum { POSENC_FEW_ROWS = 4 };
POSENC_DEF void posenc_bf16_round(uint16_t *to, const posenc_float *from, size_t n);
POSENC_DEF void posenc_linear_few_bf16(posenc_float *y, const posenc_float *x, const uint16_t *w,
                                       const posenc_float *b, int R, int in, int out);

/* y_i = exp(x_i) / sum exp(x_j) in each row (R,n); a row that is all -infinity gives zeros. y
   may be x                                                                                       */
POSENC_DEF void posenc_softmax_forward (posenc_float *y, const posenc_float *x, int R, int n);
POSENC_DEF void posenc_softmax_backward(posenc_float *dx, const posenc_float *dy,
                                        const posenc_float *y, int R, int n);

/* y = gain * (x - mean) * rstd + bias in each row (R,n); mean, rstd (R) saved; bias may be NULL.
   y may be x when no backward follows; dx may be dy. The same holds for rmsnorm.                 */
POSENC_DEF void posenc_layernorm_forward (posenc_float *y, posenc_float *mean, posenc_float *rstd,
                                          const posenc_float *x, const posenc_float *gain,
                                          const posenc_float *bias, double eps, int R, int n);
POSENC_DEF void posenc_layernorm_backward(posenc_float *dx, posenc_float *dgain,
                                          posenc_float *dbias, const posenc_float *dy,
                                          const posenc_float *mean, const posenc_float *rstd,
                                          const posenc_float *x, const posenc_float *gain, int R,
                                          int n);
/* y = gain * x * r, r = 1/rms(x) in each row (R,n); r (R) saved.                                 */
POSENC_DEF void posenc_rmsnorm_forward (posenc_float *y, posenc_float *r, const posenc_float *x,
                                        const posenc_float *gain, double eps, int R, int n);
POSENC_DEF void posenc_rmsnorm_backward(posenc_float *dx, posenc_float *dgain,
                                        const posenc_float *dy, const posenc_float *r,
                                        const posenc_float *x, const posenc_float *gain, int R,
                                        int n);

/* y = f(x) elementwise; backward dx = dy f'(x). dx may be dy.                                    */
typedef enum posenc_activation {
    POSENC_RELU, POSENC_GELU, POSENC_GELU_TANH, POSENC_SILU,
    POSENC_SWIGLU, POSENC_GEGLU, POSENC_GEGLU_TANH   /* gated: in a config, and below, which takes both */
} posenc_activation;
POSENC_DEF void posenc_activation_forward(posenc_float *y, const posenc_float *x, int kind,
                                          size_t n);
POSENC_DEF void posenc_activation_backward(posenc_float *dx, const posenc_float *dy,
                                           const posenc_float *x, int kind, size_t n);
/* y = f(gate) * up; f = SiLU makes it SwiGLU. dgate, dup are overwritten and may be dy.          */
POSENC_DEF void posenc_gated_forward(posenc_float *y, const posenc_float *gate,
                                     const posenc_float *up, int kind, size_t n);
POSENC_DEF void posenc_gated_backward(posenc_float *dgate, posenc_float *dup,
                                      const posenc_float *dy, const posenc_float *gate,
                                      const posenc_float *up, int kind, size_t n);

/* y = x * keep / (1 - rate). The mask is a hash of (seed, step, site, index): call it again with
   the same numbers on the gradient and you have the backward. y may be x. rate 0: copy; 1:
   zeros. Element i of the call has index first + i.                                              */
typedef struct posenc_dropout {
    double rate;
    uint64_t seed;                          /* of the run                                         */
    uint32_t step, site;                    /* step of training; place in the model               */
    uint64_t first;                         /* index of the first element                         */
} posenc_dropout;
POSENC_DEF void posenc_dropout_apply(posenc_float *y, const posenc_float *x, size_t n,
                                     posenc_dropout how);
/* 4 random words for a counter, Philox4x32-10 */
POSENC_DEF void posenc_philox(uint32_t out[4], const uint32_t counter[4], uint64_t key);

/* y = a + b: a residual. Backward: both get dy as it is. y may be a or b.                        */
POSENC_DEF void posenc_residual(posenc_float *y, const posenc_float *a, const posenc_float *b,
                                size_t n);

/* x[r] = scale * table[id[r]] (with add: +=). Backward: dtable[id[r]] += scale * dx[r]. An id
   outside 0..rows-1 gives zeros and learns nothing. id (R), table (rows,C).                      */
POSENC_DEF void posenc_embedding_forward (posenc_float *x, const int *id, const posenc_float *table,
                                          double scale, int R, int rows, int C, int add);
POSENC_DEF void posenc_embedding_backward(posenc_float *dtable, const posenc_float *dx,
                                          const int *id, double scale, int R, int rows, int C);

/* y[b] = mean of x[b,t] over the t with keep[b,t] != 0 (keep NULL: all); zeros where nothing is
   kept.                                                                                          */
POSENC_DEF void posenc_pool_forward(posenc_float *y, const posenc_float *x,
                                    const unsigned char *keep, int B, int T, int C);
POSENC_DEF void posenc_pool_backward(posenc_float *dx, const posenc_float *dy,
                                     const unsigned char *keep, int B, int T, int C);

/* Softmax cross-entropy of logits (R,V): loss[r] = -log p[target], 0 where the target is
   POSENC_IGNORE (or any number outside 0..V-1). dlogits = scale * (p - onehot); NULL: not wanted;
   may be logits.                                                                                 */
enum { POSENC_IGNORE = -100 };
POSENC_DEF void posenc_crossentropy(posenc_float *loss, posenc_float *dlogits,
                                    const posenc_float *logits, const int *target, double scale,
                                    int R, int V);
/* The same with the head's product inside, a few rows at a time: logits = x w' + b never exist
   whole. One visit gives loss (R), dx (R,C) overwritten, dw (V,C) and db (V) added to; dx NULL:
   loss alone. scratch: posenc_head_scratch(R,V) elements.                                        */
POSENC_DEF size_t posenc_head_scratch(int R, int V);
POSENC_DEF void posenc_head_loss(posenc_float *loss, posenc_float *dx, posenc_float *dw,
                                 posenc_float *db, const posenc_float *x, const posenc_float *w,
                                 const posenc_float *b, const int *target, double scale, int R,
                                 int C, int V, posenc_float *scratch);
POSENC_DEF size_t posenc_head_scratch_bf16(int R, int C, int V);
POSENC_DEF void posenc_head_loss_bf16(posenc_float *loss, posenc_float *dx, posenc_float *dw,
                                      posenc_float *db, const posenc_float *x,
                                      const posenc_float *w, const posenc_float *b,
                                      const int *target, double scale, int R, int C, int V,
                                      posenc_float *scratch);

/* ---- [2.7] attention ----------------------------------------------------------------------------
   out_i = sum_j softmax_j( scale * q_i . k_j + bias(i,j) ) v_j   over the keys j that i may see.
   q, out (B,Tq,H,D);  k, v (B,Tk,Hk,D), H a multiple of Hk: query head h reads head h*Hk/H.
   Query i stands at index i + Tk - Tq, so that the last query is the last key (a key/value cache).
   A query that may see nothing gets out 0 and gradient 0.                                        */

/* A bias of any form, a stretch of a row at a time: for n keys from j0 on, forward adds to
   row[0..n-1]; backward receives the gradient of the same stretch. With a backward given,
   attention's backward runs on one thread and calls in a fixed order, so that sums may simply be
   added up.                                                                                      */
typedef struct posenc_row_bias {
    void (*forward )(void *user, posenc_float *row, int b, int h, int i, int j0, int n);
    void (*backward)(void *user, const posenc_float *drow, int b, int h, int i, int j0, int n);
    void *user;
} posenc_row_bias;

typedef struct posenc_attention {           /* all zero: plain full attention, scale 1/sqrt(D)    */
    double scale;                           /* 0: 1/sqrt(D)                                       */
    int causal;                             /* 1: no key after the query                          */
    int window;                           /* w > 0: keys at distance below w only, on either side */
    const unsigned char *keep;              /* (B,Tk), 0 marks padding keys; NULL: none           */
    const int *q_segment, *k_segment;    /* (B,Tq), (B,Tk): packed rows see their own number only */
    const posenc_float *bias;               /* (H, future + 1 + past) as in [2.5]; NULL: none     */
    int past, future;                       /* distances beyond them read the vector's end        */
    const int *q_at, *k_at;             /* (B,Tq), (B,Tk) whole positions for bias; NULL: indices */
    const posenc_row_bias *row_bias;        /* NULL: none                                         */
    const posenc_turns *q_turns, *k_turns;  /* turn q and k on the way in; NULL: as they are      */
    const posenc_float *q_scale;        /* (B,Tq) temperature of each query, times scale; NULL: 1 */
    posenc_dropout dropout;                 /* of the map: index ((b*H + h)*Tq + i)*Tk + j        */
    int threads;                            /* 0: 1. Scratch is needed for each                   */
} posenc_attention;

/* elements of scratch for either direction, with `how` as it will be used; they never grow with
   Tq*Tk                                                                                          */
POSENC_DEF size_t posenc_attention_scratch(int B, int Tq, int Tk, int H, int D,
                                           const posenc_attention *how);
/* Tiled: no (Tq,Tk) matrix is ever stored. lse (B,H,Tq), the log of each row's sum, is saved.    */
POSENC_DEF void posenc_attention_forward(posenc_heads out, posenc_float *lse, posenc_heads q,
                                         posenc_heads k, posenc_heads v,
                                         const posenc_attention *how, posenc_float *scratch);
/* Overwrites dq, dk, dv; adds to dbias (as bias; NULL: not wanted).                              */
POSENC_DEF void posenc_attention_backward(posenc_heads dq, posenc_heads dk, posenc_heads dv,
                                          posenc_float *dbias, posenc_heads dout, posenc_heads out,
                                          const posenc_float *lse, posenc_heads q, posenc_heads k,
                                          posenc_heads v, const posenc_attention *how,
                                          posenc_float *scratch);
/* Plain: builds the map (B,H,Tq,Tk) of probabilities, for reading and for pictures. Same results.
   dmap: room for another map. With out.data NULL the forward stops at the map.                   */
POSENC_DEF void posenc_attention_plain_forward (posenc_heads out, posenc_float *map, posenc_heads q,
                                                posenc_heads k, posenc_heads v,
                                                const posenc_attention *how);
POSENC_DEF void posenc_attention_plain_backward(posenc_heads dq, posenc_heads dk, posenc_heads dv,
                                                posenc_float *dbias, posenc_float *dmap,
                                                posenc_heads dout, const posenc_float *map,
                                                posenc_heads q, posenc_heads k, posenc_heads v,
                                                const posenc_attention *how);

/* ---- [2.8] updating parameters --------------------------------------------------------------- */

typedef enum posenc_optimizer_kind { POSENC_ADAMW, POSENC_ADAM, POSENC_SGD } posenc_optimizer_kind;

typedef struct posenc_optimizer {           /* zero means the default beside the field            */
    int kind;                               /* AdamW                                              */
    double beta1, beta2, eps;               /* 0.9, 0.999, 1e-8; negative means a true zero       */
    double decay;                           /* 0. AdamW shrinks weights by rate*decay, the others
                                               add decay*w to the gradient                        */
    double momentum;                        /* 0       SGD                                        */
    int nesterov;                           /* 0       SGD: look ahead along the momentum         */
    double clip;                            /* 0: none. Largest norm of all gradients together    */
} posenc_optimizer;

/* One update of n numbers. m, v (n) are the moments (SGD uses m, only with momentum); t counts
   updates from 1; g is multiplied by gradient_scale first; decay replaces o->decay.              */
POSENC_DEF void posenc_optimizer_apply(posenc_float *w, posenc_float *m, posenc_float *v,
                                       const posenc_float *g, size_t n, const posenc_optimizer *o,
                                       double rate, double gradient_scale, double decay,
                                       uint64_t t);
/* sum of x^2, in an order that does not depend on the number of threads                          */
POSENC_DEF double posenc_sum_squares(const posenc_float *x, size_t n);

typedef enum posenc_schedule_kind {
    POSENC_CONSTANT, POSENC_LINEAR, POSENC_COSINE, POSENC_WSD
} posenc_schedule_kind;

typedef struct posenc_schedule {
    int kind;                               /* constant, linear, cosine, warm-up / stable / decay */
    double peak;                            /* highest rate                                       */
    double floor;                           /* 0       last rate as a fraction of the peak        */
    int64_t warmup;                        /* 0       steps of rising: peak * (step + 1) / warmup */
    int64_t total;                          /* steps in all (not for constant)                    */
    int64_t decay;                          /* total/10  WSD: length of the final linear decay    */
} posenc_schedule;

/* the rate for a step counted from 0; past the end the last rate stays                           */
POSENC_DEF double posenc_rate(const posenc_schedule *s, int64_t step);

/* ---- [2.9] the table of layer functions ---------------------------------------------------------
   The transformer [7] is written once against this table and never looks into a tensor itself,
   so that the same model runs wherever somebody fills one in. Pointers named below live in the
   table's own memory, except `how` structs, which are host structs full of such pointers.
   posenc_cpu_backend() is the default; a table of your own may start as a copy of it.            */

typedef struct posenc_backend {
    const char *name;
    void *user;                             /* handed to the memory functions                     */
    void *(*alloc   )(void *user, size_t bytes);                    /* NULL when there is no room */
    void  (*release )(void *user, void *memory);
    void  (*upload  )(void *user, void *memory, const void *host, size_t bytes);
    void  (*download)(void *user, void *host, const void *memory, size_t bytes);
    void  (*zero    )(void *user, void *memory, size_t bytes);
    void  (*copy    )(void *user, void *to, const void *from, size_t bytes);
    const char *(*sync)(void *user);      /* waits; NULL when all went well, else what went wrong */

    void (*linear_forward)(posenc_float *, const posenc_float *, const posenc_float *,
                           const posenc_float *, int, int, int);
    void (*linear_backward)(posenc_float *, posenc_float *, posenc_float *, const posenc_float *,
                            const posenc_float *, const posenc_float *, int, int, int, int);
    void (*layernorm_forward)(posenc_float *, posenc_float *, posenc_float *, const posenc_float *,
                              const posenc_float *, const posenc_float *, double, int, int);
    void (*layernorm_backward)(posenc_float *, posenc_float *, posenc_float *, const posenc_float *,
                               const posenc_float *, const posenc_float *, const posenc_float *,
                               const posenc_float *, int, int);
    void (*rmsnorm_forward)(posenc_float *, posenc_float *, const posenc_float *,
                            const posenc_float *, double, int, int);
    void (*rmsnorm_backward)(posenc_float *, posenc_float *, const posenc_float *,
                             const posenc_float *, const posenc_float *, const posenc_float *, int,
                             int);
    void (*activation_forward)(posenc_float *, const posenc_float *, int, size_t);
    void (*activation_backward)(posenc_float *, const posenc_float *, const posenc_float *, int,
                                size_t);
    void (*gated_forward)(posenc_float *, const posenc_float *, const posenc_float *, int, size_t);
    void (*gated_backward)(posenc_float *, posenc_float *, const posenc_float *,
                           const posenc_float *, const posenc_float *, int, size_t);
    void (*dropout_apply)(posenc_float *, const posenc_float *, size_t, posenc_dropout);
    void (*residual)(posenc_float *, const posenc_float *, const posenc_float *, size_t);
    void (*embedding_forward)(posenc_float *, const int *, const posenc_float *, double, int, int,
                              int, int);
    void (*embedding_backward)(posenc_float *, const posenc_float *, const int *, double, int, int,
                               int);
    void (*pool_forward)(posenc_float *, const posenc_float *, const unsigned char *, int, int,
                         int);
    void (*pool_backward)(posenc_float *, const posenc_float *, const unsigned char *, int, int,
                          int);
    void (*head_loss)(posenc_float *, posenc_float *, posenc_float *, posenc_float *,
                      const posenc_float *, const posenc_float *, const posenc_float *, const int *,
                      double, int, int, int, posenc_float *);
    void (*attention_forward)(posenc_heads, posenc_float *, posenc_heads, posenc_heads,
                              posenc_heads, const posenc_attention *, posenc_float *);
    void (*attention_backward)(posenc_heads, posenc_heads, posenc_heads, posenc_float *,
                               posenc_heads, posenc_heads, const posenc_float *, posenc_heads,
                               posenc_heads, posenc_heads, const posenc_attention *,
                               posenc_float *);
    void (*rows_forward)(posenc_float *, const posenc_float *, int, int, int);
    void (*rows_backward)(posenc_float *, const posenc_float *, int, int, int);
    void (*waves_forward)(posenc_float *, const posenc_float *, double, int, int);
    void (*waves_backward)(posenc_float *, const posenc_float *, const posenc_float *, int, int);
    void (*turns_fill)(posenc_turns, const double *, const posenc_rotation *);
    void (*turns_backward)(posenc_float *, posenc_heads, posenc_heads, posenc_turns, const double *,
                           const posenc_rotation *);
    void (*turn)(posenc_heads, posenc_turns);
    void (*turn_back)(posenc_heads, posenc_turns);
    void (*gather_forward)(posenc_float *, const posenc_float *, const int *, int, int, int);
    void (*gather_backward)(posenc_float *, const posenc_float *, const int *, int, int, int);
    void (*curve_forward)(posenc_float *, const posenc_float *, int, int, int, int, int);
    void (*curve_backward)(posenc_float *, const posenc_float *, const posenc_float *, int, int,
                           int, int, int);
    void (*optimizer_apply)(posenc_float *, posenc_float *, posenc_float *, const posenc_float *,
                            size_t, const posenc_optimizer *, double, double, double, uint64_t);
    double (*sum_squares)(const posenc_float *, size_t);

    /* with scratch; NULL where there are none: then a model cannot have precision=bf16 */
    void (*linear_forward_bf16)(posenc_float *, const posenc_float *, const posenc_float *,
                                const posenc_float *, int, int, int, posenc_float *);
    void (*linear_backward_bf16)(posenc_float *, posenc_float *, posenc_float *,
                                 const posenc_float *, const posenc_float *, const posenc_float *,
                                 int, int, int, int, posenc_float *);
    void (*head_loss_bf16)(posenc_float *, posenc_float *, posenc_float *, posenc_float *,
                           const posenc_float *, const posenc_float *, const posenc_float *,
                           const int *, double, int, int, int, posenc_float *);

    /* NULL where there are none: then an inference model in bf16 keeps its weights in float only */
    void (*bf16_round)(uint16_t *, const posenc_float *, size_t);
    void (*linear_few_bf16)(posenc_float *, const posenc_float *, const uint16_t *,
                            const posenc_float *, int, int, int);
} posenc_backend;

POSENC_DEF const posenc_backend *posenc_cpu_backend(void);

/* bias[h,e] += table[row[e],h] for e < n: how a table of biases becomes one vector per head.
   Backward: dtable[row[e],h] += dbias[h,e]. row (n), table (rows,H); a row outside adds nothing. */
POSENC_DEF void posenc_gather_forward(posenc_float *bias, const posenc_float *table, const int *row,
                                      int H, int n, int rows);
POSENC_DEF void posenc_gather_backward(posenc_float *dtable, const posenc_float *dbias,
                                       const int *row, int H, int n, int rows);
/* The same for biases that are a formula of the distance with a few trained numbers per head, w (H,n):
   encoding and form as in a spec (lalibi, kerple).                                               */
POSENC_DEF void posenc_curve_forward(posenc_float *bias, const posenc_float *w, int encoding, int form,
                                     int H, int past, int future);
POSENC_DEF void posenc_curve_backward(posenc_float *dw, const posenc_float *dbias,
                                      const posenc_float *w, int encoding, int form, int H, int past,
                                      int future);
/* y = scale [sin a | cos a]: a (R,n) becomes y (R,2n). Backward needs no a: the slope of the one half
   is the other. da may not be dy.                                                                */
POSENC_DEF void posenc_waves_forward (posenc_float *y, const posenc_float *a, double scale, int R,
                                      int n);
POSENC_DEF void posenc_waves_backward(posenc_float *da, const posenc_float *dy, const posenc_float *y,
                                      int R, int n);

/* ---- [2.10] door three: a whole transformer -------------------------------------------------- */

typedef enum posenc_precision { POSENC_FP32, POSENC_BF16 } posenc_precision;
typedef enum posenc_norm_kind  { POSENC_LAYERNORM, POSENC_RMSNORM, POSENC_NO_NORM } posenc_norm_kind;
typedef enum posenc_norm_place { POSENC_PRE_NORM, POSENC_POST_NORM } posenc_norm_place;
typedef enum posenc_qk_norm    { POSENC_QK_NORM_OFF, POSENC_QK_NORM_BEFORE, POSENC_QK_NORM_AFTER
                               } posenc_qk_norm;      /* RMSNorm of q, k before or after the turn */

typedef struct posenc_config {              /* zero means the default beside the field            */
    const char *encoding;                   /* "none"   spec string [2.3]                         */
    int vocab, context;                     /* needed: tokens 0..vocab-1, longest T               */
    int classes;                            /* 0: next-token model; n: mean-pooled classifier     */
    int batch;                              /* 1        largest B: activations are made for it    */
    int layers, channels, heads;            /* 2, 64, 4                                           */
    int kv_heads;                       /* heads    fewer: several query heads share keys, values */
    int head_channels;                      /* channels / heads                                   */
    int hidden;                             /* 4*channels                                         */
    int causal;                             /* 0        tokens see the past only                  */
    int window;                             /* 0        tokens see distances below it only        */
    int mask_padding, padding_token;   /* 0, 0     1: nobody looks at padding_token, nor pools it */
    int token_types;                        /* 0        n: a second embedding, of batch.types     */
    int norm, norm_place;                   /* LayerNorm, before each branch                      */
    int parallel;                     /* 0        1: both branches read the block's input (GPT-J) */
    double norm_eps;                        /* 1e-5                                               */
    int embedding_norm;                     /* 0        norm after the embedding                  */
    int activation;                         /* ReLU                                               */
    int no_residual;       /* 0        1: a branch replaces its input instead of being added to it.
                              With norm=none, what a deep stack is without the two: for lessons   */
    int no_bias;                            /* 0        1: no biases in products and LayerNorms   */
    int qk_norm;                            /* off                                                */
    int tied_head;                          /* 0        1: next-token head = token embedding      */
    int scale_embedding;                    /* 0        1: embedding times sqrt(channels)         */
    double attention_scale;                 /* 1/sqrt(D)                                          */
    double embedding_init;                  /* 0.02     standard deviation of the token embedding */
    double dropout_embedding, dropout_attention, dropout_branch, dropout_hidden;           /* 0   */
    int precision;      /* fp32     bf16: what linear layers multiply is rounded to bfloat16; weights,
                           sums and everything else stay float                                    */
    int inference;                      /* 0        1: no gradients, no moments, one layer's room */
    int recompute;         /* 0        1: training keeps what goes into each block and one layer's
                              room, where a block's inside is computed again for its backward: less
                              memory, about a fifth more time, the same bits                      */
    int threads;                            /* OpenMP's own setting when the model is made        */
    uint64_t seed;                          /* 0        of weights and dropout                    */
    const posenc_custom *custom;   /* encodings of your own [2.5.2], which must outlive the model */
    int customs;                            /* 0        how many                                  */
    const posenc_backend *backend;          /* the CPU                                            */
} posenc_config;

/* "key=value" words separated by blanks, one per field above ("vocab=20 encoding=rope
   norm=rmsnorm"); how a checkpoint keeps its config. parse starts from *c as it is and points
   c->encoding to spec.                                                                           */
POSENC_DEF posenc_status posenc_config_parse(posenc_config *c, char spec[POSENC_SPEC_TEXT],
                                             const char *text, posenc_error *why);
POSENC_DEF size_t posenc_config_print(char *text, size_t room, const posenc_config *c);

typedef struct posenc_bytes {
    size_t parameters, gradients, moments, activations, total;
} posenc_bytes;
typedef struct posenc_model posenc_model;

/* What a model would take, before anything is allocated. */
POSENC_DEF posenc_status posenc_model_bytes(posenc_bytes *bytes, const posenc_config *c,
                                            posenc_error *why);
/* On failure *m is NULL and nothing is left behind. */
POSENC_DEF posenc_status posenc_model_create(posenc_model **m, const posenc_config *c,
                                             posenc_error *why);
POSENC_DEF void posenc_model_free(posenc_model *m);                               /* NULL is fine */
POSENC_DEF const posenc_config *posenc_model_config(const posenc_model *m); /* defaults filled in */

typedef struct posenc_batch {
    int B, T;                               /* B <= config.batch, T <= config.context             */
    const int *tokens;                      /* (B,T)                                              */
    const int *targets;                    /* (B,T), or (B) for a classifier; POSENC_IGNORE skips */
    const double *positions;                /* (B,T,axes); NULL: 0..T-1 in each row               */
    int axes;      /* 0, 1: a position is one number; 2, 3: coordinates. An encoding of one number
                      then reads the first: time, or the row                                      */
    const int *segments;                    /* (B,T) packed rows; NULL: one segment               */
    const int *types;                       /* (B,T) 0..token_types-1; NULL: 0                    */
    const unsigned char *keep;              /* (B,T) 0 marks padding; NULL: none but mask_padding */
    uint64_t first_sample;            /* number of row 0 in the whole data: dropout depends on it */
    double divisor;                     /* loss = sum / divisor; 0: number of targets not ignored */
} posenc_batch;

/* Forward without dropout; then logits, attention maps and activations can be read. */
POSENC_DEF posenc_status posenc_model_forward(posenc_model *m, const posenc_batch *batch,
                                              posenc_error *why);
/* The same, and the loss. */
POSENC_DEF posenc_status posenc_model_loss(posenc_model *m, const posenc_batch *batch, double *loss,
                                           posenc_error *why);
/* Forward with dropout, loss, backward: adds to the gradients. Call it several times to accumulate.
   POSENC_NOT_FINITE when the loss is not a number; the sentence names the step and the tensor.   */
POSENC_DEF posenc_status posenc_model_train(posenc_model *m, const posenc_batch *batch,
                                            double *loss, posenc_error *why);
/* Clips, updates every tensor that is not frozen, clears the gradients, counts the step. norm
   (may be NULL) receives the gradients' norm before clipping; if it is not finite nothing is
   updated.                                                                                       */
POSENC_DEF posenc_status posenc_model_update(posenc_model *m, const posenc_optimizer *o,
                                             double rate, double *norm, posenc_error *why);
POSENC_DEF uint64_t posenc_model_steps(const posenc_model *m);             /* updates done so far */

/* After a forward: rows row..row+rows-1 of the logits, (rows, classes or vocab); the rows are
   the batch for a classifier and B*T otherwise.                                                  */
POSENC_DEF posenc_status posenc_model_logits(posenc_model *m, posenc_float *logits, int row,
                                             int rows, posenc_error *why);
/* From now on watch(user, m, layer) is called behind each block of every forward; NULL: no more. An
   inference model keeps the activations of one block at a time, under the names of block 0: this is
   where those of each layer can be read, and its attention map. With recompute each block has its
   "out", and the rest is of one block at a time: the last one's behind a forward, that of block 0
   behind posenc_model_train.                                                                     */
POSENC_DEF void posenc_model_watch(posenc_model *m,
                                   void (*watch)(void *user, posenc_model *m, int layer), void *user);
/* After a forward (for inference models: from watch): the map (B,H,T,T) of one layer, without
   dropout. With recompute its queries and keys are computed again, in the one room there is.     */
POSENC_DEF posenc_status posenc_model_attention(posenc_model *m, posenc_float *map, int layer,
                                                posenc_error *why);

/* Generating: keys and values of earlier tokens are kept, so that a new token costs one row of work and
   not all rows again. A cache has rows (one for each text, config.batch at most) of slots
   (config.context at most), the same number used in each: shorter texts begin with padding, whose
   slots nobody sees. A window counts slots. For causal models.                                   */
typedef struct posenc_cache posenc_cache;
POSENC_DEF size_t posenc_cache_bytes(const posenc_config *c, int rows, int slots);  /* 0: bad config */
POSENC_DEF posenc_status posenc_cache_create(posenc_cache **cache, posenc_model *m, int rows,
                                             int slots, posenc_error *why);
POSENC_DEF void posenc_cache_free(posenc_cache *cache);                           /* NULL is fine */
POSENC_DEF void posenc_cache_clear(posenc_cache *cache);
POSENC_DEF int  posenc_cache_used(const posenc_cache *cache);           /* slots, in every row    */
/* Forgets n slots of every row from slot `from` on; what stood behind them moves up, in slots and in
   positions, keys turned once more to where they now stand. Refused where that cannot be: positions
   that entered the embedding, keys that were normed behind their turn (qk_norm=after).           */
POSENC_DEF posenc_status posenc_cache_forget(posenc_cache *cache, int from, int n,
                                             posenc_error *why);
/* A forward of the batch's tokens (B = rows of the cache) behind those in the cache, where they stay.
   positions NULL: each row counts on from its last kept token. keep marks padding.               */
POSENC_DEF posenc_status posenc_model_extend(posenc_model *m, posenc_cache *cache,
                                             const posenc_batch *batch, posenc_error *why);

/* How the next token is drawn: first the tokens seen before lose (repetition above 1: a positive logit
   is divided by it, a negative one multiplied), then logits are divided by the temperature, then the
   top_k largest stay, then as many of the largest as make up the share top_p.                    */
typedef struct posenc_sampling {            /* all zero: always the most likely token             */
    double temperature;                     /* 0: the most likely, whatever the rest says         */
    int top_k;                              /* 0: all                                             */
    double top_p;                           /* 0: 1                                               */
    double repetition;                      /* 0: 1                                               */
    uint64_t seed;
} posenc_sampling;
/* A token 0..V-1, or -1 when no logit is a number. seen (n) may be NULL with n 0; index counts the
   draws of a seed. logits are overwritten.                                                       */
POSENC_DEF int posenc_sample(posenc_float *logits, int V, const int *seen, int n,
                             const posenc_sampling *how, uint64_t index);

typedef struct posenc_generation {
    posenc_sampling sampling;
    int most;                               /* new tokens of each row                             */
    const int *stop;                        /* (stops) a row that draws one of these has ended    */
    int stops;
    int forget;                             /* 0: a full cache ends with POSENC_FULL; n: that many
                                               slots behind the first `anchor` ones are forgotten */
    int anchor;
    int (*token)(void *user, int row, int token);   /* each token as it comes; 0 ends its row     */
    void *user;
} posenc_generation;
/* Row b continues prompt[b*T .. b*T + length[b] - 1], 1 <= length[b] <= T. out (rows, most) receives the
   new tokens, a stop token included, and count (rows) how many. The cache is cleared first.      */
POSENC_DEF posenc_status posenc_generate(int *out, int *count, posenc_model *m, posenc_cache *cache,
                                         const int *prompt, const int *length, int T,
                                         const posenc_generation *how, posenc_error *why);

/* Every parameter and every saved activation by name: "blocks.0.attn.q_proj.weight",
   "blocks.0.attn.q". data, grad and moments are addresses in the backend's memory: read them
   with posenc_model_get.                                                                         */
typedef struct posenc_tensor {
    char name[64];
    int dims, shape[4];
    size_t count;
    posenc_float *data, *grad, *moment1, *moment2;            /* NULL where there is none         */
    double decay;                    /* this tensor's share of weight decay: 1 or 0, yours to set */
    int frozen;                       /* 1: no gradient is computed, no update made; yours to set */
} posenc_tensor;
POSENC_DEF int posenc_model_parameters(const posenc_model *m);             /* how many tensors    */
POSENC_DEF int posenc_model_activations(const posenc_model *m);
POSENC_DEF posenc_tensor *posenc_model_parameter(posenc_model *m, int i);
POSENC_DEF posenc_tensor *posenc_model_activation(posenc_model *m, int i);
POSENC_DEF posenc_tensor *posenc_model_find(posenc_model *m, const char *name);  /* NULL: unknown */
POSENC_DEF size_t posenc_model_numbers(const posenc_model *m);      /* parameters, counted singly */
POSENC_DEF void posenc_model_get(posenc_model *m, posenc_float *host, const posenc_float *data,
                                 size_t n);
POSENC_DEF void posenc_model_set(posenc_model *m, posenc_float *data, const posenc_float *host,
                                 size_t n);

/* Where parameter i lies in a published model, as Hugging Face's transformers names and keeps it. theirs
   has shape; ours, (r,c), is theirs at row first + r / run * apart + r % run and column c, or with
   `transposed` the other way round. Returns 0 where that family has no such tensor.              */
typedef enum posenc_family {
    POSENC_AS_BERT, POSENC_AS_GPT2, POSENC_AS_LLAMA, /* Llama: also Mistral, Qwen3                   */
    POSENC_AS_NEOX, POSENC_AS_BLOOM, POSENC_AS_T5    /* T5: the encoder                              */
} posenc_family;
typedef struct posenc_published {
    char name[96];
    int dims, shape[2];
    int transposed, first, run, apart;
} posenc_published;
POSENC_DEF int posenc_model_published(posenc_published *p, const posenc_model *m, int i, int family);

#ifndef POSENC_NO_STDIO
/* Checkpoints are safetensors files [9]. what: the weights alone, or all that a resumed run needs.
   note: any text of yours (NULL: none). The file appears whole or not at all: a failed save
   leaves an older file of that name as it was.                                                   */
enum { POSENC_WEIGHTS, POSENC_WEIGHTS_AND_STATE };
POSENC_DEF posenc_status posenc_model_save(posenc_model *m, const char *path, int what,
                                           const char *note, posenc_error *why);
/* Loads into a model of the same geometry; F32, F64, F16 and BF16 files. note (room bytes, may
   be NULL) receives the text. With POSENC_WEIGHTS_AND_STATE the file must hold moments and step
   as well. On failure the model is as it was.                                                    */
POSENC_DEF posenc_status posenc_model_load(posenc_model *m, const char *path, int what, char *note,
                                           size_t room, posenc_error *why);
/* The config a checkpoint was saved with, for posenc_model_create before posenc_model_load.      */
POSENC_DEF posenc_status posenc_checkpoint_config(posenc_config *c, char spec[POSENC_SPEC_TEXT],
                                                  const char *path, posenc_error *why);
#endif

/* ---- [2.11] the machine ---------------------------------------------------------------------- */

/* "c", "avx2", "avx512", "neon": the kernels in use, the best this CPU has unless told otherwise.
   use_tier is for tests: NULL means the best again; returns 0 and changes nothing if the CPU
   lacks it.                                                                                      */
POSENC_DEF const char *posenc_cpu_tier(void);
POSENC_DEF int posenc_use_tier(const char *name);
/* threads OpenMP would use now; 1 without OpenMP */
POSENC_DEF int posenc_threads(void);

#ifdef __cplusplus
}
#endif
#endif /* POSENC_H */

/* ==== Stop here if you only call the library. =============================================== */

#ifdef POSENC_IMPLEMENTATION
#ifndef POSENC_IMPLEMENTED
#define POSENC_IMPLEMENTED

/* ---- [3] ground ------------------------------------------------------------------------------ */

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#ifndef POSENC_ASSERT
#include <assert.h>
#define POSENC_ASSERT(c) assert(c)
#endif

#if defined(POSENC_MALLOC) != defined(POSENC_FREE)
#error "define both POSENC_MALLOC and POSENC_FREE, or neither"
#endif
#ifndef POSENC_MALLOC
#define POSENC_MALLOC(bytes) malloc(bytes)
#define POSENC_FREE(memory)  free(memory)
#endif

/* Only loops over outputs are parallel: the thread that owns an output element computes all of
   it, so the bits do not depend on the number of threads. A bare pragma would warn where OpenMP
   is off.                                                                                        */
#ifdef _OPENMP
#define PE__PRAGMA(text)        _Pragma(#text)
#define PE__PARALLEL            PE__PRAGMA(omp parallel for schedule(static))
#define PE__PARALLEL_IF(worth)  PE__PRAGMA(omp parallel for schedule(static) if (worth))
#define PE__PARALLEL_ON(count)  PE__PRAGMA(omp parallel for schedule(static) num_threads(count))
#else
#define PE__PARALLEL
#define PE__PARALLEL_IF(worth)
#define PE__PARALLEL_ON(count)
#endif

#if defined(__GNUC__)
#define PE__UNUSED  __attribute__((unused))
#define PE__FORMAT(text, first) __attribute__((format(printf, text, first)))
#else
#define PE__UNUSED
#define PE__FORMAT(text, first)
#endif

#if !defined(POSENC_NO_SIMD) && !defined(POSENC_DOUBLE) && defined(__x86_64__) && defined(__GNUC__)
#define PE__X86 1
#elif !defined(POSENC_NO_SIMD) && !defined(POSENC_DOUBLE) && defined(__aarch64__) && \
      defined(__GNUC__)
#define PE__ARM 1
#endif

/* one spelling of the C library's functions for float and for the double build */
#ifdef POSENC_DOUBLE
#define PE__EXP   exp
#define PE__LOG   log
#define PE__SQRT  sqrt
#define PE__TANH  tanh
#define PE__ERF   erf
#else
#define PE__EXP   pe__exp                    /* [3.3] */
#define PE__LOG   logf
#define PE__SQRT  sqrtf
#define PE__TANH  pe__tanh
#define PE__ERF   pe__erf
#endif
#define PE__F(x) ((posenc_float)(x))

static const double pe__pi = 3.14159265358979323846;

static PE__UNUSED int pe__min(int a, int b) { return a < b ? a : b; }
static PE__UNUSED size_t pe__least(size_t a, size_t b) { return a < b ? a : b; }
static PE__UNUSED int pe__abs(int x) { return x == INT_MIN ? INT_MAX : abs(x); }
static PE__UNUSED int pe__max(int a, int b) { return a > b ? a : b; }
static PE__UNUSED int pe__clamp(int x, int low, int high)
{
    return x < low ? low : x > high ? high : x;
}

POSENC_DEF int posenc_threads(void)
{
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}

/* ---- [3.1] sentences ------------------------------------------------------------------------- */

POSENC_DEF const char *posenc_explain(int status)
{
    switch (status) {
    case POSENC_OK:            return "fine";
    case POSENC_OUT_OF_MEMORY: return "out of memory";
    case POSENC_BAD_CONFIG:    return "impossible configuration";
    case POSENC_BAD_INPUT:     return "input out of range";
    case POSENC_FILE:          return "file error";
    case POSENC_BAD_FILE:      return "bad file";
    case POSENC_NOT_FINITE:    return "not a finite number";
    case POSENC_FULL:          return "cache full";
    default:                   return "unknown status";
    }
}

/* writes the sentence and hands the status on, so that a check is one line: return pe__fail(...) */
static posenc_status pe__fail(posenc_error *why, posenc_status status, const char *format, ...)
    PE__FORMAT(3, 4);
static posenc_status pe__fail(posenc_error *why, posenc_status status, const char *format, ...)
{
    va_list list;
    if (!why) return status;
    va_start(list, format);
    vsnprintf(why->text, sizeof why->text, format, list);
    va_end(list);
    for (char *c = why->text; *c; c++)              /* names from files reach somebody's terminal */
        if ((unsigned char)*c < 32 || *c == 127) *c = '?';
    return status;
}

/* Text into a buffer of fixed room, counting what it would have taken, as snprintf does. */
typedef struct pe__text { char *at; size_t room, used; } pe__text;

static void pe__say(pe__text *t, const char *format, ...) PE__FORMAT(2, 3);
static void pe__say(pe__text *t, const char *format, ...)
{
    va_list list;
    size_t left = t->used < t->room ? t->room - t->used : 0;
    int n;
    va_start(list, format);
    n = vsnprintf(left ? t->at + t->used : NULL, left, format, list);
    va_end(list);
    if (n > 0) t->used += (size_t)n;
}

/* A word of text: not ended by 0, since it is a part of somebody's string. */
typedef struct pe__word { const char *at; size_t n; } pe__word;

static int pe__is(pe__word w, const char *text)
{
    return strlen(text) == w.n && !memcmp(w.at, text, w.n);
}

/* the word up to the first of the separators (or the end); *text moves behind it */
static pe__word pe__cut(const char **text, const char *separators)
{
    pe__word w;
    w.at = *text;
    w.n = strcspn(*text, separators);
    *text += w.n;
    return w;
}

/* Numbers as text have a point, whatever the host program's locale: what printf puts between the
   zeros of 0.0 is taken out on the way to text, and put in on the way back. */
static size_t pe__locale_point(char point[8])
{
    char probe[16];
    size_t n;
    snprintf(probe, sizeof probe, "%.1f", 0.0);
    n = strlen(probe) - 2;
    if (n > 7) n = 7;
    memcpy(point, probe + 1, n);
    point[n] = 0;
    return n;
}

/* A finite number that fills the whole word, or 0. strtod alone would take "inf" and "1e3x". */
static int pe__number(double *x, pe__word w)
{
    char copy[48], point[8], *end;
    size_t n = pe__locale_point(point), used = 0;
    if (w.n == 0 || w.n >= 40 || strspn(w.at, "0123456789+-.eE") < w.n) return 0;
    for (size_t i = 0; i < w.n; i++) {
        if (w.at[i] != '.') copy[used++] = w.at[i];
        else if (strchr(w.at, '.') == w.at + i) { memcpy(copy + used, point, n); used += n; }
        else return 0;                                                      /* a second point */
    }
    copy[used] = 0;
    *x = strtod(copy, &end);
    return *end == 0 && *x - *x == 0;
}

/* the shortest of two texts that reads back as x */
static void pe__number_text(char text[40], double x)
{
    char point[8], *at;
    size_t n = pe__locale_point(point);
    snprintf(text, 40, "%.15g", x);
    if (strtod(text, NULL) != x) snprintf(text, 40, "%.17g", x);
    at = strstr(text, point);
    if (at) { *at = '.'; memmove(at + 1, at + n, strlen(at + n) + 1); }
}

/* ---- [3.2] random numbers without a state -------------------------------------------------------
   Philox4x32-10 (Salmon et al. 2011): ten rounds of multiply-and-swap turn a counter of four words
   into four random ones. There is no stream to keep in order: word number i can be had at any time,
   by any thread, on any device, so dropout masks are computed again in the backward instead of
   stored.

   Counter = { index/4 low, index/4 high, step, site }, lane = index mod 4, key = the run's seed. */

POSENC_DEF void posenc_philox(uint32_t out[4], const uint32_t counter[4], uint64_t key)
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p = (uint64_t)0xD2511F53u * c0, q = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(q >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)q;
        c2 = (uint32_t)(p >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0; out[1] = c1; out[2] = c2; out[3] = c3;
}

/* the four words that hold index 4*block .. 4*block+3 */
static void pe__random_block(uint32_t out[4], uint64_t seed, uint32_t step, uint32_t site,
                             uint64_t block)
{
    uint32_t counter[4];
    counter[0] = (uint32_t)block;
    counter[1] = (uint32_t)(block >> 32);
    counter[2] = step;
    counter[3] = site;
    posenc_philox(out, counter, seed);
}

/* Number i of a tensor's initial values; site keeps tensors apart, step ~0 keeps them from
   dropout.                                                                                       */
static double pe__uniform(uint64_t seed, uint32_t site, uint64_t i)              /* in (0,1) */
{
    uint32_t w[4];
    pe__random_block(w, seed, 0xFFFFFFFFu, site, i);
    return ((double)w[0] * 67108864.0 + (double)(w[1] >> 6) + 0.5) / 288230376151711744.0;
}
static double pe__normal(uint64_t seed, uint32_t site, uint64_t i)             /* Box and Muller */
{
    double u = pe__uniform(seed, site, 2 * i), v = pe__uniform(seed, site, 2 * i + 1);
    return sqrt(-2.0 * log(u)) * cos(2.0 * pe__pi * v);
}

/* ---- [3.3] loops that every machine compiles its own way ----------------------------------------
   A loop over the channels of a row is the same C on every processor; only the width of a register
   differs. So it is written once, below a line that begins with PE__STAMPED, and compiled once for
   each tier [10]: pe__NAME calls the copy for this machine. Inside such a body

       PE__EACH for (...)   promises that the turns of the loop do not depend on each other
       pe__lanes            eight numbers that are added as one; two of them, sixteen partial sums,
                            stand for the sum of a row, folded in one fixed order

   and nothing is fused or reordered, so that all tiers give the same bits, plain C as well (with
   gcc and clang; another compiler has one lane and rounds in its own order). On 64-bit ARM one copy
   is enough: NEON is part of every such processor, and the compiler uses it unasked.             */

#if defined(__GNUC__)
#define PE__INLINE static inline __attribute__((always_inline, unused))
#define PE__EIGHT  8
typedef posenc_float pe__lanes
    __attribute__((vector_size(8 * sizeof(posenc_float)), aligned(sizeof(posenc_float)),
                   may_alias));
#ifdef POSENC_DOUBLE
typedef long long pe__bits __attribute__((vector_size(8 * sizeof(posenc_float))));
#else
typedef int pe__bits __attribute__((vector_size(8 * sizeof(posenc_float))));
#endif
#else
#define PE__INLINE static
#define PE__EIGHT  1
typedef posenc_float pe__lanes;
#endif
#if defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 12)            /* lanes trade places */
#define PE__MIX8(x, a, b, c, d, e, f, g, h) __builtin_shufflevector(x, x, a, b, c, d, e, f, g, h)
#define PE__FOLDED 1
#else
#define PE__FOLDED PE__EIGHT
#endif

#if defined(__clang__)              /* which warns of loops that it was asked to widen and cannot */
#pragma clang fp contract(off)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wpass-failed"
#if defined(POSENC_DOUBLE) || !defined(__OPTIMIZE__) || __has_feature(address_sanitizer) || \
    __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer) || \
    __has_feature(undefined_behavior_sanitizer)
#define PE__EACH
#else
#define PE__EACH  _Pragma("clang loop vectorize(assume_safety)")
#endif
#define PE__LOOPS
#elif defined(__GNUC__)
#define PE__EACH  _Pragma("GCC ivdep")
#define PE__LOOPS \
    __attribute__((optimize("O3", "fp-contract=off", "no-trapping-math", "no-math-errno")))
#else
#define PE__EACH
#define PE__LOOPS
#endif

#ifdef PE__X86
#define PE__AVX2   __attribute__((target("avx2,fma")))
#define PE__AVX512 __attribute__((target("avx512f")))
#define PE__COPY(NAME, ATTRIBUTE, PARAMETERS, BODY, ARGUMENTS) \
    PE__LOOPS PE__UNUSED ATTRIBUTE static void NAME PARAMETERS { BODY ARGUMENTS; }
#define PE__STAMPED(NAME, PARAMETERS, ARGUMENTS)                                                   \
    PE__LOOPS PE__INLINE void pe__##NAME##_body PARAMETERS;                                        \
    PE__COPY(pe__##NAME##_c,      ,           PARAMETERS, pe__##NAME##_body, ARGUMENTS)            \
    PE__COPY(pe__##NAME##_avx2,   PE__AVX2,   PARAMETERS, pe__##NAME##_body, ARGUMENTS)            \
    PE__COPY(pe__##NAME##_avx512, PE__AVX512, PARAMETERS, pe__##NAME##_body, ARGUMENTS)            \
    static PE__UNUSED void pe__##NAME PARAMETERS                                                   \
    {                                                                                              \
        int tier = pe__tier();                                                                     \
        if      (tier == 2) pe__##NAME##_avx512 ARGUMENTS;                                         \
        else if (tier == 1) pe__##NAME##_avx2 ARGUMENTS;                                           \
        else                pe__##NAME##_c ARGUMENTS;                                              \
    }                                                                                              \
    PE__LOOPS PE__INLINE void pe__##NAME##_body PARAMETERS
static int pe__tier(void);                                             /* 0 c, 1 avx2, 2 avx512 */
#else
#define PE__STAMPED(NAME, PARAMETERS, ARGUMENTS) \
    PE__LOOPS PE__UNUSED static void pe__##NAME PARAMETERS
#endif

/* sum of two bundles of lanes and of the n numbers of a row that did not fill them */
PE__INLINE posenc_float pe__across(const pe__lanes *a, const pe__lanes *b, const posenc_float *rest,
                                   int n)
{
    posenc_float w[8] = {0};
    pe__lanes both = *a + *b;
    memcpy(w, &both, sizeof both);
    for (int i = 0; i < n; i++) w[i & 7] += rest[i];
    return ((w[0] + w[4]) + (w[2] + w[6])) + ((w[1] + w[5]) + (w[3] + w[7]));
}

/* exp(x) = 2^n e^r with n whole and |r| <= ln(2)/2, where eight terms of the series reach float's
   last bit (1.0e-7 at worst). Adding 1.5 * 2^23 rounds a number and leaves it in the low bits of
   the sum. 2^n is put together from its exponent, in two halves: 2^n itself may be out of range
   where the result is not. No branch, so that a loop of it fills registers; NaN stays NaN.       */
PE__INLINE float pe__exp(float x)
{
    const float round = 12582912.0f;
    float shifted, n, r, y, low, high;
    int32_t i, half;
    uint32_t bits;
    x = x < -104 ? -104 : x;
    x = x > 89 ? 89 : x;
    shifted = x * 1.44269504f + round;
    memcpy(&i, &shifted, sizeof i);
    i -= 0x4B400000;                                                    /* the bits of `round` */
    n = shifted - round;
    r = x - n * 0.693145752f;                  /* ln 2 in two parts: n times the first is exact */
    r = r - n * 1.42860677e-6f;
    y = 1 + r * (1 + r * (0.5f + r * (1.0f / 6 + r * (1.0f / 24
          + r * (1.0f / 120 + r * (1.0f / 720 + r * (1.0f / 5040)))))));
    half = (i + 1024) / 2 - 512;
    bits = (uint32_t)(half + 127) << 23;
    memcpy(&low, &bits, sizeof low);
    bits = (uint32_t)(i - half + 127) << 23;
    memcpy(&high, &bits, sizeof high);
    return y * low * high;
}

/* tanh and erf are odd, so |x| will do. Near 0 they are x times a polynomial of x^2; further out
       tanh = 1 - 2 / (exp(2|x|) + 1)        erf = 1 - exp(-g(|x|)), g a polynomial fitted to -ln erfc
   Both sides are computed and one is taken. The polynomials are fits to the functions in double, made so
   that the largest error is least; in float 1.6e-7 of the value at worst (tanh) and 2e-7 (erf).  */
PE__INLINE float pe__tanh(float x)
{
    float a = x < 0 ? -x : x, z = a * a, far, near;
    near = a + a * z * (-0.333333284f + z * (0.133327946f + z * (-0.0538540669f
             + z * (0.0210100766f + z * -0.00611318555f))));
    far = 1 - 2 / (pe__exp(2 * a) + 1);
    a = a < 0.625f ? near : far;
    return x < 0 ? -a : a;
}
PE__INLINE float pe__erf(float x)
{
    float a = x < 0 ? -x : x, z = a * a, t = a > 4 ? 4 : a, far, near;
    near = a * (1.12837923f + z * (-0.376126379f + z * (0.112837829f + z * (-0.0268654451f
             + z * (0.00522107491f + z * (-0.000848471129f + z * (0.000112705435f
             + z * -9.6801341e-06f)))))));
    far = 1 - pe__exp(-(0.000353708921f + t * (1.12704003f + t * (0.638225615f + t * (0.103037439f
             + t * (-0.0218053516f + t * (0.00293961586f + t * -0.0001855749f)))))));
    a = a < 1 ? near : far;
    return x < 0 ? -a : a;
}

/* ---- [4] layers ---------------------------------------------------------------------------------
   Each card gives the formula, then derives the backward beside it. Two rules hold throughout:
   gradients of parameters are added to (several batches, several uses of one tensor), gradients of
   activations are overwritten. A NULL gradient of a parameter means that it is frozen.           */

/* ---- [4.1] product and linear layer -------------------------------------------------------------
   c_ij = sum_p a_ip b_pj

   Everything expensive in a transformer is this sum. Backward of c = a b with gradient dc:
       da = dc b'       db = a' dc
   that is, the same sum with one side transposed; so one routine that reads a and b with any
   strides serves both directions. pe__product [11.4] is that routine.

   Linear layer: y = x w' + bias, w (out,in).
       dx = dy w        dw += dy' x        dbias += column sums of dy                             */

static void pe__product(posenc_float *c, int m, int n, int k, const posenc_float *a,
                        ptrdiff_t a_row, ptrdiff_t a_col, const posenc_float *b, ptrdiff_t b_row,
                        ptrdiff_t b_col, const posenc_float *bias, int add);

POSENC_DEF void posenc_product(posenc_float *c, const posenc_float *a, const posenc_float *b,
                               int m, int n, int k, int form)
{
    ptrdiff_t a_row = form & POSENC_A_T ? 1 : k, a_col = form & POSENC_A_T ? m : 1;
    ptrdiff_t b_row = form & POSENC_B_T ? 1 : n, b_col = form & POSENC_B_T ? k : 1;
    pe__product(c, m, n, k, a, a_row, a_col, b, b_row, b_col, NULL, form & POSENC_ADD);
}

POSENC_DEF void posenc_linear_forward(posenc_float *y, const posenc_float *x, const posenc_float *w,
                                      const posenc_float *b, int R, int in, int out)
{
    pe__product(y, R, out, in, x, in, 1, w, 1, in, b, 0);
}

/* sum[j] += x[0,j] + x[1,j] + ... with rows in order; a thread owns a stretch of columns */
enum { PE__STRETCH = 64, PE__COLUMNS = 32, PE__ACROSS = PE__COLUMNS / PE__EIGHT };
PE__STAMPED(add_columns_of, (posenc_float *sum, const posenc_float *x, int R, int n), (sum, x, R, n))
{
    pe__lanes acc[PE__ACROSS];
    memset(acc, 0, sizeof acc);
    for (int r = 0; r < R; r++, x += n)
        for (int v = 0; v < PE__ACROSS; v++) acc[v] += *(const pe__lanes *)(x + v * PE__EIGHT);
    for (int v = 0; v < PE__ACROSS; v++) *(pe__lanes *)(sum + v * PE__EIGHT) += acc[v];
}
PE__STAMPED(add_some_columns, (posenc_float *sum, const posenc_float *x, int R, int n, int width),
            (sum, x, R, n, width))
{
    posenc_float acc[PE__COLUMNS] = {0};
    for (int r = 0; r < R; r++, x += n)
        PE__EACH for (int j = 0; j < width; j++) acc[j] += x[j];
    for (int j = 0; j < width; j++) sum[j] += acc[j];
}

static void pe__add_columns(posenc_float *sum, const posenc_float *x, int R, int n)
{
    PE__PARALLEL_IF((double)R * n > 1e4)
    for (int j = 0; j < n; j += PE__COLUMNS) {
        if (n - j >= PE__COLUMNS) pe__add_columns_of(sum + j, x + j, R, n);
        else                      pe__add_some_columns(sum + j, x + j, R, n, n - j);
    }
}

POSENC_DEF void posenc_linear_backward(posenc_float *dx, posenc_float *dw, posenc_float *db,
                                       const posenc_float *dy, const posenc_float *x,
                                       const posenc_float *w, int R, int in, int out, int add)
{
    if (dx) pe__product(dx, R, in, out, dy, out, 1, w, in, 1, NULL, add);
    if (dw) pe__product(dw, out, in, R, dy, 1, out, x, in, 1, NULL, 1);
    if (db) pe__add_columns(db, dy, R, out);
}

/* Products in bfloat16: a float without the lower 16 bits of its mantissa, rounded to the nearest. Half
   the bytes, and processors with a unit for it multiply two pairs at a time; sums, weights and their
   updates stay float, or small steps would be lost. pe__product_bf16 [11.5] is the same sum. Its right
   side is rounded into scratch first, unless that was done before: `ready`.                      */
static void pe__product_bf16(posenc_float *c, int m, int n, int k, const posenc_float *a,
                             ptrdiff_t a_row, ptrdiff_t a_col, const posenc_float *b, ptrdiff_t b_row,
                             ptrdiff_t b_col, const posenc_float *bias, int add,
                             posenc_float *scratch, const posenc_float *ready);
static void pe__ready_bf16(posenc_float *ready, const posenc_float *b, ptrdiff_t b_row,
                           ptrdiff_t b_col, int n, int k);
static size_t pe__ready_floats(int n, int k);

/* A weight rounded once for many products: as y = x w' and as dx = dy w want it. NULL: not yet.  */
typedef struct pe__ready_weight { posenc_float *forward, *backward; } pe__ready_weight;

static void pe__linear_forward_bf16(posenc_float *y, const posenc_float *x, const posenc_float *w,
                                    const posenc_float *b, int R, int in, int out,
                                    posenc_float *scratch, pe__ready_weight ready)
{
    pe__product_bf16(y, R, out, in, x, in, 1, w, 1, in, b, 0, scratch, ready.forward);
}
static void pe__linear_backward_bf16(posenc_float *dx, posenc_float *dw, posenc_float *db,
                                     const posenc_float *dy, const posenc_float *x,
                                     const posenc_float *w, int R, int in, int out, int add,
                                     posenc_float *scratch, pe__ready_weight ready)
{
    if (dx) pe__product_bf16(dx, R, in, out, dy, out, 1, w, in, 1, NULL, add, scratch, ready.backward);
    if (dw) pe__product_bf16(dw, out, in, R, dy, 1, out, x, in, 1, NULL, 1, scratch, NULL);
    if (db) pe__add_columns(db, dy, R, out);
}

static const pe__ready_weight pe__not_ready = { NULL, NULL };
POSENC_DEF void posenc_linear_forward_bf16(posenc_float *y, const posenc_float *x,
                                           const posenc_float *w, const posenc_float *b, int R,
                                           int in, int out, posenc_float *scratch)
{
    pe__linear_forward_bf16(y, x, w, b, R, in, out, scratch, pe__not_ready);
}
POSENC_DEF void posenc_linear_backward_bf16(posenc_float *dx, posenc_float *dw, posenc_float *db,
                                            const posenc_float *dy, const posenc_float *x,
                                            const posenc_float *w, int R, int in, int out, int add,
                                            posenc_float *scratch)
{
    pe__linear_backward_bf16(dx, dw, db, dy, x, w, R, in, out, add, scratch, pe__not_ready);
}

/* ---- [4.2] softmax ------------------------------------------------------------------------------
   y_i = exp(x_i - max) / sum_j exp(x_j - max)

   The maximum is taken away first so that exp() cannot overflow; it cancels in the quotient.
   Backward. dy_j/dx_i = y_j (i == j) - y_i y_j, so
       dx_i = y_i (dy_i - sum_j dy_j y_j)
   The row's mean of dy under y is taken away: raising all x together changes nothing.            */

PE__INLINE posenc_float pe__sum(const posenc_float *x, int n)
{
    pe__lanes a = {0}, b = {0};
    int i = 0;
    for (; i <= n - 2 * PE__EIGHT; i += 2 * PE__EIGHT) {
        a += *(const pe__lanes *)(x + i);
        b += *(const pe__lanes *)(x + i + PE__EIGHT);
    }
    return pe__across(&a, &b, x + i, n - i);
}

/* the larger of two numbers, lane by lane; a NaN in x counts as the largest, so that it stays visible */
PE__INLINE void pe__larger(pe__lanes *most, const pe__lanes *x)
{
#if PE__EIGHT == 8
    pe__bits take = (*x > *most) | (*x != *x);
    *most = (pe__lanes)((take & (pe__bits)*x) | (~take & (pe__bits)*most));
#else
    if (*x > *most || *x != *x) *most = *x;
#endif
}

/* the largest of n numbers and `top` */
PE__INLINE posenc_float pe__largest(const posenc_float *x, int n, posenc_float top)
{
    posenc_float w[PE__EIGHT];
    pe__lanes most, other;
    int i = 0;
    for (int l = 0; l < PE__EIGHT; l++) w[l] = top;
    memcpy(&most, w, sizeof most);
    for (; i <= n - PE__EIGHT; i += PE__EIGHT)
        pe__larger(&most, (const pe__lanes *)(x + i));
    other = most;
#ifdef PE__MIX8
    other = PE__MIX8(most, 4, 5, 6, 7, 0, 1, 2, 3); pe__larger(&most, &other);
    other = PE__MIX8(most, 2, 3, 0, 1, 6, 7, 4, 5); pe__larger(&most, &other);
    other = PE__MIX8(most, 1, 0, 3, 2, 5, 4, 7, 6); pe__larger(&most, &other);
#endif
    (void)other;
    memcpy(w, &most, sizeof most);
    for (int l = 0; l < PE__FOLDED; l++) if (w[l] > top || w[l] != w[l]) top = w[l];
    for (; i < n; i++) if (x[i] > top || x[i] != x[i]) top = x[i];
    return top;
}

PE__STAMPED(softmax_row, (posenc_float *y, const posenc_float *x, int n), (y, x, n))
{
    posenc_float top = pe__largest(x, n, -HUGE_VALF), sum;
    if (top == -HUGE_VALF) top = 0;                   /* nothing to see: exp(-inf) = 0 everywhere */
    PE__EACH for (int i = 0; i < n; i++) y[i] = PE__EXP(x[i] - top);
    sum = pe__sum(y, n);
    PE__EACH for (int i = 0; i < n; i++) y[i] = sum == 0 ? 0 : y[i] / sum;
}

POSENC_DEF void posenc_softmax_forward(posenc_float *y, const posenc_float *x, int R, int n)
{
    PE__PARALLEL
    for (int r = 0; r < R; r++) pe__softmax_row(y + (size_t)r * n, x + (size_t)r * n, n);
}

POSENC_DEF void posenc_softmax_backward(posenc_float *dx, const posenc_float *dy,
                                        const posenc_float *y, int R, int n)
{
    PE__PARALLEL
    for (int r = 0; r < R; r++) {
        const posenc_float *dyr = dy + (size_t)r * n, *yr = y + (size_t)r * n;
        posenc_float *dxr = dx + (size_t)r * n, mean = 0;
        for (int i = 0; i < n; i++) mean += dyr[i] * yr[i];
        for (int i = 0; i < n; i++) dxr[i] = yr[i] * (dyr[i] - mean);
    }
}

/* ---- [4.3] LayerNorm (Ba et al. 2016) -----------------------------------------------------------
   z_i = (x_i - mean) rstd        y_i = gain_i z_i + bias_i        rstd = 1 / sqrt(variance + eps)

   Forward keeps mean and rstd, two numbers a row. Backward. With s_i = dy_i gain_i, the gradient
   that reaches z:
       dx_i = rstd ( s_i - mean(s) - z_i mean(s z) )
   The two means are what x gives away by moving the row's mean and its spread: a row that is
   shifted or stretched as a whole gives the same y, so no gradient may point along either.
       dgain_i += sum over rows of dy_i z_i        dbias_i += sum over rows of dy_i               */

/* sum of (x_i - m)^2 */
PE__INLINE posenc_float pe__squares_about(posenc_float m, const posenc_float *x, int n)
{
    pe__lanes a = {0}, b = {0};
    posenc_float rest[16];
    int i = 0, left;
    for (; i <= n - 2 * PE__EIGHT; i += 2 * PE__EIGHT) {
        pe__lanes p = *(const pe__lanes *)(x + i) - m;
        pe__lanes q = *(const pe__lanes *)(x + i + PE__EIGHT) - m;
        a += p * p;
        b += q * q;
    }
    left = n - i;
    for (int l = 0; l < left; l++) rest[l] = (x[i + l] - m) * (x[i + l] - m);
    return pe__across(&a, &b, rest, left);
}

PE__STAMPED(layernorm_row, (posenc_float *y, posenc_float *mean, posenc_float *rstd,
                            const posenc_float *x, const posenc_float *gain,
                            const posenc_float *bias, double eps, int n),
            (y, mean, rstd, x, gain, bias, eps, n))
{
    posenc_float m = pe__sum(x, n) / PE__F(n);
    posenc_float r = 1 / PE__SQRT(pe__squares_about(m, x, n) / PE__F(n) + PE__F(eps));
    if (bias) PE__EACH for (int i = 0; i < n; i++) y[i] = gain[i] * (x[i] - m) * r + bias[i];
    else      PE__EACH for (int i = 0; i < n; i++) y[i] = gain[i] * (x[i] - m) * r;
    *mean = m;
    *rstd = r;
}

POSENC_DEF void posenc_layernorm_forward(posenc_float *y, posenc_float *mean, posenc_float *rstd,
                                         const posenc_float *x, const posenc_float *gain,
                                         const posenc_float *bias, double eps, int R, int n)
{
    PE__PARALLEL
    for (int r = 0; r < R; r++)
        pe__layernorm_row(y + (size_t)r * n, mean + r, rstd + r, x + (size_t)r * n, gain, bias, eps,
                          n);
}

/* dgain_j += sum over rows of dy z, z = (x - mean) rstd, mean NULL meaning 0: for both norms; dbias as
   pe__add_columns, on the same way down the rows. dbias may be NULL; so may dgain, when dbias is not. */
PE__STAMPED(norm_columns, (posenc_float *dgain, posenc_float *dbias, const posenc_float *dy,
                           const posenc_float *mean, const posenc_float *rstd, const posenc_float *x,
                           int R, int n), (dgain, dbias, dy, mean, rstd, x, R, n))
{
    pe__lanes g[PE__ACROSS], b[PE__ACROSS];
    memset(g, 0, sizeof g);
    memset(b, 0, sizeof b);
    for (int r = 0; r < R; r++, dy += n, x += n) {
        posenc_float m = mean ? mean[r] : 0, scale = rstd[r];
        for (int v = 0; v < PE__ACROSS; v++) {
            pe__lanes d = *(const pe__lanes *)(dy + v * PE__EIGHT);
            g[v] += d * (*(const pe__lanes *)(x + v * PE__EIGHT) - m) * scale;
            b[v] += d;
        }
    }
    for (int v = 0; v < PE__ACROSS; v++) {
        if (dgain) *(pe__lanes *)(dgain + v * PE__EIGHT) += g[v];
        if (dbias) *(pe__lanes *)(dbias + v * PE__EIGHT) += b[v];
    }
}
PE__STAMPED(gain_some_columns, (posenc_float *dgain, const posenc_float *dy, const posenc_float *mean,
                                const posenc_float *rstd, const posenc_float *x, int R, int n,
                                int width),
            (dgain, dy, mean, rstd, x, R, n, width))
{
    posenc_float acc[PE__COLUMNS] = {0};
    for (int r = 0; r < R; r++, dy += n, x += n) {
        posenc_float m = mean ? mean[r] : 0, scale = rstd[r];
        PE__EACH for (int j = 0; j < width; j++) acc[j] += dy[j] * (x[j] - m) * scale;
    }
    for (int j = 0; j < width; j++) dgain[j] += acc[j];
}

static void pe__norm_columns_backward(posenc_float *dgain, posenc_float *dbias, const posenc_float *dy,
                                      const posenc_float *mean, const posenc_float *rstd,
                                      const posenc_float *x, int R, int n)
{
    if (!dgain && !dbias) return;
    PE__PARALLEL_IF((double)R * n > 1e4)
    for (int j = 0; j < n; j += PE__COLUMNS) {
        posenc_float *g = dgain ? dgain + j : NULL, *b = dbias ? dbias + j : NULL;
        if (n - j >= PE__COLUMNS) { pe__norm_columns(g, b, dy + j, mean, rstd, x + j, R, n); continue; }
        if (g) pe__gain_some_columns(g, dy + j, mean, rstd, x + j, R, n, n - j);
        if (b) pe__add_some_columns(b, dy + j, R, n, n - j);
    }
}

/* sum of a_i b_i */
PE__INLINE posenc_float pe__dot(const posenc_float *a, const posenc_float *b, int n)
{
    pe__lanes p = {0}, q = {0};
    posenc_float rest[16];
    int i = 0, left;
    for (; i <= n - 2 * PE__EIGHT; i += 2 * PE__EIGHT) {
        p += *(const pe__lanes *)(a + i) * *(const pe__lanes *)(b + i);
        q += *(const pe__lanes *)(a + i + PE__EIGHT) * *(const pe__lanes *)(b + i + PE__EIGHT);
    }
    left = n - i;
    for (int l = 0; l < left; l++) rest[l] = a[i + l] * b[i + l];
    return pe__across(&p, &q, rest, left);
}

/* dx holds s_i = dy_i gain_i on the way; dx may be dy. mean(s z) comes from the sums of s x and s,
   one pass less than from z itself; where a row's mean is 10,000 times its spread that costs three
   digits, as it does in other libraries.                                                         */
PE__STAMPED(layernorm_row_backward, (posenc_float *dx, const posenc_float *dy, posenc_float mean,
                                     posenc_float rstd, const posenc_float *x,
                                     const posenc_float *gain, int n),
            (dx, dy, mean, rstd, x, gain, n))
{
    posenc_float sum, along;
    PE__EACH for (int i = 0; i < n; i++) dx[i] = dy[i] * gain[i];
    sum = pe__sum(dx, n);
    along = rstd * (pe__dot(dx, x, n) - mean * sum) / PE__F(n);               /* mean(s z) */
    sum /= PE__F(n);
    PE__EACH for (int i = 0; i < n; i++)
        dx[i] = rstd * (dx[i] - sum - (x[i] - mean) * rstd * along);
}

POSENC_DEF void posenc_layernorm_backward(posenc_float *dx, posenc_float *dgain,
                                          posenc_float *dbias, const posenc_float *dy,
                                          const posenc_float *mean, const posenc_float *rstd,
                                          const posenc_float *x, const posenc_float *gain, int R,
                                          int n)
{
    pe__norm_columns_backward(dgain, dbias, dy, mean, rstd, x, R, n);
    PE__PARALLEL
    for (int r = 0; r < R; r++)
        pe__layernorm_row_backward(dx + (size_t)r * n, dy + (size_t)r * n, mean[r], rstd[r],
                                   x + (size_t)r * n, gain, n);
}

/* ---- [4.4] RMSNorm (Zhang and Sennrich 2019) ----------------------------------------------------
   y_i = gain_i x_i r            r = 1 / sqrt(mean(x^2) + eps)

   LayerNorm without the shift. With s_i = dy_i gain_i and dr/dx_i = -r^3 x_i / n:
       dx_i = r s_i - r^3 x_i mean(s x)
   The second term takes away the part of s that lies along x: a longer row gives the same y.     */

PE__STAMPED(rmsnorm_row, (posenc_float *y, posenc_float *r, const posenc_float *x,
                          const posenc_float *gain, double eps, int n),
            (y, r, x, gain, eps, n))
{
    posenc_float scale = 1 / PE__SQRT(pe__dot(x, x, n) / PE__F(n) + PE__F(eps));
    PE__EACH for (int j = 0; j < n; j++) y[j] = gain[j] * x[j] * scale;
    *r = scale;
}

POSENC_DEF void posenc_rmsnorm_forward(posenc_float *y, posenc_float *r, const posenc_float *x,
                                       const posenc_float *gain, double eps, int R, int n)
{
    PE__PARALLEL
    for (int i = 0; i < R; i++)
        pe__rmsnorm_row(y + (size_t)i * n, r + i, x + (size_t)i * n, gain, eps, n);
}

PE__STAMPED(rmsnorm_row_backward, (posenc_float *dx, const posenc_float *dy, posenc_float r,
                                   const posenc_float *x, const posenc_float *gain, int n),
            (dx, dy, r, x, gain, n))
{
    posenc_float along;
    PE__EACH for (int j = 0; j < n; j++) dx[j] = dy[j] * gain[j];
    along = pe__dot(dx, x, n) * (r * r / PE__F(n));
    PE__EACH for (int j = 0; j < n; j++) dx[j] = r * (dx[j] - x[j] * along);
}

POSENC_DEF void posenc_rmsnorm_backward(posenc_float *dx, posenc_float *dgain,
                                        const posenc_float *dy, const posenc_float *r,
                                        const posenc_float *x, const posenc_float *gain, int R,
                                        int n)
{
    pe__norm_columns_backward(dgain, NULL, dy, NULL, r, x, R, n);
    PE__PARALLEL
    for (int i = 0; i < R; i++)
        pe__rmsnorm_row_backward(dx + (size_t)i * n, dy + (size_t)i * n, r[i], x + (size_t)i * n,
                                 gain, n);
}

/* ---- [4.5] activations --------------------------------------------------------------------------
   relu       max(x, 0)                                  slope 1 where x > 0, else 0
   gelu       x P(x), P(x) = (1 + erf(x / sqrt 2)) / 2   P(x) + x exp(-x^2/2) / sqrt(2 pi)
   gelu_tanh  x (1 + t) / 2, t = tanh(k (x + c x^3))     (1 + t)/2 + x (1 - t^2) k (1 + 3 c x^2) / 2
              k = sqrt(2/pi), c = 0.044715
   silu       x s(x), s(x) = 1 / (1 + exp(-x))           s (1 + x (1 - s))

   GELU (Hendrycks and Gimpel 2016) weighs x by the chance that a normal number lies below it;
   the tanh form is the older approximation that GPT-2's weights were trained with.               */

PE__INLINE posenc_float pe__relu(posenc_float x)
{
    return ((x > 0) | (x != x)) ? x : 0;                                       /* a NaN stays one */
}

PE__INLINE posenc_float pe__sigmoid(posenc_float x) { return 1 / (1 + PE__EXP(-x)); }
PE__INLINE posenc_float pe__silu_slope(posenc_float x)
{
    posenc_float s = pe__sigmoid(x);
    return s * (1 + x * (1 - s));
}

PE__INLINE posenc_float pe__gelu(posenc_float x)
{
    return PE__F(0.5) * x * (1 + PE__ERF(x * PE__F(0.70710678118654752)));
}
PE__INLINE posenc_float pe__gelu_slope(posenc_float x)
{
    posenc_float p = PE__F(0.5) * (1 + PE__ERF(x * PE__F(0.70710678118654752)));
    return p + x * PE__EXP(PE__F(-0.5) * x * x) * PE__F(0.39894228040143268);
}

PE__INLINE posenc_float pe__gelu_tanh_inner(posenc_float x)
{
    return PE__TANH(PE__F(0.79788456080286536) * (x + PE__F(0.044715) * x * x * x));
}
PE__INLINE posenc_float pe__gelu_tanh_slope(posenc_float x)
{
    posenc_float t = pe__gelu_tanh_inner(x);
    posenc_float inner = PE__F(0.79788456080286536) * (1 + 3 * PE__F(0.044715) * x * x);
    posenc_float more = PE__F(0.5) * x * (1 - t * t) * inner;
    return PE__F(0.5) * (1 + t) + (t * t == 1 ? 0 : more);   /* far out: 0 times a huge inner slope */
}

PE__STAMPED(activate, (posenc_float *y, const posenc_float *x, int kind, int n), (y, x, kind, n))
{
    switch (kind) {
    case POSENC_GELU:      PE__EACH for (int i = 0; i < n; i++) y[i] = pe__gelu(x[i]); break;
    case POSENC_GELU_TANH: PE__EACH for (int i = 0; i < n; i++)
                               y[i] = PE__F(0.5) * x[i] * (1 + pe__gelu_tanh_inner(x[i]));
                           break;
    case POSENC_SILU:      PE__EACH for (int i = 0; i < n; i++) y[i] = x[i] * pe__sigmoid(x[i]);
                           break;
    default:               PE__EACH for (int i = 0; i < n; i++) y[i] = pe__relu(x[i]);
    }
}
PE__STAMPED(activate_backward, (posenc_float *dx, const posenc_float *dy, const posenc_float *x,
                                int kind, int n), (dx, dy, x, kind, n))
{
    switch (kind) {
    case POSENC_GELU:      PE__EACH for (int i = 0; i < n; i++)
                               dx[i] = dy[i] * pe__gelu_slope(x[i]);
                           break;
    case POSENC_GELU_TANH: PE__EACH for (int i = 0; i < n; i++)
                               dx[i] = dy[i] * pe__gelu_tanh_slope(x[i]);
                           break;
    case POSENC_SILU:      PE__EACH for (int i = 0; i < n; i++)
                               dx[i] = dy[i] * pe__silu_slope(x[i]);
                           break;
    default:               PE__EACH for (int i = 0; i < n; i++) dx[i] = dy[i] * (x[i] > 0);
    }
}

/* Long arrays are worked through in runs, one thread to a run. */
enum { PE__RUN = 4096 };
static ptrdiff_t pe__runs(size_t n) { return (ptrdiff_t)((n + PE__RUN - 1) / PE__RUN); }
static int pe__run_length(ptrdiff_t run, size_t n)
{
    return (int)pe__least(n - (size_t)run * PE__RUN, PE__RUN);
}

POSENC_DEF void posenc_activation_forward(posenc_float *y, const posenc_float *x, int kind,
                                          size_t n)
{
    ptrdiff_t runs = pe__runs(n);
    PE__PARALLEL_IF(runs > 2)
    for (ptrdiff_t r = 0; r < runs; r++)
        pe__activate(y + r * PE__RUN, x + r * PE__RUN, kind, pe__run_length(r, n));
}
POSENC_DEF void posenc_activation_backward(posenc_float *dx, const posenc_float *dy,
                                           const posenc_float *x, int kind, size_t n)
{
    ptrdiff_t runs = pe__runs(n);
    PE__PARALLEL_IF(runs > 2)
    for (ptrdiff_t r = 0; r < runs; r++)
        pe__activate_backward(dx + r * PE__RUN, dy + r * PE__RUN, x + r * PE__RUN, kind,
                              pe__run_length(r, n));
}

/* Gated units (Shazeer 2020): y = f(gate) * up, two projections of the same input; f = SiLU is SwiGLU,
   f = GELU is GEGLU. The product rule:
       dgate = dy up f'(gate)        dup = dy f(gate)
   SwiGLU, which every current language model has, gets loops of its own.                         */
static int pe__is_gated(int kind) { return kind >= POSENC_SWIGLU; }
static int pe__ungated(int kind)
{
    return kind == POSENC_SWIGLU ? POSENC_SILU : kind == POSENC_GEGLU ? POSENC_GELU
         : kind == POSENC_GEGLU_TANH ? POSENC_GELU_TANH : kind;
}
PE__STAMPED(swiglu, (posenc_float *y, const posenc_float *gate, const posenc_float *up, int n),
            (y, gate, up, n))
{
    PE__EACH for (int i = 0; i < n; i++) y[i] = gate[i] * pe__sigmoid(gate[i]) * up[i];
}
PE__STAMPED(swiglu_backward, (posenc_float *dgate, posenc_float *dup, const posenc_float *dy,
                              const posenc_float *gate, const posenc_float *up, int n),
            (dgate, dup, dy, gate, up, n))
{
    PE__EACH for (int i = 0; i < n; i++) {
        posenc_float g = gate[i], d = dy[i], s = pe__sigmoid(g);
        dgate[i] = d * up[i] * (s * (1 + g * (1 - s)));
        dup[i]   = d * g * s;
    }
}
PE__STAMPED(multiply, (posenc_float *y, const posenc_float *a, const posenc_float *b, int n),
            (y, a, b, n))
{
    PE__EACH for (int i = 0; i < n; i++) y[i] = a[i] * b[i];
}

static void pe__gated(posenc_float *y, const posenc_float *gate, const posenc_float *up, int kind,
                      int n)
{
    if (kind == POSENC_SILU) { pe__swiglu(y, gate, up, n); return; }
    pe__activate(y, gate, kind, n);
    pe__multiply(y, y, up, n);
}
static void pe__gated_backward(posenc_float *dgate, posenc_float *dup, const posenc_float *dy,
                               const posenc_float *gate, const posenc_float *up, int kind, int n)
{
    posenc_float f[PE__STRETCH], df[PE__STRETCH];            /* since dgate or dup may be dy */
    if (kind == POSENC_SILU) { pe__swiglu_backward(dgate, dup, dy, gate, up, n); return; }
    for (int i = 0; i < n; i += PE__STRETCH) {
        int some = pe__min(PE__STRETCH, n - i);
        pe__activate(f, gate + i, kind, some);
        pe__multiply(df, dy + i, up + i, some);
        pe__activate_backward(df, df, gate + i, kind, some);
        pe__multiply(dup + i, dy + i, f, some);
        memcpy(dgate + i, df, (size_t)some * sizeof *df);
    }
}

POSENC_DEF void posenc_gated_forward(posenc_float *y, const posenc_float *gate,
                                     const posenc_float *up, int kind, size_t n)
{
    ptrdiff_t runs = pe__runs(n);
    kind = pe__ungated(kind);
    PE__PARALLEL_IF(runs > 2)
    for (ptrdiff_t r = 0; r < runs; r++)
        pe__gated(y + r * PE__RUN, gate + r * PE__RUN, up + r * PE__RUN, kind, pe__run_length(r, n));
}
POSENC_DEF void posenc_gated_backward(posenc_float *dgate, posenc_float *dup,
                                      const posenc_float *dy, const posenc_float *gate,
                                      const posenc_float *up, int kind, size_t n)
{
    ptrdiff_t runs = pe__runs(n);
    kind = pe__ungated(kind);
    PE__PARALLEL_IF(runs > 2)
    for (ptrdiff_t r = 0; r < runs; r++)
        pe__gated_backward(dgate + r * PE__RUN, dup + r * PE__RUN, dy + r * PE__RUN,
                           gate + r * PE__RUN, up + r * PE__RUN, kind, pe__run_length(r, n));
}

/* ---- [4.6] dropout (Srivastava et al. 2014) -----------------------------------------------------
   y_i = x_i / (1 - rate) if random word i >= rate * 2^32, else 0

   Its expectation is x. The backward multiplies by the same mask, so it is the same call on dy.  */

enum { PE__WORDS = 1024 };                       /* random words made at a time, in whole batches */
static void pe__random_words(uint32_t *words, size_t n, const posenc_dropout *how, uint64_t block);

PE__STAMPED(mask, (posenc_float *y, const posenc_float *x, const uint32_t *word, uint32_t threshold,
                   posenc_float grow, int n), (y, x, word, threshold, grow, n))
{
    PE__EACH for (int i = 0; i < n; i++) y[i] = word[i] >= threshold ? x[i] * grow : 0;
}

/* y = x or 0 for n consecutive indices from first on; the first word of a block of four may belong
   to an index before it */
static void pe__dropout_words(posenc_float *y, const posenc_float *x, const uint32_t *word, int n,
                              const posenc_dropout *how)
{
    posenc_float grow = how->rate < 1 ? PE__F(1 / (1 - how->rate)) : 0;
    double limit = how->rate * 4294967296.0;
    pe__mask(y, x, word, limit < 4294967295.0 ? (uint32_t)limit : 0xFFFFFFFFu, grow, n);
}
static void pe__dropout_run(posenc_float *y, const posenc_float *x, size_t n,
                            const posenc_dropout *how, uint64_t first)
{
    uint32_t words[PE__WORDS];
    for (size_t at = 0; at < n;) {
        size_t skip = (size_t)((first + at) & 3), count = pe__least(n - at, PE__WORDS - skip);
        pe__random_words(words, skip + count, how, (first + at) >> 2);
        pe__dropout_words(y + at, x + at, words + skip, (int)count, how);
        at += count;
    }
}

POSENC_DEF void posenc_dropout_apply(posenc_float *y, const posenc_float *x, size_t n,
                                     posenc_dropout how)
{
    ptrdiff_t runs = pe__runs(n);
    PE__PARALLEL_IF(runs > 2)
    for (ptrdiff_t r = 0; r < runs; r++) {
        size_t at = (size_t)r * PE__RUN, len = (size_t)pe__run_length(r, n);
        if (how.rate <= 0) memmove(y + at, x + at, len * sizeof *y);
        else               pe__dropout_run(y + at, x + at, len, &how, how.first + at);
    }
}

/* ---- [4.7] residual -----------------------------------------------------------------------------
   y = a + b. Whatever the branch does, the gradient of the sum reaches both sides unchanged.     */
PE__STAMPED(add, (posenc_float *y, const posenc_float *a, const posenc_float *b, int n),
            (y, a, b, n))
{
    PE__EACH for (int i = 0; i < n; i++) y[i] = a[i] + b[i];
}
POSENC_DEF void posenc_residual(posenc_float *y, const posenc_float *a, const posenc_float *b,
                                size_t n)
{
    ptrdiff_t runs = pe__runs(n);
    PE__PARALLEL_IF(runs > 2)
    for (ptrdiff_t r = 0; r < runs; r++)
        pe__add(y + r * PE__RUN, a + r * PE__RUN, b + r * PE__RUN, pe__run_length(r, n));
}

/* ---- [4.8] embedding ----------------------------------------------------------------------------
   x[r] = scale table[id_r]. Backward: every row of dx is added to the row it came from. Many r
   may share an id, so a thread owns a stretch of channels, not of rows, and takes the rows in
   order.                                                                                         */

PE__STAMPED(add_scaled, (posenc_float *y, const posenc_float *x, posenc_float scale, int n, int add),
            (y, x, scale, n, add))
{
    if (add) PE__EACH for (int i = 0; i < n; i++) y[i] += scale * x[i];
    else     PE__EACH for (int i = 0; i < n; i++) y[i] = scale * x[i];
}

POSENC_DEF void posenc_embedding_forward(posenc_float *x, const int *id, const posenc_float *table,
                                         double scale, int R, int rows, int C, int add)
{
    PE__PARALLEL
    for (int r = 0; r < R; r++) {
        posenc_float *xr = x + (size_t)r * C;
        int known = id[r] >= 0 && id[r] < rows;
        if (known)     pe__add_scaled(xr, table + (size_t)id[r] * C, PE__F(scale), C, add);
        else if (!add) memset(xr, 0, (size_t)C * sizeof *xr);
    }
}

POSENC_DEF void posenc_embedding_backward(posenc_float *dtable, const posenc_float *dx,
                                          const int *id, double scale, int R, int rows, int C)
{
    enum { STRETCH = 64 };
    int stretches = (C + STRETCH - 1) / STRETCH;
    PE__PARALLEL
    for (int s = 0; s < stretches; s++) {
        int c0 = s * STRETCH, c1 = pe__min(c0 + STRETCH, C);
        for (int r = 0; r < R; r++) {
            if (id[r] < 0 || id[r] >= rows) continue;
            pe__add_scaled(dtable + (size_t)id[r] * C + c0, dx + (size_t)r * C + c0, PE__F(scale),
                           c1 - c0, 1);
        }
    }
}

/* ---- [4.9] mean pooling -------------------------------------------------------------------------
   y[b] = mean of x[b,t] over the kept t.  dx[b,t] = dy[b] / count where kept, else 0.            */

static int pe__kept(const unsigned char *keep, int T)
{
    int count = 0;
    if (!keep) return T;
    for (int t = 0; t < T; t++) count += keep[t] != 0;
    return count;
}

POSENC_DEF void posenc_pool_forward(posenc_float *y, const posenc_float *x,
                                    const unsigned char *keep, int B, int T, int C)
{
    PE__PARALLEL
    for (int b = 0; b < B; b++) {
        const unsigned char *k = keep ? keep + (size_t)b * T : NULL;
        posenc_float *yb = y + (size_t)b * C, share = PE__F(1) / PE__F(pe__max(1, pe__kept(k, T)));
        for (int c = 0; c < C; c++) yb[c] = 0;
        for (int t = 0; t < T; t++) {
            const posenc_float *xt = x + ((size_t)b * T + t) * C;
            if (k && !k[t]) continue;
            for (int c = 0; c < C; c++) yb[c] += share * xt[c];
        }
    }
}

POSENC_DEF void posenc_pool_backward(posenc_float *dx, const posenc_float *dy,
                                     const unsigned char *keep, int B, int T, int C)
{
    PE__PARALLEL
    for (int b = 0; b < B; b++) {
        const unsigned char *k = keep ? keep + (size_t)b * T : NULL;
        const posenc_float *dyb = dy + (size_t)b * C;
        posenc_float share = PE__F(1) / PE__F(pe__max(1, pe__kept(k, T)));
        for (int t = 0; t < T; t++)
            for (int c = 0; c < C; c++)
                dx[((size_t)b * T + t) * C + c] = k && !k[t] ? 0 : share * dyb[c];
    }
}

/* ---- [4.10] cross-entropy, and the head with it -------------------------------------------------
   loss_r = log sum_v exp(z_v) - z_target        dz_v = p_v - (v == target)

   The gradient is the difference between what the model said and what was true; nothing in a
   transformer is simpler. A next-token model has R*V logits, the largest tensor of all by far:
   at 8,192 rows and a vocabulary of 65,536 they take 2 GB, and their gradient as much again. So
   the head works on a few rows at a time: product, loss, gradient in place, both products of the
   backward, on to the next rows. The logits of a chunk stay in the cache, are never stored
   whole, and no product is done twice.                                                           */

/* e_v = exp(z_v - top) is kept in dz, or in a corner of the stack a stretch at a time */
PE__STAMPED(exp_sum, (posenc_float *sum, posenc_float *dz, const posenc_float *z, posenc_float top,
                      int V), (sum, dz, z, top, V))
{
    posenc_float some[PE__STRETCH];
    *sum = 0;
    for (int v = 0; v < V; v += PE__STRETCH) {
        int n = pe__min(PE__STRETCH, V - v);
        posenc_float *e = dz ? dz + v : some;
        PE__EACH for (int i = 0; i < n; i++) e[i] = PE__EXP(z[v + i] - top);
        *sum += pe__sum(e, n);
    }
}
PE__STAMPED(row_largest, (posenc_float *top, const posenc_float *z, int V), (top, z, V))
{
    *top = pe__largest(z, V, -HUGE_VALF);
}
PE__STAMPED(row_scale, (posenc_float *x, posenc_float by, int n), (x, by, n))
{
    PE__EACH for (int i = 0; i < n; i++) x[i] *= by;
}

static posenc_float pe__crossentropy_row(posenc_float *dz, const posenc_float *z, int target,
                                         double scale, int V)
{
    posenc_float top, sum, own;
    if (target < 0 || target >= V) {
        if (dz) memset(dz, 0, (size_t)V * sizeof *dz);
        return 0;
    }
    own = z[target];
    pe__row_largest(&top, z, V);
    pe__exp_sum(&sum, dz, z, top, V);
    if (dz) {
        pe__row_scale(dz, PE__F(scale) / sum, V);
        dz[target] -= PE__F(scale);
    }
    return PE__LOG(sum) + top - own;
}

POSENC_DEF void posenc_crossentropy(posenc_float *loss, posenc_float *dlogits,
                                    const posenc_float *logits, const int *target, double scale,
                                    int R, int V)
{
    PE__PARALLEL
    for (int r = 0; r < R; r++)
        loss[r] = pe__crossentropy_row(dlogits ? dlogits + (size_t)r * V : NULL,
                                       logits + (size_t)r * V, target[r], scale, V);
}

static int pe__head_chunk(int R, int V)     /* rows at a time: 16 MB of logits, 512 rows at least */
{
    return pe__min(R, pe__clamp((1 << 22) / pe__max(1, V), 512, 1024));
}

POSENC_DEF size_t posenc_head_scratch(int R, int V) { return (size_t)pe__head_chunk(R, V) * V; }
POSENC_DEF size_t posenc_head_scratch_bf16(int R, int C, int V)
{
    return posenc_head_scratch(R, V) + pe__ready_floats(V, C) + pe__ready_floats(C, V)
         + posenc_bf16_scratch(pe__head_chunk(R, V), C, V);
}

/* scratch of products in bf16 begins with the weight, rounded once for all rows */
static pe__ready_weight pe__head_ready(posenc_float *scratch, const posenc_float *w, int C, int V,
                                       int backward)
{
    pe__ready_weight r;
    r.forward = scratch;
    r.backward = scratch + pe__ready_floats(V, C);
    pe__ready_bf16(r.forward, w, 1, C, V, C);
    if (backward) pe__ready_bf16(r.backward, w, C, 1, C, V);
    return r;
}

/* packed: scratch of products in bf16; NULL: products in fp32 */
static void pe__head_loss(posenc_float *loss, posenc_float *dx, posenc_float *dw, posenc_float *db,
                          const posenc_float *x, const posenc_float *w, const posenc_float *b,
                          const int *target, double scale, int R, int C, int V,
                          posenc_float *logits, posenc_float *packed)
{
    int chunk = pe__head_chunk(R, V);
    pe__ready_weight ready = packed ? pe__head_ready(packed, w, C, V, dx != NULL) : pe__not_ready;
    posenc_float *rest = packed ? ready.backward + pe__ready_floats(C, V) : NULL;
    for (int r = 0; r < R; r += chunk) {
        int n = pe__min(chunk, R - r);
        const posenc_float *xr = x + (size_t)r * C;
        posenc_float *dxr = dx ? dx + (size_t)r * C : NULL;
        if (packed) pe__linear_forward_bf16(logits, xr, w, b, n, C, V, rest, ready);
        else        posenc_linear_forward(logits, xr, w, b, n, C, V);
        posenc_crossentropy(loss + r, dx ? logits : NULL, logits, target + r, scale, n, V);
        if (!dx) continue;
        if (packed) pe__linear_backward_bf16(dxr, dw, db, logits, xr, w, n, C, V, 0, rest, ready);
        else        posenc_linear_backward(dxr, dw, db, logits, xr, w, n, C, V, 0);
    }
}
POSENC_DEF void posenc_head_loss(posenc_float *loss, posenc_float *dx, posenc_float *dw,
                                 posenc_float *db, const posenc_float *x, const posenc_float *w,
                                 const posenc_float *b, const int *target, double scale, int R,
                                 int C, int V, posenc_float *scratch)
{
    pe__head_loss(loss, dx, dw, db, x, w, b, target, scale, R, C, V, scratch, NULL);
}
POSENC_DEF void posenc_head_loss_bf16(posenc_float *loss, posenc_float *dx, posenc_float *dw,
                                      posenc_float *db, const posenc_float *x,
                                      const posenc_float *w, const posenc_float *b,
                                      const int *target, double scale, int R, int C, int V,
                                      posenc_float *scratch)
{
    pe__head_loss(loss, dx, dw, db, x, w, b, target, scale, R, C, V, scratch,
                  scratch + posenc_head_scratch(R, V));
}

/* ---- [5] positional encodings -------------------------------------------------------------------
   One card each: where it enters, what it learns, what happens beyond the training length, the
   formula, the backward. A card ends in a struct of type pe__card, which is all that the
   transformer knows of it; the row in POSENC_ENCODINGS [2.2] gives it its name. CONTRIBUTING.md
   adds one step by step.                                                                         */

/* ---- [5.0] what a card holds -----------------------------------------------------------------
   Three questions, whatever the encoding: what does it need (check, plan), where does a token stand
   for it (axes, place), and what does it do there (one of the rest).                             */

typedef enum pe__init { PE__ZERO, PE__ONE, PE__NORMAL, PE__UNIFORM, PE__POSITIVE, PE__WAVES,
                        PE__SLOPES, PE__CONSTANT } pe__init;

typedef struct pe__plan {                   /* a tensor to be: name, shape, how its values start  */
    const char *name;
    int rows, columns;                      /* columns 0: a vector                                */
    pe__init init;
    double spread;        /* deviation (normal), bound (uniform; positive: of the first column, half
                             of it for the second), base (waves), bias_max (slopes), value (constant) */
    int fixed;                              /* 1: never trained                                   */
} pe__plan;

/* A network of the position: coordinates u = at * factor + shift through a chain of layers, each a
   letter: l linear, p linear without bias, r ReLU, g GELU, w waves (twice as wide) [5.5]         */
typedef struct pe__network {
    const char *chain;
    int width[4];                           /* of u, and of what each linear layer gives          */
    double factor[POSENC_AXES], shift[POSENC_AXES];
    double waves;                           /* what the waves are multiplied by                   */
} pe__network;

enum { PE__CURVE_NUMBERS = 4 };

typedef struct pe__card {
    /* fills the spec's defaults for this model, or refuses with a sentence */
    posenc_status (*check)(posenc_spec *s, const posenc_shape *g, posenc_error *why);
    /* the tensors it has */
    int (*plan)(pe__plan plan[POSENC_PARTS], const posenc_spec *s, const posenc_shape *g);
    /* coordinates it reads (0: as many as the spec says), and how `given` numbers become those */
    int axes;
    void (*place)(double *at, int given, const posenc_spec *s);
    /* EMBEDDING, fixed: the row of C channels that stands for a place */
    void (*row)(posenc_float *row, const double *at, int C, const posenc_spec *s);
    /* EMBEDDING, learned: 1 for a table looked up by position, or a network */
    int lookup;
    void (*network)(pe__network *n, const posenc_spec *s, int C);
    /* QUERY_KEY: frequencies into f (axes, pairs), magnitude and growth (behind f); a planned tensor is
       a trained factor for each pair. Or what a query is multiplied by */
    void (*rotate)(posenc_rotation *r, double *f, const posenc_spec *s, double length);
    double (*temperature)(const posenc_spec *s, double p);
    /* SCORE: the bias of head h at distance d; or the row of a learned table that distance d reads; or
       a formula with `numbers` trained numbers w (PE__CURVE_NUMBERS at most), whose tensor the plan has
       as (H, numbers), its slopes along each of them in slope */
    double (*bias)(const posenc_spec *s, int h, int H, int d);
    int (*bucket)(const posenc_spec *s, int d);
    double (*curve)(double *slope, const posenc_float *w, int d, int form);
    int numbers;
} pe__card;

/* a card of each shape: what it must say */
#define PE__CARD_ROW(check, row)            { check, NULL, 1, NULL, row, 0, NULL, NULL, NULL, NULL, \
                                              NULL, NULL, 0 }
#define PE__CARD_ROW_AT(check, axes, row)   { check, NULL, axes, pe__place_grid, row, 0, NULL, NULL, \
                                              NULL, NULL, NULL, NULL, 0 }
#define PE__CARD_LOOKUP(check, plan)        { check, plan, 1, NULL, NULL, 1, NULL, NULL, NULL, NULL, \
                                              NULL, NULL, 0 }
#define PE__CARD_NETWORK(check, plan, net)  { check, plan, 0, pe__place_grid, NULL, 0, net, NULL, NULL, \
                                              NULL, NULL, NULL, 0 }
#define PE__CARD_TURN(check, plan, rotate)  { check, plan, 1, NULL, NULL, 0, NULL, rotate, NULL, NULL, \
                                              NULL, NULL, 0 }
#define PE__CARD_TURN_AT(check, axes, place, rotate) { check, NULL, axes, place, NULL, 0, NULL, rotate, \
                                              NULL, NULL, NULL, NULL, 0 }
#define PE__CARD_TEMPER(check, temperature) { check, NULL, 1, NULL, NULL, 0, NULL, NULL, temperature, \
                                              NULL, NULL, NULL, 0 }
#define PE__CARD_BIAS(check, bias)          { check, NULL, 1, NULL, NULL, 0, NULL, NULL, NULL, bias, \
                                              NULL, NULL, 0 }
#define PE__CARD_TABLE(check, plan, bucket) { check, plan, 1, NULL, NULL, 0, NULL, NULL, NULL, NULL, \
                                              bucket, NULL, 0 }
#define PE__CARD_CURVE(check, plan, curve, numbers) { check, plan, 1, NULL, NULL, 0, NULL, NULL, NULL, \
                                              NULL, NULL, curve, numbers }

static const pe__card *pe__card_of(const posenc_spec *s);                               /* [5.20] */
static int pe__axes_of(const posenc_spec *s)
{
    int axes = pe__card_of(s)->axes;
    return axes ? axes : pe__clamp(s->axes, 1, POSENC_AXES);
}

static posenc_spec pe__no_spec(int encoding)
{
    posenc_spec s;
    memset(&s, 0, sizeof s);
    s.encoding = encoding;
    return s;
}

/* a plan of one tensor, which is what most encodings need */
static int pe__plan_one(pe__plan *p, const char *name, int rows, int columns, pe__init init,
                        double spread)
{
    p->name = name;
    p->rows = rows;
    p->columns = columns;
    p->init = init;
    p->spread = spread;
    p->fixed = 0;
    return 1;
}

/* defaults: a field that is zero gets the value */
static void pe__default(double *field, double value) { if (*field == 0) *field = value; }
static void pe__default_int(int *field, int value) { if (*field == 0) *field = value; }

/* ---- [5.1] positions ----------------------------------------------------------------------------
   Where positions come from is nobody's business but the caller's: all encodings read an array.  */

static double pe__at(const double *pos, int t) { return pos ? pos[t] : (double)t; }

POSENC_DEF void posenc_positions_range(double *p, int T, double offset)
{
    for (int t = 0; t < T; t++) p[t] = offset + t;
}

POSENC_DEF void posenc_positions_mask(double *p, const unsigned char *keep, int B, int T)
{
    for (int b = 0; b < B; b++) {
        int seen = 0;
        for (int t = 0; t < T; t++) {
            seen += keep[(size_t)b * T + t] != 0;
            p[(size_t)b * T + t] = pe__max(0, seen - 1);
        }
    }
}

POSENC_DEF void posenc_positions_packed(double *p, const int *segment, int B, int T)
{
    for (int b = 0; b < B; b++) {
        const int *s = segment + (size_t)b * T;
        for (int t = 0, start = 0; t < T; t++) {
            if (t && s[t] != s[t - 1]) start = t;
            p[(size_t)b * T + t] = t - start;
        }
    }
}

POSENC_DEF void posenc_positions_grid(double *p, int rows, int columns)
{
    for (int y = 0; y < rows; y++)
        for (int x = 0; x < columns; x++, p += 2) {
            p[0] = y;
            p[1] = x;
        }
}

POSENC_DEF void posenc_positions_padding(double *p, const int *tokens, int pad, int B, int T)
{
    for (int b = 0; b < B; b++)
        for (int t = 0, seen = 0; t < T; t++) {
            int real = tokens[(size_t)b * T + t] != pad;
            seen += real;
            p[(size_t)b * T + t] = real ? pad + seen : pad;
        }
}

/* Going through 0, 1, 2, ... each number is passed over with the chance that makes every set of n
   equally likely; one random number decides how many are passed over in a row (Vitter 1984, A). The
   numbers come out sorted, in time that grows with `most`.                                       */
POSENC_DEF int posenc_positions_random(double *p, int n, double most, uint64_t seed)
{
    double at = 0;
    int enough = most >= n && most < 9e15;
    for (int i = 0; i < n; i++, at++) {
        double left = most - at, others = left - (n - i), pass = others / left;
        double u = pe__uniform(seed, 0, (uint64_t)i);
        for (; enough && pass > u; at++) pass *= --others / --left;
        p[i] = at;
    }
    return enough;
}

POSENC_DEF void posenc_positions_augment(double *p, int n, int axes, double shift, double jitter,
                                         double stretch, uint64_t seed)
{
    for (int a = 0; a < axes; a++) {
        double by = stretch > 0 ? exp((2 * pe__uniform(seed, 1u, (uint64_t)a) - 1) * log(stretch)) : 1;
        double move = shift * (2 * pe__uniform(seed, 2u, (uint64_t)a) - 1);
        for (int t = 0; t < n; t++) {
            double *at = &p[(size_t)t * axes + a];
            double own = jitter * (2 * pe__uniform(seed, 3u, (uint64_t)t * axes + a) - 1);
            *at = *at * by + move + own;
        }
    }
}

POSENC_DEF double posenc_positions_mrope(double *p, const posenc_block *block, int blocks)
{
    double next = 0, top = -1;
    for (int k = 0; k < blocks; k++) {
        int text = block[k].frames == 0, rows = text ? 1 : block[k].rows, columns = block[k].columns;
        int tokens = rows * columns * (text ? 1 : block[k].frames);
        double step = block[k].step > 0 ? block[k].step : 1;
        for (int i = 0; i < tokens; i++, p += 3) {
            p[0] = next + (text ? i : floor(i / (rows * columns) * step));
            p[1] = next + (text ? i : i / columns % rows);
            p[2] = next + (text ? i : i % columns);
            for (int a = 0; a < 3; a++) if (p[a] > top) top = p[a];
        }
        next = top + 1;
    }
    return next;
}

/* A token of a grid may be given by its index in reading order: p stands for row floor(p / width) and
   column p - width * row; with a third axis, time comes first and takes width * height of them.  */
static void pe__place_grid(double *at, int given, const posenc_spec *s)
{
    int axes = pe__axes_of(s);
    double p = at[0];
    if (given > 1 || axes == 1) return;
    if (axes == 3) {
        double frame = (double)s->width * s->height;
        at[0] = floor(p / frame);
        p -= at[0] * frame;
    }
    at[axes - 2] = floor(p / s->width);
    at[axes - 1] = p - at[axes - 2] * s->width;
}
static void pe__place_text(double *at, int given, const posenc_spec *s)   /* the same on all axes */
{
    (void)s;
    if (given == 1) at[1] = at[2] = at[0];
}
static void pe__coordinates(double at[POSENC_AXES], const double *p, int given, const posenc_spec *s)
{
    const pe__card *card = pe__card_of(s);
    for (int a = 0; a < POSENC_AXES; a++) at[a] = a < given ? p[a] : 0;
    if (card->place) card->place(at, given, s);
}

POSENC_DEF int posenc_spec_axes(const posenc_spec *s) { return pe__axes_of(s); }
POSENC_DEF void posenc_spec_coordinates(double *at, const posenc_spec *s, const double *pos, int given,
                                        int T)
{
    int axes = pe__axes_of(s);
    for (int t = 0; t < T; t++) {
        double own[POSENC_AXES], index = t;
        pe__coordinates(own, pos ? pos + (size_t)t * given : &index, pos ? given : 1, s);
        for (int a = 0; a < axes; a++) at[(size_t)t * axes + a] = own[a];
    }
}

/* the grid of a model that says nothing of its own: the smallest square, or cube, for its context */
static void pe__grid_default(posenc_spec *s, int axes, int context)
{
    double side = axes == 3 ? ceil(cbrt((double)context) - 1e-9) : ceil(sqrt((double)context));
    int rows = s->width ? (context + s->width - 1) / s->width : (int)side;
    int columns = s->height ? (context + s->height - 1) / s->height : (int)side;
    pe__default_int(&s->width, axes == 3 ? (int)side : columns);
    pe__default_int(&s->height, axes == 3 ? (int)side : rows);
}
/* tokens along axis a: of a line its length, of a grid its height and width, of a film all three */
static double pe__extent(const posenc_spec *s, int a)
{
    int axes = pe__axes_of(s);
    if (axes == 1 || axes - a == 3) return s->length;
    return axes - a == 2 ? s->height : s->width;
}

POSENC_DEF posenc_heads posenc_heads_bthd(posenc_float *data, int B, int T, int H, int D)
{
    posenc_heads v = { data, B, T, H, D, (ptrdiff_t)T * H * D, (ptrdiff_t)H * D, D };
    return v;
}
POSENC_DEF posenc_heads posenc_heads_bhtd(posenc_float *data, int B, int H, int T, int D)
{
    posenc_heads v = { data, B, T, H, D, (ptrdiff_t)H * T * D, D, (ptrdiff_t)T * D };
    return v;
}

static posenc_float *pe__head(posenc_heads x, int b, int t, int h)
{
    return x.data + b * x.sb + t * x.st + h * x.sh;
}

/* ---- [5.2] none ---------------------------------------------------------------------------------
   enters    nowhere
   learns    nothing
   beyond T  works as well, or as badly, as within

   Attention by itself sees a set: permute the tokens and the outputs are permuted with them. A
   causal mask breaks that symmetry (token t sees t+1 keys, and can learn to count them), so
   causal models do surprisingly well without an encoding, and bidirectional ones do not (Haviv
   et al. 2022).                                                                                  */

static const pe__card pe__card_NONE = PE__CARD_ROW(NULL, NULL);

/* ---- [5.3] sinusoidal (Vaswani et al. 2017) -----------------------------------------------------
   enters    embedding
   learns    nothing; with scaled=1 one factor s for all of it, starting at 1/sqrt(C)
   beyond T  defined everywhere, but the model has never seen those vectors: expect it to fail early

   E[2i] = s sin(p w_i)    E[2i+1] = s cos(p w_i)    w_i = base^(-2i/C)

   The hands of C/2 clocks, the fastest turning once in 2 pi positions, the slowest once in nearly 2 pi
   base. Moving by k positions turns every hand by k w_i whatever the time is, so that E(p + k) is a
   fixed linear map of E(p): this is how a linear layer can compare positions.

   Habits differ, and a checkpoint of one does not work with another:
       layout       interleaved  sin cos sin cos (the paper)    concat  sin sin .. cos cos ..
                    cosfirst     cos cos .. sin sin ..
       frequencies  paper  base^(-2i/C)      t2t  base^(-i/(C/2 - 1)), which ends at 1/base exactly
       odd C        the last frequency has a sine alone (cosfirst: a cosine); t2t leaves a zero

   Backward. dx passes through the sum unchanged; ds += sum of dx E/s.                            */

/* channel c of C at position p */
static double pe__wave(double p, int c, int C, double base, int layout, int rule)
{
    int half = rule == POSENC_T2T ? C / 2 : (C + 1) / 2;              /* frequencies */
    int together = layout == POSENC_CONCAT || layout == POSENC_COSFIRST;
    int i = together ? c % half : c / 2, cosine = together ? c / half : c % 2;
    double power = rule == POSENC_T2T ? (double)i / pe__max(1, half - 1) : 2.0 * i / C;
    double angle = p * pow(base, -power);
    if (layout == POSENC_COSFIRST) cosine = !cosine;
    if (rule == POSENC_T2T && c >= 2 * half) return 0;
    return cosine ? cos(angle) : sin(angle);
}

static void pe__sinusoidal_row(posenc_float *row, const double *at, int C, const posenc_spec *s)
{
    for (int c = 0; c < C; c++)
        row[c] = PE__F(pe__wave(at[0], c, C, s->base, s->layout, s->frequencies));
}

POSENC_DEF void posenc_sinusoidal(posenc_float *table, const double *pos, int T, int C, double base)
{
    PE__PARALLEL
    for (int t = 0; t < T; t++)
        for (int c = 0; c < C; c++)
            table[(size_t)t * C + c] =
                PE__F(pe__wave(pe__at(pos, t), c, C, base, POSENC_INTERLEAVED, POSENC_PAPER));
}

/* x[b,t] += table[t] for any table; backward sums the batch first, so that whatever made the
   table is run backward once, not B times                                                        */
POSENC_DEF void posenc_rows_forward(posenc_float *x, const posenc_float *table, int B, int T, int C)
{
    int rows = B * T;
    PE__PARALLEL
    for (int r = 0; r < rows; r++) {
        const posenc_float *from = table + (size_t)(r % T) * C;
        for (int c = 0; c < C; c++) x[(size_t)r * C + c] += from[c];
    }
}
POSENC_DEF void posenc_rows_backward(posenc_float *dtable, const posenc_float *dx, int B, int T,
                                     int C)
{
    PE__PARALLEL
    for (int t = 0; t < T; t++)
        for (int b = 0; b < B; b++)
            for (int c = 0; c < C; c++)
                dtable[(size_t)t * C + c] += dx[((size_t)b * T + t) * C + c];
}

/* words that belong to other encodings are refused by name */
static posenc_status pe__layout_check(posenc_spec *s, int otherwise, int waves, posenc_error *why)
{
    int turns = s->layout == POSENC_HALF, apart = s->layout > POSENC_HALF;
    if ((waves && turns) || (!waves && apart))
        return pe__fail(why, POSENC_BAD_CONFIG, "%s cannot have layout=%s; choose interleaved or %s",
                        posenc_encoding_get(s->encoding)->name,
                        turns ? "half" : s->layout == POSENC_CONCAT ? "concat" : "cosfirst",
                        waves ? "concat" : "half");
    pe__default_int(&s->layout, otherwise);
    return POSENC_OK;
}
static posenc_status pe__base_check(posenc_spec *s, const posenc_shape *g, posenc_error *why)
{
    (void)g; (void)why;
    pe__default(&s->base, 10000);
    return POSENC_OK;
}
static posenc_status pe__waves_check(posenc_spec *s, const posenc_shape *g, posenc_error *why)
{
    posenc_status status = pe__layout_check(s, POSENC_INTERLEAVED, 1, why);
    if (status == POSENC_OK && s->frequencies == POSENC_T2T && g->C < 2)
        return pe__fail(why, POSENC_BAD_CONFIG, "t2t frequencies need 2 channels at least, not %d",
                        g->C);
    return status == POSENC_OK ? pe__base_check(s, g, why) : status;
}
static int pe__waves_plan(pe__plan plan[POSENC_PARTS], const posenc_spec *s, const posenc_shape *g)
{
    return s->scaled ? pe__plan_one(plan, "scale", 1, 0, PE__CONSTANT, 1 / sqrt((double)g->C)) : 0;
}
static const pe__card pe__card_SINUSOIDAL = { pe__waves_check, pe__waves_plan, 1, NULL,
    pe__sinusoidal_row, 0, NULL, NULL, NULL, NULL, NULL, NULL, 0 };

/* ---- [5.3.1] sinonly ----------------------------------------------------------------------------
   enters    embedding
   learns    nothing
   beyond T  as sinusoidal

   E[j] = sin(p base^(-j/C)).   Without the cosines a shift is no longer a fixed linear map: the sine of
   a sum needs both. That is what this encoding is there to show.                                 */

static void pe__sinonly_row(posenc_float *row, const double *at, int C, const posenc_spec *s)
{
    for (int c = 0; c < C; c++) row[c] = PE__F(sin(at[0] * pow(s->base, -(double)c / C)));
}
static const pe__card pe__card_SINONLY = PE__CARD_ROW(pe__base_check, pe__sinonly_row);

/* ---- [5.3.2] binary, decimal: the digits of the position ----------------------------------------
   enters    embedding
   learns    nothing
   beyond T  fine until the digits run out; a digit that training never saw means nothing

   E[C-1] is the last digit, E[C-2] the one before it, ...; `digits` of them, the rest is 0.
       binary   0 1     binary_norm   -1 1     decimal   0 .. 9     decimal_norm   (digit - 4.5) / 4.5
   Neighbours can be far apart: from 127 to 128 all bits change. The plain forms have a mean that grows
   with the digits in use, which the others take away, leading zeros included.                    */

static void pe__digits_row(posenc_float *row, double p, int C, int digits, int base, int norm)
{
    for (int c = C - 1; c >= 0; c--) {
        double rest = floor(p / base), digit = p - rest * base, middle = (base - 1) / 2.0;
        row[c] = C - 1 - c >= digits ? 0 : PE__F(norm ? (digit - middle) / middle : digit);
        p = rest;
    }
}
static void pe__binary_row(posenc_float *row, const double *at, int C, const posenc_spec *s)
{
    pe__digits_row(row, at[0], C, s->digits, 2, s->encoding == POSENC_BINARY_NORM);
}
static void pe__decimal_row(posenc_float *row, const double *at, int C, const posenc_spec *s)
{
    pe__digits_row(row, at[0], C, s->digits, 10, s->encoding == POSENC_DECIMAL_NORM);
}
/* positions below this can be written, for encodings that write them */
static double pe__digits_limit(const posenc_spec *s)
{
    int two = s->encoding == POSENC_BINARY || s->encoding == POSENC_BINARY_NORM;
    return fmin(pow(two ? 2 : 10, s->digits), 9e15);
}
static posenc_status pe__digits_check(posenc_spec *s, const posenc_shape *g, posenc_error *why)
{
    const char *name = posenc_encoding_get(s->encoding)->name;
    pe__default_int(&s->digits, g->C);
    if (s->digits > g->C)
        return pe__fail(why, POSENC_BAD_CONFIG, "%s: digits=%d do not fit into %d channels", name,
                        s->digits, g->C);
    if (pe__digits_limit(s) < g->context)
        return pe__fail(why, POSENC_BAD_CONFIG,
                        "%s with digits=%d counts to %.0f, and the context has %d positions", name,
                        s->digits, pe__digits_limit(s) - 1, g->context);
    return POSENC_OK;
}
static const pe__card pe__card_BINARY = PE__CARD_ROW(pe__digits_check, pe__binary_row);
static const pe__card pe__card_BINARY_NORM = PE__CARD_ROW(pe__digits_check, pe__binary_row);
static const pe__card pe__card_DECIMAL = PE__CARD_ROW(pe__digits_check, pe__decimal_row);
static const pe__card pe__card_DECIMAL_NORM = PE__CARD_ROW(pe__digits_check, pe__decimal_row);

/* ---- [5.3.3] integer: the position itself -------------------------------------------------------
   enters    embedding
   learns    nothing
   beyond T  a larger number than any that was seen

   E[j] = p / length, in every channel or in the first alone (spread=first). Neighbours differ by
   1/length, which is little; and a LayerNorm takes away what all channels have in common, so that the
   published form, every channel, is seen by models with RMSNorm only.                            */

static void pe__integer_row(posenc_float *row, const double *at, int C, const posenc_spec *s)
{
    for (int c = 0; c < C; c++)
        row[c] = c == 0 || s->spread == POSENC_ALL ? PE__F(at[0] / s->length) : 0;
}
static posenc_status pe__length_check(posenc_spec *s, const posenc_shape *g, posenc_error *why)
{
    (void)why;
    pe__default(&s->length, g->context);
    return POSENC_OK;
}
static const pe__card pe__card_INTEGER = PE__CARD_ROW(pe__length_check, pe__integer_row);

/* ---- [5.3.4] sincos2d, sincos3d: the same waves on a grid ---------------------------------------
   enters    embedding
   learns    nothing
   beyond T  as sinusoidal, in each direction

   E = [ waves of the row | waves of the column ],  2 ceil(C/4) channels each, what stands over is cut
   off; sincos3d has time in front of them and 2 ceil(C/6) channels for each.

   Read as a line, a picture has its rows behind one another: the patch below is `width` positions
   away, and only a network that knows the width can tell "below" from "far to the right". With a
   clock for each direction both are near. swap=1 puts the column first (MAE).                    */

static void pe__axial_waves(posenc_float *row, const double *at, int axes, int C, double base,
                            int layout)
{
    int width = (C + 2 * axes - 1) / (2 * axes) * 2;
    for (int c = 0; c < C; c++)
        row[c] = PE__F(pe__wave(at[c / width], c % width, width, base, layout, POSENC_PAPER));
}

POSENC_DEF void posenc_sincos2d(posenc_float *table, const double *pos, int T, int C, double base)
{
    POSENC_ASSERT(pos != NULL);
    PE__PARALLEL
    for (int t = 0; t < T; t++)
        pe__axial_waves(table + (size_t)t * C, pos + (size_t)t * 2, 2, C, base, POSENC_INTERLEAVED);
}

static void pe__sincos2d_row(posenc_float *row, const double *at, int C, const posenc_spec *s)
{
    double swapped[2];
    swapped[0] = at[s->swap != 0];
    swapped[1] = at[s->swap == 0];
    pe__axial_waves(row, swapped, 2, C, s->base, s->layout);
}
static void pe__sincos3d_row(posenc_float *row, const double *at, int C, const posenc_spec *s)
{
    pe__axial_waves(row, at, 3, C, s->base, POSENC_INTERLEAVED);
}
static posenc_status pe__axial_check(posenc_spec *s, const posenc_shape *g, posenc_error *why)
{
    int axes = pe__axes_of(s), least = 2 * axes - 1;     /* the last block has a channel at least */
    pe__grid_default(s, axes, g->context);
    if (g->C < least)
        return pe__fail(why, POSENC_BAD_CONFIG, "%s needs %d channels at least, for %d directions, "
                        "and has %d", posenc_encoding_get(s->encoding)->name, least, axes, g->C);
    return pe__waves_check(s, g, why);
}
static const pe__card pe__card_SINCOS2D = PE__CARD_ROW_AT(pe__axial_check, 2, pe__sincos2d_row);
static const pe__card pe__card_SINCOS3D = PE__CARD_ROW_AT(pe__axial_check, 3, pe__sincos3d_row);

/* ---- [5.3.5] fourier (Jaegle et al. 2021) -------------------------------------------------------
   enters    embedding
   learns    nothing
   beyond T  outside -1 .. 1 the waves go on, mirrored: places beyond look like places within

   u = 2 p / (N - 1) - 1     E = [ sin(pi f_k u) | cos(pi f_k u) ]     f_k from 1 to resolution/2

   Sinusoidal's wavelengths grow geometrically and know no end; these are fitted to an input of N
   places and go up to the finest wave that `resolution` places can carry, in even steps (bands=linear)
   or octaves (bands=log). With axes=2 or 3 each direction has its share of the channels.         */

static double pe__band(int k, int n, double resolution, int bands)
{
    double along = n > 1 ? (double)k / (n - 1) : 0;
    return bands == POSENC_LOG_BANDS ? pow(2, along * (log2(resolution) - 1))
                                     : 1 + along * (resolution / 2 - 1);
}
/* a place among n, measured from -1 to 1, ends included */
static double pe__unit(double p, double n) { return n > 1 ? 2 * p / (n - 1) - 1 : -1; }

static void pe__fourier_row(posenc_float *row, const double *at, int C, const posenc_spec *s)
{
    int axes = pe__axes_of(s), n = C / (2 * axes), all = n * axes;
    memset(row, 0, (size_t)C * sizeof *row);
    for (int i = 0; i < all; i++) {
        double u = pe__unit(at[i / n], pe__extent(s, i / n));
        double angle = pe__pi * u * pe__band(i % n, n, s->resolution, s->bands);
        row[i] = PE__F(sin(angle));
        row[all + i] = PE__F(cos(angle));
    }
}
static posenc_status pe__fourier_check(posenc_spec *s, const posenc_shape *g, posenc_error *why)
{
    int axes = pe__axes_of(s), least = 2 * axes;
    double most = 2;
    pe__default_int(&s->axes, 1);
    if (axes > 1) pe__grid_default(s, axes, g->context);
    pe__default(&s->length, axes == 1 ? g->context
                          : ceil((double)g->context / ((double)s->width * s->height)));
    for (int a = 0; a < axes; a++) most = fmin(1e9, fmax(most, pe__extent(s, a)));
    pe__default(&s->resolution, most);
    if (g->C < least)
        return pe__fail(why, POSENC_BAD_CONFIG, "%s needs %d channels at least, and has %d",
                        posenc_encoding_get(s->encoding)->name, least, g->C);
    return POSENC_OK;
}
static const pe__card pe__card_FOURIER = PE__CARD_ROW_AT(pe__fourier_check, 0, pe__fourier_row);

/* ---- [5.4] learned, sininit ---------------------------------------------------------------------
   enters    embedding
   learns    a table W (rows, C), one free vector per position. learned starts at random, sininit as
             the waves of [5.3]
   beyond T  impossible past the last row; rows that training never reached keep their first values

   E(p) = W[p + offset].   Backward: dW[p_t + offset] += dx_t, every row of dx to the row it came from.

   offset is for tables that begin with rows nobody uses: 2 in BART and OPT. RoBERTa's positions start
   at padding_idx + 1 themselves: posenc_positions_padding, no offset.                            */

static int pe__table_row(double p, int rows)                  /* -1 outside the table, or for NaN */
{
    return p >= -0.5 && p < rows - 0.5 ? (int)floor(p + 0.5) : -1;
}

POSENC_DEF void posenc_learned_forward(posenc_float *x, const posenc_float *table,
                                       const double *pos, int B, int T, int C, int rows)
{
    PE__PARALLEL
    for (int t = 0; t < T; t++) {
        int row = pe__table_row(pe__at(pos, t), rows);
        for (int b = 0; b < B && row >= 0; b++)
            for (int c = 0; c < C; c++)
                x[((size_t)b * T + t) * C + c] += table[(size_t)row * C + c];
    }
}

POSENC_DEF void posenc_learned_backward(posenc_float *dtable, const posenc_float *dx,
                                        const double *pos, int B, int T, int C, int rows)
{
    PE__PARALLEL                           /* two tokens may share a row: a thread owns a channel */
    for (int c = 0; c < C; c++) {
        for (int t = 0; t < T; t++) {
            int row = pe__table_row(pe__at(pos, t), rows);
            for (int b = 0; b < B && row >= 0; b++)
                dtable[(size_t)row * C + c] += dx[((size_t)b * T + t) * C + c];
        }
    }
}

/* Row r of the new table covers the stretch from r to r + 1 of it; its middle falls between two
   middles of the old one.                                                                        */
POSENC_DEF void posenc_learned_resize(posenc_float *table, int rows, const posenc_float *from,
                                      int from_rows, int C)
{
    PE__PARALLEL
    for (int r = 0; r < rows; r++) {
        double at = fmax(0, (r + 0.5) * from_rows / rows - 0.5);
        int low = pe__min((int)at, from_rows - 1), high = pe__min(low + 1, from_rows - 1);
        for (int c = 0; c < C; c++)
            table[(size_t)r * C + c] = PE__F((1 - (at - low)) * from[(size_t)low * C + c] +
                                             (at - low) * from[(size_t)high * C + c]);
    }
}

static posenc_status pe__learned_check(posenc_spec *s, const posenc_shape *g, posenc_error *why)
{
    pe__default_int(&s->rows, g->context + s->offset);
    pe__default(&s->init, 0.02);
    if (s->offset >= s->rows)
        return pe__fail(why, POSENC_BAD_CONFIG, "%s: offset=%d leaves nothing of %d rows",
                        posenc_encoding_get(s->encoding)->name, s->offset, s->rows);
    return pe__base_check(s, g, why);
}
static int pe__learned_plan(pe__plan plan[POSENC_PARTS], const posenc_spec *s, const posenc_shape *g)
{
    return pe__plan_one(plan, "weight", s->rows, g->C, PE__NORMAL, s->init);
}
static int pe__sininit_plan(pe__plan plan[POSENC_PARTS], const posenc_spec *s, const posenc_shape *g)
{
    return pe__plan_one(plan, "weight", s->rows, g->C, PE__WAVES, s->base);
}
static const pe__card pe__card_LEARNED = PE__CARD_LOOKUP(pe__learned_check, pe__learned_plan);
static const pe__card pe__card_SININIT = PE__CARD_LOOKUP(pe__learned_check, pe__sininit_plan);

/* ---- [5.5] networks of the position: what they share --------------------------------------------
   A chain of layers turns the coordinates u of a token into its row. The chain is a word, a letter a
   layer; forward walks it from the left, backward from the right, and each layer's backward is that of
   [4]. The batch is summed first, so that the walk back is made once.

   Waves, y = [sin a | cos a]: the slope of each half is the other one,
       da = dy_sin cos a - dy_cos sin a = dy_sin y_cos - dy_cos y_sin

   scratch   u | what each layer gives (ReLU in place: its slope can be read off its output) | 2 spare */

POSENC_DEF void posenc_waves_forward(posenc_float *y, const posenc_float *a, double scale, int R, int n)
{
    PE__PARALLEL
    for (int r = 0; r < R; r++) {
        posenc_float *sine = y + (size_t)r * 2 * n, *cosine = sine + n;
        for (int i = 0; i < n; i++) {
            double angle = a[(size_t)r * n + i];
            sine[i] = PE__F(scale * sin(angle));
            cosine[i] = PE__F(scale * cos(angle));
        }
    }
}
POSENC_DEF void posenc_waves_backward(posenc_float *da, const posenc_float *dy, const posenc_float *y,
                                      int R, int n)
{
    PE__PARALLEL
    for (int r = 0; r < R; r++) {
        const posenc_float *g = dy + (size_t)r * 2 * n, *v = y + (size_t)r * 2 * n;
        for (int i = 0; i < n; i++) da[(size_t)r * n + i] = g[i] * v[n + i] - g[n + i] * v[i];
    }
}

enum { PE__STEPS = 8 };                                                /* longest chain, and more */

/* at[i], width[i]: where the input of layer i begins and how wide it is; behind the last come the two
   spare ones. Returns how many layers there are.                                                 */
static int pe__network_lay(size_t at[PE__STEPS], int width[PE__STEPS], const pe__network *n, int T)
{
    int linear = 0, widest = n->width[0], i = 0;
    at[0] = 0;
    width[0] = n->width[0];
    for (; n->chain[i]; i++) {
        char layer = n->chain[i];
        width[i + 1] = layer == 'l' || layer == 'p' ? n->width[++linear]
                     : layer == 'w' ? 2 * width[i] : width[i];
        at[i + 1] = layer == 'r' ? at[i] : at[i] + (size_t)T * width[i];
        widest = pe__max(widest, width[i + 1]);
    }
    at[i + 1] = at[i] + (size_t)T * width[i];
    at[i + 2] = at[i + 1] + (size_t)T * widest;
    width[i + 1] = widest;
    return i;
}
static size_t pe__network_floats(const pe__network *n, int T)
{
    size_t at[PE__STEPS];
    int width[PE__STEPS], layers = pe__network_lay(at, width, n, T);
    return at[layers + 2] + (size_t)T * width[layers + 1];
}

/* x += chain(u); u is in the scratch already */
static void pe__network_forward(const posenc_backend *ops, posenc_float *x, posenc_float *scratch,
                                const pe__network *n, posenc_float *const *w, int B, int T, int C)
{
    size_t at[PE__STEPS];
    int width[PE__STEPS], layers = pe__network_lay(at, width, n, T);
    for (int i = 0; i < layers; i++) {
        posenc_float *in = scratch + at[i], *out = scratch + at[i + 1];
        size_t count = (size_t)T * width[i];
        switch (n->chain[i]) {
        case 'l': ops->linear_forward(out, in, w[0], w[1], T, width[i], width[i + 1]); w += 2; break;
        case 'p': ops->linear_forward(out, in, w[0], NULL, T, width[i], width[i + 1]); w++; break;
        case 'w': ops->waves_forward(out, in, n->waves, T, width[i]); break;
        case 'g': ops->activation_forward(out, in, POSENC_GELU, count); break;
        default:  ops->activation_forward(out, in, POSENC_RELU, count);
        }
    }
    ops->rows_forward(x, scratch + at[layers], B, T, C);
}

static void pe__network_backward(const posenc_backend *ops, posenc_float *const *dw,
                                 const posenc_float *dx, posenc_float *scratch, const pe__network *n,
                                 posenc_float *const *w, int B, int T, int C)
{
    size_t at[PE__STEPS];
    int width[PE__STEPS], layers = pe__network_lay(at, width, n, T), k = 0;
    posenc_float *g = scratch + at[layers + 1], *next = scratch + at[layers + 2], *other;
    for (int i = 0; i < layers; i++) k += n->chain[i] == 'l' ? 2 : n->chain[i] == 'p';
    ops->zero(ops->user, g, (size_t)T * C * sizeof *g);
    ops->rows_backward(g, dx, B, T, C);
    for (int i = layers - 1; i >= 0; i--) {
        posenc_float *in = scratch + at[i], *out = scratch + at[i + 1];
        size_t count = (size_t)T * width[i];
        char layer = n->chain[i];
        if (layer == 'g') ops->activation_backward(g, g, in, POSENC_GELU, count);
        if (layer == 'r') ops->activation_backward(g, g, in, POSENC_RELU, count);
        if (layer == 'g' || layer == 'r') continue;
        if (layer == 'w') ops->waves_backward(next, g, out, T, width[i]);
        if (layer == 'l' || layer == 'p') {
            k -= layer == 'l' ? 2 : 1;
            ops->linear_backward(i ? next : NULL, dw[k], layer == 'l' ? dw[k + 1] : NULL, g, in, w[k], T,
                                 width[i], width[i + 1], 0);
        }
        other = g; g = next; next = other;
    }
}

/* u of one token */
static void pe__network_input(posenc_float *u, const double *at, const pe__network *n)
{
    for (int a = 0; a < n->width[0]; a++) u[a] = PE__F(at[a] * n->factor[a] + n->shift[a]);
}
static pe__network pe__network_of(const char *chain, int inputs, int first, int second, int third)
{
    pe__network n;
    memset(&n, 0, sizeof n);
    n.chain = chain;
    n.width[0] = inputs;
    n.width[1] = first;
    n.width[2] = second;
    n.width[3] = third;
    n.waves = 1;
    return n;
}

/* ---- [5.5.1] continuous: a network of the position ----------------------------------------------
   enters    embedding
   learns    W1 (hidden,1) b1, W2 (hidden,hidden) b2, W3 (C,hidden) b3: 33,280 numbers at C = 128
   beyond T  defined everywhere; past `length` it extends its last straight lines

   u = p / length     h1 = relu(W1 u + b1)     h2 = relu(W2 h1 + b2)     E = W3 h2 + b3

   Any real position has a vector, piece by piece on straight lines, and neighbours have similar ones.
   depth=1 leaves out h2.                                                                         */

static pe__network pe__continuous_of(int depth, double length, int C, int hidden)
{
    pe__network n = depth == 1 ? pe__network_of("lrl", 1, hidden, C, 0)
                               : pe__network_of("lrlrl", 1, hidden, hidden, C);
    n.factor[0] = 1 / length;
    return n;
}

POSENC_DEF size_t posenc_continuous_scratch(int T, int C, int hidden)
{
    pe__network n = pe__continuous_of(2, 1, C, hidden);
    return pe__network_floats(&n, T);
}
static void pe__continuous_list(posenc_float *list[6], const posenc_continuous *w)
{
    list[0] = w->w1; list[1] = w->b1; list[2] = w->w2; list[3] = w->b2; list[4] = w->w3; list[5] = w->b3;
}
POSENC_DEF void posenc_continuous_forward(posenc_float *x, posenc_float *scratch,
                                          const posenc_continuous *w, const double *pos,
                                          double length, int B, int T, int C, int hidden)
{
    pe__network n = pe__continuous_of(2, 1, C, hidden);
    posenc_float *list[6];
    pe__continuous_list(list, w);
    for (int t = 0; t < T; t++) scratch[t] = PE__F(pe__at(pos, t) / length);
    pe__network_forward(posenc_cpu_backend(), x, scratch, &n, list, B, T, C);
}
POSENC_DEF void posenc_continuous_backward(const posenc_continuous *dw, const posenc_float *dx,
                                           posenc_float *scratch, const posenc_continuous *w,
                                           int B, int T, int C, int hidden)
{
    pe__network n = pe__continuous_of(2, 1, C, hidden);
    posenc_float *list[6], *gradients[6];
    pe__continuous_list(list, w);
    pe__continuous_list(gradients, dw);
    pe__network_backward(posenc_cpu_backend(), gradients, dx, scratch, &n, list, B, T, C);
}

static void pe__continuous_network(pe__network *n, const posenc_spec *s, int C)
{
    *n = pe__continuous_of(s->depth, s->length, C, s->hidden);
}
static posenc_status pe__continuous_check(posenc_spec *s, const posenc_shape *g, posenc_error *why)
{
    pe__default_int(&s->hidden, 128);
    pe__default_int(&s->depth, 2);
    pe__default(&s->init, 0.02);
    return pe__length_check(s, g, why);
}
static int pe__continuous_plan(pe__plan plan[POSENC_PARTS], const posenc_spec *s,
                               const posenc_shape *g)
{
    static const char *const name[] = { "w1", "b1", "w2", "b2", "w3", "b3" };
    for (int i = 0, in = 1; i <= s->depth; i++) {
        int out = i < s->depth ? s->hidden : g->C;
        pe__plan_one(plan + 2 * i, name[2 * i], out, in, PE__NORMAL, s->init);
        pe__plan_one(plan + 2 * i + 1, name[2 * i + 1], out, 0, PE__ZERO, 0);
        in = out;
    }
    return 2 * s->depth + 2;
}
static const pe__card pe__card_CONTINUOUS =
    PE__CARD_NETWORK(pe__continuous_check, pe__continuous_plan, pe__continuous_network);

/* ---- [5.5.2] random_fourier (Tancik et al. 2020) ------------------------------------------------
   enters    embedding
   learns    nothing: B (C/2, axes) is drawn once, deviation `init`, and kept with the weights
   beyond T  defined, never seen

   u = 2 p / N - 1     E = [ sin(2 pi B u) | cos(2 pi B u) ]

   The product of two such rows depends on u - u' alone, and is close to a bell of width 1/(2 pi init)
   around 0: `init` says how near two places must be to look alike. SAM's prompts are encoded so, from
   the middle of a pixel: p + 1/2.                                                                */

static void pe__random_fourier_network(pe__network *n, const posenc_spec *s, int C)
{
    int axes = pe__axes_of(s);
    *n = pe__network_of("pw", axes, C / 2, 0, 0);
    for (int a = 0; a < axes; a++) {
        n->factor[a] = 4 * pe__pi / pe__extent(s, a);
        n->shift[a] = -2 * pe__pi;
    }
}
static posenc_status pe__random_fourier_check(posenc_spec *s, const posenc_shape *g,
                                              posenc_error *why)
{
    pe__default(&s->init, 1);
    if (g->C % 2)
        return pe__fail(why, POSENC_BAD_CONFIG, "random_fourier has a cosine for each sine, and %d "
                        "channels are odd", g->C);
    return pe__fourier_check(s, g, why);
}
static int pe__random_fourier_plan(pe__plan plan[POSENC_PARTS], const posenc_spec *s,
                                   const posenc_shape *g)
{
    pe__plan_one(plan, "weight", g->C / 2, pe__axes_of(s), PE__NORMAL, s->init);
    plan->fixed = 1;
    return 1;
}
static const pe__card pe__card_RANDOM_FOURIER =
    PE__CARD_NETWORK(pe__random_fourier_check, pe__random_fourier_plan, pe__random_fourier_network);

/* ---- [5.5.3] learned_fourier (Li et al. 2021) ---------------------------------------------------
   enters    embedding
   learns    Wr (features/2, axes), W1 (hidden, features) b1, W2 (C, hidden) b2
   beyond T  defined, never seen

   u = p / N     r = [ sin(Wr u) | cos(Wr u) ] / sqrt(features)     E = W2 gelu(W1 r + b1) + b2

   Between continuous, which must bend straight lines into waves, and random_fourier, which cannot
   choose its waves.                                                                              */

static void pe__learned_fourier_network(pe__network *n, const posenc_spec *s, int C)
{
    int axes = pe__axes_of(s);
    *n = pe__network_of("pwlgl", axes, s->features / 2, s->hidden, C);
    n->waves = 1 / sqrt((double)s->features);
    for (int a = 0; a < axes; a++) n->factor[a] = 1 / pe__extent(s, a);
}
static posenc_status pe__learned_fourier_check(posenc_spec *s, const posenc_shape *g,
                                               posenc_error *why)
{
    pe__default(&s->init, 1);
    pe__default_int(&s->hidden, 128);
    pe__default_int(&s->features, pe__max(2, g->C / 2 * 2));
    if (s->features % 2)
        return pe__fail(why, POSENC_BAD_CONFIG, "learned_fourier has a cosine for each sine, and "
                        "features=%d is odd", s->features);
    return pe__fourier_check(s, g, why);
}
static int pe__learned_fourier_plan(pe__plan plan[POSENC_PARTS], const posenc_spec *s,
                                    const posenc_shape *g)
{
    double first = 1 / sqrt((double)s->features), second = 1 / sqrt((double)s->hidden);
    pe__plan_one(plan + 0, "wr", s->features / 2, pe__axes_of(s), PE__NORMAL, s->init);
    pe__plan_one(plan + 1, "w1", s->hidden, s->features, PE__UNIFORM, first);
    pe__plan_one(plan + 2, "b1", s->hidden, 0, PE__ZERO, 0);
    pe__plan_one(plan + 3, "w2", g->C, s->hidden, PE__UNIFORM, second);
    return 4 + pe__plan_one(plan + 4, "b2", g->C, 0, PE__ZERO, 0);
}
static const pe__card pe__card_LEARNED_FOURIER =
    PE__CARD_NETWORK(pe__learned_fourier_check, pe__learned_fourier_plan,
                     pe__learned_fourier_network);

/* ---- [5.5.4] the verb add, for all of them ------------------------------------------------------- */

/* What the host fills in: the fixed rows, or the inputs of a network. T tokens at `at` (T, axes). */
static void pe__rows_fill(posenc_float *to, const posenc_spec *s, const double *at, int T, int C)
{
    const pe__card *card = pe__card_of(s);
    int axes = pe__axes_of(s);
    pe__network n = pe__network_of("", axes, 0, 0, 0);
    if (card->network) card->network(&n, s, C);
    PE__PARALLEL
    for (int t = 0; t < T; t++) {
        double index = t, own[POSENC_AXES];
        if (at) for (int a = 0; a < axes; a++) own[a] = at[(size_t)t * axes + a];
        else    pe__coordinates(own, &index, 1, s);
        if (card->row) card->row(to + (size_t)t * C, own, C, s);
        else           pe__network_input(to + (size_t)t * n.width[0], own, &n);
    }
}
static size_t pe__rows_filled(const posenc_spec *s, int T, int C)                 /* how many */
{
    return (size_t)T * (pe__card_of(s)->row ? C : pe__axes_of(s));
}

/* elements: what is filled in, and what comes of it */
static size_t pe__rows_floats(const posenc_spec *s, int T, int C)
{
    const pe__card *card = pe__card_of(s);
    pe__network n;
    if (card->row) return (size_t)T * C * (s->scaled ? 2 : 1);
    if (!card->network) return 0;
    card->network(&n, s, C);
    return pe__network_floats(&n, T);
}

static void pe__rows_apply(const posenc_backend *ops, posenc_float *x, posenc_float *scratch,
                           const posenc_spec *s, posenc_float *const *w, int B, int T, int C)
{
    const pe__card *card = pe__card_of(s);
    pe__network n;
    if (card->row && s->scaled) {                   /* a linear layer of one number, on every one */
        ops->linear_forward(scratch + (size_t)T * C, scratch, w[0], NULL, T * C, 1, 1);
        scratch += (size_t)T * C;
    }
    if (card->row) ops->rows_forward(x, scratch, B, T, C);
    if (!card->network) return;
    card->network(&n, s, C);
    pe__network_forward(ops, x, scratch, &n, w, B, T, C);
}

static void pe__rows_gradient(const posenc_backend *ops, posenc_float *const *dw,
                              const posenc_float *dx, posenc_float *scratch, const posenc_spec *s,
                              posenc_float *const *w, int B, int T, int C)
{
    const pe__card *card = pe__card_of(s);
    posenc_float *dE = scratch + (size_t)T * C;
    pe__network n;
    if (card->row && s->scaled) {
        ops->zero(ops->user, dE, (size_t)T * C * sizeof *dE);
        ops->rows_backward(dE, dx, B, T, C);
        ops->linear_backward(NULL, dw[0], NULL, dE, scratch, w[0], T * C, 1, 1, 0);
    }
    if (!card->network) return;
    card->network(&n, s, C);
    pe__network_backward(ops, dw, dx, scratch, &n, w, B, T, C);
}

POSENC_DEF size_t posenc_spec_rows_scratch(const posenc_spec *s, int T, int C)
{
    return pe__rows_floats(s, T, C);
}
POSENC_DEF void posenc_spec_rows_forward(posenc_float *x, posenc_float *scratch, const posenc_spec *s,
                                         posenc_float *const *w, const double *at, int B, int T,
                                         int C)
{
    const pe__card *card = pe__card_of(s);
    if (card->row || card->network) {
        pe__rows_fill(scratch, s, at, T, C);
        pe__rows_apply(posenc_cpu_backend(), x, scratch, s, w, B, T, C);
    }
    if (card->lookup)
        posenc_learned_forward(x, w[0] + (size_t)s->offset * C, at, B, T, C, s->rows - s->offset);
}
POSENC_DEF void posenc_spec_rows_backward(posenc_float *const *dw, const posenc_float *dx,
                                          posenc_float *scratch, const posenc_spec *s,
                                          posenc_float *const *w, const double *at, int B, int T,
                                          int C)
{
    const pe__card *card = pe__card_of(s);
    if (card->row || card->network)
        pe__rows_gradient(posenc_cpu_backend(), dw, dx, scratch, s, w, B, T, C);
    if (card->lookup && dw[0])
        posenc_learned_backward(dw[0] + (size_t)s->offset * C, dx, at, B, T, C, s->rows - s->offset);
}

/* ---- [5.6] turning: what every rotation shares --------------------------------------------------
   Read channels as points in the plane and turn point i of the vector at position p by the angle
       theta = sum_a p_a F_ai        (y1, y2) = m (x1 cos - x2 sin, x1 sin + x2 cos)

   F are the frequencies, a row for each axis that positions have, and m a magnitude; every member of
   the rope family only fills them differently. Two habits exist for which channels form a point, and
   checkpoints of one do not work with the other:

       interleaved  (x_0 x_1) (x_2 x_3) ...      half  (x_0 x_n) (x_1 x_n+1) ...  n pairs in all

   Backward. The gradient is turned the other way: the transpose of m R(theta) is m R(-theta), the
   same kernel with the sine negated (and m as it is, not 1/m). For trained frequencies
       dtheta = y1 g2 - y2 g1 = x1 dx2 - x2 dx1
   the cross product of value and gradient, which turning both leaves unchanged: it may be taken
   before or after the turn, so nothing needs to be saved.

   Angles are computed in double. In float, p = 1,048,575 has lost the second decimal of the
   angle.                                                                                         */

/* Turns n pairs in each of some rows `step` apart; the cosines and sines of a row are c_step behind those
   of the row before (0: all rows have the same). gap: from the first channel of a pair to the second,
   1 when they are interleaved.                                                                   */
PE__STAMPED(turn_rows, (posenc_float *x, ptrdiff_t step, int rows, const posenc_float *c,
                        const posenc_float *s, ptrdiff_t c_step, int n, int gap,
                        posenc_float direction), (x, step, rows, c, s, c_step, n, gap, direction))
{
    for (int r = 0; r < rows; r++, x += step, c += c_step, s += c_step) {
        if (gap == 1)
            PE__EACH for (int i = 0; i < n; i++) {
                posenc_float u = x[2 * i], v = x[2 * i + 1], sine = direction * s[i];
                x[2 * i]     = u * c[i] - v * sine;
                x[2 * i + 1] = u * sine + v * c[i];
            }
        else
            PE__EACH for (int i = 0; i < n; i++) {
                posenc_float u = x[i], v = x[gap + i], sine = direction * s[i];
                x[i]       = u * c[i] - v * sine;
                x[gap + i] = u * sine + v * c[i];
            }
    }
}
static int pe__gap(int layout, int pairs) { return layout == POSENC_INTERLEAVED ? 1 : pairs; }

/* tokens t0.. of heads h0.. of a sample: along the shorter of the two strides, where memory is */
static void pe__turn_some(posenc_heads x, int b, int t0, int tokens, int h0, int heads,
                          const posenc_turns *turns, posenc_float direction)
{
    int gap = pe__gap(turns->layout, turns->pairs), row = b * turns->row_b + t0, n = turns->pairs;
    const posenc_float *c = turns->cosine + (size_t)row * n, *s = turns->sine + (size_t)row * n;
    tokens = pe__min(tokens, turns->rows - row);                  /* past the table: left alone */
    for (int h = h0; h < h0 + heads && x.st <= x.sh; h++)
        pe__turn_rows(pe__head(x, b, t0, h) + turns->offset, x.st, tokens, c, s, n, n, gap, direction);
    for (int t = 0; t < tokens && x.st > x.sh; t++)
        pe__turn_rows(pe__head(x, b, t0 + t, h0) + turns->offset, x.sh, heads, c + (size_t)t * n,
                      s + (size_t)t * n, 0, n, gap, direction);
}

static void pe__turn_all(posenc_heads x, const posenc_turns *turns, posenc_float direction)
{
    enum { RUN = 64 };                                                   /* tokens, to a thread */
    int runs = (x.T + RUN - 1) / RUN, apart = x.st <= x.sh ? x.H : 1;    /* heads one by one? */
    POSENC_ASSERT(turns->offset >= 0 && turns->offset + 2 * turns->pairs <= x.D);
    PE__PARALLEL
    for (int u = 0; u < x.B * apart * runs; u++) {
        int b = u / (apart * runs), h = u / runs % apart, t = u % runs * RUN;
        pe__turn_some(x, b, t, pe__min(RUN, x.T - t), h, x.H / apart, turns, direction);
    }
}
POSENC_DEF void posenc_turn(posenc_heads x, posenc_turns turns) { pe__turn_all(x, &turns, 1); }
POSENC_DEF void posenc_turn_back(posenc_heads dx, posenc_turns turns)
{
    pe__turn_all(dx, &turns, -1);
}

/* sum_a p_a F_ai for row r */
static double pe__turn_angle(const double *pos, int r, int i, const posenc_rotation *by)
{
    int axes = pe__max(1, by->axes);
    double sum = 0;
    if (axes == 1) return pe__at(pos, r) * (by->frequency ? by->frequency[i] : 1);
    for (int a = 0; a < axes; a++)
        sum += pos[(size_t)r * axes + a] * by->frequency[(size_t)a * by->pairs + i];
    return sum;
}
/* angle and natural logarithm of the length: a rotation is the exponential of their sum */
static void pe__turn_by(double *angle, double *length, const double *pos, int r, int i,
                        const posenc_rotation *by)
{
    double p = by->axes > 1 ? pos[(size_t)r * by->axes] : pe__at(pos, r);
    *angle = pe__turn_angle(pos, r, i, by) * (by->scale ? (double)by->scale[i] : 1.0);
    *length = by->magnitude > 0 ? log(by->magnitude) : 0;
    if (by->growth) *length += by->growth[i] * (p - by->center);
}

/* Sine and cosine of an angle below a million quarter turns: r, what is left of it after n whole quarter
   turns, is exact, because a quarter turn is taken away in three parts, the first two so short that n
   times them fits into a double; then the series, and n mod 4 says which of the two is which.    */
PE__INLINE void pe__sine_and_cosine(double *sine, double *cosine, double angle)
{
    const double round = 6755399441055744.0;                                           /* 1.5 * 2^52 */
    double shifted = angle * 0.63661977236758134 + round, n = shifted - round, r, z, s, c;
    int64_t quarter;
    memcpy(&quarter, &shifted, sizeof quarter);
    r = angle - n * 1.5707963267341256;
    r = r - n * 6.0771005063039659e-11;
    r = r - n * 2.0222662487959506e-21;
    z = r * r;
    s = r + r * z * (-1.0 / 6 + z * (1.0 / 120 + z * (-1.0 / 5040 + z * (1.0 / 362880
          + z * (-1.0 / 39916800)))));
    c = 1 + z * (-0.5 + z * (1.0 / 24 + z * (-1.0 / 720 + z * (1.0 / 40320 + z * (-1.0 / 3628800
          + z * (1.0 / 479001600))))));
    *sine   = (quarter & 1 ? c : s) * (double)(1 - (quarter & 2));
    *cosine = (quarter & 1 ? s : c) * (double)(1 - ((quarter + 1) & 2));
}
PE__STAMPED(turn_table, (posenc_float *cosine, posenc_float *sine, const double *angle, const double *m,
                         int n), (cosine, sine, angle, m, n))
{
    PE__EACH for (int i = 0; i < n; i++) {
        double s, c;
        pe__sine_and_cosine(&s, &c, angle[i]);
        cosine[i] = PE__F(m[i] * c);
        sine[i] = PE__F(m[i] * s);
    }
}
/* n <= PE__TURN_RUN of them; larger angles are left to the C library */
enum { PE__TURN_RUN = 64 };
static void pe__turn_table_of(posenc_float *cosine, posenc_float *sine, const double *angle,
                              const double *m, int n)
{
    int near = 1;
    for (int i = 0; i < n; i++) near &= fabs(angle[i]) < 1.6e6;
    if (near) { pe__turn_table(cosine, sine, angle, m, n); return; }
    for (int i = 0; i < n; i++) {
        cosine[i] = PE__F(m[i] * cos(angle[i]));
        sine[i] = PE__F(m[i] * sin(angle[i]));
    }
}

POSENC_DEF void posenc_turns_fill(posenc_turns turns, const double *pos, const posenc_rotation *by)
{
    POSENC_ASSERT((pos || by->axes <= 1) && by->pairs == turns.pairs);
    PE__PARALLEL
    for (int r = 0; r < turns.rows; r++) {
        for (int from = 0; from < turns.pairs; from += PE__TURN_RUN) {
            double angle[PE__TURN_RUN], m[PE__TURN_RUN];
            int n = pe__min(PE__TURN_RUN, turns.pairs - from);
            size_t at = (size_t)r * turns.pairs + from;
            for (int i = 0; i < n; i++) {
                pe__turn_by(&angle[i], &m[i], pos, r, from + i, by);
                m[i] = m[i] == 0 ? 1 : exp(m[i]);
            }
            pe__turn_table_of(turns.cosine + at, turns.sine + at, angle, m, n);
        }
    }
}

/* Turns add up, R(a) R(b) = R(a + b), so that R(now) R(before)^-1 = R(now - before): a cached key can be
   moved to another place, or given other frequencies, by one more turn.                          */
POSENC_DEF void posenc_turns_between(posenc_turns turns, const double *pos_now,
                                     const posenc_rotation *now, const double *pos_before,
                                     const posenc_rotation *before)
{
    POSENC_ASSERT(now->pairs == turns.pairs && before->pairs == turns.pairs);
    PE__PARALLEL
    for (int r = 0; r < turns.rows; r++) {
        for (int i = 0; i < turns.pairs; i++) {
            double a, b, m, n;
            pe__turn_by(&a, &m, pos_now, r, i, now);
            pe__turn_by(&b, &n, pos_before, r, i, before);
            turns.cosine[(size_t)r * turns.pairs + i] = PE__F(exp(m - n) * cos(a - b));
            turns.sine  [(size_t)r * turns.pairs + i] = PE__F(exp(m - n) * sin(a - b));
        }
    }
}

/* sum over tokens of dtheta times the angle without its scale, for pair i; tokens past the table are
   left out as in the turn itself                                                                 */
static double pe__pair_gradient(posenc_heads dx, posenc_heads x, const posenc_turns *turns,
                                const double *pos, const posenc_rotation *by, int i)
{
    int interleaved = turns->layout == POSENC_INTERLEAVED;
    int first = turns->offset + (interleaved ? 2 * i : i);
    int second = first + (interleaved ? 1 : turns->pairs);
    double sum = 0;
    for (int r = 0; r < x.B * x.T; r++) {
        int b = r / x.T, t = r % x.T, row = b * turns->row_b + t;
        double cross = 0;
        for (int h = 0; h < x.H && row < turns->rows; h++) {
            const posenc_float *v = pe__head(x, b, t, h), *g = pe__head(dx, b, t, h);
            cross += (double)v[first] * g[second] - (double)v[second] * g[first];
        }
        sum += cross == 0 ? 0 : cross * pe__turn_angle(pos, row, i, by);
    }
    return sum;
}

POSENC_DEF void posenc_turns_backward(posenc_float *dscale, posenc_heads dx, posenc_heads x,
                                      posenc_turns turns, const double *pos,
                                      const posenc_rotation *by)
{
    PE__PARALLEL
    for (int i = 0; i < turns.pairs; i++)
        dscale[i] += PE__F(pe__pair_gradient(dx, x, &turns, pos, by, i));
}

/* Scores are sums over channels in any order, so queries and keys may be stored in either layout if
   both are: the channels of a head trade places, interleaved 0 1 2 3 4 5 <-> half 0 2 4 1 3 5.   */
POSENC_DEF void posenc_layout_convert(posenc_float *w, const posenc_float *from, int H, int D, int C,
                                      int dim, int offset, int to)
{
    POSENC_ASSERT(w != from && offset >= 0 && dim % 2 == 0 && offset + dim <= D);
    for (int r = 0; r < H * D; r++) {
        int d = r % D - offset, inside = d >= 0 && d < dim;
        int other = to == POSENC_HALF ? d % (dim / 2) * 2 + d / (dim / 2) : d / 2 + d % 2 * (dim / 2);
        int source = inside ? r - d + other : r;
        memcpy(w + (size_t)r * C, from + (size_t)source * C, (size_t)C * sizeof *w);
    }
}

POSENC_DEF posenc_rotation posenc_spec_rotation(double *room, const posenc_spec *s, int key,
                                                double length)
{
    posenc_rotation r;
    double *growth;
    memset(&r, 0, sizeof r);
    memset(room, 0, (size_t)(POSENC_AXES + 1) * (s->dim / 2) * sizeof *room);
    r.pairs = s->dim / 2;
    r.axes = pe__axes_of(s);
    r.frequency = room;
    r.magnitude = 1;
    r.center = s->center;
    growth = room + (size_t)r.axes * r.pairs;
    if (pe__card_of(s)->rotate) pe__card_of(s)->rotate(&r, room, s, length);
    for (int i = 0; i < r.pairs && key && r.growth; i++) growth[i] = -growth[i];
    return r;
}

/* ---- [5.7] rope: rotary position (Su et al. 2021) -----------------------------------------------
   enters    queries and keys, in every layer (but every nope_every-th); values stay as they are
   learns    nothing
   beyond T  defined at any position, but with angles the model never saw: expect it to fail a
             little past the training length unless the frequencies are rescaled [5.7.1]

   f_i = base^(-2i/dim): the first points spin fast, the last ones hardly move. A dot product of two
   turned vectors depends on the difference of their angles alone, so the score of query i and key j
   sees p_i - p_j and neither of them by itself.

   dim and offset turn a part of each head only, the rest carries no position; the exponent then has
   dim, not the head's width. over=width turns all channels as one head, as the published example does.

   Backward. As [5.6]; the forward needs no table either, if each angle serves all batches and
   heads.                                                                                         */

POSENC_DEF void posenc_rope_frequencies(double *frequency, int dim, double base)
{
    for (int i = 0; i < dim / 2; i++) frequency[i] = pow(base, -2.0 * i / dim);
}

static void pe__rope(posenc_heads x, const posenc_float *scale, const double *pos, int layout,
                     double base, posenc_float direction)
{
    int pairs = x.D / 2, gap = pe__gap(layout, pairs);
    POSENC_ASSERT(x.D % 2 == 0);
    PE__PARALLEL
    for (int t = 0; t < x.T; t++) {
        for (int from = 0; from < pairs; from += PE__TURN_RUN) {
            posenc_float c[PE__TURN_RUN], s[PE__TURN_RUN];
            double angle[PE__TURN_RUN], one[PE__TURN_RUN];
            int to = pe__min(from + PE__TURN_RUN, pairs);
            for (int i = from; i < to; i++) {
                angle[i - from] =
                    pe__at(pos, t) * pow(base, -2.0 * i / x.D) * (scale ? (double)scale[i] : 1.0);
                one[i - from] = 1;
            }
            pe__turn_table_of(c, s, angle, one, to - from);
            for (int b = 0; b < x.B; b++)
                for (int h = 0; h < x.H; h++)
                    pe__turn_rows(pe__head(x, b, t, h) + (gap == 1 ? 2 : 1) * from, 0, 1, c, s, 0,
                                  to - from, gap, direction);
        }
    }
}
POSENC_DEF void posenc_rope_forward(posenc_heads x, const double *pos, int layout, double base)
{
    pe__rope(x, NULL, pos, layout, base, 1);
}
POSENC_DEF void posenc_rope_backward(posenc_heads dx, const double *pos, int layout, double base)
{
    pe__rope(dx, NULL, pos, layout, base, -1);
}

/* what all members of the family check; `multiple` of channels are needed */
static posenc_status pe__turn_check(posenc_spec *s, const posenc_shape *g, int multiple,
                                    posenc_error *why)
{
    const char *name = posenc_encoding_get(s->encoding)->name;
    int width = s->over == POSENC_OVER_WIDTH ? g->H * g->D : g->D;
    posenc_status status = pe__layout_check(s, POSENC_HALF, 0, why);
    if (status != POSENC_OK) return status;
    pe__default(&s->base, 10000);
    pe__default_int(&s->dim, width - s->offset);
    if (s->dim % 2 || s->dim < 2)
        return pe__fail(why, POSENC_BAD_CONFIG,
                        "%s turns pairs of channels, and %d (of %d, from channel %d on) is odd or "
                        "below 2; choose an even head width or give dim=", name, s->dim, width, s->offset);
    if (s->dim + s->offset > width)
        return pe__fail(why, POSENC_BAD_CONFIG,
                        "%s's dim=%d from channel %d on is wider than a head (%d channels)", name,
                        s->dim, s->offset, width);
    if (s->dim % multiple)
        return pe__fail(why, POSENC_BAD_CONFIG,
                        "%s turns pairs by row and by column, and %d channels are not a "
                        "multiple of 4; choose another head width or give dim=", name, s->dim);
    if (s->nope_every == 1)
        return pe__fail(why, POSENC_BAD_CONFIG, "%s:nope_every=1 would turn in no layer; 2 and more "
                        "leave out every second, third, ...", name);
    return POSENC_OK;
}

/* ---- [5.7.1] rope beyond its training length: scalings ------------------------------------------
   With L0 = original, the trained length, s = factor, d = dim. None of them learns; they only fill the
   frequencies and the magnitude differently.

   linear        f / s: positions are squeezed into the trained range (Chen et al. 2023)
   ntk           base s^(d/(d-2)): the slowest pair is slowed s times, the fastest hardly (bloc97)
   dynamic       ntk with s L / L0 - (s - 1) for s, L = max(length, L0): nothing changes until it must
   yarn          pairs that turn more than `fast` times within L0 stay, those that turn less than `slow`
                 times are slowed s times, a ramp in between (Peng et al. 2023)
   llama3        the same by wavelength: below L0/high stays, above L0/low is slowed, a ramp between
   longrope      f / list_i: `long` for lengths above L0, `short` up to it (Ding et al. 2024)
   proportional  the first `proportion` of the pairs turn, f / s; the others stand still (Gemma 4)
   factors       f / long_i: the list as GGUF files keep it

   Magnitude of cosine and sine, by precedence: attention, if given; yarn with mscale and mscale_all:
   M(mscale) / M(mscale_all); yarn: M(1), with M(k) = 0.1 k ln s + 1; longrope: sqrt(1 + ln s / ln L0);
   1. It multiplies q and k, hence scores by its square. DeepSeek multiplies the softmax scale as well:
   that is the model's attention_scale, not the encoding's.                                       */

static double pe__yarn_magnitude(double factor, double k)
{
    return factor <= 1 ? 1 : 0.1 * k * log(factor) + 1;
}
static double pe__rope_magnitude(const posenc_spec *s)
{
    if (s->attention > 0) return s->attention;
    if (s->scaling == POSENC_LONGROPE && s->factor > 1)
        return sqrt(1 + log(s->factor) / log(s->original));
    if (s->scaling != POSENC_YARN) return 1;
    if (s->mscale > 0 && s->mscale_all > 0)
        return pe__yarn_magnitude(s->factor, s->mscale) / pe__yarn_magnitude(s->factor, s->mscale_all);
    return pe__yarn_magnitude(s->factor, 1);
}

/* the pair that turns n times within the trained length, as a real number */
static double pe__yarn_pair(const posenc_spec *s, double n)
{
    return s->dim * log(s->original / (2 * pe__pi * n)) / (2 * log(s->base));
}
static double pe__yarn_slowed(const posenc_spec *s, int i)       /* 0: stays, 1: slowed by factor */
{
    double low = pe__yarn_pair(s, s->fast), high = pe__yarn_pair(s, s->slow);
    if (s->truncate >= 0) { low = floor(low); high = ceil(high); }
    low = fmax(low, 0);
    high = fmin(high, s->dim - 1);
    if (low == high) high += 0.001;
    return fmin(1, fmax(0, (i - low) / (high - low)));
}
static double pe__llama3_slowed(const posenc_spec *s, double f)
{
    double turns = s->original * f / (2 * pe__pi);                 /* within the trained length */
    return fmin(1, fmax(0, 1 - (turns - s->low) / (s->high - s->low)));
}

static double pe__scaled_base(const posenc_spec *s, double length)
{
    double d = s->dim, longer = s->factor;
    if (s->scaling == POSENC_DYNAMIC)
        longer = s->factor * fmax(length, s->original) / s->original - (s->factor - 1);
    return s->scaling == POSENC_NTK || s->scaling == POSENC_DYNAMIC
         ? s->base * pow(longer, d / (d - 2)) : s->base;
}
static double pe__scaled_frequency(double f, int i, const posenc_spec *s, double length)
{
    double slowed;
    switch (s->scaling) {
    case POSENC_LINEAR_SCALING: return f / s->factor;
    case POSENC_YARN:         slowed = pe__yarn_slowed(s, i); break;
    case POSENC_LLAMA3:       slowed = pe__llama3_slowed(s, f); break;
    case POSENC_LONGROPE:
        return f / (length > s->original ? s->long_factor : s->short_factor)[i];
    case POSENC_PROPORTIONAL: return i < (int)(s->proportion * s->dim / 2) ? f / s->factor : 0;
    case POSENC_FACTORS:      return f / s->long_factor[i];
    default:                  return f;
    }
    return f / s->factor * slowed + f * (1 - slowed);
}

static void pe__rope_rotate(posenc_rotation *r, double *f, const posenc_spec *s, double length)
{
    if (s->length > 0) length = s->length;
    posenc_rope_frequencies(f, s->dim, pe__scaled_base(s, length));
    for (int i = 0; i < s->dim / 2; i++) f[i] = pe__scaled_frequency(f[i], i, s, length);
    r->magnitude = pe__rope_magnitude(s);
}

static int pe__list_length(const float *list)
{
    int n = 0;
    while (n < POSENC_FACTORS_MAX && list[n] > 0) n++;
    return n;
}
static posenc_status pe__rope_lists(const posenc_spec *s, posenc_error *why)
{
    int shorts = pe__list_length(s->short_factor), longs = pe__list_length(s->long_factor);
    int both = s->scaling == POSENC_LONGROPE, needed = both || s->scaling == POSENC_FACTORS;
    if (needed && (longs != s->dim / 2 || (both && shorts != s->dim / 2)))
        return pe__fail(why, POSENC_BAD_CONFIG,
                        "rope:scaling=%s needs %d numbers, one for each pair, in %slong=, and has %d in "
                        "short= and %d in long=", both ? "longrope" : "factors", s->dim / 2,
                        both ? "short= and in " : "", shorts, longs);
    return POSENC_OK;
}
static posenc_status pe__scaling_check(posenc_spec *s, const posenc_shape *g, posenc_error *why)
{
    static const char *const name[] = { "none", "linear", "ntk", "dynamic", "yarn", "llama3", "longrope",
                                        "proportional", "factors" };
    int needs_length = s->scaling == POSENC_DYNAMIC || s->scaling == POSENC_YARN
                    || s->scaling == POSENC_LLAMA3 || s->scaling == POSENC_LONGROPE;
    int needs_factor = s->scaling >= POSENC_LINEAR_SCALING && s->scaling <= POSENC_LLAMA3;
    if (s->scaling == POSENC_SCALING_NONE && s->factor == 0 && s->original == 0) return POSENC_OK;
    if (s->scaling == POSENC_SCALING_NONE)
        return pe__fail(why, POSENC_BAD_CONFIG, "rope: factor=%g and original=%g do nothing without "
                        "scaling=, one of linear|ntk|dynamic|yarn|llama3|...", s->factor, s->original);
    if (s->scaling == POSENC_LONGROPE && s->factor == 0 && s->attention == 0)
        return pe__fail(why, POSENC_BAD_CONFIG, "rope:scaling=longrope needs factor=, how much longer than "
                        "original=%g, or attention=, its magnitude", s->original);
    if ((needs_factor && s->factor == 0) || (needs_length && s->original == 0))
        return pe__fail(why, POSENC_BAD_CONFIG, "rope:scaling=%s needs %s", name[s->scaling],
                        needs_factor && s->factor == 0 ? "factor=, how much longer than trained"
                                                       : "original=, the length it was trained on");
    if (s->dim < 4 && (s->scaling == POSENC_NTK || s->scaling == POSENC_DYNAMIC))
        return pe__fail(why, POSENC_BAD_CONFIG, "rope:scaling=%s needs two pairs at least, and dim=%d "
                        "is one", name[s->scaling], s->dim);
    if (s->scaling == POSENC_LONGROPE && s->attention == 0 && s->factor > 1 && s->original <= 1)
        return pe__fail(why, POSENC_BAD_CONFIG, "rope:scaling=longrope divides by ln(original), and "
                        "original=%g; give attention=, or the length it was trained on", s->original);
    if (s->scaling == POSENC_PROPORTIONAL && s->dim != (s->over == POSENC_OVER_WIDTH ? g->H * g->D : g->D))
        return pe__fail(why, POSENC_BAD_CONFIG, "rope:scaling=proportional counts pairs of the whole head, "
                        "and dim=%d leaves a part of %d out", s->dim, g->D);
    pe__default(&s->factor, 1);
    pe__default(&s->fast, 32);
    pe__default(&s->slow, 1);
    pe__default(&s->low, 1);
    pe__default(&s->high, 4);
    pe__default(&s->proportion, 1);
    if (s->high <= s->low || s->fast <= s->slow)
        return pe__fail(why, POSENC_BAD_CONFIG, "rope's ramps go from slow=%g to fast=%g and from low=%g "
                        "to high=%g, upwards", s->slow, s->fast, s->low, s->high);
    return pe__rope_lists(s, why);
}
static posenc_status pe__rope_check(posenc_spec *s, const posenc_shape *g, posenc_error *why)
{
    posenc_status status = pe__turn_check(s, g, 2, why);
    return status == POSENC_OK ? pe__scaling_check(s, g, why) : status;
}
static const pe__card pe__card_ROPE = PE__CARD_TURN(pe__rope_check, NULL, pe__rope_rotate);

/* ---- [5.8] lrope: trained frequencies -----------------------------------------------------------
   enters    queries and keys
   learns    a scale per pair and layer, shared by q and k, starting at 1
   beyond T  as rope

   theta = p f_i scale_i        dscale_i = sum of p f_i dtheta, over q and k alike.
   Since the scales change with every update, so do all cosines and sines: never keep the table.  */

POSENC_DEF void posenc_lrope_forward(posenc_heads x, const posenc_float *scale, const double *pos,
                                     int layout, double base)
{
    pe__rope(x, scale, pos, layout, base, 1);
}

POSENC_DEF void posenc_lrope_backward(posenc_heads dx, posenc_float *dscale, posenc_heads x,
                                      const posenc_float *scale, const double *pos, int layout,
                                      double base)
{
    posenc_turns all = { NULL, NULL, x.T, x.D / 2, 0, 0, layout };
    posenc_rotation p = { x.D / 2, 1, NULL, NULL, 0, 1, NULL };       /* the position by itself */
    pe__rope(dx, scale, pos, layout, base, -1);
    PE__PARALLEL
    for (int i = 0; i < x.D / 2; i++)
        dscale[i] += PE__F(pow(base, -2.0 * i / x.D) * pe__pair_gradient(dx, x, &all, pos, &p, i));
}

static int pe__lrope_plan(pe__plan plan[POSENC_PARTS], const posenc_spec *s, const posenc_shape *g)
{
    (void)g;
    return pe__plan_one(plan, "scale", s->dim / 2, 0, PE__ONE, 0);
}
static const pe__card pe__card_LROPE = PE__CARD_TURN(pe__rope_check, pe__lrope_plan, pe__rope_rotate);

/* ---- [5.9] rope on a grid: rope2d, rope_pixel, rope_dino ----------------------------------------
   enters    queries and keys
   learns    nothing
   beyond T  rope2d as rope, in each direction; the others measure a picture from -1 to 1 whatever its
             size, so that a larger one is seen more finely

   The first half of the pairs turns with the row, the other half with the column:

                place n of N          frequencies, k < dim/4
   rope2d       index                 base^(-4k/dim)        split=halves: EVA-02 (interleaved), Qwen2-VL
                                                            (half)
                                      base^(-2j/dim), j = 2k for the row, 2k + 1 for the column:
                                                            split=alternate, Pixtral
   rope_pixel   2 n/(N - 1) - 1       pi 2^(octaves from 0 to log2(resolution) - 1)        timm
   rope_dino    2 (n + 1/2)/N - 1     2 pi base^(-4k/dim), base 100                        DINOv3

   A score then sees how many rows and how many columns lie between query and key, each by itself.
   Backward. As [5.6].                                                                            */

POSENC_DEF void posenc_rope2d_frequencies(double *frequency, int dim, double base)
{
    int half = dim / 4, pairs = dim / 2;
    POSENC_ASSERT(dim > 0 && dim % 4 == 0);
    for (int i = 0; i < 2 * pairs; i++)
        frequency[i] = i / pairs == i % pairs / half ? pow(base, -4.0 * (i % half) / dim) : 0;
}

/* f(k, axis) into the rows of F */
static void pe__grid_rotate(double *F, const posenc_spec *s, double (*f)(int, int, const posenc_spec *))
{
    int half = s->dim / 4;
    for (int axis = 0; axis < 2; axis++)
        for (int k = 0; k < half; k++) F[axis * 2 * half + axis * half + k] = f(k, axis, s);
}
static double pe__rope2d_frequency(int k, int axis, const posenc_spec *s)
{
    double power = s->split == POSENC_ALTERNATE ? 2.0 * (2 * k + axis) : 4.0 * k;
    return pow(s->base, -power / s->dim) / s->factor;
}
static double pe__pixel_frequency(int k, int axis, const posenc_spec *s)
{
    (void)axis;
    return pe__pi * pe__band(k, s->dim / 4, s->resolution, POSENC_LOG_BANDS);
}
static double pe__dino_frequency(int k, int axis, const posenc_spec *s)
{
    (void)axis;
    return 2 * pe__pi * pow(s->base, -4.0 * k / s->dim);
}
static void pe__rope2d_rotate(posenc_rotation *r, double *f, const posenc_spec *s, double length)
{
    (void)r; (void)length;
    pe__grid_rotate(f, s, pe__rope2d_frequency);
}
static void pe__pixel_rotate(posenc_rotation *r, double *f, const posenc_spec *s, double length)
{
    (void)r; (void)length;
    pe__grid_rotate(f, s, pe__pixel_frequency);
}
static void pe__dino_rotate(posenc_rotation *r, double *f, const posenc_spec *s, double length)
{
    (void)r; (void)length;
    pe__grid_rotate(f, s, pe__dino_frequency);
}
static void pe__place_pixel(double *at, int given, const posenc_spec *s)
{
    pe__place_grid(at, given, s);
    at[0] = pe__unit(at[0], s->height);
    at[1] = pe__unit(at[1], s->width);
}
static void pe__place_dino(double *at, int given, const posenc_spec *s)
{
    pe__place_grid(at, given, s);
    at[0] = 2 * (at[0] + 0.5) / s->height - 1;
    at[1] = 2 * (at[1] + 0.5) / s->width - 1;
}
static posenc_status pe__rope2d_check(posenc_spec *s, const posenc_shape *g, posenc_error *why)
{
    pe__grid_default(s, 2, g->context);
    pe__default(&s->factor, 1);
    pe__default(&s->resolution, 256);
    if (s->encoding == POSENC_ROPE_DINO) pe__default(&s->base, 100);
    return pe__turn_check(s, g, 4, why);
}
static const pe__card pe__card_ROPE2D =
    PE__CARD_TURN_AT(pe__rope2d_check, 2, pe__place_grid, pe__rope2d_rotate);
static const pe__card pe__card_ROPE_PIXEL =
    PE__CARD_TURN_AT(pe__rope2d_check, 2, pe__place_pixel, pe__pixel_rotate);
static const pe__card pe__card_ROPE_DINO =
    PE__CARD_TURN_AT(pe__rope2d_check, 2, pe__place_dino, pe__dino_rotate);

/* ---- [5.10] mrope: text and pictures in one sequence (Wang et al. 2024, Qwen2-VL) ---------------
   enters    queries and keys
   learns    nothing
   beyond T  as rope

   A token stands at (time, row, column); text has the same number on all three, and mrope is rope.
   Pair i turns with frequency base^(-2i/dim) by ONE of them: order=chunked gives the first sections[0]
   pairs to time, the next ones to the row, the last to the column; order=interleaved (Qwen3-VL) deals
   them out in turns, time row column, so that each axis has fast and slow pairs, until the row's or
   column's share is used up and the rest is time.                                                */

static int pe__mrope_axis(int i, const posenc_spec *s)
{
    if (s->order == POSENC_WOVEN)
        return i % 3 == 1 && i < 3 * s->sections[1] ? 1 : i % 3 == 2 && i < 3 * s->sections[2] ? 2 : 0;
    return i < s->sections[0] ? 0 : i < s->sections[0] + s->sections[1] ? 1 : 2;
}
static void pe__mrope_rotate(posenc_rotation *r, double *f, const posenc_spec *s, double length)
{
    int pairs = s->dim / 2;
    (void)r; (void)length;
    for (int i = 0; i < pairs; i++)
        f[pe__mrope_axis(i, s) * pairs + i] = pow(s->base, -2.0 * i / s->dim);
}
static posenc_status pe__mrope_check(posenc_spec *s, const posenc_shape *g, posenc_error *why)
{
    posenc_status status = pe__turn_check(s, g, 2, why);
    int pairs = s->dim / 2, *n = s->sections, counted[POSENC_AXES] = { 0, 0, 0 };
    if (status != POSENC_OK) return status;
    if (n[0] == 0 && n[1] == 0 && n[2] == 0) {
        n[1] = n[2] = s->order == POSENC_WOVEN ? pairs / 3 : 3 * pairs / 8;
        n[0] = pairs - n[1] - n[2];
    }
    for (int i = 0; i < pairs; i++) counted[pe__mrope_axis(i, s)]++;
    if (n[0] + n[1] + n[2] != pairs || counted[1] != n[1] || counted[2] != n[2])
        return pe__fail(why, POSENC_BAD_CONFIG, "mrope:sections=%d/%d/%d do not share out %d pairs%s",
                        n[0], n[1], n[2], pairs, s->order == POSENC_WOVEN ? " in turns" : "");
    return POSENC_OK;
}
static const pe__card pe__card_MROPE =
    PE__CARD_TURN_AT(pe__mrope_check, 3, pe__place_text, pe__mrope_rotate);

/* ---- [5.11] xpos: rope that fades (Sun et al. 2022) ---------------------------------------------
   enters    queries and keys
   learns    nothing
   beyond T  built for it: what is far away counts less
   causal    models: a key after the query counts more, not less. Others are refused where that is
             more than a million times as much

   z_i = (2i + 0.4 dim) / (1.4 dim)     q times z_i^e, k times z_i^-e, e = (p - center) / scale_base

   The product of the two has z_i^((p_i - p_j)/scale_base): the slower a pair turns, the less it fades.
   In it the center cancels, and may be anything that keeps both factors within float's range; it must
   not move with the length of the text, or cached keys would be wrong.                          */

static double pe__xpos_growth(int i, const posenc_spec *s)
{
    return log((2.0 * i + 0.4 * s->dim) / (1.4 * s->dim)) / s->scale_base;
}
static void pe__xpos_rotate(posenc_rotation *r, double *f, const posenc_spec *s, double length)
{
    int pairs = s->dim / 2;
    (void)length;
    posenc_rope_frequencies(f, s->dim, s->base);
    for (int i = 0; i < pairs; i++) f[pairs + i] = pe__xpos_growth(i, s);
    r->growth = f + pairs;
}
/* how far from the center both factors stay between 1e-37 and 1e37 */
static double pe__xpos_reach(const posenc_spec *s) { return -85.2 / pe__xpos_growth(0, s); }

static posenc_status pe__xpos_check(posenc_spec *s, const posenc_shape *g, posenc_error *why)
{
    posenc_status status = pe__turn_check(s, g, 2, why);
    if (status != POSENC_OK) return status;
    pe__default(&s->scale_base, 512);
    pe__default(&s->center, g->context / 2 > 0 ? g->context / 2 : 1);
    if (fmax(fabs(s->center), fabs(g->context - s->center)) > pe__xpos_reach(s))
        return pe__fail(why, POSENC_BAD_CONFIG,
                        "xpos: with scale_base=%g and center=%g lengths leave float's range %.0f "
                        "positions from the center, and the context has %d",
                        s->scale_base, s->center, pe__xpos_reach(s), g->context);
    if (!g->causal && -g->context * pe__xpos_growth(0, s) > log(1e6))
        return pe__fail(why, POSENC_BAD_CONFIG, "xpos is for causal models: with scale_base=%g a key at the "
                        "other end of %d tokens to come would count more than 1e6 times as much",
                        s->scale_base, g->context);
    return POSENC_OK;
}
static const pe__card pe__card_XPOS = PE__CARD_TURN(pe__xpos_check, NULL, pe__xpos_rotate);

/* ---- [5.12] qtemp: a temperature for queries ----------------------------------------------------
   enters    queries, before the scores
   learns    nothing
   beyond T  built for it

   q times tau(p):     llama4     1 + rate ln(1 + floor((p + 1) / original))
                       ministral  1 + rate ln(1 + floor(p / original))
                       smooth     1 + rate ln(max(1, (p + 1) / original))
                       logn       max(1, ln(p + 1) / ln(original))

   The more keys a query sees, the thinner softmax spreads its attention; a factor that grows with the
   logarithm of their number keeps it as sharp as it was in training. Llama 4 has it in the layers that
   do not turn: rope:nope_every=4+qtemp:every=4.   Backward: dq = tau g.                          */

static double pe__temperature(const posenc_spec *s, double p)
{
    switch (s->form) {
    case POSENC_TEMPER_MINISTRAL: return 1 + s->rate * log1p(fmax(0, floor(p / s->original)));
    case POSENC_TEMPER_SMOOTH:    return 1 + s->rate * log(fmax(1, (p + 1) / s->original));
    case POSENC_TEMPER_LOGN:      return fmax(1, log(fmax(1, p + 1)) / log(s->original));
    default:                      return 1 + s->rate * log1p(fmax(0, floor((p + 1) / s->original)));
    }
}
POSENC_DEF void posenc_spec_temperature(posenc_float *tau, const posenc_spec *s, const double *pos,
                                        int T)
{
    for (int t = 0; t < T; t++) tau[t] = PE__F(pe__temperature(s, pe__at(pos, t)));
}
POSENC_DEF void posenc_temper(posenc_heads x, const posenc_float *tau, int row_b)
{
    PE__PARALLEL
    for (int r = 0; r < x.B * x.T; r++) {
        int b = r / x.T, t = r % x.T;
        for (int h = 0; h < x.H; h++)
            for (int d = 0; d < x.D; d++) pe__head(x, b, t, h)[d] *= tau[(size_t)b * row_b + t];
    }
}

/* words of `form` that belong to another encoding */
static posenc_status pe__form_check(posenc_spec *s, int first, int last, const char *words,
                                    posenc_error *why)
{
    pe__default_int(&s->form, first);
    if (s->form < first || s->form > last)
        return pe__fail(why, POSENC_BAD_CONFIG, "%s has no such form; choose one of %s",
                        posenc_encoding_get(s->encoding)->name, words);
    return POSENC_OK;
}
static posenc_status pe__qtemp_check(posenc_spec *s, const posenc_shape *g, posenc_error *why)
{
    (void)g;
    pe__default(&s->rate, 0.1);
    pe__default(&s->original, 8192);
    pe__default_int(&s->every, 1);
    if (s->form == POSENC_TEMPER_LOGN && s->original <= 1)
        return pe__fail(why, POSENC_BAD_CONFIG, "qtemp:form=logn divides by ln(original), and original=%g",
                        s->original);
    return pe__form_check(s, POSENC_TEMPER_LLAMA4, POSENC_TEMPER_LOGN, "llama4|ministral|smooth|logn",
                          why);
}
static const pe__card pe__card_QTEMP = PE__CARD_TEMPER(pe__qtemp_check, pe__temperature);

/* ---- [5.13] biases: what every distance shares --------------------------------------------------
   score_hij += r_h[d], d = p_i - p_j

   Whatever depends on the distance alone is one vector per head: forward fills r (here), attention
   [6] reads it and returns G_h[d], the sum of the scores' gradients along each diagonal, and
   backward is the chain rule from G into the encoding's parameters. No T x T matrix appears on the
   way.

   For a table, r_h[d] = W[bucket(d), h], so dW[bucket(d), h] += G_h[d].
   For a formula r_h[d] = f(w_h, d), dw_h += sum over d of G_h[d] df/dw.                          */

POSENC_DEF void posenc_gather_forward(posenc_float *bias, const posenc_float *table, const int *row,
                                      int H, int n, int rows)
{
    for (int h = 0; h < H; h++)
        for (int e = 0; e < n; e++)
            if (row[e] >= 0 && row[e] < rows)
                bias[(size_t)h * n + e] += table[(size_t)row[e] * H + h];
}
POSENC_DEF void posenc_gather_backward(posenc_float *dtable, const posenc_float *dbias,
                                       const int *row, int H, int n, int rows)
{
    for (int h = 0; h < H; h++)
        for (int e = 0; e < n; e++)
            if (row[e] >= 0 && row[e] < rows)
                dtable[(size_t)row[e] * H + h] += dbias[(size_t)h * n + e];
}

/* door one's form of the same: the bucket comes from the card, one distance at a time */
static void pe__table_bias(posenc_float *bias, const posenc_float *table, posenc_float *dtable,
                           const posenc_float *dbias, const posenc_spec *s, int rows, int H, int past,
                           int future)
{
    int n = future + 1 + past;
    for (int e = 0; e < n; e++) {
        int row = pe__card_of(s)->bucket(s, e - future);
        for (int h = 0; h < H && row >= 0 && row < rows; h++) {
            size_t in_table = (size_t)row * H + h, in_bias = (size_t)h * n + e;
            if (bias) bias[in_bias] += table[in_table];
            else      dtable[in_table] += dbias[in_bias];
        }
    }
}

POSENC_DEF void posenc_curve_forward(posenc_float *bias, const posenc_float *w, int encoding, int form,
                                     int H, int past, int future)
{
    posenc_spec s = pe__no_spec(encoding);
    const pe__card *card = pe__card_of(&s);
    int n = future + 1 + past;
    for (int h = 0; h < H; h++)
        for (int e = 0; e < n; e++) {
            double slope[PE__CURVE_NUMBERS];
            bias[(size_t)h * n + e] +=
                PE__F(card->curve(slope, w + (size_t)h * card->numbers, e - future, form));
        }
}
POSENC_DEF void posenc_curve_backward(posenc_float *dw, const posenc_float *dbias,
                                      const posenc_float *w, int encoding, int form, int H, int past,
                                      int future)
{
    posenc_spec s = pe__no_spec(encoding);
    const pe__card *card = pe__card_of(&s);
    int n = future + 1 + past;
    for (int h = 0; h < H; h++) {
        double slope[PE__CURVE_NUMBERS] = {0}, sum[PE__CURVE_NUMBERS] = {0};
        for (int e = 0; e < n; e++) {
            card->curve(slope, w + (size_t)h * card->numbers, e - future, form);
            for (int k = 0; k < card->numbers; k++) sum[k] += slope[k] * dbias[(size_t)h * n + e];
        }
        for (int k = 0; k < card->numbers; k++) dw[(size_t)h * card->numbers + k] += PE__F(sum[k]);
    }
}

POSENC_DEF void posenc_bias_expand(posenc_float *scores, const posenc_float *bias, int H, int Tq,
                                   int Tk, int past, int future)
{
    int n = future + 1 + past;
    for (int h = 0; h < H; h++)
        for (int i = 0; i < Tq; i++)
            for (int j = 0; j < Tk; j++) {
                int d = pe__clamp(i + Tk - Tq - j, -future, past);
                scores[((size_t)h * Tq + i) * Tk + j] += bias[(size_t)h * n + d + future];
            }
}

static int pe__bias_rows(const posenc_spec *s)                       /* rows of a learned table */
{
    if (s->encoding == POSENC_T5) return s->buckets;
    return s->bidirectional < 0 ? s->distance + 1 : 2 * s->distance + 1;
}

POSENC_DEF void posenc_spec_bias_forward(posenc_float *bias, const posenc_spec *s,
                                         posenc_float *const *w, int H, int past, int future)
{
    const pe__card *card = pe__card_of(s);
    int n = future + 1 + past;
    for (int i = 0; i < H * n && card->bias; i++)
        bias[i] += PE__F(card->bias(s, i / n, H, i % n - future));
    if (card->bucket)
        pe__table_bias(bias, w[0], NULL, NULL, s, pe__bias_rows(s), H, past, future);
    if (card->curve) posenc_curve_forward(bias, w[0], s->encoding, s->form, H, past, future);
}
POSENC_DEF void posenc_spec_bias_backward(posenc_float *const *dw, const posenc_float *dbias,
                                          const posenc_spec *s, posenc_float *const *w, int H,
                                          int past, int future)
{
    const pe__card *card = pe__card_of(s);
    if (card->bucket && dw[0])
        pe__table_bias(NULL, NULL, dw[0], dbias, s, pe__bias_rows(s), H, past, future);
    if (card->curve && dw[0])
        posenc_curve_backward(dw[0], dbias, w[0], s->encoding, s->form, H, past, future);
}

/* ---- [5.14] relative: a clipped table -----------------------------------------------------------
   enters    scores
   learns    W (2 distance + 1, H), one table for all layers (per_layer=1: one each)
   beyond T  distances past the clip share its last row, so it runs at any length

   b_h(i,j) = W[clamp(p_j - p_i, -M, M) + M, h],  M = distance.  Row M is "here", lower rows the
   past. bidirectional=-1 has the past alone, W (M + 1, H), row clamp(p_i - p_j, 0, M). (The published
   one-sided mode clamps p_j - p_i instead, which is 0 for all of the past: it learns nothing.)   */

static int pe__relative_bucket(const posenc_spec *s, int d)
{
    if (s->bidirectional < 0) return pe__clamp(d, 0, s->distance);
    return s->distance - pe__clamp(d, -s->distance, s->distance);
}

POSENC_DEF void posenc_relative_forward(posenc_float *bias, const posenc_float *table, int clip,
                                        int H, int past, int future)
{
    posenc_spec s = pe__no_spec(POSENC_RELATIVE);
    s.distance = clip;
    pe__table_bias(bias, table, NULL, NULL, &s, pe__bias_rows(&s), H, past, future);
}
POSENC_DEF void posenc_relative_backward(posenc_float *dtable, const posenc_float *dbias, int clip,
                                         int H, int past, int future)
{
    posenc_spec s = pe__no_spec(POSENC_RELATIVE);
    s.distance = clip;
    pe__table_bias(NULL, NULL, dtable, dbias, &s, pe__bias_rows(&s), H, past, future);
}

static posenc_status pe__relative_check(posenc_spec *s, const posenc_shape *g, posenc_error *why)
{
    (void)g; (void)why;
    pe__default_int(&s->distance, 128);
    pe__default_int(&s->bidirectional, 1);
    pe__default(&s->init, 0.02);
    return POSENC_OK;
}
static int pe__table_plan(pe__plan plan[POSENC_PARTS], const posenc_spec *s, const posenc_shape *g)
{
    return pe__plan_one(plan, "weight", pe__bias_rows(s), g->H, PE__NORMAL, s->init);
}
static const pe__card pe__card_RELATIVE =
    PE__CARD_TABLE(pe__relative_check, pe__table_plan, pe__relative_bucket);

/* ---- [5.15] alibi: attention with linear biases (Press et al. 2021); lalibi ---------------------
   enters    scores
   learns    alibi nothing; lalibi the logarithm a_h of each slope, which keeps slopes positive
   beyond T  the point of it: trained short, it runs long, with an ever fainter view of the past

   b_h(i,j) = -slope_h |p_i - p_j|      slope_h = 2^(-bias_max (h+1) / n),  n heads, a power of two
   For other head counts: the slopes of the next lower power of two, then every other slope of
   the next higher one. Under a causal mask the same bias could be written slope_h p_j: softmax
   does not see what a whole row has in common. heads=n gives slopes to the first n heads only.

   lalibi: b = -exp(a_h) |d|, so db/da_h = b.                                                     */

static double pe__alibi_slope(int h, int H, double bias_max)
{
    int n = 1;
    while (2 * n <= H) n *= 2;
    return h < n ? pow(2.0, -bias_max * (h + 1) / n)
                 : pow(2.0, -bias_max * (2 * (h - n) + 1) / (2 * n));
}
static double pe__alibi_bias(const posenc_spec *s, int h, int H, int d)
{
    int heads = s->heads ? s->heads : H;
    return h < heads ? -pe__alibi_slope(h, heads, s->bias_max) * pe__abs(d) : 0;
}

POSENC_DEF void posenc_alibi_slopes(posenc_float *slope, int H, double bias_max)
{
    for (int h = 0; h < H; h++) slope[h] = PE__F(pe__alibi_slope(h, H, bias_max));
}
POSENC_DEF void posenc_alibi_forward(posenc_float *bias, int H, int past, int future,
                                     double bias_max)
{
    posenc_spec s = pe__no_spec(POSENC_ALIBI);
    s.bias_max = bias_max;
    posenc_spec_bias_forward(bias, &s, NULL, H, past, future);
}

static posenc_status pe__alibi_check(posenc_spec *s, const posenc_shape *g, posenc_error *why)
{
    pe__default(&s->bias_max, 8);
    if (s->encoding == POSENC_ALIBI) pe__default_int(&s->heads, g->H);
    if (s->heads > g->H)
        return pe__fail(why, POSENC_BAD_CONFIG, "alibi:heads=%d, and there are %d", s->heads, g->H);
    return POSENC_OK;
}
static const pe__card pe__card_ALIBI = PE__CARD_BIAS(pe__alibi_check, pe__alibi_bias);

static double pe__lalibi_curve(double *slope, const posenc_float *w, int d, int form)
{
    (void)form;
    return slope[0] = -exp((double)w[0]) * pe__abs(d);
}
static int pe__lalibi_plan(pe__plan plan[POSENC_PARTS], const posenc_spec *s, const posenc_shape *g)
{
    return pe__plan_one(plan, "slope", g->H, 1, PE__SLOPES, s->bias_max);
}
static const pe__card pe__card_LALIBI =
    PE__CARD_CURVE(pe__alibi_check, pe__lalibi_plan, pe__lalibi_curve, 1);

/* ---- [5.16] t5: logarithmic buckets (Raffel et al. 2019) ----------------------------------------
   enters    scores
   learns    W (buckets, H), one table for all layers (per_layer=1, UMT5: one each)
   beyond T  everything past `distance` shares the last bucket

   Half of a side's n buckets hold one distance each; the other half grow geometrically up to
   `distance`:
       bucket = x                                                        for x < e, e = n/2
              = min(n - 1, e + trunc(ln(x/e) / ln(distance/e) (n - e)))  above
   Bidirectional: the future (d < 0) has the upper half of the table, the past the lower. Causal:
   the past has all of it. T5 itself does not divide scores by sqrt(D): set attention_scale to 1
   to match.                                                                                      */

POSENC_DEF int posenc_t5_bucket(int distance, int buckets, int max_distance, int bidirectional)
{
    int n = bidirectional ? buckets / 2 : buckets, e = n / 2;
    int first = bidirectional && distance < 0 ? n : 0;
    int x = bidirectional ? pe__abs(distance) : pe__max(distance, 0);
    if (x < e) return first + x;
    if (e < 1 || max_distance <= e) return first + n - 1;
    return first +
           pe__min(n - 1, e + (int)(log((double)x / e) / log((double)max_distance / e) * (n - e)));
}
static int pe__t5_bucket(const posenc_spec *s, int d)
{
    return posenc_t5_bucket(d, s->buckets, s->distance, s->bidirectional > 0);
}

static posenc_spec pe__t5_spec(int buckets, int max_distance, int bidirectional)
{
    posenc_spec s = pe__no_spec(POSENC_T5);
    s.buckets = buckets;
    s.distance = max_distance;
    s.bidirectional = bidirectional ? 1 : -1;
    return s;
}
POSENC_DEF void posenc_t5_forward(posenc_float *bias, const posenc_float *table, int buckets,
                                  int max_distance, int bidirectional, int H, int past, int future)
{
    posenc_spec s = pe__t5_spec(buckets, max_distance, bidirectional);
    pe__table_bias(bias, table, NULL, NULL, &s, buckets, H, past, future);
}
POSENC_DEF void posenc_t5_backward(posenc_float *dtable, const posenc_float *dbias, int buckets,
                                   int max_distance, int bidirectional, int H, int past, int future)
{
    posenc_spec s = pe__t5_spec(buckets, max_distance, bidirectional);
    pe__table_bias(NULL, NULL, dtable, dbias, &s, buckets, H, past, future);
}

static posenc_status pe__t5_check(posenc_spec *s, const posenc_shape *g, posenc_error *why)
{
    int side;
    pe__default_int(&s->buckets, 32);
    pe__default_int(&s->distance, 128);
    pe__default_int(&s->bidirectional, g->causal ? -1 : 1);
    pe__default(&s->init, 1 / sqrt((double)g->C));
    side = s->bidirectional > 0 ? s->buckets / 2 : s->buckets;
    if (side < 2 || (s->bidirectional > 0 && s->buckets % 2))
        return pe__fail(why, POSENC_BAD_CONFIG,
                        "t5 with buckets=%d is too small or odd; it needs 2 "
                        "(causal) or an even number from 4 (bidirectional)",
                        s->buckets);
    if (s->distance <= side / 2)
        return pe__fail(why, POSENC_BAD_CONFIG,
                        "t5's distance=%d must be above the %d distances that "
                        "have a bucket each",
                        s->distance, side / 2);
    return POSENC_OK;
}
static const pe__card pe__card_T5 = PE__CARD_TABLE(pe__t5_check, pe__table_plan, pe__t5_bucket);

/* ---- [5.17] swin: a table of offsets on a grid (Liu et al. 2021) --------------------------------
   enters    scores
   learns    W ((2 height - 1)(2 width - 1), H), one table for all layers (per_layer=1: one each)
   beyond T  impossible: an offset past the grid has no row

   b_h(i,j) = W[(dy + height - 1)(2 width - 1) + dx + width - 1, h],  d = query - key

   Two distances, but still one vector per head: stand the token of row y and column x at
   y (2 width - 1) + x, which leaves room between the rows for every dx there is; then one distance
   tells both, and the row of W is that distance counted from its lowest value.                   */

POSENC_DEF int posenc_spec_place(const posenc_spec *s, const double *at)
{
    double p = s->encoding == POSENC_SWIN ? at[0] * (2 * s->width - 1) + at[1] : at[0];
    return fabs(p) <= 1e9 ? (int)floor(p + 0.5) : 0;
}
static int pe__swin_bucket(const posenc_spec *s, int d) { return d + s->distance; }

static posenc_status pe__swin_check(posenc_spec *s, const posenc_shape *g, posenc_error *why)
{
    double reach;
    pe__grid_default(s, 2, g->context);
    pe__default(&s->init, 0.02);
    reach = (s->height - 1.0) * (2.0 * s->width - 1) + s->width - 1;
    if ((double)s->width * s->height < g->context || reach > (1 << 24))
        return pe__fail(why, POSENC_BAD_CONFIG, "swin: a grid of %d x %d %s (%d tokens)", s->height,
                        s->width, reach > (1 << 24) ? "has too many offsets" : "is smaller than the context",
                        g->context);
    s->distance = (int)reach;
    return POSENC_OK;
}
static const pe__card pe__card_SWIN = { pe__swin_check, pe__table_plan, 2, pe__place_grid, NULL, 0,
    NULL, NULL, NULL, NULL, pe__swin_bucket, NULL, 0 };

/* ---- [5.18] kerple (Chi et al. 2022) ------------------------------------------------------------
   enters    scores
   learns    r1, r2 for each head, W (H,2), starting anywhere in 0 .. 2 and 0 .. 1
   beyond T  built for it

   log    b = -r1 ln(1 + r2 |d|)     db/dr1 = -ln(1 + r2 |d|)     db/dr2 = -r1 |d| / (1 + r2 |d|)
   power  b = -r1 |d|^r2             db/dr1 = -|d|^r2             db/dr2 = -r1 |d|^r2 ln |d|, 0 at d = 0

   alibi's straight line bent: far away, one token more makes less of a difference. Both numbers are
   read as 0.01 at least (the power as 2 at most); beyond those ends they have no gradient.       */

static double pe__kerple_curve(double *slope, const posenc_float *w, int d, int form)
{
    int power = form == POSENC_KERPLE_POWER;
    double x = pe__abs(d), r1 = fmax(0.01, w[0]), r2 = fmin(power ? 2 : HUGE_VAL, fmax(0.01, w[1]));
    double f = power ? (x > 0 ? pow(x, r2) : 0) : log1p(r2 * x);
    double along = power ? (x > 0 ? f * log(x) : 0) : x / (1 + r2 * x);
    slope[0] = w[0] >= 0.01 ? -f : 0;
    slope[1] = r2 == w[1] ? -r1 * along : 0;
    return -r1 * f;
}
static posenc_status pe__kerple_check(posenc_spec *s, const posenc_shape *g, posenc_error *why)
{
    (void)g;
    return pe__form_check(s, POSENC_KERPLE_LOG, POSENC_KERPLE_POWER, "log|power", why);
}
static int pe__kerple_plan(pe__plan plan[POSENC_PARTS], const posenc_spec *s, const posenc_shape *g)
{
    (void)s;
    return pe__plan_one(plan, "weight", g->H, 2, PE__POSITIVE, 2);
}
static const pe__card pe__card_KERPLE =
    PE__CARD_CURVE(pe__kerple_check, pe__kerple_plan, pe__kerple_curve, 2);

/* ---- [5.19] sandwich (Chi et al. 2023) ----------------------------------------------------------
   enters    scores
   learns    nothing
   beyond T  built for it

   b_h(d) = ( sum over i = 1 .. n/2 of cos(d 10000^(-2i/n)) - n/2 ) H / (8 (h + 1)),   n = buckets

   The product of two sinusoidal rows depends on their distance alone; this is that product, less its
   value at 0, with a strength for each head.                                                     */

static double pe__sandwich_bias(const posenc_spec *s, int h, int H, int d)
{
    double sum = -s->buckets / 2;
    for (int i = 1; i <= s->buckets / 2; i++) sum += cos(d * pow(10000.0, -2.0 * i / s->buckets));
    return sum * H / (8.0 * (h + 1));
}
static posenc_status pe__sandwich_check(posenc_spec *s, const posenc_shape *g, posenc_error *why)
{
    (void)g; (void)why;
    pe__default_int(&s->buckets, 128);
    return POSENC_OK;
}
static const pe__card pe__card_SANDWICH = PE__CARD_BIAS(pe__sandwich_check, pe__sandwich_bias);

/* ---- [5.20] the table, and spec strings ------------------------------------------------------ */

static const posenc_encoding_info pe__encodings[] = {
#define PE__X(token, name, where, learns, keys, line, beyond, source) \
    { name, POSENC_##where, learns, keys, line, beyond, source },
    POSENC_ENCODINGS(PE__X)
#undef PE__X
};
static const pe__card *const pe__cards[] = {
#define PE__X(token, name, where, learns, keys, line, beyond, source) &pe__card_##token,
    POSENC_ENCODINGS(PE__X)
#undef PE__X
};
static const struct { const char *name; int encoding;
} pe__aliases[] = {
    { "sin", POSENC_SINUSOIDAL },           { "learnable", POSENC_LEARNED },
    { "learned_absolute", POSENC_LEARNED }, { "mlp", POSENC_CONTINUOUS },
    { "relclip", POSENC_RELATIVE },         { "learned_relative", POSENC_RELATIVE },
    { "learned_sinusoidal", POSENC_SININIT }
};
/* what the transformer asks of an encoding of the caller's own goes to its callbacks instead */
static const pe__card pe__card_of_the_caller = PE__CARD_ROW(NULL, NULL);

static const pe__card *pe__card_of(const posenc_spec *s)
{
    return s->encoding >= 0 && s->encoding < POSENC_ENCODING_COUNT ? pe__cards[s->encoding]
                                                                   : &pe__card_of_the_caller;
}

POSENC_DEF int posenc_spec_parts(posenc_part part[POSENC_PARTS], const posenc_spec *s,
                                 const posenc_shape *shape)
{
    const pe__card *card = pe__card_of(s);
    pe__plan plan[POSENC_PARTS];
    int n = card->plan ? card->plan(plan, s, shape) : 0;
    for (int i = 0; i < n; i++) {
        part[i].name = plan[i].name;
        part[i].rows = plan[i].rows;
        part[i].columns = plan[i].columns;
        part[i].fixed = plan[i].fixed;
    }
    return n;
}

/* A position as one encoding needs it: finite; whole for a table, digits or a bias; inside the table,
   within the digits, in xpos' reach.                                                             */
static posenc_status pe__check_position(const posenc_spec *s, const char *name, double p, int axis,
                                        int row, int place, posenc_error *why)
{
    const pe__card *card = pe__card_of(s);
    int whole = card->lookup || s->digits || card->bias || card->bucket || card->curve;
    double most = card->lookup ? s->rows - s->offset : s->digits ? pe__digits_limit(s) : 0;
    if (!(fabs(p) < 9e15) || (whole && (p != floor(p) || fabs(p) > (s->digits ? 9e15 : 1e9))))
        return pe__fail(why, POSENC_BAD_INPUT, "%s needs %s positions below %g, and place %d of row %d "
                        "has %g", name, whole ? "whole" : "finite", whole && !s->digits ? 1e9 : 9e15, place,
                        row, p);
    if (most > 0 && (p < 0 || p >= most))
        return pe__fail(why, POSENC_BAD_INPUT, "position %.0f is outside the %s of %s, which %s %.0f%s",
                        p, card->lookup ? "table" : "digits", name, card->lookup ? "has" : "end at",
                        card->lookup ? most : most - 1, card->lookup ? " rows" : "");
    if (s->encoding == POSENC_SWIN && (p < 0 || p >= (axis ? s->width : s->height)))
        return pe__fail(why, POSENC_BAD_INPUT, "place %d of row %d has %s %.0f, outside swin's grid of "
                        "%d x %d", place, row, axis ? "column" : "row", p, s->height, s->width);
    if (s->scale_base > 0 && fabs(p - s->center) > pe__xpos_reach(s))
        return pe__fail(why, POSENC_BAD_INPUT, "position %.0f is more than %.0f from xpos' center %g: "
                        "lengths would leave float's range", p, pe__xpos_reach(s), s->center);
    return POSENC_OK;
}
POSENC_DEF posenc_status posenc_spec_check_positions(const posenc_spec *s, const double *at, int T,
                                                     posenc_error *why)
{
    const posenc_encoding_info *e = posenc_encoding_get(s->encoding);
    int axes = pe__axes_of(s);
    posenc_status status = POSENC_OK;
    for (int t = 0; t < T; t++) {
        double index = t, own[POSENC_AXES];
        if (!at) pe__coordinates(own, &index, 1, s);
        for (int a = 0; a < axes && status == POSENC_OK; a++)
            status = pe__check_position(s, e ? e->name : "the encoding",
                                        at ? at[(size_t)t * axes + a] : own[a], a, 0, t, why);
    }
    return status;
}

POSENC_DEF const posenc_encoding_info *posenc_encoding_get(int i)
{
    return i >= 0 && i < POSENC_ENCODING_COUNT ? &pe__encodings[i] : NULL;
}

/* the caller's own encodings, if there are any, are numbered behind the table */
typedef struct pe__customs { const posenc_custom *list; int n; } pe__customs;

static int pe__encoding_named(pe__word name, pe__customs own)
{
    for (int i = 0; i < POSENC_ENCODING_COUNT; i++)
        if (pe__is(name, pe__encodings[i].name)) return i;
    for (size_t i = 0; i < sizeof pe__aliases / sizeof *pe__aliases; i++)
        if (pe__is(name, pe__aliases[i].name)) return pe__aliases[i].encoding;
    for (int i = 0; i < own.n; i++)
        if (pe__is(name, own.list[i].name)) return POSENC_ENCODING_COUNT + i;
    return -1;
}
static const char *pe__encoding_name(int encoding, pe__customs own)
{
    const posenc_encoding_info *e = posenc_encoding_get(encoding);
    int i = encoding - POSENC_ENCODING_COUNT;
    return e ? e->name : i >= 0 && i < own.n ? own.list[i].name : NULL;
}

/* A field of a struct that can be written as text: specs here, configs in [7]. Words, if given,
   are the names of the values 0, 1, 2, ... separated by '|'.                                     */
typedef struct pe__field {
    const char *key;
    char kind;   /* i: int, d: double, u: uint64_t, w: a word; n: three ints, f: a list of floats;
                    b: 1 for yes, -1 for no, which text may also call 0                           */
    size_t offset;
    double low, high;
    const char *words;
} pe__field;

#define PE__SPEC_INT(key, low, high)   { #key, 'i', offsetof(posenc_spec, key), low, high, NULL }
#define PE__SPEC_REAL(key, low, high)  { #key, 'd', offsetof(posenc_spec, key), low, high, NULL }
#define PE__SPEC_YES(key)              { #key, 'b', offsetof(posenc_spec, key), -1, 1, NULL }
#define PE__SPEC_WORD(key, words)      { #key, 'w', offsetof(posenc_spec, key), 0, 0, words }
static const pe__field pe__spec_fields[] = {
    PE__SPEC_REAL(base, 1.0000001, 1e18),
    PE__SPEC_WORD(layout, "|interleaved|half|concat|cosfirst"),
    PE__SPEC_WORD(frequencies, "paper|t2t"),    PE__SPEC_INT(scaled, 0, 1),
    PE__SPEC_INT(dim, 2, 65536),                PE__SPEC_INT(offset, 0, 65536),
    PE__SPEC_WORD(over, "head|width"),          PE__SPEC_INT(nope_every, 0, 4096),
    PE__SPEC_WORD(scaling, "none|linear|ntk|dynamic|yarn|llama3|longrope|proportional|factors"),
    PE__SPEC_REAL(factor, 1e-6, 1e9),           PE__SPEC_REAL(original, 1e-6, 1e18),
    PE__SPEC_REAL(fast, 1e-6, 1e9),             PE__SPEC_REAL(slow, 1e-9, 1e9),
    PE__SPEC_REAL(low, 1e-9, 1e9),              PE__SPEC_REAL(high, 1e-9, 1e9),
    PE__SPEC_REAL(attention, 1e-6, 1e6),        PE__SPEC_REAL(mscale, 1e-6, 1e6),
    PE__SPEC_REAL(mscale_all, 1e-6, 1e6),       PE__SPEC_YES(truncate),
    PE__SPEC_REAL(proportion, 1e-6, 1),         PE__SPEC_REAL(length, 1e-6, 1e18),
    PE__SPEC_INT(width, 1, 1 << 20),            PE__SPEC_INT(height, 1, 1 << 20),
    PE__SPEC_INT(axes, 1, POSENC_AXES),         PE__SPEC_INT(swap, 0, 1),
    PE__SPEC_WORD(split, "halves|alternate"),   PE__SPEC_WORD(order, "chunked|interleaved"),
    { "sections", 'n', offsetof(posenc_spec, sections), 0, 32768, NULL },
    PE__SPEC_REAL(resolution, 2, 1e9),          PE__SPEC_WORD(bands, "linear|log"),
    PE__SPEC_WORD(spread, "all|first"),         PE__SPEC_INT(digits, 1, 65536),
    PE__SPEC_REAL(scale_base, 1, 1e18),         PE__SPEC_REAL(center, -1e15, 1e15),
    PE__SPEC_WORD(form, "|llama4|ministral|smooth|logn|log|power"),
    PE__SPEC_REAL(rate, 1e-12, 1000),           PE__SPEC_INT(every, 1, 4096),
    PE__SPEC_INT(rows, 1, 1 << 28),             PE__SPEC_INT(hidden, 1, 65536),
    PE__SPEC_INT(depth, 1, 2),                  PE__SPEC_INT(features, 2, 65536),
    PE__SPEC_INT(distance, 1, 1 << 24),         PE__SPEC_INT(buckets, 2, 1 << 20),
    PE__SPEC_YES(bidirectional),                PE__SPEC_INT(per_layer, 0, 1),
    PE__SPEC_REAL(bias_max, 1e-6, 1000),        PE__SPEC_INT(heads, 1, 4096),
    PE__SPEC_REAL(init, 1e-12, 1000),
    { "short", 'f', offsetof(posenc_spec, short_factor), 1e-6, 1e9, NULL },
    { "long",  'f', offsetof(posenc_spec, long_factor),  1e-6, 1e9, NULL }
};
enum { PE__SPEC_FIELDS = sizeof pe__spec_fields / sizeof *pe__spec_fields };

/* is the word one of those in a list such as "base,layout,dim"? returns its place, or -1 */
static int pe__listed(const char *list, char separator, pe__word w)
{
    char sep[2] = { 0, 0 };
    sep[0] = separator;
    for (int place = 0; ; place++) {
        pe__word item = pe__cut(&list, sep);
        if (item.n == w.n && !memcmp(item.at, w.at, w.n)) return place;
        if (!*list++) return -1;
    }
}

static int pe__word64(char *at, pe__word w)
{
    uint64_t x = 0;
    for (size_t i = 0; i < w.n; i++) {
        unsigned digit = (unsigned)(w.at[i] - '0');
        if (digit > 9 || x > (UINT64_MAX - digit) / 10) return 0;
        x = x * 10 + digit;
    }
    memcpy(at, &x, sizeof x);
    return w.n > 0;
}

/* a/b/c into an array of ints or floats; what is left of it becomes zero */
static int pe__list_read(char *at, const pe__field *f, pe__word value)
{
    int ints = f->kind == 'n', room = ints ? POSENC_AXES : POSENC_FACTORS_MAX, n = 0;
    memset(at, 0, (size_t)room * (ints ? sizeof(int) : sizeof(float)));
    for (const char *p = value.at, *end = value.at + value.n; p <= end; n++) {
        pe__word item;
        double x;
        item.at = p;
        for (item.n = 0; p < end && *p != '/'; p++) item.n++;
        p++;
        if (n == room || !pe__number(&x, item) || x < f->low || x > f->high) return 0;
        if (ints && x != floor(x)) return 0;
        if (ints) { int i = (int)x; memcpy(at + (size_t)n * sizeof i, &i, sizeof i); }
        else      { float y = (float)x; memcpy(at + (size_t)n * sizeof y, &y, sizeof y); }
    }
    return ints ? n == POSENC_AXES : n > 0;
}

/* puts a value into its field; 0 if it is not one */
static int pe__field_read(void *object, const pe__field *f, pe__word value)
{
    char *at = (char *)object + f->offset;
    double x;
    int place;
    if (f->kind == 'n' || f->kind == 'f') return pe__list_read(at, f, value);
    if (f->kind == 'w') {
        if (value.n == 0 || (place = pe__listed(f->words, '|', value)) < 0) return 0;
        memcpy(at, &place, sizeof place);
        return 1;
    }
    if (f->kind == 'u') return pe__word64(at, value);
    if (!pe__number(&x, value) || x < f->low || x > f->high) return 0;
    if (f->kind == 'd') { memcpy(at, &x, sizeof x); return 1; }
    if (x != floor(x)) return 0;
    place = f->kind == 'b' && x == 0 ? -1 : (int)x;
    memcpy(at, &place, sizeof place);
    return 1;
}

/* is the value of a field that nobody read from a text within its range? zero: 0 is the default */
static posenc_status pe__number_range(const pe__field *f, double x, posenc_error *why)
{
    double words = 1;                                        /* as many values as there are words */
    for (const char *p = f->words; p && *p; p++) words += *p == '|';
    if (f->words && !(x >= 0 && x < words))
        return pe__fail(why, POSENC_BAD_CONFIG, "%s=%g is none of %s", f->key, x, f->words);
    if (!f->words && !(x >= f->low && x <= f->high))
        return pe__fail(why, POSENC_BAD_CONFIG, "%s=%.15g is outside %.10g to %.10g", f->key, x, f->low,
                        f->high);
    return POSENC_OK;
}
static posenc_status pe__field_range(const void *object, const pe__field *f, int zero,
                                     posenc_error *why)
{
    const char *at = (const char *)object + f->offset;
    int whole = f->kind != 'd' && f->kind != 'f';
    int n = f->kind == 'n' ? POSENC_AXES : f->kind == 'f' ? POSENC_FACTORS_MAX : 1;
    posenc_status status = POSENC_OK;
    for (int k = 0; k < n && f->kind != 'u' && status == POSENC_OK; k++) {
        double x = 0;
        float y;
        int i;
        if (whole)               { memcpy(&i, at + (size_t)k * sizeof i, sizeof i); x = i; }
        else if (f->kind == 'f') { memcpy(&y, at + (size_t)k * sizeof y, sizeof y); x = y; }
        else                       memcpy(&x, at, sizeof x);
        if (x != 0 || !zero) status = pe__number_range(f, x, why);
    }
    return status;
}

/* the shortest text that reads back as the same float */
static void pe__float_text(char text[40], float x)
{
    for (int digits = 1; digits <= 9; digits++) {
        double y;
        snprintf(text, 40, "%.*g", digits, (double)x);
        y = strtod(text, NULL);
        if ((float)y == x) { pe__number_text(text, y); return; }
    }
}
static void pe__list_print(pe__text *t, const char *at, const pe__field *f, const char *separator)
{
    float x[POSENC_FACTORS_MAX];
    int i[POSENC_AXES], ints = f->kind == 'n', n;
    if (ints) memcpy(i, at, sizeof i);
    else      memcpy(x, at, sizeof x);
    n = !ints ? pe__list_length(x) : i[0] || i[1] || i[2] ? POSENC_AXES : 0;
    for (int k = 0; k < n; k++) {
        char text[40];
        if (ints) snprintf(text, sizeof text, "%d", i[k]);
        else      pe__float_text(text, x[k]);
        if (k) pe__say(t, "/%s", text);
        else   pe__say(t, "%s%s=%s", separator, f->key, text);
    }
}

/* writes " key=value" (with the separator given) unless the field is zero */
static void pe__field_print(pe__text *t, const void *object, const pe__field *f,
                            const char *separator)
{
    const char *at = (const char *)object + f->offset, *words = f->words;
    double x;
    int i;
    if (f->kind == 'n' || f->kind == 'f') { pe__list_print(t, at, f, separator); return; }
    if (f->kind == 'd') {
        char shortest[40];
        memcpy(&x, at, sizeof x);
        pe__number_text(shortest, x);
        if (x != 0) pe__say(t, "%s%s=%s", separator, f->key, shortest);
        return;
    }
    if (f->kind == 'u') {
        uint64_t u;
        memcpy(&u, at, sizeof u);
        if (u) pe__say(t, "%s%s=%llu", separator, f->key, (unsigned long long)u);
        return;
    }
    memcpy(&i, at, sizeof i);
    if (i == 0) return;
    if (!f->words) { pe__say(t, "%s%s=%d", separator, f->key, i); return; }
    for (int skip = 0; skip < i; skip++)
        words = strchr(words, '|') ? strchr(words, '|') + 1 : words;
    pe__say(t, "%s%s=%.*s", separator, f->key, (int)strcspn(words, "|"), words);
}

POSENC_DEF posenc_status posenc_spec_complete(posenc_spec *s, const posenc_shape *shape,
                                              posenc_error *why)
{
    const pe__card *card = pe__card_of(s);
    const posenc_encoding_info *e = posenc_encoding_get(s->encoding);
    posenc_status status = POSENC_OK;
    if (!e)
        return pe__fail(why, POSENC_BAD_CONFIG, "encoding %d is not one of the table's %d", s->encoding,
                        POSENC_ENCODING_COUNT);
    if (shape->C < 1 || shape->context < 1 || (e->where == POSENC_SCORE && shape->H < 1)
        || (e->where == POSENC_QUERY_KEY && shape->D < 1))
        return pe__fail(why, POSENC_BAD_CONFIG, "%s cannot be for a model of C %d, H %d, D %d and context "
                        "%d: what it reads of them is 1 at least", e->name, shape->C, shape->H, shape->D,
                        shape->context);
    if (shape->C > 1 << 17 || shape->H > 1 << 17 || shape->D > 1 << 17 || shape->context > 1 << 24)
        return pe__fail(why, POSENC_BAD_CONFIG, "%s: C %d, H %d or D %d is above 131072, or the context "
                        "%d above 16777216", e->name, shape->C, shape->H, shape->D, shape->context);
    for (int i = 0; i < PE__SPEC_FIELDS && status == POSENC_OK; i++)
        status = pe__field_range(s, &pe__spec_fields[i], 1, why);
    if (status != POSENC_OK) return status;
    return card->check ? card->check(s, shape, why) : POSENC_OK;
}

static posenc_status pe__spec_unknown(pe__word name, pe__customs own, posenc_error *why)
{
    pe__text t = { NULL, 0, 0 };
    if (!why) return POSENC_BAD_CONFIG;
    t.at = why->text;
    t.room = sizeof why->text;
    pe__say(&t, "unknown encoding '%.*s'; there are", (int)(name.n < 40 ? name.n : 40), name.at);
    for (int i = 0; i < POSENC_ENCODING_COUNT + own.n; i++)
        pe__say(&t, "%s %s", i ? "," : "", pe__encoding_name(i, own));
    return POSENC_BAD_CONFIG;
}

static posenc_status pe__spec_value_refused(const char *name, const pe__field *f, pe__word value,
                                            posenc_error *why)
{
    int n = (int)(value.n < 40 ? value.n : 40);
    if (f->words)
        return pe__fail(why, POSENC_BAD_CONFIG, "%s:%s cannot be '%.*s'; choose one of %s", name, f->key,
                        n, value.at, f->words + (f->words[0] == '|'));
    if (f->kind == 'n' || f->kind == 'f')
        return pe__fail(why, POSENC_BAD_CONFIG,
                        "%s:%s cannot be '%.*s'; it is a list of %s numbers from %g to %g, as in 1/2/3",
                        name, f->key, n, value.at, f->kind == 'n' ? "three whole" : "at most 128",
                        f->low, f->high);
    return pe__fail(why, POSENC_BAD_CONFIG, "%s:%s cannot be '%.*s'; it is a %snumber from %.10g to %.10g",
                    name, f->key, n, value.at, f->kind == 'd' ? "" : "whole ", f->low, f->high);
}

/* key=value of one encoding */
static posenc_status pe__spec_key(posenc_spec *s, const char *name, pe__word key, pe__word value,
                                  posenc_error *why)
{
    const posenc_encoding_info *e = posenc_encoding_get(s->encoding);
    const char *keys = e ? e->keys : "";
    if (!keys[0] || key.n == 0 || pe__listed(keys, ',', key) < 0)
        return pe__fail(why, POSENC_BAD_CONFIG, "%s has no key '%.*s'; it takes %s", name,
                        (int)(key.n < 40 ? key.n : 40), key.at, keys[0] ? keys : "none");
    for (int i = 0; i < PE__SPEC_FIELDS; i++) {
        const pe__field *f = &pe__spec_fields[i];
        if (!pe__is(key, f->key)) continue;
        return pe__field_read(s, f, value) ? POSENC_OK : pe__spec_value_refused(name, f, value, why);
    }
    return pe__fail(why, POSENC_BAD_CONFIG, "%s: key without a field", name);
}

/* does a word end as 1e does? longrope does not */
static int pe__exponent(pe__word w)
{
    char before = w.n > 1 ? w.at[w.n - 2] : 0;
    return ((before >= '0' && before <= '9') || before == '.')
        && (w.at[w.n - 1] == 'e' || w.at[w.n - 1] == 'E');
}

/* name[:key=value,...] up to '+' or the end */
static posenc_status pe__spec_one(posenc_spec *s, const char **text, pe__customs own,
                                  posenc_error *why)
{
    pe__word name = pe__cut(text, ":+");
    posenc_status status = POSENC_OK;
    memset(s, 0, sizeof *s);
    s->encoding = pe__encoding_named(name, own);
    if (s->encoding < 0) return pe__spec_unknown(name, own, why);
    while (status == POSENC_OK && (**text == ':' || **text == ',')) {
        pe__word key, value;
        ++*text;
        key = pe__cut(text, "=,+");
        if (**text != '=')
            return pe__fail(why, POSENC_BAD_CONFIG, "%s: '%.*s' needs a value, as in key=value",
                            pe__encoding_name(s->encoding, own), (int)(key.n < 40 ? key.n : 40),
                            key.at);
        ++*text;
        value = pe__cut(text, ",+");
        if (**text == '+' && pe__exponent(value)) {
            pe__word rest;                                               /* 1e+18: that + is ours */
            ++*text;
            rest = pe__cut(text, ",+");
            value.n += 1 + rest.n;
        }
        status = pe__spec_key(s, pe__encoding_name(s->encoding, own), key, value, why);
    }
    return status;
}

static posenc_status pe__spec_read(posenc_spec *list, int *count, int room, const char *text,
                                   pe__customs own, posenc_error *why)
{
    *count = 0;
    if (!text || !*text) text = "none";
    if (strlen(text) >= POSENC_SPEC_TEXT)
        return pe__fail(why, POSENC_BAD_CONFIG,
                        "a spec string has at most %d characters, this one %lu",
                        POSENC_SPEC_TEXT - 1, (unsigned long)strlen(text));
    for (;; text++) {
        posenc_status status;
        if (*count >= room) {
            *count = 0;
            return pe__fail(why, POSENC_BAD_CONFIG, "more than %d encodings in one spec string",
                            room);
        }
        status = pe__spec_one(&list[*count], &text, own, why);
        if (status != POSENC_OK) { *count = 0; return status; }
        ++*count;
        if (*text != '+') return POSENC_OK;
    }
}
static const pe__customs pe__none_own = { NULL, 0 };

POSENC_DEF posenc_status posenc_spec_parse(posenc_spec *list, int *count, int room,
                                           const char *text, posenc_error *why)
{
    return pe__spec_read(list, count, room, text, pe__none_own, why);
}

static size_t pe__spec_write(char *text, size_t room, const posenc_spec *list, int count,
                             pe__customs own)
{
    pe__text t = { NULL, 0, 0 };
    t.at = text;
    t.room = room;
    if (room) *text = 0;
    for (int i = 0; i < count; i++) {
        const posenc_encoding_info *e = posenc_encoding_get(list[i].encoding);
        const char *name = pe__encoding_name(list[i].encoding, own);
        size_t start;
        if (!name) continue;
        pe__say(&t, "%s%s", i ? "+" : "", name);
        start = t.used;
        for (int f = 0; f < PE__SPEC_FIELDS && e; f++) {
            pe__word key;
            key.at = pe__spec_fields[f].key;
            key.n = strlen(key.at);
            if (pe__listed(e->keys, ',', key) < 0) continue;
            pe__field_print(&t, &list[i], &pe__spec_fields[f], t.used == start ? ":" : ",");
        }
    }
    return t.used;
}
POSENC_DEF size_t posenc_spec_print(char *text, size_t room, const posenc_spec *list, int count)
{
    return pe__spec_write(text, room, list, count, pe__none_own);
}

/* ---- [6] attention ------------------------------------------------------------------------------
   out_i = sum_j P_ij v_j     P_i = softmax_j(S_i)     S_ij = scale q_i . k_j + bias_ij, or -inf

   Twice: [6.2] builds the map P and can be read as the definition, [6.3] never stores it. Both
   go through the same two functions for what a query may see and what is added to its scores.    */

/* ---- [6.1] masks and biases ------------------------------------------------------------------ */

typedef struct pe__sizes { int B, Tq, Tk, H, Hk, D; double scale; } pe__sizes;

static pe__sizes pe__attention_sizes(posenc_heads q, posenc_heads k, const posenc_attention *how)
{
    pe__sizes n;
    n.B = q.B; n.Tq = q.T; n.Tk = k.T; n.H = q.H; n.Hk = k.H; n.D = q.D;
    n.scale = how->scale != 0 ? how->scale : 1 / sqrt((double)q.D);
    POSENC_ASSERT(q.B == k.B && q.D == k.D && k.H > 0 && q.H % k.H == 0);
    return n;
}

/* keys from..to-1 are all that query i can see by causality and window; padding and segments
   thin them                                                                                      */
static void pe__visible(int *from, int *to, int i, const pe__sizes *n, const posenc_attention *how)
{
    int at = i + n->Tk - n->Tq;
    int window = how->window > 0 ? pe__min(how->window, n->Tq + n->Tk) : n->Tq + n->Tk;
    *from = pe__clamp(at - window + 1, 0, n->Tk);
    *to = pe__clamp(at + window, 0, n->Tk);
    if (how->causal) *to = pe__clamp(at + 1, 0, *to);
}

static int pe__bias_entry(int b, int i, int j, const pe__sizes *n, const posenc_attention *how)
{
    int at_q = how->q_at ? how->q_at[(size_t)b * n->Tq + i] : i + n->Tk - n->Tq;
    int at_k = how->k_at ? how->k_at[(size_t)b * n->Tk + j] : j;
    int64_t d = (int64_t)at_q - at_k;
    return (int)(d < -how->future ? 0 : d > how->past ? how->future + how->past : d + how->future);
}

/* Where positions are indices, a row of the map reads the vector of biases backwards, one step to
   a key. Says whether keys j0.. of query i do so without meeting an end, and where the first one
   reads.                                                                                         */
static int pe__bias_straight(int *entry, int i, int j0, int count, const pe__sizes *n,
                             const posenc_attention *how)
{
    int64_t d = (int64_t)i + n->Tk - n->Tq - j0;
    *entry = (int)(d + how->future);
    return !how->q_at && !how->k_at && d <= how->past && d - (count - 1) >= -(int64_t)how->future;
}

PE__STAMPED(add_reversed, (posenc_float *row, const posenc_float *last, int n), (row, last, n))
{
    PE__EACH for (int j = 0; j < n; j++) row[j] += last[-j];
}
PE__STAMPED(add_to_reversed, (posenc_float *last, const posenc_float *row, int n), (last, row, n))
{
    PE__EACH for (int j = 0; j < n; j++) last[-j] += row[j];
}

static void pe__bias_forward(posenc_float *row, int b, int h, int i, int j0, int count,
                             const pe__sizes *n, const posenc_attention *how)
{
    const posenc_float *r = how->bias + (size_t)h * (how->future + 1 + how->past);
    int entry;
    if (pe__bias_straight(&entry, i, j0, count, n, how)) {
        pe__add_reversed(row, r + entry, count);
        return;
    }
    for (int j = 0; j < count; j++) row[j] += r[pe__bias_entry(b, i, j0 + j, n, how)];
}

/* padding keys and keys of other segments */
static void pe__scores_thin(posenc_float *row, int b, int i, int j0, int count, const pe__sizes *n,
                            const posenc_attention *how)
{
    for (int j = 0; j < count; j++) {
        size_t key = (size_t)b * n->Tk + j0 + j;
        int seen = !how->keep || how->keep[key];
        if (how->q_segment && how->k_segment)
            seen = seen && how->q_segment[(size_t)b * n->Tq + i] == how->k_segment[key];
        if (!seen) row[j] = -HUGE_VALF;
    }
}

/* what dot products of query i are multiplied by */
static posenc_float pe__query_scale(int b, int i, const pe__sizes *n, const posenc_attention *how)
{
    return PE__F(n->scale) * (how->q_scale ? how->q_scale[(size_t)b * n->Tq + i] : 1);
}

/* turns scaled dot products of query i with keys j0.. into scores: biased, hidden ones at -infinity */
static void pe__scores(posenc_float *row, int b, int h, int i, int j0, int count,
                       const pe__sizes *n, const posenc_attention *how)
{
    int from, to;
    pe__visible(&from, &to, i, n, how);
    if (how->bias) pe__bias_forward(row, b, h, i, j0, count, n, how);
    if (how->row_bias) how->row_bias->forward(how->row_bias->user, row, b, h, i, j0, count);
    for (int j = 0; j < pe__min(from - j0, count); j++) row[j] = -HUGE_VALF;
    for (int j = pe__max(0, to - j0); j < count; j++) row[j] = -HUGE_VALF;
    if (how->keep || (how->q_segment && how->k_segment))
        pe__scores_thin(row, b, i, j0, count, n, how);
}

/* the biases' share of the backward: dS of query i goes to the diagonal sums and to the caller */
static void pe__scores_backward(posenc_float *diagonal, const posenc_float *drow, int b, int h,
                                int i, int j0, int count, const pe__sizes *n,
                                const posenc_attention *how)
{
    int entry;
    if (diagonal && pe__bias_straight(&entry, i, j0, count, n, how))
        pe__add_to_reversed(diagonal + entry, drow, count);
    else if (diagonal)
        for (int j = 0; j < count; j++) diagonal[pe__bias_entry(b, i, j0 + j, n, how)] += drow[j];
    if (how->row_bias && how->row_bias->backward)
        how->row_bias->backward(how->row_bias->user, drow, b, h, i, j0, count);
}

static uint64_t pe__map_index(int b, int h, int i, int j, const pe__sizes *n,
                              const posenc_attention *how)
{
    return how->dropout.first + (((uint64_t)b * n->H + h) * n->Tq + i) * n->Tk + j;
}

/* turns the rows of one head in place */
static void pe__turn_one(posenc_heads x, int b, int h, const posenc_turns *turns,
                         posenc_float direction)
{
    x.data += h * x.sh;
    x.sh = x.st;                                              /* one head: its tokens are the rows */
    pe__turn_some(x, b, 0, x.T, 0, 1, turns, direction);
}

/* ---- [6.2] the plain version: four passes, and the same four backward ------------------------ */

/* channel d of a head after its turn, without a copy: slow, and good enough for reading */
static posenc_float pe__turned_at(posenc_heads x, const posenc_turns *turns, int b, int t, int h,
                                  int d)
{
    const posenc_float *p = pe__head(x, b, t, h);
    int i, second, row = turns ? b * turns->row_b + t : 0, e = turns ? d - turns->offset : 0;
    posenc_float c, s;
    if (!turns || row >= turns->rows || e < 0 || e >= 2 * turns->pairs) return p[d];
    i      = turns->layout == POSENC_INTERLEAVED ? e / 2 : e % turns->pairs;
    second = turns->layout == POSENC_INTERLEAVED ? e % 2 : e / turns->pairs;
    c = turns->cosine[(size_t)row * turns->pairs + i];
    s = turns->sine[(size_t)row * turns->pairs + i];
    e = turns->layout == POSENC_INTERLEAVED ? 1 : turns->pairs;            /* gap between the two */
    return second ? p[d - e] * s + p[d] * c : p[d] * c - p[d + e] * s;
}

static posenc_float pe__dropped(posenc_float p, int b, int h, int i, int j, const pe__sizes *n,
                                const posenc_attention *how)
{
    if (how->dropout.rate > 0)
        pe__dropout_run(&p, &p, 1, &how->dropout, pe__map_index(b, h, i, j, n, how));
    return p;
}

/* out_i for one query of one head, and row i of the map */
static void pe__plain_query(posenc_heads out, posenc_float *P, posenc_heads q, posenc_heads k,
                            posenc_heads v, int b, int h, int i, const pe__sizes *n,
                            const posenc_attention *how)
{
    int hk = h * n->Hk / n->H;
    for (int j = 0; j < n->Tk; j++) {                                          /* 1. dot products */
        P[j] = 0;
        for (int d = 0; d < n->D; d++)
            P[j] += pe__turned_at(q, how->q_turns, b, i, h, d) *
                    pe__turned_at(k, how->k_turns, b, j, hk, d);
    }
    pe__row_scale(P, pe__query_scale(b, i, n, how), n->Tk);
    pe__scores(P, b, h, i, 0, n->Tk, n, how);                              /* 2. biases and masks */
    pe__softmax_row(P, P, n->Tk);                                                /* 3. softmax    */
    if (!out.data) return;
    for (int d = 0; d < n->D; d++) {                                         /* 4. mean of values */
        posenc_float sum = 0;
        for (int j = 0; j < n->Tk; j++)
            sum += pe__dropped(P[j], b, h, i, j, n, how) * pe__head(v, b, j, hk)[d];
        pe__head(out, b, i, h)[d] = sum;
    }
}

POSENC_DEF void posenc_attention_plain_forward(posenc_heads out, posenc_float *map, posenc_heads q,
                                               posenc_heads k, posenc_heads v,
                                               const posenc_attention *how)
{
    pe__sizes n = pe__attention_sizes(q, k, how);
    int rows = n.B * n.H * n.Tq;
    PE__PARALLEL
    for (int r = 0; r < rows; r++)
        pe__plain_query(out, map + (size_t)r * n.Tk, q, k, v, r / n.Tq / n.H, r / n.Tq % n.H,
                        r % n.Tq, &n, how);
}

/* Pass 4 and 3 for one query: dP from the values, then dS from the softmax.
       out_i = sum_j P_ij v_j     dP_ij = dout_i . v_j     dS_ij = P_ij (dP_ij - sum_k P_ik dP_ik)*/
static void pe__plain_query_backward(posenc_float *dS, const posenc_float *P, posenc_heads dout,
                                     posenc_heads v, int b, int h, int i, const pe__sizes *n,
                                     const posenc_attention *how)
{
    int hk = h * n->Hk / n->H;
    const posenc_float *g = pe__head(dout, b, i, h);
    for (int j = 0; j < n->Tk; j++) {                                                       /* 4. */
        posenc_float sum = 0;
        for (int d = 0; d < n->D; d++) sum += g[d] * pe__head(v, b, j, hk)[d];
        dS[j] = pe__dropped(sum, b, h, i, j, n, how);
    }
    posenc_softmax_backward(dS, dS, P, 1, n->Tk);                                           /* 3. */
}

/* Pass 4 and 1 for one key head: what its keys and values, and the queries that read it, receive.
       dv_j = sum_i P_ij dout_i      dq_i = scale sum_j dS_ij k_j      dk_j = scale sum_i dS_ij q_i
   Query heads h of one group all add to the same dk, dv, so one thread takes them all, in order. */
static void pe__plain_head_backward(posenc_heads dq, posenc_heads dk, posenc_heads dv,
                                    const posenc_float *dmap, posenc_heads dout,
                                    const posenc_float *map, posenc_heads q, posenc_heads k, int b,
                                    int hk, const pe__sizes *n, const posenc_attention *how)
{
    int group = n->H / n->Hk;
    for (int j = 0; j < n->Tk; j++)
        for (int d = 0; d < n->D; d++) pe__head(dk, b, j, hk)[d] = pe__head(dv, b, j, hk)[d] = 0;
    for (int h = hk * group; h < (hk + 1) * group; h++) {
        for (int i = 0; i < n->Tq; i++) {
            size_t row = (((size_t)b * n->H + h) * n->Tq + i) * n->Tk;
            for (int d = 0; d < n->D; d++) pe__head(dq, b, i, h)[d] = 0;
            for (int j = 0; j < n->Tk; j++) {
                posenc_float p = pe__dropped(map[row + j], b, h, i, j, n, how),
                             s = pe__query_scale(b, i, n, how) * dmap[row + j];
                for (int d = 0; d < n->D; d++) {
                    pe__head(dv, b, j, hk)[d] += p * pe__head(dout, b, i, h)[d];
                    pe__head(dq, b, i, h)[d]  += s * pe__turned_at(k, how->k_turns, b, j, hk, d);
                    pe__head(dk, b, j, hk)[d] += s * pe__turned_at(q, how->q_turns, b, i, h, d);
                }
            }
        }
        if (how->q_turns) pe__turn_one(dq, b, h, how->q_turns, -1);
    }
    if (how->k_turns) pe__turn_one(dk, b, hk, how->k_turns, -1);
}

POSENC_DEF void posenc_attention_plain_backward(posenc_heads dq, posenc_heads dk, posenc_heads dv,
                                                posenc_float *dbias, posenc_float *dmap,
                                                posenc_heads dout, const posenc_float *map,
                                                posenc_heads q, posenc_heads k, posenc_heads v,
                                                const posenc_attention *how)
{
    pe__sizes n = pe__attention_sizes(q, k, how);
    int rows = n.B * n.H * n.Tq, heads = n.B * n.Hk, entries = how->future + 1 + how->past;
    PE__PARALLEL
    for (int r = 0; r < rows; r++)                                                   /* 4. and 3. */
        pe__plain_query_backward(dmap + (size_t)r * n.Tk, map + (size_t)r * n.Tk, dout, v,
                                 r / n.Tq / n.H, r / n.Tq % n.H, r % n.Tq, &n, how);
    for (int r = 0; r < rows; r++) {                                                        /* 2. */
        int b = r / n.Tq / n.H, h = r / n.Tq % n.H;
        pe__scores_backward(dbias ? dbias + (size_t)h * entries : NULL, dmap + (size_t)r * n.Tk, b,
                            h, r % n.Tq, 0, n.Tk, &n, how);
    }
    PE__PARALLEL
    for (int u = 0; u < heads; u++)                                                  /* 4. and 1. */
        pe__plain_head_backward(dq, dk, dv, dmap, dout, map, q, k, u / n.Hk, u % n.Hk, &n, how);
}

/* ---- [6.3] the tiled version: the map never exists (Dao et al. 2022, Milakov and Gimelshein 2018)
   The scores of TILE_Q queries against TILE_K keys fit in the cache. Softmax needs the whole row's
   sum, but a running one will do: keep the largest score so far (top) and the sum of exp(s - top);
   when a larger score appears, multiply sum and partial output by exp(old top - new top).

      keys ->   +------+------+------+   forward    S = Q K'      P = exp(S - top)
       queries  | tile | tile |hidden|              out += P V, at the row's end out /= sum
          |     +------+------+------+   saved      lse = top + log sum, one number per query
          v     | tile | tile | tile |   backward   the tile again, P = exp(S - lse), then
                +------+------+------+              dV += P' dO   dP = dO V'
                                                    dS = P (dP - delta)   delta_i = dO_i . out_i
                                                    dQ += dS K    dK += dS' Q
   delta_i = sum_j P_ij dP_ij, the softmax's backward sum, costs one dot product because out
   already is that mean of values. Tiles that a causal mask or a window hides are never computed. */

enum { PE__TILE_Q = 64, PE__TILE_K = 64,
       PE__WORDS_APART = PE__TILE_K + 64 };         /* random words for a row: whole batches of them */

typedef struct pe__rows { const posenc_float *at; ptrdiff_t step; } pe__rows;  /* one head's rows */

/* the rows of one head, turned into room if they must be */
static pe__rows pe__turned_rows(posenc_heads x, int b, int h, const posenc_turns *turns,
                                posenc_float *room)
{
    pe__rows r;
    r.at = pe__head(x, b, 0, h);
    r.step = x.st;
    if (turns) {
        posenc_heads copy = posenc_heads_bthd(room, 1, x.T, 1, x.D);
        posenc_turns own = *turns;
        for (int t = 0; t < x.T; t++)
            memcpy(room + (size_t)t * x.D, r.at + t * r.step, (size_t)x.D * sizeof *room);
        own.cosine += (size_t)b * turns->row_b * turns->pairs;
        own.sine   += (size_t)b * turns->row_b * turns->pairs;
        own.rows   -= b * turns->row_b;
        pe__turn_one(copy, 0, 0, &own, 1);
        r.at = room;
        r.step = x.D;
    }
    return r;
}

/* What one thread works in. K' and V' are packed once for all tiles of a head [11.4], turned on the way;
   right sides that are not transposed are read where they lie.                                   */
typedef struct pe__attention_room {
    posenc_float *q, *k, *Kt, *Vt, *S, *dP;
    uint32_t *words;                                          /* random ones, of a tile           */
    pe__rows keys, values;
    int few;               /* queries, as when a text is written token by token: packing does not pay */
} pe__attention_room;

static size_t pe__packed_floats(int k, int n);
static void pe__pack_all(posenc_float *to, const posenc_float *b, ptrdiff_t b_row, ptrdiff_t b_col,
                         int k, int n);
static void pe__product_packed(posenc_float *c, ptrdiff_t c_row, int m, int n, int k,
                               const posenc_float *a, ptrdiff_t a_row, ptrdiff_t a_col,
                               const posenc_float *packed, int add);
static void pe__product_block(posenc_float *c, ptrdiff_t c_row, int m, int n, int k,
                              const posenc_float *a, ptrdiff_t a_row, ptrdiff_t a_col,
                              const posenc_float *b, ptrdiff_t b_row, ptrdiff_t b_col,
                              const posenc_float *bias, int add);

/* cuts scratch into the pieces of one thread; returns how many floats they take */
static size_t pe__attention_pieces(pe__attention_room *r, posenc_float *scratch, int Tq, int Tk, int D,
                                   const posenc_attention *how)
{
    size_t across = pe__packed_floats(D, (Tk + PE__TILE_K - 1) / PE__TILE_K * PE__TILE_K), used = 0;
#define PE__PIECE_OF(field, floats) r->field = scratch ? scratch + used : NULL; used += (floats)
    PE__PIECE_OF(q,  how->q_turns ? (size_t)Tq * D : 0);
    PE__PIECE_OF(k,  how->k_turns ? (size_t)Tk * D : 0);
    PE__PIECE_OF(Kt, across);
    PE__PIECE_OF(Vt, across);
    PE__PIECE_OF(S,  PE__TILE_Q * PE__TILE_K);
    PE__PIECE_OF(dP, PE__TILE_Q * PE__TILE_K);
#undef PE__PIECE_OF
    r->words = scratch ? (uint32_t *)(void *)(scratch + used) : NULL;
    return used + (how->dropout.rate > 0 ? (PE__TILE_Q + 1) * PE__WORDS_APART : 0);
}
static size_t pe__attention_thread_floats(int Tq, int Tk, int D, const posenc_attention *how)
{
    pe__attention_room unused;
    return pe__attention_pieces(&unused, NULL, Tq, Tk, D, how);
}
static pe__attention_room pe__attention_cut(posenc_float *scratch, const pe__sizes *n,
                                            const posenc_attention *how)
{
    pe__attention_room r;
#ifdef _OPENMP
    scratch += (size_t)omp_get_thread_num() * pe__attention_thread_floats(n->Tq, n->Tk, n->D, how);
#endif
    memset(&r, 0, sizeof r);
    pe__attention_pieces(&r, scratch, n->Tq, n->Tk, n->D, how);
    return r;
}

POSENC_DEF size_t posenc_attention_scratch(int B, int Tq, int Tk, int H, int D,
                                           const posenc_attention *how)
{
    size_t diagonals = how->bias ? (size_t)B * H * (how->future + 1 + how->past) : 0;
    return pe__max(1, how->threads) * pe__attention_thread_floats(Tq, Tk, D, how) + diagonals;
}

/* x' for all tiles of keys, and where that of the tile at key j begins */
static void pe__pack_across(posenc_float *to, pe__rows x, const pe__sizes *n)
{
    pe__pack_all(to, x.at, 1, x.step, n->D, n->Tk);
}
static const posenc_float *pe__across_at(const posenc_float *packed, int j, const pe__sizes *n)
{
    return packed + (size_t)j * n->D;
}

/* keys that some query of the tile i0..i1-1 can see, from the first key of a tile on */
static void pe__tile_keys(int *from, int *to, int i0, int i1, const pe__sizes *n,
                          const posenc_attention *how)
{
    int unused;
    pe__visible(from, &unused, i0, n, how);
    pe__visible(&unused, to, i1 - 1, n, how);
    *from -= *from % PE__TILE_K;
}
static int pe__tile_width(int j0, const pe__sizes *n) { return pe__min(PE__TILE_K, n->Tk - j0); }

static void pe__few_rows(posenc_float *c, ptrdiff_t c_row, const posenc_float *a, ptrdiff_t a_row,
                         const posenc_float *b, ptrdiff_t b_col, const posenc_float *bias, int add, int m,
                         int n, int k);                                                   /* [11.4] */
/* O = S V or O += S V for a few rows */
PE__STAMPED(mix_rows, (posenc_float *O, ptrdiff_t O_step, const posenc_float *S, const posenc_float *V,
                       ptrdiff_t V_step, int rows, int keys, int D, int add),
            (O, O_step, S, V, V_step, rows, keys, D, add))
{
    for (int i = 0; i < rows && !add; i++)
        PE__EACH for (int d = 0; d < D; d++) O[i * O_step + d] = 0;
    for (int j = 0; j < keys; j++)
        for (int i = 0; i < rows; i++) {
            posenc_float share = S[i * PE__TILE_K + j];
            PE__EACH for (int d = 0; d < D; d++) O[i * O_step + d] += share * V[j * V_step + d];
        }
}

/* rows of a tile times scale, or times scale and a number of each row's own */
PE__STAMPED(tile_scale, (posenc_float *S, int rows, int keys, posenc_float scale,
                         const posenc_float *own), (S, rows, keys, scale, own))
{
    for (int i = 0; i < rows; i++, S += PE__TILE_K) {
        posenc_float by = own ? scale * own[i] : scale;
        PE__EACH for (int j = 0; j < keys; j++) S[j] *= by;
    }
}
static void pe__tile_temper(posenc_float *S, int b, int i0, int rows, int keys, const pe__sizes *n,
                            const posenc_attention *how)
{
    pe__tile_scale(S, rows, keys, PE__F(n->scale), how->q_scale ? how->q_scale + (size_t)b * n->Tq + i0 : NULL);
}

/* Scores of a tile into S, rows TILE_K apart. What causality or the window hides at the end of a row
   need not be looked at: seen says how many keys must be, in whole registers.                    */
static void pe__tile_scores(const pe__attention_room *r, int *seen, pe__rows Q, int b, int h, int i0,
                            int rows, int j0, int keys, const pe__sizes *n, const posenc_attention *how)
{
    posenc_float *S = r->S;
    if (r->few)
        pe__few_rows(S, PE__TILE_K, Q.at + i0 * Q.step, Q.step, r->keys.at + j0 * r->keys.step,
                     r->keys.step, NULL, 0, rows, keys, n->D);
    else
        pe__product_packed(S, PE__TILE_K, rows, keys, n->D, Q.at + i0 * Q.step, Q.step, 1,
                           pe__across_at(r->Kt, j0, n), 0);
    pe__tile_temper(S, b, i0, rows, keys, n, how);
    for (int i = 0; i < rows; i++) {
        int from, to;
        pe__visible(&from, &to, i0 + i, n, how);
        seen[i] = pe__clamp((to - j0 + 15) / 16 * 16, 0, keys);
        if (seen[i]) pe__scores(S + i * PE__TILE_K, b, h, i0 + i, j0, seen[i], n, how);
    }
}

/* Rows of running softmax: S becomes exp(S - top), a row's output so far (O, if there is any) is rescaled. */
PE__STAMPED(softmax_more, (posenc_float *S, const int *seen, int rows, int keys, posenc_float *top,
                           posenc_float *sum, posenc_float *O, ptrdiff_t O_step, int D),
            (S, seen, rows, keys, top, sum, O, O_step, D))
{
    for (int i = 0; i < rows; i++, S += PE__TILE_K) {
        posenc_float above = pe__largest(S, seen[i], top[i]), shrink;
        int some = above != -HUGE_VALF, n = some ? seen[i] : 0;       /* nothing visible so far: 0 */
        PE__EACH for (int j = n; j < keys; j++) S[j] = 0;
        if (!some) continue;
        shrink = PE__EXP(top[i] - above);
        PE__EACH for (int j = 0; j < n; j++) S[j] = PE__EXP(S[j] - above);
        sum[i] = sum[i] * shrink + pe__sum(S, n);
        if (O && shrink != 1) PE__EACH for (int d = 0; d < D; d++) O[i * O_step + d] *= shrink;
        top[i] = above;
    }
}
/* the output divided by the row's sum, and the logarithm of that sum for the backward */
PE__STAMPED(softmax_end, (posenc_float *O, ptrdiff_t O_step, posenc_float *lse, const posenc_float *top,
                          const posenc_float *sum, int rows, int D), (O, O_step, lse, top, sum, rows, D))
{
    for (int i = 0; i < rows; i++, O += O_step) {
        posenc_float share = sum[i] == 0 ? 0 : 1 / sum[i];
        PE__EACH for (int d = 0; d < D; d++) O[d] *= share;
        lse[i] = sum[i] == 0 ? -HUGE_VALF : top[i] + PE__LOG(sum[i]);
    }
}

/* The random words of a tile, made once for all that is masked by them. Rows that hold every key lie
   behind one another in the map, and so do their words; others begin anew.                       */
static void pe__tile_words(uint32_t *words, int b, int h, int i0, int rows, int j0, int keys,
                           const pe__sizes *n, const posenc_attention *how)
{
    int whole = keys == n->Tk, runs = whole ? 1 : rows;
    if (how->dropout.rate <= 0) return;
    for (int i = 0; i < runs; i++) {
        uint64_t first = pe__map_index(b, h, i0 + i, j0, n, how);
        pe__random_words(words + i * PE__WORDS_APART, (size_t)((whole ? rows : 1) * keys) + (first & 3),
                         &how->dropout, first >> 2);
    }
}
static void pe__tile_dropout(posenc_float *S, const uint32_t *words, int b, int h, int i0, int rows,
                             int j0, int keys, const pe__sizes *n, const posenc_attention *how)
{
    int whole = keys == n->Tk;
    if (how->dropout.rate <= 0) return;
    for (int i = 0; i < rows; i++, S += PE__TILE_K) {
        uint64_t first = pe__map_index(b, h, i0 + (whole ? 0 : i), j0, n, how);
        const uint32_t *own = words + (first & 3) + i * (whole ? keys : PE__WORDS_APART);
        pe__dropout_words(S, S, own, keys, &how->dropout);
    }
}

static void pe__clear_rows(posenc_heads x, int b, int h, int from, int to)
{
    for (int t = from; t < to; t++) memset(pe__head(x, b, t, h), 0, (size_t)x.D * sizeof *x.data);
}

/* one row of tiles: queries i0.. of head h */
static void pe__tiles_forward(posenc_heads out, posenc_float *lse, pe__rows Q, int b, int h, int i0,
                              pe__attention_room r, const pe__sizes *n, const posenc_attention *how)
{
    int rows = pe__min(PE__TILE_Q, n->Tq - i0), from, to, seen[PE__TILE_Q];
    posenc_float top[PE__TILE_Q], sum[PE__TILE_Q], *O = pe__head(out, b, i0, h);
    for (int i = 0; i < rows; i++) { top[i] = -HUGE_VALF; sum[i] = 0; }
    pe__tile_keys(&from, &to, i0, i0 + rows, n, how);
    if (from >= to) pe__clear_rows(out, b, h, i0, i0 + rows);
    for (int j0 = from; j0 < to; j0 += PE__TILE_K) {
        int keys = pe__tile_width(j0, n), add = j0 > from;
        const posenc_float *V = r.values.at + j0 * r.values.step;
        pe__tile_scores(&r, seen, Q, b, h, i0, rows, j0, keys, n, how);
        pe__softmax_more(r.S, seen, rows, keys, top, sum, add ? O : NULL, out.st, n->D);
        pe__tile_words(r.words, b, h, i0, rows, j0, keys, n, how);
        pe__tile_dropout(r.S, r.words, b, h, i0, rows, j0, keys, n, how);
        if (r.few)
            pe__mix_rows(O, out.st, r.S, V, r.values.step, rows, keys, n->D, add);
        else
            pe__product_block(O, out.st, rows, n->D, keys, r.S, PE__TILE_K, 1, V, r.values.step, 1,
                              NULL, add);
    }
    pe__softmax_end(O, out.st, lse + ((size_t)b * n->H + h) * n->Tq + i0, top, sum, rows, n->D);
}

POSENC_DEF void posenc_attention_forward(posenc_heads out, posenc_float *lse, posenc_heads q,
                                         posenc_heads k, posenc_heads v,
                                         const posenc_attention *how, posenc_float *scratch)
{
    pe__sizes n = pe__attention_sizes(q, k, how);
    int units = n.B * n.H, threads = pe__max(1, how->threads);
    (void)threads;
    PE__PARALLEL_ON(threads)
    for (int u = 0; u < units; u++) {
        int b = u / n.H, h = u % n.H, hk = h * n.Hk / n.H;
        pe__attention_room r = pe__attention_cut(scratch, &n, how);
        pe__rows Q = pe__turned_rows(q, b, h, how->q_turns, r.q);
        r.keys = pe__turned_rows(k, b, hk, how->k_turns, r.k);
        r.values = pe__turned_rows(v, b, hk, NULL, NULL);
        r.few = n.Tq <= POSENC_FEW_ROWS;
        if (!r.few) pe__pack_across(r.Kt, r.keys, &n);
        for (int i0 = 0; i0 < n.Tq; i0 += PE__TILE_Q)
            pe__tiles_forward(out, lse, Q, b, h, i0, r, &n, how);
    }
}

/* what the backward reads and writes */
typedef struct pe__attention_grads {
    posenc_heads dq, dk, dv, dout, out, v;
    const posenc_float *lse;
    posenc_float *diagonal;                           /* (B,H,entries) sums, NULL when not wanted */
} pe__attention_grads;

/* dS_j = P_j (dP_j - delta), in place of dP; delta = dO . O */
PE__STAMPED(tile_softmax_backward, (posenc_float *dP, const posenc_float *P, const int *seen, int rows,
                                    int keys, const posenc_float *dO, ptrdiff_t dO_step,
                                    const posenc_float *O, ptrdiff_t O_step, int D),
            (dP, P, seen, rows, keys, dO, dO_step, O, O_step, D))
{
    for (int i = 0; i < rows; i++, dP += PE__TILE_K, P += PE__TILE_K) {
        posenc_float delta = pe__dot(dO + i * dO_step, O + i * O_step, D);
        PE__EACH for (int j = 0; j < seen[i]; j++) dP[j] = P[j] * (dP[j] - delta);
        PE__EACH for (int j = seen[i]; j < keys; j++) dP[j] = 0;
    }
}

PE__STAMPED(tile_probabilities, (posenc_float *S, const int *seen, int rows, int keys,
                                 const posenc_float *lse), (S, seen, rows, keys, lse))
{
    for (int i = 0; i < rows; i++, S += PE__TILE_K) {
        posenc_float own = lse[i];
        int n = own == -HUGE_VALF ? 0 : seen[i];
        PE__EACH for (int j = 0; j < n; j++) S[j] = PE__EXP(S[j] - own);
        PE__EACH for (int j = n; j < keys; j++) S[j] = 0;
    }
}

/* One tile of the backward; a = P or dS read as rows, a' as columns. more_q, more_k: others have written
   to these rows of dq, of dk and dv before.                                                      */
static void pe__tile_backward(const pe__attention_grads *g, pe__rows Q, int b, int h, int i0, int rows,
                              int j0, int more_q, int more_k, pe__attention_room r, const pe__sizes *n,
                              const posenc_attention *how)
{
    int hk = h * n->Hk / n->H, entries = how->future + 1 + how->past, keys = pe__tile_width(j0, n);
    int seen[PE__TILE_Q];
    size_t unit = (size_t)b * n->H + h;
    const posenc_float *dO = pe__head(g->dout, b, i0, h), *O = pe__head(g->out, b, i0, h);
    pe__tile_scores(&r, seen, Q, b, h, i0, rows, j0, keys, n, how);
    pe__tile_probabilities(r.S, seen, rows, keys, g->lse + unit * n->Tq + i0);
    pe__product_packed(r.dP, PE__TILE_K, rows, keys, n->D, dO, g->dout.st, 1,
                       pe__across_at(r.Vt, j0, n), 0);                              /* dP  = dO V' */
    pe__tile_words(r.words, b, h, i0, rows, j0, keys, n, how);
    pe__tile_dropout(r.dP, r.words, b, h, i0, rows, j0, keys, n, how);
    pe__tile_softmax_backward(r.dP, r.S, seen, rows, keys, dO, g->dout.st, O, g->out.st, n->D);
    pe__tile_dropout(r.S, r.words, b, h, i0, rows, j0, keys, n, how);
    pe__product_block(pe__head(g->dv, b, j0, hk), g->dv.st, keys, n->D, rows, r.S, 1, PE__TILE_K,
                      dO, g->dout.st, 1, NULL, more_k);                             /* dV += P' dO */
    for (int i = 0; i < rows; i++)                                                  /* dS is in dP */
        pe__scores_backward(g->diagonal ? g->diagonal + unit * entries : NULL, r.dP + i * PE__TILE_K,
                            b, h, i0 + i, j0, seen[i], n, how);
    pe__tile_temper(r.dP, b, i0, rows, keys, n, how);
    pe__product_block(pe__head(g->dq, b, i0, h), g->dq.st, rows, n->D, keys, r.dP, PE__TILE_K, 1,
                      r.keys.at + j0 * r.keys.step, r.keys.step, 1, NULL, more_q);  /* dQ += dS K */
    pe__product_block(pe__head(g->dk, b, j0, hk), g->dk.st, keys, n->D, rows, r.dP, 1, PE__TILE_K,
                      Q.at + i0 * Q.step, Q.step, 1, NULL, more_k);                /* dK += dS' Q */
}

/* Everything that reads key head hk of sample b: one thread owns dk and dv of it, and dq of its group.
   Queries look at keys low..high-1 so far; both ends only move up, so that a tile is written to for the
   first time when it lies at high.                                                               */
static void pe__head_backward(const pe__attention_grads *g, posenc_heads q, posenc_heads k, int b,
                              int hk, pe__attention_room r, const pe__sizes *n,
                              const posenc_attention *how)
{
    int group = n->H / n->Hk, low = n->Tk, high = 0;
    pe__rows V = pe__turned_rows(g->v, b, hk, NULL, NULL);
    r.keys = pe__turned_rows(k, b, hk, how->k_turns, r.k);
    pe__pack_across(r.Kt, r.keys, n);
    pe__pack_across(r.Vt, V, n);
    for (int h = hk * group; h < (hk + 1) * group; h++) {
        pe__rows Q = pe__turned_rows(q, b, h, how->q_turns, r.q);
        for (int i0 = 0; i0 < n->Tq; i0 += PE__TILE_Q) {
            int rows = pe__min(PE__TILE_Q, n->Tq - i0), from, to;
            pe__tile_keys(&from, &to, i0, i0 + rows, n, how);
            if (from >= to) pe__clear_rows(g->dq, b, h, i0, i0 + rows);
            else low = pe__min(low, from);
            for (int j0 = from; j0 < to; j0 += PE__TILE_K) {
                pe__tile_backward(g, Q, b, h, i0, rows, j0, j0 > from, j0 < high, r, n, how);
                high = pe__max(high, j0 + pe__tile_width(j0, n));
            }
        }
        if (how->q_turns) pe__turn_one(g->dq, b, h, how->q_turns, -1);
    }
    for (int half = 0; half < 2; half++) {                              /* keys that nobody sees */
        pe__clear_rows(half ? g->dv : g->dk, b, hk, 0, pe__min(low, n->Tk));
        pe__clear_rows(half ? g->dv : g->dk, b, hk, pe__max(low, high), n->Tk);
    }
    if (how->k_turns) pe__turn_one(g->dk, b, hk, how->k_turns, -1);
}

POSENC_DEF void posenc_attention_backward(posenc_heads dq, posenc_heads dk, posenc_heads dv,
                                          posenc_float *dbias, posenc_heads dout, posenc_heads out,
                                          const posenc_float *lse, posenc_heads q, posenc_heads k,
                                          posenc_heads v, const posenc_attention *how,
                                          posenc_float *scratch)
{
    pe__sizes n = pe__attention_sizes(q, k, how);
    pe__attention_grads g = { dq, dk, dv, dout, out, v, lse, NULL };
    int units = n.B * n.Hk, entries = how->future + 1 + how->past;
    int threads = how->row_bias && how->row_bias->backward ? 1 : pe__max(1, how->threads);
    size_t sums = (size_t)n.H * entries;
    if (dbias && how->bias) {                        /* a vector of sums for each sample and head */
        g.diagonal =
            scratch + pe__max(1, how->threads) * pe__attention_thread_floats(n.Tq, n.Tk, n.D, how);
        memset(g.diagonal, 0, n.B * sums * sizeof *scratch);
    }
    (void)threads;
    PE__PARALLEL_ON(threads)
    for (int u = 0; u < units; u++)
        pe__head_backward(&g, q, k, u / n.Hk, u % n.Hk, pe__attention_cut(scratch, &n, how), &n,
                          how);
    for (int b = 0; b < n.B && g.diagonal; b++)         /* samples in order, whatever the threads */
        for (size_t e = 0; e < sums; e++) dbias[e] += g.diagonal[b * sums + e];
}

/* ---- [7] transformer ----------------------------------------------------------------------------
   Written once against the table of layer functions [2.9]: nothing here looks into a tensor.
   What a model owns is listed in two tables, [7.1] parameters and [7.2] activations; arenas,
   names, checkpoints and tests all come from them.                                               */

/* ---- [7.1] every parameter ----------------------------------------------------------------------
   field, name, when it exists, shape (columns 0: a vector), initial values. Products start
   uniform within 1/sqrt(inputs), gains at one, biases at zero. Letters: C channels, D of a head, A of
   all heads of queries, K of keys and values, F hidden, V vocabulary, N outputs of the head.     */

#define PE__TOP_TENSORS(X)                                                                         \
    X(token,      "token_embedding.weight", 1,                   V, C, PE__NORMAL,  token_spread)  \
    X(types,      "type_embedding.weight",  types > 0,       types, C, PE__NORMAL,  token_spread)  \
    X(enorm,      "embedding_norm.weight",  enorm,               C, 0, PE__ONE,     0)             \
    X(enorm_bias, "embedding_norm.bias",    enorm && norm_bias,  C, 0, PE__ZERO,    0)             \
    X(norm,       "norm.weight",            pre_norm && normed,  C, 0, PE__ONE,     0)             \
    X(norm_bias,  "norm.bias",              pre_norm && norm_bias, C, 0, PE__ZERO,  0)             \
    X(head,       head_name,                !c->tied_head,       N, C, PE__UNIFORM, from_C)        \
    X(head_bias,  "head.bias",              c->classes > 0,      N, 0, PE__ZERO,    0)

#define PE__BLOCK_TENSORS(X)                                                                       \
    X(norm1,      "norm1.weight",           normed,              C, 0, PE__ONE,     0)             \
    X(norm1_bias, "norm1.bias",             norm_bias,           C, 0, PE__ZERO,    0)             \
    X(q,          "attn.q_proj.weight",     1,                   A, C, PE__UNIFORM, from_C)        \
    X(q_bias,     "attn.q_proj.bias",       bias,                A, 0, PE__ZERO,    0)             \
    X(k,          "attn.k_proj.weight",     1,                   K, C, PE__UNIFORM, from_C)        \
    X(k_bias,     "attn.k_proj.bias",       bias,                K, 0, PE__ZERO,    0)             \
    X(v,          "attn.v_proj.weight",     1,                   K, C, PE__UNIFORM, from_C)        \
    X(v_bias,     "attn.v_proj.bias",       bias,                K, 0, PE__ZERO,    0)             \
    X(q_norm,     "attn.q_norm.weight",     c->qk_norm,          D, 0, PE__ONE,     0)             \
    X(k_norm,     "attn.k_norm.weight",     c->qk_norm,          D, 0, PE__ONE,     0)             \
    X(o,          "attn.out_proj.weight",   1,                   C, A, PE__UNIFORM, from_A)        \
    X(o_bias,     "attn.out_proj.bias",     bias,                C, 0, PE__ZERO,    0)             \
    X(norm2,      "norm2.weight",           normed,              C, 0, PE__ONE,     0)             \
    X(norm2_bias, "norm2.bias",             norm_bias,           C, 0, PE__ZERO,    0)             \
    X(gate,       "mlp.gate_proj.weight",   gated,               F, C, PE__UNIFORM, from_C)        \
    X(gate_bias,  "mlp.gate_proj.bias",     gated && bias,       F, 0, PE__ZERO,    0)             \
    X(up,         "mlp.up_proj.weight",     1,                   F, C, PE__UNIFORM, from_C)        \
    X(up_bias,    "mlp.up_proj.bias",       bias,                F, 0, PE__ZERO,    0)             \
    X(down,       "mlp.down_proj.weight",   1,                   C, F, PE__UNIFORM, from_F)        \
    X(down_bias,  "mlp.down_proj.bias",     bias,                C, 0, PE__ZERO,    0)

/* ---- [7.2] every activation that is kept --------------------------------------------------------
   R = batch * context rows. In pre-norm blocks norm1 and norm2 keep their outputs, in post-norm
   blocks the sums that go into them. lse is (B,H,T); act is taken after dropout.

   The backward of a block reads all of them, some 20 C numbers a token, and all of them follow from
   what went into the block, C numbers. So config.recompute keeps what goes in and comes out of
   blocks, (layers + 1) R C numbers, and has one room for the inside, where all blocks work in turn:

       forward    embedding -> block 0 -> out -> block 1 -> out -> block 2 -> out
       backward                block 0 again    block 1 again     still there

   Computed twice is the forward of all blocks but the last, in pre-norm blocks without their last
   product. A forward is a third of a step: so much more time at most, and a fifth as measured.
   Dropout's masks are functions of counters [4.6] and come out as before.                        */

#define PE__TOP_ACTIVATIONS(X)                                                                     \
    X(sum,      "embedding_norm.input", enorm,            R,        C)                             \
    X(sum_mean, "embedding_norm.mean",  enorm && ln,      R,        0)                             \
    X(sum_rstd, "embedding_norm.rstd",  enorm,            R,        0)                             \
    X(x,        "embedding",            1,                R,        C)

#define PE__LAST_ACTIVATIONS(X)                                                                    \
    X(last,     "norm",                 pre_norm && normed, R,      C)                             \
    X(mean,     "norm.mean",            pre_norm && ln,   R,        0)                             \
    X(rstd,     "norm.rstd",            pre_norm && normed, R,      0)                             \
    X(pooled,   "pooled",               c->classes > 0,   c->batch, C)

#define PE__INSIDE_ACTIVATIONS(X)                                                                  \
    X(h1,       pre_norm ? "norm1" : "norm1.input", 1,    R,        C)                             \
    X(mean1,    "norm1.mean",           ln,               R,        0)                             \
    X(rstd1,    "norm1.rstd",           normed,           R,        0)                             \
    X(q,        "attn.q",               1,                R,        A)                             \
    X(k,        "attn.k",               1,                R,        K)                             \
    X(v,        "attn.v",               1,                R,        K)                             \
    X(qn,       "attn.q_norm",          c->qk_norm,       R,        A)                             \
    X(kn,       "attn.k_norm",          c->qk_norm,       R,        K)                             \
    X(q_r,      "attn.q_norm.rstd",     c->qk_norm,       R,        c->heads)                      \
    X(k_r,      "attn.k_norm.rstd",     c->qk_norm,       R,        c->kv_heads)                   \
    X(a,        "attn.out",             1,                R,        A)                             \
    X(lse,      "attn.lse",             1,                R,        c->heads)                      \
    X(mid,      "mid",                  1,                R,        C)                             \
    X(h2,       pre_norm ? "norm2" : "norm2.input", 1,    R,        C)                             \
    X(mean2,    "norm2.mean",           ln,               R,        0)                             \
    X(rstd2,    "norm2.rstd",           normed,           R,        0)                             \
    X(gate,     "mlp.gate",             gated,            R,        F)                             \
    X(up,       "mlp.up",               1,                R,        F)                             \
    X(act,      "mlp.act",              1,                R,        F)

#define PE__X(field, ...) posenc_tensor *field;
typedef struct pe__top   { PE__TOP_TENSORS(PE__X) }       pe__top;
typedef struct pe__block {
    PE__BLOCK_TENSORS(PE__X) posenc_tensor *pe[POSENC_SPECS][POSENC_PARTS];
} pe__block;
typedef struct pe__top_saved {
    PE__TOP_ACTIVATIONS(PE__X)
    PE__LAST_ACTIVATIONS(PE__X)
} pe__top_saved;
typedef struct pe__block_saved { PE__INSIDE_ACTIVATIONS(PE__X) posenc_tensor *x; } pe__block_saved;
#undef PE__X

/* working room that nobody asks for by name; sizes in pe__list_work */
typedef struct pe__work {
    posenc_float *dx, *t1, *t2;        /* (R,C) gradients on their way; t1, t2 also hold an (R,A) */
    posenc_float *dq, *dk, *dv;                            /* (R,A) (R,K) (R,K)                   */
    posenc_float *df, *dg;                                 /* (R,F)                               */
    posenc_float *attention, *head, *loss, *bf16;          /* scratch of layers; loss per row     */
    posenc_float *cosine[2], *sine[2];         /* the turns of one layer (R,pairs), of q and of k */
    posenc_float *tau;                                     /* (R) temperature of queries          */
    posenc_float *bias, *bias_fixed, *dbias;               /* (H, 2*span + 1)                     */
    posenc_float *rows[POSENC_SPECS];                 /* fixed rows (R,C), or a network's scratch */
} pe__work;

/* what a batch brings, in the backend's memory */
typedef struct pe__inputs {
    double *positions;                                     /* (R,axes) coordinates that turn      */
    double *frequency[2];                    /* (axes + 1, pairs) of q and of k, growth behind it */
    int *tokens, *targets, *segments, *types, *at;         /* (R); at: places as whole numbers    */
    int *bucket[POSENC_SPECS];                             /* (2*span + 1) row of each distance   */
    unsigned char *keep;                                   /* (R)                                 */
} pe__inputs;

typedef struct pe__slot {
    posenc_tensor t;
    pe__init init;
    double spread;
    const posenc_custom *own;                              /* whose `start` fills it; NULL: init  */
    int in_turn;                           /* an activation that all blocks use, named by block 0 */
} pe__slot;

struct posenc_model {
    posenc_config c;
    char spec_text[POSENC_SPEC_TEXT];
    posenc_spec spec[POSENC_SPECS];
    const pe__card *card[POSENC_SPECS];
    const posenc_custom *own[POSENC_SPECS];                /* the caller's encodings, else NULL   */
    int specs, turner, temper, placer;         /* who turns, tempers, lays tokens out; -1: nobody */
    int span;                                              /* distances -span..span have a bias   */
    int biased, biased_by_layer;                           /* there is a bias; each layer has one */
    int rotated, axes, twofold;     /* pairs that turn, on how many axes; k unlike q (xpos)       */
    int turn_apart;                 /* q and k are turned before attention, not inside it         */
    const posenc_backend *ops;
    posenc_float *params, *grads, *moments, *acts;         /* the arenas                          */
    uint16_t *half;            /* params in bfloat16, for writing token by token; NULL: not kept  */
    int half_ready;                                        /* and are those of params             */
    void *input_arena;
    size_t param_floats, act_floats, input_bytes;
    pe__slot *slot;                                        /* parameters first, then activations  */
    int params_n, acts_n;
    pe__top top;
    pe__top_saved saved;
    pe__block *block;
    pe__block_saved *kept;
    pe__work w;
    pe__inputs in;
    posenc_tensor *pe[POSENC_SPECS][POSENC_PARTS];    /* parameters of encodings all layers share */
    uint64_t steps;
    /* host side of the last batch */
    double *host_positions, *host_axes;   /* (R, given) as they came; (R, 3) as an encoding sees them */
    double *host_frequency;                                /* (axes + 1, pairs)                   */
    posenc_rotation rotation[2];                           /* of q and k, pointing into `in`      */
    int *host_at, *host_segments;
    unsigned char *host_keep;
    posenc_float *host_floats;                         /* (R) or (R,C): losses, rows on their way */
    posenc_float *host_own;                 /* parameters and gradients of the caller's encodings */
    double turned_length;                                  /* what the frequencies were made for  */
    int B, T, given, own_positions, segmented, padded, ready; /* ready: a forward has run         */
    int extended;                                        /* and it went on from a cache           */
    int rows_T;                                          /* T whose fixed rows are in place, or 0 */
    posenc_cache *cache;                                 /* that this forward extends, else NULL  */
    void (*watch)(void *user, posenc_model *m, int layer);
    void *watch_user;
    int watching;                                        /* 1 + the layer it is called for, else 0 */
};

/* ---- [7.3] counting and placing -----------------------------------------------------------------
   The same listing runs twice: once to count, with nowhere to write, once to fill in.            */

typedef struct pe__lister {
    pe__slot *slot;                                        /* NULL: count only                    */
    int n;
    size_t floats;
    int too_big;
    posenc_float *arena;                                   /* NULL: offsets are not known yet     */
} pe__lister;

static size_t pe__times(size_t a, size_t b, int *too_big)
{
    if (b && a > ((size_t)-1 >> 5) / b) { *too_big = 1; return 0; }
    return a * b;
}

static posenc_float *pe__reserve(pe__lister *l, size_t rows, size_t columns)
{
    posenc_float *at = l->arena ? l->arena + l->floats : NULL;
    l->floats += pe__times(rows, columns, &l->too_big);
    l->floats = (l->floats + 15) / 16 * 16;                /* every tensor starts on a cache line */
    if (l->floats > (size_t)-1 >> 5) l->too_big = 1;
    return at;
}

/* one tensor "prefix.layer.name"; returns it, or NULL when it does not exist or we only count */
static posenc_tensor *pe__list_add(pe__lister *l, int exists, const char *prefix, int layer,
                                   const char *name, int rows, int columns, pe__init init,
                                   double spread)
{
    pe__slot *s = l->slot ? &l->slot[l->n] : NULL;
    posenc_float *at;
    if (!exists) return NULL;
    at = pe__reserve(l, (size_t)rows, columns ? (size_t)columns : 1);
    l->n++;
    if (!s) return NULL;
    memset(s, 0, sizeof *s);
    if (layer >= 0) snprintf(s->t.name, sizeof s->t.name, "%s%d.%.44s", prefix, layer, name);
    else            snprintf(s->t.name, sizeof s->t.name, "%s%.44s", prefix, name);
    s->t.dims = columns ? 2 : 1;
    s->t.shape[0] = rows;
    s->t.shape[1] = columns;
    s->t.count = (size_t)rows * (columns ? columns : 1);
    s->t.data = at;
    s->t.decay = columns ? 1 : 0;                      /* matrices decay, gains and biases do not */
    s->init = init;
    s->spread = spread;
    return &s->t;
}

/* letters of the tables */
#define PE__LETTERS                                                                                \
    int C = c->channels, D = c->head_channels, A = c->heads * D, K = c->kv_heads * D;              \
    int F = c->hidden, V = c->vocab;                                                               \
    int N = c->classes ? c->classes : V, R = c->batch * c->context, enorm = c->embedding_norm;     \
    int pre_norm = c->norm_place == POSENC_PRE_NORM;                                               \
    int normed = c->norm != POSENC_NO_NORM, ln = c->norm == POSENC_LAYERNORM;                      \
    int bias = !c->no_bias, norm_bias = bias && ln, gated = pe__is_gated(c->activation);           \
    double from_C = 1 / sqrt((double)C), from_A = 1 / sqrt((double)A);                             \
    double from_F = 1 / sqrt((double)F), token_spread = c->embedding_init;                         \
    int types = c->token_types;                                                                    \
    const char *head_name = c->classes ? "head.weight" : "lm_head.weight";                         \
    (void)C; (void)D; (void)A; (void)K; (void)F; (void)V; (void)N; (void)R; (void)enorm;           \
    (void)pre_norm; (void)from_A; (void)types;                                                     \
    (void)normed; (void)ln; (void)bias; (void)norm_bias; (void)gated; (void)from_C; (void)from_F;               \
    (void)token_spread; (void)head_name

static posenc_shape pe__model_shape(const posenc_config *c)
{
    posenc_shape g;
    g.C = c->channels; g.H = c->heads; g.D = c->head_channels;
    g.context = c->context; g.causal = c->causal;
    return g;
}

static pe__customs pe__model_customs(const posenc_config *c)
{
    pe__customs own;
    own.list = c->custom;
    own.n = c->custom ? c->customs : 0;
    return own;
}
static const char *pe__model_encoding(const posenc_model *m, int e)                 /* its name */
{
    return pe__encoding_name(m->spec[e].encoding, pe__model_customs(&m->c));
}

/* trained frequencies belong to a layer, biases if the spec says so */
static int pe__per_layer(const posenc_model *m, int e)
{
    return m->spec[e].per_layer || (m->card[e]->rotate && m->card[e]->plan);
}
static int pe__model_plan_of(pe__plan plan[POSENC_PARTS], const posenc_model *m, int e)
{
    posenc_shape g = pe__model_shape(&m->c);
    const posenc_custom *own = m->own[e];
    if (own && own->parameters > 0)
        return pe__plan_one(plan, "weight", own->parameters, 0, PE__ZERO, 0);
    return m->card[e]->plan ? m->card[e]->plan(plan, &m->spec[e], &g) : 0;
}

/* parameters of the encodings: shared ones with layer -1, a layer's own with its number */
static void pe__list_encodings(posenc_model *m, pe__lister *l,
                               posenc_tensor *to[POSENC_SPECS][POSENC_PARTS], int layer)
{
    for (int e = 0; e < m->specs; e++) {
        pe__plan plan[POSENC_PARTS];
        int every = m->spec[e].nope_every, rests = every && (layer + 1) % every == 0;
        int n = pe__per_layer(m, e) == (layer >= 0) && !rests ? pe__model_plan_of(plan, m, e) : 0;
        for (int i = 0; i < n; i++) {
            char name[56];
            posenc_tensor *t;
            snprintf(name, sizeof name, "pe.%.32s.%s", pe__model_encoding(m, e), plan[i].name);
            t = pe__list_add(l, 1, layer >= 0 ? "blocks." : "", layer, name, plan[i].rows,
                             plan[i].columns, plan[i].init, plan[i].spread);
            if (t) t->frozen = plan[i].fixed;
            if (t) l->slot[l->n - 1].own = m->own[e];
            if (to) to[e][i] = t;
        }
    }
}

static void pe__list_parameters(posenc_model *m, pe__lister *l)
{
    const posenc_config *c = &m->c;
    PE__LETTERS;
#define PE__X(field, name, exists, rows, columns, init, spread)                                    \
    m->top.field = pe__list_add(l, exists, "", -1, name, rows, columns, init, spread);
    PE__TOP_TENSORS(PE__X)
#undef PE__X
    pe__list_encodings(m, l, m->pe, -1);
    for (int i = 0; i < c->layers; i++) {
        pe__block unused, *b = m->block ? &m->block[i] : &unused;
#define PE__X(field, name, exists, rows, columns, init, spread)                                    \
        b->field = pe__list_add(l, exists, "blocks.", i, name, rows, columns, init, spread);
        PE__BLOCK_TENSORS(PE__X)
#undef PE__X
        pe__list_encodings(m, l, m->block ? b->pe : NULL, i);
    }
}

/* How many blocks have room of their own for what is inside them, and for what comes out. Without
   it they use that of block 0 in turn.                                                           */
static int pe__insides(const posenc_config *c)
{
    return c->inference || c->recompute ? 1 : c->layers;
}
static int pe__outputs(const posenc_config *c) { return c->inference ? 1 : c->layers; }
static int pe__in_turn(const posenc_config *c) { return pe__insides(c) < c->layers; }

static void pe__list_block_activations(posenc_model *m, pe__lister *l, int layer)
{
    const posenc_config *c = &m->c;
    pe__block_saved unused, *b = m->kept ? &m->kept[layer] : &unused;
    int from = l->n;
    PE__LETTERS;
    if (layer && m->kept) *b = m->kept[0];
    if (layer < pe__insides(c)) {
#define PE__X(field, name, exists, rows, columns)                                                  \
        b->field = pe__list_add(l, exists, "blocks.", layer, name, rows, columns, PE__ZERO, 0);
        PE__INSIDE_ACTIVATIONS(PE__X)
#undef PE__X
    }
    for (; from < l->n && l->slot; from++) l->slot[from].in_turn = pe__in_turn(c);
    if (layer < pe__outputs(c))
        b->x = pe__list_add(l, 1, "blocks.", layer, "out", R, C, PE__ZERO, 0);
}

static void pe__list_activations(posenc_model *m, pe__lister *l)
{
    const posenc_config *c = &m->c;
    PE__LETTERS;
#define PE__X(field, name, exists, rows, columns)                                                  \
    m->saved.field = pe__list_add(l, exists, "", -1, name, rows, columns, PE__ZERO, 0);
    PE__TOP_ACTIVATIONS(PE__X)
#undef PE__X
    for (int i = 0; i < c->layers; i++) pe__list_block_activations(m, l, i);
#define PE__X(field, name, exists, rows, columns)                                                  \
    m->saved.field = pe__list_add(l, exists, "", -1, name, rows, columns, PE__ZERO, 0);
    PE__LAST_ACTIVATIONS(PE__X)
#undef PE__X
}

/* the largest attention this model will run, for its scratch */
static posenc_attention pe__attention_shape(const posenc_model *m)
{
    static const posenc_float some_bias = 0;
    static const posenc_turns some_turns = { NULL, NULL, 0, 0, 0, 0, 0 };
    posenc_attention how;
    memset(&how, 0, sizeof how);
    how.threads = m->c.threads;
    how.bias = m->biased ? &some_bias : NULL;
    how.past = how.future = m->span;
    how.dropout.rate = m->c.dropout_attention;
    if (m->turner >= 0) how.q_turns = how.k_turns = &some_turns;
    return how;
}

static void pe__list_work(posenc_model *m, pe__lister *l)
{
    const posenc_config *c = &m->c;
    posenc_attention how = pe__attention_shape(m);
    size_t entries = m->biased ? 2 * (size_t)m->span + 1 : 0;
    int train = !c->inference;
    pe__work *w = &m->w;
    PE__LETTERS;
    w->t1 = pe__reserve(l, R, pe__max(A, C));
    w->t2 = pe__reserve(l, R, pe__max(A, C));
    w->dx = pe__reserve(l, R, train * C);
    w->dq = pe__reserve(l, R, train * A);
    w->dk = pe__reserve(l, R, train * K);
    w->dv = pe__reserve(l, R, train * K);
    w->df = pe__reserve(l, R, train * F);
    w->dg = pe__reserve(l, R, train * gated * F);
    w->attention =
        pe__reserve(l,
                    posenc_attention_scratch(c->batch, c->context, c->context, c->heads, D, &how),
                    1);
    w->head = pe__reserve(l, c->precision == POSENC_BF16 ? posenc_head_scratch_bf16(R, C, N)
                                                         : posenc_head_scratch(R, N), 1);
    w->bf16 = pe__reserve(l, c->precision == POSENC_BF16 ? posenc_bf16_scratch(R, C, pe__max(pe__max(A, C), F))
                                                         : 0, 1);
    w->loss = pe__reserve(l, R, 1);
    for (int key = 0; key < 2; key++) {
        w->cosine[key] = key && !m->twofold ? w->cosine[0] : pe__reserve(l, R, (size_t)m->rotated);
        w->sine[key] = key && !m->twofold ? w->sine[0] : pe__reserve(l, R, (size_t)m->rotated);
    }
    w->tau = pe__reserve(l, R, m->temper >= 0);
    w->bias = pe__reserve(l, c->heads, entries);
    w->bias_fixed = pe__reserve(l, c->heads, entries);
    w->dbias = pe__reserve(l, c->heads, train * entries);
    for (int e = 0; e < m->specs; e++) {
        size_t floats = pe__rows_floats(&m->spec[e], R, C);
        if (m->own[e] && m->own[e]->row) floats = (size_t)R * C;
        w->rows[e] = floats ? pe__reserve(l, floats, 1) : NULL;
    }
}

/* cuts the arena of inputs; with memory NULL it returns the bytes needed */
static size_t pe__place_inputs(posenc_model *m, char *memory)
{
    size_t R = (size_t)m->c.batch * m->c.context, used = 0, entries = 2 * (size_t)m->span + 1;
#define PE__PLACE(field, type, count) \
    m->in.field = memory ? (type *)(void *)(memory + used) : NULL; \
    used += ((count) * sizeof(type) + 63) / 64 * 64
    PE__PLACE(positions, double, R * m->axes);
    PE__PLACE(frequency[0], double, (size_t)m->rotated * (m->axes + 1));
    PE__PLACE(frequency[1], double, (size_t)m->rotated * (m->axes + 1));
    PE__PLACE(tokens, int, R);
    PE__PLACE(targets, int, R);
    PE__PLACE(segments, int, R);
    PE__PLACE(types, int, m->c.token_types ? R : 0);
    PE__PLACE(at, int, R);
    PE__PLACE(keep, unsigned char, R);
    for (int e = 0; e < m->specs; e++) {
        m->in.bucket[e] = NULL;
        if (m->card[e]->bucket) { PE__PLACE(bucket[e], int, entries); }
    }
#undef PE__PLACE
    return used;
}

/* ---- [7.4] configuration --------------------------------------------------------------------- */

#define PE__CONFIG_INT(key, low, high)  { #key, 'i', offsetof(posenc_config, key), low, high, NULL }
#define PE__CONFIG_RATE(key)            { #key, 'd', offsetof(posenc_config, key), 0, 1, NULL }
#define PE__CONFIG_WORD(key, words)     { #key, 'w', offsetof(posenc_config, key), 0, 0, words }
static const pe__field pe__config_fields[] = {
    PE__CONFIG_INT(vocab, 1, 1 << 24),          PE__CONFIG_INT(context, 1, 1 << 24),
    PE__CONFIG_INT(classes, 0, 1 << 24),        PE__CONFIG_INT(batch, 0, 1 << 20),
    PE__CONFIG_INT(layers, 0, 4096),            PE__CONFIG_INT(channels, 0, 1 << 17),
    PE__CONFIG_INT(heads, 0, 4096),             PE__CONFIG_INT(kv_heads, 0, 4096),
    PE__CONFIG_INT(head_channels, 0, 1 << 17),  PE__CONFIG_INT(token_types, 0, 1 << 24),
    PE__CONFIG_INT(parallel, 0, 1),
    PE__CONFIG_INT(hidden, 0, 1 << 20),         PE__CONFIG_INT(causal, 0, 1),
    PE__CONFIG_INT(window, 0, 1 << 24),         PE__CONFIG_INT(mask_padding, 0, 1),
    PE__CONFIG_INT(padding_token, 0, 1 << 24),  PE__CONFIG_WORD(norm, "layernorm|rmsnorm|none"),
    PE__CONFIG_WORD(norm_place, "pre|post"),    PE__CONFIG_INT(embedding_norm, 0, 1),
    { "norm_eps", 'd', offsetof(posenc_config, norm_eps), 0, 1, NULL },
    PE__CONFIG_WORD(activation, "relu|gelu|gelu_tanh|silu|swiglu|geglu|geglu_tanh"),
    PE__CONFIG_INT(no_residual, 0, 1),
    PE__CONFIG_INT(no_bias, 0, 1),              PE__CONFIG_WORD(qk_norm, "off|before|after"),
    PE__CONFIG_INT(tied_head, 0, 1),            PE__CONFIG_INT(scale_embedding, 0, 1),
    { "attention_scale", 'd', offsetof(posenc_config, attention_scale), 0, 1e6, NULL },
    { "embedding_init",  'd', offsetof(posenc_config, embedding_init),  0, 1e3, NULL },
    PE__CONFIG_RATE(dropout_embedding),         PE__CONFIG_RATE(dropout_attention),
    PE__CONFIG_RATE(dropout_branch),            PE__CONFIG_RATE(dropout_hidden),
    PE__CONFIG_WORD(precision, "fp32|bf16"),
    PE__CONFIG_INT(inference, 0, 1),            PE__CONFIG_INT(recompute, 0, 1),
    PE__CONFIG_INT(threads, 0, 1024),
    { "seed", 'u', offsetof(posenc_config, seed), 0, 0, NULL }
};
enum { PE__CONFIG_FIELDS = sizeof pe__config_fields / sizeof *pe__config_fields };

static posenc_status pe__config_word(posenc_config *c, char spec[POSENC_SPEC_TEXT], pe__word key,
                                     pe__word value, posenc_error *why)
{
    if (pe__is(key, "encoding")) {
        if (value.n >= POSENC_SPEC_TEXT)
            return pe__fail(why, POSENC_BAD_CONFIG,
                            "the encoding has %lu characters, at most %d fit",
                            (unsigned long)value.n, POSENC_SPEC_TEXT - 1);
        memcpy(spec, value.at, value.n);
        spec[value.n] = 0;
        c->encoding = spec;
        return POSENC_OK;
    }
    for (int i = 0; i < PE__CONFIG_FIELDS; i++) {
        if (!pe__is(key, pe__config_fields[i].key)) continue;
        if (pe__field_read(c, &pe__config_fields[i], value)) return POSENC_OK;
        return pe__fail(why, POSENC_BAD_CONFIG, "config: %s cannot be '%.*s'",
                        pe__config_fields[i].key, (int)(value.n < 40 ? value.n : 40), value.at);
    }
    return pe__fail(why, POSENC_BAD_CONFIG, "config: unknown key '%.*s'",
                    (int)(key.n < 40 ? key.n : 40), key.at);
}

POSENC_DEF posenc_status posenc_config_parse(posenc_config *c, char spec[POSENC_SPEC_TEXT],
                                             const char *text, posenc_error *why)
{
    posenc_status status = POSENC_OK;
    while (status == POSENC_OK && *(text += strspn(text, " \t\n"))) {
        pe__word key = pe__cut(&text, "= \t\n"), value;
        if (*text != '=')
            return pe__fail(why, POSENC_BAD_CONFIG, "config: '%.*s' needs a value, as in key=value",
                            (int)(key.n < 40 ? key.n : 40), key.at);
        text++;
        value = pe__cut(&text, " \t\n");
        status = pe__config_word(c, spec, key, value, why);
    }
    return status;
}

POSENC_DEF size_t posenc_config_print(char *text, size_t room, const posenc_config *c)
{
    pe__text t = { NULL, 0, 0 };
    t.at = text;
    t.room = room;
    if (room) *text = 0;
    pe__say(&t, "encoding=%s", c->encoding && *c->encoding ? c->encoding : "none");
    for (int i = 0; i < PE__CONFIG_FIELDS; i++) pe__field_print(&t, c, &pe__config_fields[i], " ");
    return t.used;
}

static posenc_status pe__config_range(const posenc_config *c, posenc_error *why)
{
    posenc_status status = POSENC_OK;
    for (int i = 0; i < PE__CONFIG_FIELDS && status == POSENC_OK; i++)
        status = pe__field_range(c, &pe__config_fields[i], 0, why);
    return status;
}

static void pe__config_defaults(posenc_config *c)
{
    if (!c->batch) c->batch = 1;
    if (!c->layers) c->layers = 2;
    if (!c->channels) c->channels = 64;
    if (!c->heads) c->heads = 4;
    if (!c->kv_heads) c->kv_heads = c->heads;
    if (!c->head_channels && c->channels % c->heads == 0) c->head_channels = c->channels / c->heads;
    if (!c->hidden) c->hidden = 4 * c->channels;
    if (c->norm_eps == 0) c->norm_eps = 1e-5;
    if (c->embedding_init == 0) c->embedding_init = 0.02;
    if (c->attention_scale == 0) c->attention_scale = 1 / sqrt(pe__max(1, c->head_channels));
    if (!c->threads) c->threads = posenc_threads();
    if (!c->backend) c->backend = posenc_cpu_backend();
}

static posenc_status pe__config_check(const posenc_config *c, posenc_error *why)
{
    double rows = (double)c->batch * c->context;
    if (!c->head_channels)
        return pe__fail(why, POSENC_BAD_CONFIG, "heads %d does not divide channels %d, and head_channels "
                        "does not say how wide a head is", c->heads, c->channels);
    if (c->parallel && c->norm_place == POSENC_POST_NORM)
        return pe__fail(why, POSENC_BAD_CONFIG, "parallel branches are for pre-norm blocks");
    if (c->parallel && c->no_residual)
        return pe__fail(why, POSENC_BAD_CONFIG, "no_residual: parallel branches are added up in any case");
    if (c->embedding_norm && c->norm == POSENC_NO_NORM)
        return pe__fail(why, POSENC_BAD_CONFIG, "embedding_norm=1 asks for a norm, and norm is none");
    if (c->heads % c->kv_heads)
        return pe__fail(why, POSENC_BAD_CONFIG, "kv_heads %d does not divide heads %d", c->kv_heads,
                        c->heads);
    if (rows * c->heads > INT_MAX || rows * c->channels > 1e15
        || (double)c->heads * c->head_channels > 1 << 24)
        return pe__fail(why, POSENC_BAD_CONFIG,
                        "batch %d x context %d x heads %d of %d is more than this can count", c->batch,
                        c->context, c->heads, c->head_channels);
    if (c->precision == POSENC_BF16 && !c->backend->linear_forward_bf16)
        return pe__fail(why, POSENC_BAD_CONFIG, "precision=bf16: the back end %s multiplies in fp32 only",
                        c->backend->name);
    if (c->tied_head && c->classes)
        return pe__fail(why, POSENC_BAD_CONFIG,
                        "tied_head is for next-token models, this one has %d classes", c->classes);
    if (c->mask_padding && c->padding_token >= c->vocab)
        return pe__fail(why, POSENC_BAD_CONFIG, "padding_token %d is outside the vocabulary of %d",
                        c->padding_token, c->vocab);
    return POSENC_OK;
}

static const char pe__name_letters[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";

/* an encoding of the caller's own: a name of its own, and one thing that it does */
static posenc_status pe__custom_check(const posenc_config *c, posenc_error *why)
{
    pe__customs own = pe__model_customs(c), before;
    for (int i = 0; i < own.n; i++) {
        const posenc_custom *u = &own.list[i];
        pe__word name;
        int does = (u->row != NULL) + (u->frequency != NULL) + (u->bias != NULL);
        if (!u->name || !u->name[0] || strspn(u->name, pe__name_letters) != strlen(u->name)
            || strlen(u->name) > 32)
            return pe__fail(why, POSENC_BAD_CONFIG, "encoding %d of your own needs a name of 1 to 32 "
                            "letters, digits and _ . -", i);
        name.at = u->name;
        name.n = strlen(u->name);
        before.list = own.list;
        before.n = i;
        if (pe__encoding_named(name, before) >= 0)
            return pe__fail(why, POSENC_BAD_CONFIG, "'%s' is an encoding already; yours needs another "
                            "name", u->name);
        if (does != 1 || (u->frequency && u->parameters) || u->parameters < 0)
            return pe__fail(why, POSENC_BAD_CONFIG, "%s has %d of the callbacks row, frequency and bias "
                            "and %d parameters; it needs one, and a frequency learns nothing", u->name,
                            does, u->parameters);
        if (u->parameters && (u->row ? !u->row_backward : !u->bias_backward))
            return pe__fail(why, POSENC_BAD_CONFIG, "%s learns %d parameters and has no backward",
                            u->name, u->parameters);
    }
    return POSENC_OK;
}

/* one turns, one tempers, one lays tokens out on a line of its own: a second is refused by name */
static posenc_status pe__model_only(posenc_model *m, int *place, int e, const char *what,
                                    posenc_error *why)
{
    if (*place >= 0)
        return pe__fail(why, POSENC_BAD_CONFIG, "%s and %s both %s; a model takes one",
                        pe__model_encoding(m, *place), pe__model_encoding(m, e), what);
    *place = e;
    return POSENC_OK;
}

static posenc_status pe__model_turner(posenc_model *m, int e, posenc_error *why)
{
    posenc_spec *s = &m->spec[e];
    posenc_status status = pe__model_only(m, &m->turner, e, "turn queries and keys", why);
    if (m->own[e]) {
        s->dim = m->c.head_channels / 2 * 2;
        s->layout = POSENC_HALF;
        s->center = 0;
    }
    m->rotated = s->dim / 2;
    m->axes = pe__axes_of(s);
    m->twofold = s->encoding == POSENC_XPOS;
    m->turn_apart = s->over == POSENC_OVER_WIDTH || m->c.qk_norm == POSENC_QK_NORM_AFTER;
    if (s->over == POSENC_OVER_WIDTH && m->c.kv_heads != m->c.heads)
        return pe__fail(why, POSENC_BAD_CONFIG, "%s:over=width turns queries and keys alike, and %d heads "
                        "share %d heads of keys", pe__model_encoding(m, e), m->c.heads, m->c.kv_heads);
    if (m->rotated < 1)
        return pe__fail(why, POSENC_BAD_CONFIG, "%s turns pairs, and a head has %d channels",
                        pe__model_encoding(m, e), m->c.head_channels);
    return status;
}

/* what encoding e asks of the model */
static posenc_status pe__model_wants(posenc_model *m, int e, posenc_error *why)
{
    const pe__card *card = m->card[e];
    const posenc_spec *s = &m->spec[e];
    posenc_status status = POSENC_OK;
    int biases = card->bias || card->bucket || card->curve || (m->own[e] && m->own[e]->bias);
    if (biases && m->biased && (s->encoding == POSENC_SWIN || m->placer >= 0))
        return pe__fail(why, POSENC_BAD_CONFIG, "swin counts distances in its own way and takes no other "
                        "bias beside it");
    if (biases) m->biased = 1;
    if (card->bucket) m->span = pe__max(m->span, s->distance);
    if (s->encoding == POSENC_SWIN) m->placer = e;
    if (s->per_layer) m->biased_by_layer = 1;
    if (card->temperature) status = pe__model_only(m, &m->temper, e, "temper queries", why);
    if (card->rotate || (m->own[e] && m->own[e]->frequency)) status = pe__model_turner(m, e, why);
    return status;
}

/* Reads the encodings of a config, lets each card fill in its defaults, and notes what they ask
   of the model: who turns, how far biases reach.                                                 */
static posenc_status pe__model_specs(posenc_model *m, posenc_error *why)
{
    posenc_shape g = pe__model_shape(&m->c);
    pe__customs own = pe__model_customs(&m->c);
    posenc_status status = pe__custom_check(&m->c, why);
    if (status == POSENC_OK)
        status = pe__spec_read(m->spec, &m->specs, POSENC_SPECS, m->c.encoding, own, why);
    m->turner = m->temper = m->placer = -1;
    m->axes = 1;
    m->span = m->c.context - 1;
    for (int e = 0; e < m->specs && status == POSENC_OK; e++) {
        posenc_spec *s = &m->spec[e];
        int mine = s->encoding - POSENC_ENCODING_COUNT;
        m->card[e] = pe__card_of(s);
        m->own[e] = mine >= 0 ? &own.list[mine] : NULL;
        for (int earlier = 0; earlier < e; earlier++)
            if (m->spec[earlier].encoding == s->encoding)
                return pe__fail(why, POSENC_BAD_CONFIG, "%s appears twice in the encoding",
                                pe__model_encoding(m, e));
        if (m->card[e]->check) status = m->card[e]->check(s, &g, why);
        if (status == POSENC_OK) status = pe__model_wants(m, e, why);
    }
    if (status != POSENC_OK) return status;
    if (pe__spec_write(m->spec_text, sizeof m->spec_text, m->spec, m->specs, own) >= POSENC_SPEC_TEXT)
        return pe__fail(why, POSENC_BAD_CONFIG, "the encoding with all its defaults has more than %d "
                        "characters", POSENC_SPEC_TEXT - 1);
    m->c.encoding = m->spec_text;
    return status;
}

/* everything that can be known without memory: config checked and completed, sizes counted */
static posenc_status pe__model_plan(posenc_model *m, const posenc_config *c, posenc_error *why)
{
    pe__lister params = { NULL, 0, 0, 0, NULL }, acts = { NULL, 0, 0, 0, NULL };
    posenc_status status;
    memset(m, 0, sizeof *m);
    m->c = *c;
    if ((status = pe__config_range(&m->c, why)) != POSENC_OK) return status;
    pe__config_defaults(&m->c);
    if ((status = pe__config_range(&m->c, why)) != POSENC_OK) return status;
    if ((status = pe__config_check(&m->c, why)) != POSENC_OK) return status;
    if ((status = pe__model_specs(m, why)) != POSENC_OK) return status;
    pe__list_parameters(m, &params);
    pe__list_activations(m, &acts);
    m->acts_n = acts.n;
    pe__list_work(m, &acts);
    m->params_n = params.n;
    m->param_floats = params.floats;
    m->act_floats = acts.floats;
    m->input_bytes = pe__place_inputs(m, NULL);
    m->ops = m->c.backend;
    if (params.too_big || acts.too_big)
        return pe__fail(why, POSENC_BAD_CONFIG, "this model does not fit in the address space");
    return POSENC_OK;
}

static size_t pe__own_bytes(void) { return (sizeof(posenc_model) + 63) / 64 * 64; }

/* the host's own block: tables, and the host side of a batch */
static size_t pe__host_bytes(posenc_model *m, char *memory)
{
    size_t used = 0, R = (size_t)m->c.batch * m->c.context;
    size_t floats = R > (size_t)m->c.channels ? R : (size_t)m->c.channels;
#define PE__PLACE(field, type, count)                                                              \
    if (memory) m->field = (type *)(void *)(memory + used);                                        \
    used += ((count) * sizeof(type) + 63) / 64 * 64
    size_t own = 0;
    for (int e = 0; e < m->specs; e++) {
        size_t filled = (size_t)pe__rows_filled(&m->spec[e], (int)R, m->c.channels);
        if (m->own[e] && m->own[e]->row) filled = R * m->c.channels;
        if (m->own[e] && m->own[e]->bias) filled = (size_t)m->c.heads * (2 * (size_t)m->span + 1);
        if (filled > floats) floats = filled;
        if (m->own[e] && (size_t)m->own[e]->parameters > own) own = (size_t)m->own[e]->parameters;
    }
    PE__PLACE(slot, pe__slot, (size_t)m->params_n + m->acts_n);
    PE__PLACE(block, pe__block, (size_t)m->c.layers);
    PE__PLACE(kept, pe__block_saved, (size_t)m->c.layers);
    PE__PLACE(host_positions, double, R * POSENC_AXES);
    PE__PLACE(host_axes, double, R * POSENC_AXES);
    PE__PLACE(host_frequency, double, (size_t)(POSENC_AXES + 1) * m->rotated);
    PE__PLACE(host_at, int, R);
    PE__PLACE(host_segments, int, R);
    PE__PLACE(host_keep, unsigned char, R);
    PE__PLACE(host_floats, posenc_float, floats);
    PE__PLACE(host_own, posenc_float, 2 * own);
#undef PE__PLACE
    return used;
}

static int pe__keeps_half(const posenc_config *c)
{
    return c->inference && c->precision == POSENC_BF16 && c->backend->linear_few_bf16;
}

POSENC_DEF posenc_status posenc_model_bytes(posenc_bytes *bytes, const posenc_config *c,
                                            posenc_error *why)
{
    posenc_model plan;
    posenc_status status = pe__model_plan(&plan, c, why);
    memset(bytes, 0, sizeof *bytes);
    if (status != POSENC_OK) return status;
    bytes->parameters = plan.param_floats * sizeof(posenc_float);
    if (pe__keeps_half(&plan.c)) bytes->parameters += plan.param_floats * sizeof(uint16_t);
    bytes->gradients = plan.c.inference ? 0 : bytes->parameters;
    bytes->moments = 2 * bytes->gradients;
    bytes->activations = plan.act_floats * sizeof(posenc_float) + plan.input_bytes
                       + pe__own_bytes() + pe__host_bytes(&plan, NULL);
    bytes->total = bytes->parameters + bytes->gradients + bytes->moments + bytes->activations;
    return POSENC_OK;
}

/* ---- [7.5] making a model -------------------------------------------------------------------- */

static uint32_t pe__name_hash(const char *name)     /* FNV-1a: a tensor's random site is its name */
{
    uint32_t hash = 2166136261u;
    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash;
}

static double pe__initial(const pe__slot *s, uint64_t seed, uint32_t site, size_t i)
{
    switch (s->init) {
    case PE__ONE:     return 1;
    case PE__NORMAL:  return s->spread * pe__normal(seed, site, i);
    case PE__UNIFORM: return s->spread * (2 * pe__uniform(seed, site, i) - 1);
    case PE__POSITIVE: return s->spread / (1.0 + i % s->t.shape[1]) * pe__uniform(seed, site, i);
    case PE__SLOPES:  return log(pe__alibi_slope((int)i, s->t.shape[0], s->spread));
    case PE__CONSTANT: return s->spread;
    default:          return 0;
    }
}

/* first values, a piece at a time so that no second copy of the model is needed */
static void pe__fill_tensor(posenc_model *m, const pe__slot *s)
{
    enum { PIECE = 8192 };
    posenc_float piece[PIECE];
    uint32_t site = pe__name_hash(s->t.name);
    int threads = s->t.count < PIECE ? 1 : m->c.threads;
    (void)threads;
    if (s->own && s->own->start) {
        memset(m->host_own, 0, s->t.count * sizeof *m->host_own);
        s->own->start(s->own->user, m->host_own);
        m->ops->upload(m->ops->user, s->t.data, m->host_own, s->t.count * sizeof *m->host_own);
        return;
    }
    if (s->init == PE__WAVES) {
        for (int row = 0; row < s->t.shape[0]; row++) {
            double p = row;
            posenc_sinusoidal(m->host_floats, &p, 1, s->t.shape[1], s->spread);
            m->ops->upload(m->ops->user, s->t.data + (size_t)row * s->t.shape[1], m->host_floats,
                           (size_t)s->t.shape[1] * sizeof(posenc_float));
        }
        return;
    }
    for (size_t at = 0; at < s->t.count; at += PIECE) {
        int n = (int)pe__least(s->t.count - at, PIECE);
        PE__PARALLEL_ON(threads)
        for (int i = 0; i < n; i++) piece[i] = PE__F(pe__initial(s, m->c.seed, site, at + (size_t)i));
        m->ops->upload(m->ops->user, s->t.data + at, piece, (size_t)n * sizeof *piece);
    }
}

static double pe__fixed_bias(const posenc_model *m, int h, int distance)
{
    double sum = 0;
    for (int e = 0; e < m->specs; e++) {
        const posenc_custom *own = m->own[e];
        if (m->card[e]->bias) sum += m->card[e]->bias(&m->spec[e], h, m->c.heads, distance);
        if (own && own->bias && !own->parameters)
            sum += own->bias(own->user, h, m->c.heads, distance, NULL);
    }
    return sum;
}

/* Frequencies of q and k, on the host and in the back end's memory. Two scalings read the length: they
   are filled in anew when it changes.                                                            */
static void pe__fill_frequencies(posenc_model *m, double length)
{
    const posenc_spec *s = &m->spec[pe__max(0, m->turner)];
    const posenc_custom *own = m->own[pe__max(0, m->turner)];
    int reads = s->scaling == POSENC_DYNAMIC || s->scaling == POSENC_LONGROPE;
    size_t count = (size_t)m->rotated * (m->axes + 1);
    if (m->turner < 0 || (m->turned_length > 0 && (!reads || m->turned_length == length))) return;
    for (int key = 0; key < 2; key++) {
        posenc_rotation *r = &m->rotation[key];
        memset(r, 0, sizeof *r);
        if (own) {
            memset(m->host_frequency, 0, count * sizeof(double));
            for (int i = 0; i < m->rotated; i++)
                m->host_frequency[i] = own->frequency(own->user, i, m->rotated);
            r->pairs = m->rotated;
            r->axes = 1;
        } else {
            *r = posenc_spec_rotation(m->host_frequency, s, key, length);
        }
        m->ops->upload(m->ops->user, m->in.frequency[key], m->host_frequency, count * sizeof(double));
        r->frequency = m->in.frequency[key];
        if (r->growth) r->growth = m->in.frequency[key] + (size_t)m->rotated * m->axes;
    }
    m->turned_length = length;
}

/* constants of the encodings that never change: frequencies, buckets, fixed biases */
static void pe__fill_constants(posenc_model *m)
{
    enum { PIECE = 256 };
    const posenc_backend *ops = m->ops;
    int n = 2 * m->span + 1, H = m->c.heads;
    pe__fill_frequencies(m, m->c.context);
    for (int e = 0; e < m->specs; e++) {
        for (int i = 0; i < n && m->card[e]->bucket; i += PIECE) {
            int row[PIECE], count = pe__min(PIECE, n - i);
            for (int j = 0; j < count; j++)
                row[j] = m->card[e]->bucket(&m->spec[e], i + j - m->span);
            ops->upload(ops->user, m->in.bucket[e] + i, row, (size_t)count * sizeof *row);
        }
    }
    for (int h = 0; h < H && m->biased; h++) {
        for (int i = 0; i < n; i += PIECE) {
            posenc_float sum[PIECE];
            int count = pe__min(PIECE, n - i);
            for (int j = 0; j < count; j++) sum[j] = PE__F(pe__fixed_bias(m, h, i + j - m->span));
            ops->upload(ops->user, m->w.bias_fixed + (size_t)h * n + i, sum,
                        (size_t)count * sizeof *sum);
        }
    }
}

static void pe__model_place(posenc_model *m)
{
    pe__lister params = { NULL, 0, 0, 0, NULL }, acts = { NULL, 0, 0, 0, NULL };
    params.slot = m->slot;
    params.arena = m->params;
    acts.slot = m->slot + m->params_n;
    acts.arena = m->acts;
    pe__list_parameters(m, &params);
    pe__list_activations(m, &acts);
    pe__list_work(m, &acts);
    pe__place_inputs(m, (char *)m->input_arena);
    for (int i = 0; i < m->params_n && m->grads; i++) {
        posenc_tensor *t = &m->slot[i].t;
        size_t offset = (size_t)(t->data - m->params);
        t->grad = m->grads + offset;
        t->moment1 = m->moments + offset;
        t->moment2 = m->moments + m->param_floats + offset;
    }
}

static int pe__model_allocate(posenc_model *m)
{
    const posenc_backend *ops = m->ops;
    size_t bytes = m->param_floats * sizeof(posenc_float);
    m->params = (posenc_float *)ops->alloc(ops->user, bytes);
    m->acts = (posenc_float *)ops->alloc(ops->user, m->act_floats * sizeof(posenc_float));
    m->input_arena = ops->alloc(ops->user, m->input_bytes);
    if (!m->params || !m->acts || !m->input_arena) return 0;
    ops->zero(ops->user, m->params, bytes); /* the gaps between tensors are never read, but
                                                              a checker should not wonder         */
    ops->zero(ops->user, m->acts, m->act_floats * sizeof(posenc_float));
    if (pe__keeps_half(&m->c)) {
        m->half = (uint16_t *)ops->alloc(ops->user, m->param_floats * sizeof *m->half);
        if (!m->half) return 0;
    }
    if (m->c.inference) return 1;
    m->grads = (posenc_float *)ops->alloc(ops->user, bytes);
    m->moments = (posenc_float *)ops->alloc(ops->user, 2 * bytes);
    if (!m->grads || !m->moments) return 0;
    ops->zero(ops->user, m->grads, bytes);
    ops->zero(ops->user, m->moments, 2 * bytes);
    return 1;
}

POSENC_DEF posenc_status posenc_model_create(posenc_model **out, const posenc_config *c,
                                             posenc_error *why)
{
    posenc_model plan, *m;
    posenc_status status = pe__model_plan(&plan, c, why);
    size_t own = pe__own_bytes();
    *out = NULL;
    if (status != POSENC_OK) return status;
    m = (posenc_model *)POSENC_MALLOC(own + pe__host_bytes(&plan, NULL));
    if (!m) return pe__fail(why, POSENC_OUT_OF_MEMORY, "no memory for the model's tables");
    *m = plan;
    m->c.encoding = m->spec_text;
    pe__host_bytes(m, (char *)m + own);
    if (!pe__model_allocate(m)) {
        double gigabytes = ((m->c.inference ? 1.0 : 4.0) * m->param_floats + m->act_floats)
                         * sizeof(posenc_float) / 1e9;
        posenc_model_free(m);
        return pe__fail(why, POSENC_OUT_OF_MEMORY,
                        "no memory for a model of %.3g GB; a smaller batch (%d) or "
                        "context (%d) takes less",
                        gigabytes, plan.c.batch, plan.c.context);
    }
    pe__model_place(m);
    for (int i = 0; i < m->params_n; i++) pe__fill_tensor(m, &m->slot[i]);
    pe__fill_constants(m);
    *out = m;
    return POSENC_OK;
}

POSENC_DEF void posenc_model_free(posenc_model *m)
{
    const posenc_backend *ops;
    if (!m) return;
    ops = m->ops;
    if (m->params) ops->release(ops->user, m->params);
    if (m->grads) ops->release(ops->user, m->grads);
    if (m->moments) ops->release(ops->user, m->moments);
    if (m->half) ops->release(ops->user, m->half);
    if (m->acts) ops->release(ops->user, m->acts);
    if (m->input_arena) ops->release(ops->user, m->input_arena);
    POSENC_FREE(m);
}

POSENC_DEF const posenc_config *posenc_model_config(const posenc_model *m) { return &m->c; }
POSENC_DEF uint64_t posenc_model_steps(const posenc_model *m) { return m->steps; }
POSENC_DEF int posenc_model_parameters(const posenc_model *m) { return m->params_n; }
POSENC_DEF int posenc_model_activations(const posenc_model *m) { return m->acts_n; }

POSENC_DEF posenc_tensor *posenc_model_parameter(posenc_model *m, int i)
{
    return i >= 0 && i < m->params_n ? &m->slot[i].t : NULL;
}
POSENC_DEF posenc_tensor *posenc_model_activation(posenc_model *m, int i)
{
    return i >= 0 && i < m->acts_n ? &m->slot[m->params_n + i].t : NULL;
}
POSENC_DEF posenc_tensor *posenc_model_find(posenc_model *m, const char *name)
{
    for (int i = 0; i < m->params_n + m->acts_n; i++)
        if (!strcmp(m->slot[i].t.name, name)) return &m->slot[i].t;
    return NULL;
}
POSENC_DEF size_t posenc_model_numbers(const posenc_model *m)
{
    size_t n = 0;
    for (int i = 0; i < m->params_n; i++) n += m->slot[i].t.count;
    return n;
}
POSENC_DEF void posenc_model_get(posenc_model *m, posenc_float *host, const posenc_float *data,
                                 size_t n)
{
    m->ops->download(m->ops->user, host, data, n * sizeof *host);
}
POSENC_DEF void posenc_model_set(posenc_model *m, posenc_float *data, const posenc_float *host,
                                 size_t n)
{
    m->ops->upload(m->ops->user, data, host, n * sizeof *host);
    m->half_ready = 0;
}

/* ---- [7.6] taking in a batch --------------------------------------------------------------------
   Everything a caller hands over is checked here, once, and nothing behind this point can be out
   of range.                                                                                      */

static posenc_status pe__check_ids(const posenc_model *m, const posenc_batch *b, posenc_error *why)
{
    int R = b->B * b->T, V = m->c.vocab, classes = m->c.classes, targets = classes ? b->B : R;
    int most = classes ? classes : V;
    for (int r = 0; r < R; r++)
        if (b->tokens[r] < 0 || b->tokens[r] >= V)
            return pe__fail(why, POSENC_BAD_INPUT,
                            "token %d at row %d, place %d is outside the vocabulary of %d",
                            b->tokens[r], r / b->T, r % b->T, V);
    for (int r = 0; b->types && r < R; r++)
        if (b->types[r] < 0 || b->types[r] >= m->c.token_types)
            return pe__fail(why, POSENC_BAD_INPUT,
                            "type %d at row %d, place %d is outside the model's %d token types",
                            b->types[r], r / b->T, r % b->T, m->c.token_types);
    for (int r = 0; b->targets && r < targets; r++)
        if (b->targets[r] != POSENC_IGNORE && (b->targets[r] < 0 || b->targets[r] >= most))
            return pe__fail(why, POSENC_BAD_INPUT, "target number %d is %d, outside 0 to %d", r,
                            b->targets[r], most - 1);
    return POSENC_OK;
}

static posenc_status pe__check_batch(const posenc_model *m, const posenc_batch *b, int targets,
                                     posenc_error *why)
{
    if (b->B < 1 || b->B > m->c.batch || b->T < 1 || b->T > m->c.context)
        return pe__fail(why, POSENC_BAD_INPUT,
                        "a batch of %d x %d does not fit the model's %d x %d", b->B, b->T,
                        m->c.batch, m->c.context);
    if (!b->tokens || (targets && !b->targets))
        return pe__fail(why, POSENC_BAD_INPUT, "the batch has no %s",
                        b->tokens ? "targets" : "tokens");
    return pe__check_ids(m, b, why);
}

/* A fixed bias is tabulated up to the context's length, and positions may not lie further apart. A
   learned table is the same for all distances beyond its end, which the tabulation covers.       */
static posenc_status pe__check_reach(const posenc_model *m, int e, int b, int T, posenc_error *why)
{
    const double *p = m->host_positions + (size_t)b * T * m->given;
    const posenc_custom *own = m->own[e];
    double low = p[0], high = p[0];
    if (!m->card[e]->bias && !m->card[e]->curve && !(own && own->bias)) return POSENC_OK;
    for (int t = 0; t < T; t++) {
        low = fmin(low, p[(size_t)t * m->given]);
        high = fmax(high, p[(size_t)t * m->given]);
    }
    if (high - low <= m->span) return POSENC_OK;
    return pe__fail(why, POSENC_BAD_INPUT,
                    "positions %.0f and %.0f are more than %d apart; raise context for %s", low, high,
                    m->span, pe__model_encoding(m, e));
}

/* host_axes: where the tokens of a batch stand for encoding e */
static void pe__batch_coordinates(posenc_model *m, int e, int rows)
{
    posenc_spec_coordinates(m->host_axes, &m->spec[e], m->host_positions, m->given, rows);
}

static posenc_status pe__check_positions(posenc_model *m, int e, int B, int T, posenc_error *why)
{
    const posenc_custom *own = m->own[e];
    int axes = pe__axes_of(&m->spec[e]);
    posenc_status status = POSENC_OK;
    if (m->given > 1 && axes > 1 && axes != m->given)
        return pe__fail(why, POSENC_BAD_INPUT, "%s reads %d coordinates of a token, and the batch has %d",
                        pe__model_encoding(m, e), axes, m->given);
    pe__batch_coordinates(m, e, B * T);
    for (int i = 0; i < B * T * axes && status == POSENC_OK; i++) {
        double p = m->host_axes[i];
        int row = i / axes / T, place = i / axes % T;
        status = pe__check_position(&m->spec[e], pe__model_encoding(m, e), p, i % axes, row, place, why);
        if (status == POSENC_OK && own && own->bias && (p != floor(p) || fabs(p) > 1e9))
            return pe__fail(why, POSENC_BAD_INPUT,
                            "%s needs whole positions, and place %d of row %d has %g",
                            pe__model_encoding(m, e), place, row, p);
    }
    for (int b = 0; b < B && status == POSENC_OK; b++) status = pe__check_reach(m, e, b, T, why);
    return status;
}

/* what the encodings need of positions, in the back end's memory */
static void pe__send_positions(posenc_model *m, int R)
{
    const posenc_backend *ops = m->ops;
    double length = 0;
    for (int r = 0; r < R; r++) length = fmax(length, m->host_positions[(size_t)r * m->given] + 1);
    pe__fill_frequencies(m, length);
    for (int r = 0; r < R; r++) {                   /* read only where the check found them whole */
        double at[POSENC_AXES];
        pe__coordinates(at, m->host_positions + (size_t)r * m->given, m->given,
                        &m->spec[pe__max(0, m->placer)]);
        m->host_at[r] = m->placer >= 0 ? posenc_spec_place(&m->spec[m->placer], at)
                                       : posenc_spec_place(&m->spec[0], m->host_positions
                                                                        + (size_t)r * m->given);
    }
    ops->upload(ops->user, m->in.at, m->host_at, (size_t)R * sizeof(int));
    for (int r = 0; r < R && m->temper >= 0; r++)
        m->host_floats[r] = PE__F(pe__temperature(&m->spec[m->temper],
                                                  m->host_positions[(size_t)r * m->given]));
    if (m->temper >= 0)
        ops->upload(ops->user, m->w.tau, m->host_floats, (size_t)R * sizeof(posenc_float));
    if (m->turner < 0) return;
    pe__batch_coordinates(m, m->turner, R);
    ops->upload(ops->user, m->in.positions, m->host_axes, (size_t)R * m->axes * sizeof(double));
}

static posenc_status pe__take_positions(posenc_model *m, const posenc_batch *b, posenc_error *why)
{
    int R = b->B * b->T, given = b->positions ? pe__max(1, b->axes) : 1;
    posenc_status status = POSENC_OK;
    if (given > POSENC_AXES)
        return pe__fail(why, POSENC_BAD_INPUT, "a token has %d coordinates, and %d are the most", given,
                        POSENC_AXES);
    m->given = given;
    for (int i = 0; i < R * given; i++)
        m->host_positions[i] = b->positions ? b->positions[i] : i % b->T;
    for (int e = 0; e < m->specs && status == POSENC_OK; e++) {
        int rows = m->spec[e].rows - m->spec[e].offset;
        if (!b->positions && m->card[e]->lookup && b->T > rows)
            return pe__fail(why, POSENC_BAD_INPUT, "%d tokens, but the table of %s has %d rows", b->T,
                            pe__model_encoding(m, e), rows);
        if (b->positions) status = pe__check_positions(m, e, b->B, b->T, why);
    }
    if (status == POSENC_OK) pe__send_positions(m, R);
    return status;
}

static posenc_status pe__take_batch(posenc_model *m, const posenc_batch *b, int targets,
                                    posenc_error *why)
{
    const posenc_backend *ops = m->ops;
    size_t R = (size_t)b->B * b->T;
    posenc_status status;
    m->ready = m->extended = 0;
    if ((status = pe__check_batch(m, b, targets, why)) != POSENC_OK) return status;
    if ((status = pe__take_positions(m, b, why)) != POSENC_OK) return status;
    ops->upload(ops->user, m->in.tokens, b->tokens, R * sizeof(int));
    if (b->targets)
        ops->upload(ops->user, m->in.targets, b->targets,
                    (m->c.classes ? (size_t)b->B : R) * sizeof(int));
    if (b->segments) {
        memcpy(m->host_segments, b->segments, R * sizeof(int));
        ops->upload(ops->user, m->in.segments, b->segments, R * sizeof(int));
    }
    if (b->types) ops->upload(ops->user, m->in.types, b->types, R * sizeof(int));
    else if (m->c.token_types) ops->zero(ops->user, m->in.types, R * sizeof(int));
    m->padded = m->c.mask_padding || b->keep != NULL;
    for (size_t r = 0; r < R && m->padded; r++)
        m->host_keep[r] = (!b->keep || b->keep[r])
                       && !(m->c.mask_padding && b->tokens[r] == m->c.padding_token);
    if (m->padded) ops->upload(ops->user, m->in.keep, m->host_keep, R);
    m->B = b->B;
    m->T = b->T;
    m->own_positions = b->positions != NULL;
    m->segmented = b->segments != NULL;
    return POSENC_OK;
}

/* OpenMP keeps its number of threads per host thread, so two models on two threads do not
   disturb each other; the caller's own setting comes back at the end.                            */
static int pe__enter(const posenc_model *m)
{
    int before = posenc_threads();
#ifdef _OPENMP
    omp_set_num_threads(m->c.threads);
#else
    (void)m;
#endif
    return before;
}
static void pe__leave(int before)
{
#ifdef _OPENMP
    omp_set_num_threads(before);
#else
    (void)before;
#endif
}

/* ---- [7.7] forward ------------------------------------------------------------------------------

     tokens -> embedding + [add] -> (norm) -> dropout -> blocks 0 .. L-1 -> norm -> (pool) -> head

     pre-norm  x = x + dropout(attention(norm1(x)))  post-norm  x = norm1(x + dropout(attention(x)))
               x = x + dropout(mlp(norm2(x)))                   x = norm2(x + dropout(mlp(x)))
     parallel  x = x + dropout(attention(norm1(x))) + dropout(mlp(norm2(x)))

   The order of calls in each function below is the model; its backward is the same list read
   upside down.                                                                                   */

/* dropout's numbers: the place in the model, and an index that counts the whole data, not the
   batch                                                                                          */
enum { PE__SITE_MAP, PE__SITE_ATTENTION, PE__SITE_HIDDEN, PE__SITE_MLP, PE__SITE_EMBEDDING,
       PE__SITE_TOKEN };

typedef struct pe__pass {
    int train;
    uint64_t first_sample;
    int again;             /* a block's inside is wanted, as it was; what came out of it is there */
} pe__pass;

static posenc_dropout pe__site(const posenc_model *m, const pe__pass *p, double rate, int layer,
                               int place, size_t width)
{
    posenc_dropout d;
    d.rate = p->train ? rate : 0;
    d.seed = m->c.seed;
    d.step = (uint32_t)m->steps;
    d.site = (uint32_t)(16 * layer + place);
    d.first = p->first_sample * (uint64_t)m->T * width;
    return d;
}

static void pe__drop(posenc_model *m, posenc_float *x, size_t width, posenc_dropout d)
{
    if (d.rate > 0) m->ops->dropout_apply(x, x, (size_t)m->B * m->T * width, d);
}
/* dy behind a branch's last dropout, in room if anything was dropped: dy goes on along the residual */
static const posenc_float *pe__drop_apart(posenc_model *m, posenc_float *room, const posenc_float *dy,
                                          posenc_dropout d)
{
    if (d.rate > 0) m->ops->dropout_apply(room, dy, (size_t)m->B * m->T * m->c.channels, d);
    return d.rate > 0 ? room : dy;
}

static posenc_float *pe__data(const posenc_tensor *t) { return t ? t->data : NULL; }
static posenc_float *pe__grad(const posenc_tensor *t) { return t && !t->frozen ? t->grad : NULL; }

static void pe__norm_forward(posenc_model *m, posenc_float *y, posenc_tensor *mean,
                             posenc_tensor *rstd, const posenc_float *x, posenc_tensor *gain,
                             posenc_tensor *bias)
{
    int R = m->B * m->T, C = m->c.channels;
    if (m->c.norm == POSENC_NO_NORM)
        m->ops->copy(m->ops->user, y, x, (size_t)R * C * sizeof *y);
    else if (m->c.norm == POSENC_RMSNORM)
        m->ops->rmsnorm_forward(y, rstd->data, x, gain->data, m->c.norm_eps, R, C);
    else
        m->ops->layernorm_forward(y, mean->data, rstd->data, x, gain->data, pe__data(bias),
                                  m->c.norm_eps, R, C);
}
static void pe__norm_backward(posenc_model *m, posenc_float *dx, const posenc_float *dy,
                              posenc_tensor *mean, posenc_tensor *rstd, const posenc_float *x,
                              posenc_tensor *gain, posenc_tensor *bias)
{
    int R = m->B * m->T, C = m->c.channels;
    if (m->c.norm == POSENC_NO_NORM) {
        if (dx != dy) m->ops->copy(m->ops->user, dx, dy, (size_t)R * C * sizeof *dx);
    } else if (m->c.norm == POSENC_RMSNORM)
        m->ops->rmsnorm_backward(dx, pe__grad(gain), dy, rstd->data, x, gain->data, R, C);
    else
        m->ops->layernorm_backward(dx, pe__grad(gain), pe__grad(bias), dy, mean->data, rstd->data,
                                   x, gain->data, R, C);
}

static void pe__linear(posenc_model *m, posenc_float *y, const posenc_float *x, posenc_tensor *w,
                       posenc_tensor *b)
{
    int R = m->B * m->T, in = w->shape[1], out = w->shape[0];
    if (m->half && R <= POSENC_FEW_ROWS)
        m->ops->linear_few_bf16(y, x, m->half + (w->data - m->params), pe__data(b), R, in, out);
    else if (m->c.precision == POSENC_BF16)
        m->ops->linear_forward_bf16(y, x, w->data, pe__data(b), R, in, out, m->w.bf16);
    else
        m->ops->linear_forward(y, x, w->data, pe__data(b), R, in, out);
}
static void pe__linear_backward(posenc_model *m, posenc_float *dx, const posenc_float *dy,
                                const posenc_float *x, posenc_tensor *w, posenc_tensor *b, int add)
{
    int R = m->B * m->T, in = w->shape[1], out = w->shape[0];
    if (m->c.precision == POSENC_BF16)
        m->ops->linear_backward_bf16(dx, pe__grad(w), pe__grad(b), dy, x, w->data, R, in, out, add,
                                     m->w.bf16);
    else
        m->ops->linear_backward(dx, pe__grad(w), pe__grad(b), dy, x, w->data, R, in, out, add);
}

/* ---- [7.7.1] the verb add -------------------------------------------------------------------- */

/* the tensors of an encoding, or their gradients */
static void pe__parts_of(posenc_float *list[POSENC_PARTS], posenc_tensor *t[POSENC_PARTS],
                      posenc_float *(*of)(const posenc_tensor *))
{
    for (int i = 0; i < POSENC_PARTS; i++) list[i] = of(t[i]);
}

/* rows for the positions of this batch: T that the batch shares, or B*T of its own */
static void pe__send_rows(posenc_model *m, int e, int rows)
{
    int C = m->c.channels;
    pe__batch_coordinates(m, e, rows);
    pe__rows_fill(m->host_floats, &m->spec[e], m->host_axes, rows, C);
    m->ops->upload(m->ops->user, m->w.rows[e], m->host_floats,
                   pe__rows_filled(&m->spec[e], rows, C) * sizeof(posenc_float));
}

/* the caller's own: parameters to the host, rows made there, and their gradients the same way back */
static void pe__own_parameters(posenc_model *m, int e)
{
    if (m->own[e]->parameters)
        m->ops->download(m->ops->user, m->host_own, m->pe[e][0]->data,
                         (size_t)m->own[e]->parameters * sizeof(posenc_float));
}
static void pe__own_rows(posenc_model *m, int e, posenc_float *x, int batches, int rows)
{
    const posenc_custom *own = m->own[e];
    int C = m->c.channels;
    pe__own_parameters(m, e);
    memset(m->host_floats, 0, (size_t)rows * C * sizeof *m->host_floats);
    for (int r = 0; r < rows; r++)
        own->row(own->user, m->host_floats + (size_t)r * C, m->host_positions[(size_t)r * m->given], C,
                 m->host_own);
    m->ops->upload(m->ops->user, m->w.rows[e], m->host_floats, (size_t)rows * C * sizeof(posenc_float));
    m->ops->rows_forward(x, m->w.rows[e], batches, rows, C);
}
/* adds what the callbacks left in the second half of host_own to the gradient */
static void pe__own_gradient(posenc_model *m, int e)
{
    size_t n = (size_t)m->own[e]->parameters;
    posenc_float *sum = m->host_own + n, *before = m->host_own;
    m->ops->download(m->ops->user, before, m->pe[e][0]->grad, n * sizeof *sum);
    for (size_t i = 0; i < n; i++) sum[i] += before[i];
    m->ops->upload(m->ops->user, m->pe[e][0]->grad, sum, n * sizeof *sum);
}
static void pe__own_rows_backward(posenc_model *m, int e, const posenc_float *dx, int batches, int rows)
{
    const posenc_custom *own = m->own[e];
    size_t n = (size_t)own->parameters, bytes = (size_t)rows * m->c.channels * sizeof(posenc_float);
    int C = m->c.channels;
    if (!n || m->pe[e][0]->frozen) return;
    m->ops->zero(m->ops->user, m->w.rows[e], bytes);
    m->ops->rows_backward(m->w.rows[e], dx, batches, rows, C);
    m->ops->download(m->ops->user, m->host_floats, m->w.rows[e], bytes);
    pe__own_parameters(m, e);
    memset(m->host_own + n, 0, n * sizeof *m->host_own);
    for (int r = 0; r < rows; r++)
        own->row_backward(own->user, m->host_own + n, m->host_floats + (size_t)r * C,
                          m->host_positions[(size_t)r * m->given], C, m->host_own);
    pe__own_gradient(m, e);
}

static void pe__add_forward(posenc_model *m, posenc_float *x)
{
    int rows = m->own_positions ? m->B * m->T : m->T, batches = m->own_positions ? 1 : m->B,
        C = m->c.channels;
    for (int e = 0; e < m->specs; e++) {
        const posenc_spec *s = &m->spec[e];
        const pe__card *card = m->card[e];
        posenc_float *w[POSENC_PARTS];
        pe__parts_of(w, m->pe[e], pe__data);
        if (card->network || (card->row && (m->own_positions || m->rows_T != m->T)))
            pe__send_rows(m, e, rows);
        if (card->row || card->network)
            pe__rows_apply(m->ops, x, m->w.rows[e], s, w, batches, rows, C);
        if (card->lookup)
            m->ops->embedding_forward(x, m->in.at, w[0] + (size_t)s->offset * C, 1, m->B * m->T,
                                      s->rows - s->offset, C, 1);
        if (m->own[e] && m->own[e]->row) pe__own_rows(m, e, x, batches, rows);
    }
    m->rows_T = m->own_positions ? 0 : m->T;
}

static void pe__add_backward(posenc_model *m, const posenc_float *dx)
{
    int rows = m->own_positions ? m->B * m->T : m->T, batches = m->own_positions ? 1 : m->B,
        C = m->c.channels;
    for (int e = m->specs - 1; e >= 0; e--) {
        const posenc_spec *s = &m->spec[e];
        const pe__card *card = m->card[e];
        posenc_float *w[POSENC_PARTS], *dw[POSENC_PARTS];
        pe__parts_of(w, m->pe[e], pe__data);
        pe__parts_of(dw, m->pe[e], pe__grad);
        if (card->lookup && dw[0])
            m->ops->embedding_backward(dw[0] + (size_t)s->offset * C, dx, m->in.at, 1, m->B * m->T,
                                       s->rows - s->offset, C);
        if (card->row || card->network)
            pe__rows_gradient(m->ops, dw, dx, m->w.rows[e], s, w, batches, rows, C);
        if (m->own[e] && m->own[e]->row) pe__own_rows_backward(m, e, dx, batches, rows);
    }
}

/* ---- [7.7.2] the verbs rot and bias ---------------------------------------------------------- */

static posenc_turns pe__turns(const posenc_model *m, int key)
{
    posenc_turns t;
    t.cosine = m->w.cosine[key];
    t.sine = m->w.sine[key];
    t.rows = m->own_positions ? m->B * m->T : m->T;
    t.row_b = m->own_positions ? m->T : 0;
    t.pairs = m->rotated;
    t.offset = m->turner >= 0 ? m->spec[m->turner].offset : 0;
    t.layout = m->turner >= 0 ? m->spec[m->turner].layout : POSENC_HALF;
    return t;
}
/* does this layer turn queries and keys? temper queries? */
static int pe__turning(const posenc_model *m, int layer)
{
    int every = m->turner >= 0 ? m->spec[m->turner].nope_every : 0;
    return m->turner >= 0 && !(every && (layer + 1) % every == 0);
}
static int pe__tempering(const posenc_model *m, int layer)
{
    return m->temper >= 0 && (layer + 1) % m->spec[m->temper].every == 0;
}

static posenc_tensor *pe__turn_scale(const posenc_model *m, int layer)
{
    return pe__turning(m, layer) && m->card[m->turner]->plan ? m->block[layer].pe[m->turner][0] : NULL;
}
static posenc_rotation pe__rotation(const posenc_model *m, int layer, int key)
{
    posenc_rotation r = m->rotation[key];
    r.scale = pe__data(pe__turn_scale(m, layer));
    return r;
}

/* cosines and sines of a layer; a layer without frequencies of its own uses those of layer 0 */
static void pe__fill_turns(posenc_model *m, int layer)
{
    if (!pe__turning(m, layer) || (layer > 0 && !pe__turn_scale(m, layer))) return;
    for (int key = 0; key <= m->twofold; key++) {
        posenc_rotation by = pe__rotation(m, layer, key);
        m->ops->turns_fill(pe__turns(m, key), m->in.positions, &by);
    }
}

static posenc_tensor *pe__bias_tensor(const posenc_model *m, int e, int layer)
{
    return pe__per_layer(m, e) ? m->block[layer].pe[e][0] : m->pe[e][0];
}

static void pe__own_bias(posenc_model *m, int e)
{
    const posenc_custom *own = m->own[e];
    int entries = 2 * m->span + 1, n = m->c.heads * entries;
    pe__own_parameters(m, e);
    m->ops->download(m->ops->user, m->host_floats, m->w.bias, (size_t)n * sizeof *m->host_floats);
    for (int i = 0; i < n; i++)
        m->host_floats[i] += PE__F(own->bias(own->user, i / entries, m->c.heads, i % entries - m->span,
                                             m->host_own));
    m->ops->upload(m->ops->user, m->w.bias, m->host_floats, (size_t)n * sizeof *m->host_floats);
}
static void pe__own_bias_backward(posenc_model *m, int e)
{
    const posenc_custom *own = m->own[e];
    int entries = 2 * m->span + 1, n = m->c.heads * entries;
    posenc_float *dw = m->host_own + own->parameters;
    pe__own_parameters(m, e);
    memset(dw, 0, (size_t)own->parameters * sizeof *dw);
    m->ops->download(m->ops->user, m->host_floats, m->w.dbias, (size_t)n * sizeof *m->host_floats);
    for (int i = 0; i < n; i++)
        own->bias_backward(own->user, dw, (double)m->host_floats[i], i / entries, m->c.heads,
                           i % entries - m->span, m->host_own);
    pe__own_gradient(m, e);
}

/* the sum of all biases, for one layer; those that no layer has for itself are filled in once */
static void pe__fill_bias(posenc_model *m, int layer)
{
    int entries = 2 * m->span + 1, H = m->c.heads;
    if (!m->biased || (layer > 0 && !m->biased_by_layer)) return;
    m->ops->copy(m->ops->user, m->w.bias, m->w.bias_fixed,
                 (size_t)H * entries * sizeof(posenc_float));
    for (int e = 0; e < m->specs; e++) {
        posenc_tensor *t = pe__bias_tensor(m, e, layer);
        if (m->in.bucket[e])
            m->ops->gather_forward(m->w.bias, t->data, m->in.bucket[e], H, entries, t->shape[0]);
        if (m->card[e]->curve)
            m->ops->curve_forward(m->w.bias, t->data, m->spec[e].encoding, m->spec[e].form, H, m->span,
                                  m->span);
        if (m->own[e] && m->own[e]->bias && m->own[e]->parameters) pe__own_bias(m, e);
    }
}

static void pe__bias_backward(posenc_model *m, int layer)
{
    int entries = 2 * m->span + 1, H = m->c.heads;
    if (!m->biased || (layer > 0 && !m->biased_by_layer)) return;
    for (int e = 0; e < m->specs; e++) {
        posenc_tensor *t = pe__bias_tensor(m, e, layer);
        if (!pe__grad(t)) continue;
        if (m->in.bucket[e])
            m->ops->gather_backward(t->grad, m->w.dbias, m->in.bucket[e], H, entries, t->shape[0]);
        if (m->card[e]->curve)
            m->ops->curve_backward(t->grad, m->w.dbias, t->data, m->spec[e].encoding, m->spec[e].form, H,
                                   m->span, m->span);
        if (m->own[e] && m->own[e]->bias) pe__own_bias_backward(m, e);
    }
}
static void pe__clear_bias_gradient(posenc_model *m)
{
    if (m->biased)
        m->ops->zero(m->ops->user, m->w.dbias,
                     (size_t)m->c.heads * (2 * m->span + 1) * sizeof(posenc_float));
}

static void pe__cache_how(posenc_attention *how, const posenc_cache *cache);             /* [7.10] */
static void pe__cache_put(posenc_cache *cache, int layer, posenc_float *k, const posenc_float *v);
static posenc_heads pe__cached(const posenc_cache *cache, int layer, int values);

static posenc_attention pe__how(const posenc_model *m, const pe__pass *p, int layer,
                                const posenc_turns turns[2])
{
    posenc_attention how;
    memset(&how, 0, sizeof how);
    how.scale = m->c.attention_scale;
    how.causal = m->c.causal;
    how.window = m->c.window;
    how.keep = m->padded ? m->in.keep : NULL;
    how.q_segment = how.k_segment = m->segmented ? m->in.segments : NULL;
    how.bias = m->biased ? m->w.bias : NULL;
    how.past = how.future = m->span;
    how.q_at = how.k_at = m->biased && (m->own_positions || m->placer >= 0) ? m->in.at : NULL;
    if (pe__turning(m, layer) && !m->turn_apart) {
        how.q_turns = &turns[0];
        how.k_turns = &turns[m->twofold];
    }
    if (m->cache) pe__cache_how(&how, m->cache);
    how.q_scale = pe__tempering(m, layer) ? m->w.tau : NULL;
    how.dropout =
        pe__site(m, p, m->c.dropout_attention, layer, PE__SITE_MAP, (size_t)m->c.heads * m->T);
    how.threads = m->c.threads;
    return how;
}

/* ---- [7.7.3] the two branches of a block ----------------------------------------------------- */

static posenc_heads pe__view(const posenc_model *m, posenc_float *x, int heads)
{
    return posenc_heads_bthd(x, m->B, m->T, heads, m->c.head_channels);
}

static posenc_tensor *pe__q_used(const posenc_model *m, pe__block_saved *s)
{
    return m->c.qk_norm ? s->qn : s->q;
}
static posenc_tensor *pe__k_used(const posenc_model *m, pe__block_saved *s)
{
    return m->c.qk_norm ? s->kn : s->k;
}

/* Queries (key 0) or keys of a layer as the turn sees them: heads, or all channels as one head. */
static posenc_heads pe__turn_view(const posenc_model *m, posenc_float *x, int key)
{
    int heads = key ? m->c.kv_heads : m->c.heads, wide = m->spec[m->turner].over == POSENC_OVER_WIDTH;
    return wide ? posenc_heads_bthd(x, m->B, m->T, 1, heads * m->c.head_channels) : pe__view(m, x, heads);
}
static void pe__turn_both(posenc_model *m, posenc_float *q, posenc_float *k,
                          void (*turn)(posenc_heads, posenc_turns))
{
    turn(pe__turn_view(m, q, 0), pe__turns(m, 0));
    turn(pe__turn_view(m, k, 1), pe__turns(m, m->twofold));
}
/* trained frequencies: from values and gradients on the same side of the turn, whichever it is */
static void pe__turn_gradient(posenc_model *m, int layer, posenc_float *q, posenc_float *k)
{
    posenc_float *dscale = pe__grad(pe__turn_scale(m, layer));
    posenc_rotation by = pe__rotation(m, layer, 0);
    if (!dscale) return;
    m->ops->turns_backward(dscale, pe__turn_view(m, m->w.dq, 0), pe__turn_view(m, q, 0),
                           pe__turns(m, 0), m->in.positions, &by);
    m->ops->turns_backward(dscale, pe__turn_view(m, m->w.dk, 1), pe__turn_view(m, k, 1),
                           pe__turns(m, m->twofold), m->in.positions, &by);
}

/* QK-norm: each head of q and k has its root mean square made one. After the turn, the two
   channels of a pair get different gains and scores are no longer functions of the distance
   alone; before it they are. What is not turned inside attention is turned here, in place.       */
static void pe__qk_forward(posenc_model *m, int layer, pe__block *w, pe__block_saved *s)
{
    int R = m->B * m->T, D = m->c.head_channels;
    int apart = m->turn_apart && pe__turning(m, layer);
    if (apart && m->c.qk_norm == POSENC_QK_NORM_AFTER)
        pe__turn_both(m, s->q->data, s->k->data, m->ops->turn);
    if (m->c.qk_norm) {
        m->ops->rmsnorm_forward(s->qn->data, s->q_r->data, s->q->data, w->q_norm->data, m->c.norm_eps,
                                R * m->c.heads, D);
        m->ops->rmsnorm_forward(s->kn->data, s->k_r->data, s->k->data, w->k_norm->data, m->c.norm_eps,
                                R * m->c.kv_heads, D);
    }
    if (apart && m->c.qk_norm != POSENC_QK_NORM_AFTER)
        pe__turn_both(m, pe__q_used(m, s)->data, pe__k_used(m, s)->data, m->ops->turn);
}

static void pe__qk_backward(posenc_model *m, int layer, pe__block *w, pe__block_saved *s)
{
    int R = m->B * m->T, D = m->c.head_channels, turning = pe__turning(m, layer);
    int after = m->c.qk_norm == POSENC_QK_NORM_AFTER;
    if (turning && !after)
        pe__turn_gradient(m, layer, pe__q_used(m, s)->data, pe__k_used(m, s)->data);
    if (turning && !after && m->turn_apart) pe__turn_both(m, m->w.dq, m->w.dk, m->ops->turn_back);
    if (m->c.qk_norm) {
        m->ops->rmsnorm_backward(m->w.dq, pe__grad(w->q_norm), m->w.dq, s->q_r->data, s->q->data,
                                 w->q_norm->data, R * m->c.heads, D);
        m->ops->rmsnorm_backward(m->w.dk, pe__grad(w->k_norm), m->w.dk, s->k_r->data, s->k->data,
                                 w->k_norm->data, R * m->c.kv_heads, D);
    }
    if (!turning || !after) return;
    pe__turn_gradient(m, layer, s->q->data, s->k->data);
    pe__turn_both(m, m->w.dq, m->w.dk, m->ops->turn_back);
}

/* what attention reads, from the branch's input */
static void pe__attention_inputs(posenc_model *m, int layer, const posenc_float *x)
{
    pe__block *w = &m->block[layer];
    pe__block_saved *s = &m->kept[layer];
    pe__fill_turns(m, layer);
    pe__fill_bias(m, layer);
    pe__linear(m, s->q->data, x, w->q, w->q_bias);
    pe__linear(m, s->k->data, x, w->k, w->k_bias);
    pe__linear(m, s->v->data, x, w->v, w->v_bias);
    pe__qk_forward(m, layer, w, s);
}

static void pe__attention_branch(posenc_model *m, const pe__pass *p, int layer, posenc_float *y,
                                 const posenc_float *x)
{
    pe__block *w = &m->block[layer];
    pe__block_saved *s = &m->kept[layer];
    posenc_turns turns[2] = { pe__turns(m, 0), pe__turns(m, m->twofold) };
    posenc_attention how = pe__how(m, p, layer, turns);
    posenc_heads k, v;
    int H = m->c.heads, Hk = m->c.kv_heads;
    pe__attention_inputs(m, layer, x);
    if (m->cache) pe__cache_put(m->cache, layer, pe__k_used(m, s)->data, s->v->data);
    k = m->cache ? pe__cached(m->cache, layer, 0) : pe__view(m, pe__k_used(m, s)->data, Hk);
    v = m->cache ? pe__cached(m->cache, layer, 1) : pe__view(m, s->v->data, Hk);
    m->ops->attention_forward(pe__view(m, s->a->data, H), s->lse->data,
                              pe__view(m, pe__q_used(m, s)->data, H), k, v, &how, m->w.attention);
    pe__linear(m, y, s->a->data, w->o, w->o_bias);
    pe__drop(m, y, (size_t)m->c.channels,
             pe__site(m, p, m->c.dropout_branch, layer, PE__SITE_ATTENTION, (size_t)m->c.channels));
}

/* dx = gradient of the branch's input x, from dy = gradient of its output */
static void pe__attention_branch_backward(posenc_model *m, const pe__pass *p, int layer,
                                          posenc_float *dx, const posenc_float *dy,
                                          const posenc_float *x)
{
    pe__block *w = &m->block[layer];
    pe__block_saved *s = &m->kept[layer];
    posenc_turns turns[2] = { pe__turns(m, 0), pe__turns(m, m->twofold) };
    posenc_attention how = pe__how(m, p, layer, turns);
    int H = m->c.heads, Hk = m->c.kv_heads;
    posenc_float *da = dx;                                 /* its room is free until the very end */
    if (pe__turn_scale(m, layer)) pe__fill_turns(m, layer);
    if (m->biased_by_layer) { pe__fill_bias(m, layer); pe__clear_bias_gradient(m); }
    dy = pe__drop_apart(m, m->w.t1, dy, pe__site(m, p, m->c.dropout_branch, layer, PE__SITE_ATTENTION,
                                                 (size_t)m->c.channels));
    pe__linear_backward(m, da, dy, s->a->data, w->o, w->o_bias, 0);
    m->ops->attention_backward(pe__view(m, m->w.dq, H), pe__view(m, m->w.dk, Hk),
                               pe__view(m, m->w.dv, Hk), m->biased ? m->w.dbias : NULL,
                               pe__view(m, da, H), pe__view(m, s->a->data, H), s->lse->data,
                               pe__view(m, pe__q_used(m, s)->data, H),
                               pe__view(m, pe__k_used(m, s)->data, Hk), pe__view(m, s->v->data, Hk),
                               &how, m->w.attention);
    pe__bias_backward(m, layer);
    pe__qk_backward(m, layer, w, s);
    pe__linear_backward(m, dx, m->w.dv, x, w->v, w->v_bias, 0);
    pe__linear_backward(m, dx, m->w.dk, x, w->k, w->k_bias, 1);
    pe__linear_backward(m, dx, m->w.dq, x, w->q, w->q_bias, 1);
}

static void pe__mlp_hidden(posenc_model *m, const pe__pass *p, int layer, const posenc_float *x)
{
    pe__block *w = &m->block[layer];
    pe__block_saved *s = &m->kept[layer];
    size_t n = (size_t)m->B * m->T * m->c.hidden;
    pe__linear(m, s->up->data, x, w->up, w->up_bias);
    if (w->gate) {
        pe__linear(m, s->gate->data, x, w->gate, w->gate_bias);
        m->ops->gated_forward(s->act->data, s->gate->data, s->up->data, m->c.activation, n);
    } else {
        m->ops->activation_forward(s->act->data, s->up->data, m->c.activation, n);
    }
    pe__drop(m, s->act->data, (size_t)m->c.hidden,
             pe__site(m, p, m->c.dropout_hidden, layer, PE__SITE_HIDDEN, (size_t)m->c.hidden));
}
static void pe__mlp_out(posenc_model *m, const pe__pass *p, int layer, posenc_float *y)
{
    pe__block *w = &m->block[layer];
    pe__linear(m, y, m->kept[layer].act->data, w->down, w->down_bias);
    pe__drop(m, y, (size_t)m->c.channels,
             pe__site(m, p, m->c.dropout_branch, layer, PE__SITE_MLP, (size_t)m->c.channels));
}

static void pe__mlp_branch_backward(posenc_model *m, const pe__pass *p, int layer, posenc_float *dx,
                                    const posenc_float *dy, const posenc_float *x)
{
    pe__block *w = &m->block[layer];
    pe__block_saved *s = &m->kept[layer];
    size_t n = (size_t)m->B * m->T * m->c.hidden;
    dy = pe__drop_apart(m, m->w.t1, dy, pe__site(m, p, m->c.dropout_branch, layer, PE__SITE_MLP,
                                                 (size_t)m->c.channels));
    pe__linear_backward(m, m->w.df, dy, s->act->data, w->down, w->down_bias, 0);
    pe__drop(m, m->w.df, (size_t)m->c.hidden,
             pe__site(m, p, m->c.dropout_hidden, layer, PE__SITE_HIDDEN, (size_t)m->c.hidden));
    if (w->gate) {
        m->ops->gated_backward(m->w.dg, m->w.df, m->w.df, s->gate->data, s->up->data,
                               m->c.activation, n);
        pe__linear_backward(m, dx, m->w.dg, x, w->gate, w->gate_bias, 0);
    } else {
        m->ops->activation_backward(m->w.df, m->w.df, s->up->data, m->c.activation, n);
    }
    pe__linear_backward(m, dx, m->w.df, x, w->up, w->up_bias, w->gate != NULL);
}

/* ---- [7.7.4] a block, the whole -------------------------------------------------------------- */

/* y = x + branch, or the branch alone. Backward, dx being the gradient of y and d what came out of the
   branch's far end: dx + d, or d alone. Both are the same call.                                  */
static void pe__join(posenc_model *m, posenc_float *y, const posenc_float *x, const posenc_float *branch)
{
    size_t n = (size_t)m->B * m->T * m->c.channels;
    if (m->c.no_residual) m->ops->copy(m->ops->user, y, branch, n * sizeof *y);
    else                  m->ops->residual(y, x, branch, n);
}

static void pe__block_forward(posenc_model *m, const pe__pass *p, int layer, const posenc_float *x)
{
    pe__block *w = &m->block[layer];
    pe__block_saved *s = &m->kept[layer];
    posenc_float *branch = m->w.t1, *h1 = s->h1->data, *mid = s->mid->data, *h2 = s->h2->data;
    if (m->c.norm_place == POSENC_PRE_NORM) {
        pe__norm_forward(m, h1, s->mean1, s->rstd1, x, w->norm1, w->norm1_bias);
        pe__attention_branch(m, p, layer, branch, h1);
        pe__join(m, mid, x, branch);
        pe__norm_forward(m, h2, s->mean2, s->rstd2, m->c.parallel ? x : mid, w->norm2, w->norm2_bias);
        pe__mlp_hidden(m, p, layer, h2);
        if (p->again) return;
        pe__mlp_out(m, p, layer, branch);
        pe__join(m, s->x->data, mid, branch);
    } else {
        pe__attention_branch(m, p, layer, branch, x);
        pe__join(m, h1, x, branch);
        pe__norm_forward(m, mid, s->mean1, s->rstd1, h1, w->norm1, w->norm1_bias);
        pe__mlp_hidden(m, p, layer, mid);
        pe__mlp_out(m, p, layer, branch);
        pe__join(m, h2, mid, branch);
        pe__norm_forward(m, s->x->data, s->mean2, s->rstd2, h2, w->norm2, w->norm2_bias);
    }
}

/* the residual stream in front of a block, or behind the last */
static posenc_float *pe__stream(const posenc_model *m, int layer)
{
    return layer ? m->kept[layer - 1].x->data : m->saved.x->data;
}

static void pe__watch(posenc_model *m, int layer)
{
    m->watching = layer + 1;
    m->watch(m->watch_user, m, layer);
    m->watching = 0;
}
POSENC_DEF void posenc_model_watch(posenc_model *m,
                                   void (*watch)(void *user, posenc_model *m, int layer), void *user)
{
    m->watch = watch;
    m->watch_user = user;
}

static void pe__forward(posenc_model *m, const pe__pass *p)
{
    int R = m->B * m->T, C = m->c.channels;
    pe__top *w = &m->top;
    pe__top_saved *s = &m->saved;
    posenc_float *x = s->sum ? s->sum->data : s->x->data;
    m->ops->embedding_forward(x, m->in.tokens, w->token->data,
                              m->c.scale_embedding ? sqrt((double)C) : 1, R, m->c.vocab, C, 0);
    if (w->types) m->ops->embedding_forward(x, m->in.types, w->types->data, 1, R, m->c.token_types, C, 1);
    pe__add_forward(m, x);
    if (s->sum)
        pe__norm_forward(m, s->x->data, s->sum_mean, s->sum_rstd, x, w->enorm, w->enorm_bias);
    x = s->x->data;
    pe__drop(m, x, (size_t)C,
             pe__site(m, p, m->c.dropout_embedding, 0, PE__SITE_EMBEDDING, (size_t)C));
    for (int l = 0; l < m->c.layers; l++) {
        pe__block_forward(m, p, l, pe__stream(m, l));
        if (m->watch) pe__watch(m, l);
    }
    x = pe__stream(m, m->c.layers);
    if (s->last) pe__norm_forward(m, s->last->data, s->mean, s->rstd, x, w->norm, w->norm_bias);
    if (s->pooled)
        m->ops->pool_forward(s->pooled->data, s->last ? s->last->data : x,
                             m->padded ? m->in.keep : NULL, m->B, m->T, C);
}

/* weights that changed are rounded again first */
static void pe__run_forward(posenc_model *m, const pe__pass *p)
{
    if (m->half && !m->half_ready) m->ops->bf16_round(m->half, m->params, m->param_floats);
    m->half_ready = 1;
    pe__forward(m, p);
}

/* what the head reads, and its rows */
static posenc_float *pe__hidden(const posenc_model *m)
{
    if (m->saved.pooled) return m->saved.pooled->data;
    if (m->saved.last) return m->saved.last->data;
    return pe__stream(m, m->c.layers);
}
static int pe__head_rows(const posenc_model *m) { return m->c.classes ? m->B : m->B * m->T; }

/* Loss, summed on the host in order; with dx also the head's share of the backward. */
static double pe__head_run(posenc_model *m, const posenc_batch *b, posenc_float *dx)
{
    posenc_tensor *w = m->c.tied_head ? m->top.token : m->top.head;
    int rows = pe__head_rows(m), counted = 0;
    double divisor, sum = 0;
    for (int r = 0; r < rows; r++) counted += b->targets[r] != POSENC_IGNORE;
    divisor = b->divisor > 0 ? b->divisor : counted ? counted : 1;
    (m->c.precision == POSENC_BF16 ? m->ops->head_loss_bf16 : m->ops->head_loss)(
        m->w.loss, dx, dx ? pe__grad(w) : NULL, dx ? pe__grad(m->top.head_bias) : NULL, pe__hidden(m),
        w->data, pe__data(m->top.head_bias), m->in.targets, 1 / divisor, rows, m->c.channels,
        w->shape[0], m->w.head);
    m->ops->download(m->ops->user, m->host_floats, m->w.loss, (size_t)rows * sizeof(posenc_float));
    for (int r = 0; r < rows; r++) sum += m->host_floats[r];
    return sum / divisor;
}

/* ---- [7.8] backward: the same list upside down --------------------------------------------------
   dx is the gradient of the residual stream. Each branch reads it, and what comes out of the
   branch's far end is added to it: that sum is why gradients reach the first layer of a deep
   model.                                                                                         */

static void pe__block_backward(posenc_model *m, const pe__pass *p, int layer, const posenc_float *x)
{
    pe__block *w = &m->block[layer];
    pe__block_saved *s = &m->kept[layer];
    size_t n = (size_t)m->B * m->T * m->c.channels;
    posenc_float *dx = m->w.dx, *t1 = m->w.t1, *t2 = m->w.t2;
    const posenc_float *h1 = s->h1->data, *mid = s->mid->data, *h2 = s->h2->data;
    int post = m->c.norm_place == POSENC_POST_NORM;
    if (post) pe__norm_backward(m, dx, dx, s->mean2, s->rstd2, h2, w->norm2, w->norm2_bias);
    pe__mlp_branch_backward(m, p, layer, t2, dx, post ? mid : h2);
    if (!post)
        pe__norm_backward(m, t2, t2, s->mean2, s->rstd2, m->c.parallel ? x : mid, w->norm2,
                          w->norm2_bias);
    if (m->c.parallel) m->ops->copy(m->ops->user, t1, dx, n * sizeof *dx);       /* as it came in */
    pe__join(m, dx, dx, t2);
    if (post) pe__norm_backward(m, dx, dx, s->mean1, s->rstd1, h1, w->norm1, w->norm1_bias);
    pe__attention_branch_backward(m, p, layer, t2, m->c.parallel ? t1 : dx, post ? x : h1);
    if (!post) pe__norm_backward(m, t2, t2, s->mean1, s->rstd1, x, w->norm1, w->norm1_bias);
    pe__join(m, dx, dx, t2);
}

/* with recompute [7.2]: what is inside a block, from what went into it */
static void pe__block_again(posenc_model *m, const pe__pass *p, int layer)
{
    pe__pass again = *p;
    again.again = 1;
    if (pe__in_turn(&m->c) && layer < m->c.layers - 1)           /* the last one's is there still */
        pe__block_forward(m, &again, layer, pe__stream(m, layer));
}

/* where the gradient of what the head read goes, and from there to all the rest */
static posenc_float *pe__head_gradient(const posenc_model *m)
{
    return m->saved.pooled ? m->w.t2 : m->w.dx;
}
static void pe__run_backward(posenc_model *m, const pe__pass *p)
{
    int R = m->B * m->T, C = m->c.channels, L = m->c.layers;
    pe__top *w = &m->top;
    pe__top_saved *s = &m->saved;
    posenc_float *dx = m->w.dx;
    pe__clear_bias_gradient(m);
    if (s->pooled)
        m->ops->pool_backward(dx, pe__head_gradient(m), m->padded ? m->in.keep : NULL, m->B, m->T, C);
    if (s->last)
        pe__norm_backward(m, dx, dx, s->mean, s->rstd, pe__stream(m, L), w->norm, w->norm_bias);
    for (int l = L - 1; l >= 0; l--) {
        pe__block_again(m, p, l);
        pe__block_backward(m, p, l, pe__stream(m, l));
    }
    pe__drop(m, dx, (size_t)C,
             pe__site(m, p, m->c.dropout_embedding, 0, PE__SITE_EMBEDDING, (size_t)C));
    if (s->sum)
        pe__norm_backward(m, dx, dx, s->sum_mean, s->sum_rstd, s->sum->data, w->enorm,
                          w->enorm_bias);
    pe__add_backward(m, dx);
    if (pe__grad(w->types))
        m->ops->embedding_backward(w->types->grad, dx, m->in.types, 1, R, m->c.token_types, C);
    if (pe__grad(w->token))
        m->ops->embedding_backward(w->token->grad, dx, m->in.tokens,
                                   m->c.scale_embedding ? sqrt((double)C) : 1, R, m->c.vocab, C);
}

/* ---- [7.9] the calls ------------------------------------------------------------------------- */

static posenc_status pe__sync(posenc_model *m, posenc_error *why)
{
    const char *trouble = m->ops->sync ? m->ops->sync(m->ops->user) : NULL;
    return trouble ? pe__fail(why, POSENC_BAD_INPUT, "%s: %s", m->ops->name, trouble) : POSENC_OK;
}

/* forward and, if asked, the loss; train also runs backward */
static posenc_status pe__run(posenc_model *m, const posenc_batch *b, double *loss, int train,
                             posenc_error *why)
{
    pe__pass p;
    int before;
    posenc_status status = pe__take_batch(m, b, loss != NULL, why);
    if (status != POSENC_OK) return status;
    p.train = train;
    p.first_sample = b->first_sample;
    p.again = 0;
    before = pe__enter(m);
    pe__run_forward(m, &p);
    if (loss) *loss = pe__head_run(m, b, train ? pe__head_gradient(m) : NULL);
    if (train && *loss - *loss == 0) pe__run_backward(m, &p);
    pe__leave(before);
    status = pe__sync(m, why);
    m->ready = status == POSENC_OK;
    return status;
}

POSENC_DEF posenc_status posenc_model_forward(posenc_model *m, const posenc_batch *batch,
                                              posenc_error *why)
{
    return pe__run(m, batch, NULL, 0, why);
}
POSENC_DEF posenc_status posenc_model_loss(posenc_model *m, const posenc_batch *batch, double *loss,
                                           posenc_error *why)
{
    return pe__run(m, batch, loss, 0, why);
}

static int pe__finite(posenc_model *m, const posenc_float *data, size_t count)
{
    posenc_float piece[1024];
    for (size_t at = 0; at < count; at += 1024) {
        size_t n = pe__least(count - at, 1024);
        m->ops->download(m->ops->user, piece, data + at, n * sizeof *piece);
        for (size_t i = 0; i < n; i++) if (!(piece[i] - piece[i] == 0)) return 0;
    }
    return 1;
}

/* the first tensor with a NaN or an infinity: parameters, then activations in the order of the
   forward, but for those that another block has written to since. An attn.lse is -infinity where a
   query sees nothing, and that is as it should be.                                               */
static const char *pe__culprit(posenc_model *m)
{
    for (int i = 0; i < m->params_n + m->acts_n; i++) {
        const posenc_tensor *t = &m->slot[i].t;
        size_t n = t->count;
        if (i >= m->params_n && t->shape[0] > m->B * m->T)
            n = n / t->shape[0] * (size_t)(m->B * m->T);
        if (m->slot[i].in_turn || strstr(t->name, "attn.lse")) continue;
        if (!pe__finite(m, t->data, n)) return t->name;
    }
    return "the loss itself";
}

static void pe__clear_gradients(posenc_model *m)
{
    m->ops->zero(m->ops->user, m->grads, m->param_floats * sizeof(posenc_float));
}

POSENC_DEF posenc_status posenc_model_train(posenc_model *m, const posenc_batch *batch,
                                            double *loss, posenc_error *why)
{
    posenc_status status;
    double own;
    if (!m->grads)
        return pe__fail(why, POSENC_BAD_CONFIG,
                        "this model was made for inference and cannot train");
    if (!loss) loss = &own;
    status = pe__run(m, batch, loss, 1, why);
    if (status != POSENC_OK || *loss - *loss == 0) return status;
    pe__clear_gradients(m);
    return pe__fail(why, POSENC_NOT_FINITE, "step %lu: the loss is %g; first seen in %s",
                    (unsigned long)m->steps, *loss, pe__culprit(m));
}

POSENC_DEF posenc_status posenc_model_logits(posenc_model *m, posenc_float *logits, int row,
                                             int rows, posenc_error *why)
{
    posenc_tensor *w = m->c.tied_head ? m->top.token : m->top.head;
    int C = m->c.channels, V = w->shape[0], all = m->c.batch * m->c.context, chunk, before;
    if (!m->ready) return pe__fail(why, POSENC_BAD_INPUT, "logits are there after a forward only");
    if (row < 0 || rows < 0 || row > pe__head_rows(m) - rows)
        return pe__fail(why, POSENC_BAD_INPUT, "%d logits from row %d on were asked for, of %d",
                        rows, row, pe__head_rows(m));
    chunk = pe__head_chunk(all, V);
    before = pe__enter(m);
    for (int r = 0; r < rows; r += chunk) {
        int n = pe__min(chunk, rows - r);
        const posenc_float *x = pe__hidden(m) + (size_t)(row + r) * C, *b = pe__data(m->top.head_bias);
        if (m->half && n <= POSENC_FEW_ROWS)
            m->ops->linear_few_bf16(m->w.head, x, m->half + (w->data - m->params), b, n, C, V);
        else if (m->c.precision == POSENC_BF16)
            m->ops->linear_forward_bf16(m->w.head, x, w->data, b, n, C, V,
                                        m->w.head + posenc_head_scratch(all, V));
        else
            m->ops->linear_forward(m->w.head, x, w->data, b, n, C, V);
        m->ops->download(m->ops->user, logits + (size_t)r * V, m->w.head,
                         (size_t)n * V * sizeof *logits);
    }
    pe__leave(before);
    return pe__sync(m, why);
}

/* a piece of the back end's memory in the next piece of room */
static posenc_float *pe__bring(posenc_model *m, posenc_float **room, const posenc_float *data, size_t n)
{
    posenc_float *at = *room;
    posenc_model_get(m, at, data, n);
    *room += n;
    return at;
}

/* with recompute: what a layer's attention read, from what went into its block */
static void pe__attention_again(posenc_model *m, int layer)
{
    pe__block *w = &m->block[layer];
    pe__block_saved *s = &m->kept[layer];
    const posenc_float *x = pe__stream(m, layer);
    int post = m->c.norm_place == POSENC_POST_NORM;
    if (!post) pe__norm_forward(m, s->h1->data, s->mean1, s->rstd1, x, w->norm1, w->norm1_bias);
    pe__attention_inputs(m, layer, post ? x : s->h1->data);
}

/* Host copies of what one layer's attention read, in one block; the plain version does the rest. */
static void pe__attention_on_host(posenc_model *m, posenc_float *map, int layer, posenc_float *room)
{
    pe__block_saved *s = &m->kept[layer];
    pe__pass p = { 0, 0, 0 };
    posenc_turns turns[2] = { pe__turns(m, 0), pe__turns(m, m->twofold) };
    posenc_attention how = pe__how(m, &p, layer, turns);
    posenc_tensor *q = pe__q_used(m, s), *k = pe__k_used(m, s);
    posenc_heads nothing = pe__view(m, NULL, m->c.heads);
    size_t R = (size_t)m->B * m->T, tn = (size_t)turns[0].rows * turns[0].pairs;
    posenc_float *q_host = pe__bring(m, &room, q->data, R * q->shape[1]);
    posenc_float *k_host = pe__bring(m, &room, k->data, R * k->shape[1]);
    pe__fill_turns(m, layer);
    pe__fill_bias(m, layer);
    for (int key = 0; key < 2 && m->turner >= 0; key++) {
        turns[key].cosine = pe__bring(m, &room, turns[key].cosine, tn);
        turns[key].sine = pe__bring(m, &room, turns[key].sine, tn);
    }
    if (how.k_turns) how.k_turns = &turns[1];
    if (m->biased)
        how.bias = pe__bring(m, &room, m->w.bias, (size_t)m->c.heads * (2 * m->span + 1));
    if (how.q_scale) how.q_scale = pe__bring(m, &room, m->w.tau, R);
    how.keep = m->padded ? m->host_keep : NULL;
    how.q_segment = how.k_segment = m->segmented ? m->host_segments : NULL;
    how.q_at = how.k_at = how.q_at ? m->host_at : NULL;
    posenc_attention_plain_forward(nothing, map, pe__view(m, q_host, m->c.heads),
                                   pe__view(m, k_host, m->c.kv_heads), nothing, &how);
}

POSENC_DEF posenc_status posenc_model_attention(posenc_model *m, posenc_float *map, int layer,
                                                posenc_error *why)
{
    size_t R = (size_t)m->B * m->T, floats;
    posenc_float *room;
    int before;
    if (m->extended || m->cache)
        return pe__fail(why, POSENC_BAD_INPUT, "attention maps are there after a forward without a cache");
    if (m->watching != layer + 1 && (!m->ready || m->c.inference))
        return pe__fail(why, POSENC_BAD_INPUT,
                        m->c.inference ? "an inference model keeps no attention maps: ask from watch, for "
                                         "the layer it is called for"
                                       : "attention maps are there after a forward only");
    if (layer < 0 || layer >= m->c.layers)
        return pe__fail(why, POSENC_BAD_INPUT, "layer %d of %d was asked for", layer, m->c.layers);
    floats = R * (m->c.heads + m->c.kv_heads) * m->c.head_channels + R * 4 * m->rotated + R +
             (m->biased ? m->c.heads * (2 * (size_t)m->span + 1) : 0);
    room = (posenc_float *)POSENC_MALLOC(floats * sizeof *room);
    if (!room)
        return pe__fail(why, POSENC_OUT_OF_MEMORY, "no memory for an attention map of layer %d",
                        layer);
    before = pe__enter(m);
    if (!m->watching && pe__in_turn(&m->c)) pe__attention_again(m, layer);
    pe__attention_on_host(m, map, layer, room);
    pe__leave(before);
    POSENC_FREE(room);
    return pe__sync(m, why);
}

/* ---- [7.10] generation --------------------------------------------------------------------------
   A causal model's token is the same whatever follows it, so its keys and values are computed once and
   kept. Keys are kept turned: a new token turns its own and leaves the others alone. To move a kept key
   (context shift) or to give it other frequencies (two scalings of rope, dynamic and longrope, read the
   length) one more turn is enough, R(now - before). What deeper layers made of the old frequencies stays
   in their keys and values: there, a text that outgrows its length is not what a forward over the whole
   of it would give.

        slot      0     1     2     3     4          each row ends at the same slot, so that a step of
        row 0   [pad] [pad]  the   cat   sat         the whole batch is one more slot; positions count
        row 1    on    a     mat    it    had         kept tokens: row 0 has 0 at slot 2              */

struct posenc_cache {
    posenc_model *m;
    const posenc_backend *ops;                    /* m's, also when m is gone                     */
    int rows, slots, used, coming;                /* coming: slots that the running forward fills */
    posenc_float *k, *v;                          /* (layers, rows, slots, K), back end           */
    int *all_at;                                  /* (rows, used + coming), back end              */
    unsigned char *all_keep;                      /* the same                                     */
    double *position;                             /* (rows, slots) and below: host                */
    int *at;                                      /* (rows, slots) whole ones, for biases         */
    double *next;                                 /* (rows) the next position                     */
    unsigned char *keep;                          /* (rows, slots)                                */
    int padded;                                   /* some slot is                                 */
    double length;                                /* that the keys' frequencies were made for     */
};

static size_t pe__cache_width(const posenc_config *c)                     /* K of one token */
{
    return (size_t)c->kv_heads * c->head_channels;
}
static size_t pe__cache_host(posenc_cache *c, char *memory, size_t rows, size_t slots)
{
    size_t used = 0;
#define PE__PLACE(field, type, count)                                                              \
    if (c) c->field = (type *)(void *)(memory + used);                                             \
    used += ((count) * sizeof(type) + 63) / 64 * 64
    PE__PLACE(position, double, rows * slots);
    PE__PLACE(at, int, rows * slots);
    PE__PLACE(next, double, rows);
    PE__PLACE(keep, unsigned char, rows * slots);
#undef PE__PLACE
    return used;
}
static size_t pe__cache_own(void) { return (sizeof(posenc_cache) + 63) / 64 * 64; }

POSENC_DEF size_t posenc_cache_bytes(const posenc_config *c, int rows, int slots)
{
    posenc_model plan;
    size_t tokens = (size_t)pe__max(0, rows) * (size_t)pe__max(0, slots);
    if (pe__model_plan(&plan, c, NULL) != POSENC_OK) return 0;
    return 2 * plan.c.layers * tokens * pe__cache_width(&plan.c) * sizeof(posenc_float)
         + tokens * (sizeof(int) + 1) + pe__cache_own()
         + pe__cache_host(NULL, NULL, (size_t)pe__max(0, rows), (size_t)pe__max(0, slots));
}

/* A kept key is turned on by one more turn only if the turn was the last thing done to it: gains of a
   norm behind it do not trade places with a turn.                                                */
static int pe__cache_fixed(const posenc_model *m)
{
    return m->turner >= 0 && m->c.qk_norm == POSENC_QK_NORM_AFTER;
}

static int pe__cache_allocate(posenc_cache *c)
{
    const posenc_backend *ops = c->m->ops;
    size_t tokens = (size_t)c->rows * c->slots;
    double needed = (double)tokens * c->m->c.layers * pe__cache_width(&c->m->c) * sizeof(posenc_float);
    size_t bytes = c->m->c.layers * tokens * pe__cache_width(&c->m->c) * sizeof(posenc_float);
    if (needed > (double)(SIZE_MAX / 4)) return 0;               /* bytes has wrapped around, or nearly */
    c->k = (posenc_float *)ops->alloc(ops->user, bytes);
    c->v = (posenc_float *)ops->alloc(ops->user, bytes);
    c->all_at = (int *)ops->alloc(ops->user, tokens * sizeof(int));
    c->all_keep = (unsigned char *)ops->alloc(ops->user, tokens);
    return c->k && c->v && c->all_at && c->all_keep;
}

POSENC_DEF posenc_status posenc_cache_create(posenc_cache **out, posenc_model *m, int rows,
                                             int slots, posenc_error *why)
{
    posenc_cache *c;
    *out = NULL;
    if (!m->c.causal || m->c.classes)
        return pe__fail(why, POSENC_BAD_CONFIG, "a cache is for causal next-token models: where tokens see "
                        "the future, a new one changes all others");
    if (pe__cache_fixed(m) && (m->spec[m->turner].scaling == POSENC_DYNAMIC
                               || m->spec[m->turner].scaling == POSENC_LONGROPE))
        return pe__fail(why, POSENC_BAD_CONFIG, "qk_norm=after: %s's frequencies change with the length, and "
                        "keys that were normed behind their turn cannot be turned again",
                        pe__model_encoding(m, m->turner));
    if (rows < 1 || rows > m->c.batch || slots < 1 || slots > m->c.context)
        return pe__fail(why, POSENC_BAD_CONFIG, "a cache of %d x %d does not fit the model's %d x %d", rows,
                        slots, m->c.batch, m->c.context);
    c = (posenc_cache *)POSENC_MALLOC(pe__cache_own() + pe__cache_host(NULL, NULL, rows, slots));
    if (!c) return pe__fail(why, POSENC_OUT_OF_MEMORY, "no memory for the tables of a cache");
    memset(c, 0, sizeof *c);
    c->m = m;
    c->ops = m->ops;
    c->rows = rows;
    c->slots = slots;
    pe__cache_host(c, (char *)c + pe__cache_own(), rows, slots);
    if (!pe__cache_allocate(c)) {
        double megabytes = 1e-6 * (double)posenc_cache_bytes(&m->c, rows, slots);
        posenc_cache_free(c);
        return pe__fail(why, POSENC_OUT_OF_MEMORY, "no memory for a cache of %d x %d, %.0f MB", rows, slots,
                        megabytes);
    }
    posenc_cache_clear(c);
    *out = c;
    return POSENC_OK;
}

POSENC_DEF void posenc_cache_free(posenc_cache *c)
{
    const posenc_backend *ops;
    if (!c) return;
    ops = c->ops;
    if (c->k) ops->release(ops->user, c->k);
    if (c->v) ops->release(ops->user, c->v);
    if (c->all_at) ops->release(ops->user, c->all_at);
    if (c->all_keep) ops->release(ops->user, c->all_keep);
    POSENC_FREE(c);
}

POSENC_DEF void posenc_cache_clear(posenc_cache *c)
{
    c->used = c->coming = c->padded = 0;
    c->length = 0;
    memset(c->next, 0, (size_t)c->rows * sizeof *c->next);
}
POSENC_DEF int posenc_cache_used(const posenc_cache *c) { return c->used; }

/* ---- [7.10.1] what a running forward asks of it ---------------------------------------------- */

static posenc_float *pe__cache_at(const posenc_cache *c, int layer, int row, int slot, int values)
{
    size_t token = ((size_t)layer * c->rows + row) * c->slots + slot;
    return (values ? c->v : c->k) + token * pe__cache_width(&c->m->c);
}
/* keys or values of a layer, old ones and those that just came */
static posenc_heads pe__cached(const posenc_cache *c, int layer, int values)
{
    const posenc_config *g = &c->m->c;
    posenc_heads x = posenc_heads_bthd(pe__cache_at(c, layer, 0, 0, values), c->rows,
                                       c->used + c->coming, g->kv_heads, g->head_channels);
    x.sb = (ptrdiff_t)(c->slots * pe__cache_width(g));
    return x;
}
static void pe__cache_how(posenc_attention *how, const posenc_cache *c)
{
    how->keep = c->padded ? c->all_keep : NULL;
    if (how->bias) how->k_at = c->all_at;
    how->k_turns = NULL;                                            /* they were, on the way in */
}
static void pe__cache_put(posenc_cache *c, int layer, posenc_float *k, const posenc_float *v)
{
    posenc_model *m = c->m;
    size_t n = c->coming * pe__cache_width(&m->c), bytes = n * sizeof *k;
    if (pe__turning(m, layer) && !m->turn_apart)
        m->ops->turn(pe__turn_view(m, k, 1), pe__turns(m, m->twofold));
    for (int b = 0; b < c->rows; b++) {
        m->ops->copy(m->ops->user, pe__cache_at(c, layer, b, c->used, 0), k + b * n, bytes);
        m->ops->copy(m->ops->user, pe__cache_at(c, layer, b, c->used, 1), v + b * n, bytes);
    }
}

/* ---- [7.10.2] turning keys that are kept ----------------------------------------------------- */

/* What turned the keys of a layer when the text had this length, with trained factors on the host. */
static posenc_rotation pe__cache_rotation(const posenc_cache *c, int layer, double length, double *room,
                                          posenc_float *scale)
{
    posenc_model *m = c->m;
    posenc_tensor *trained = pe__turn_scale(m, layer);
    const posenc_custom *own = m->own[m->turner];
    posenc_rotation r;
    memset(&r, 0, sizeof r);
    if (own) {
        for (int i = 0; i < m->rotated; i++) room[i] = own->frequency(own->user, i, m->rotated);
        r.pairs = m->rotated;
        r.axes = 1;
        r.frequency = room;
    } else {
        r = posenc_spec_rotation(room, &m->spec[m->turner], m->twofold, length);
    }
    if (trained) {
        posenc_model_get(m, scale, trained->data, trained->count);
        r.scale = scale;
    }
    return r;
}

/* Turns all kept keys from (position, length) as they are in the cache to those given. The host makes
   the table; the model's own is free between two forwards.                                       */
static posenc_status pe__cache_turn(posenc_cache *c, const double *position, double length,
                                    posenc_error *why)
{
    posenc_model *m = c->m;
    size_t pairs = (size_t)m->rotated, table = (size_t)c->used * pairs;
    size_t doubles = 2 * (POSENC_AXES + 1) * pairs;
    char *room = (char *)POSENC_MALLOC(doubles * sizeof(double) + (2 * pairs + 2 * table) * sizeof(posenc_float));
    double *now = (double *)(void *)room, *before = now + doubles / 2;
    posenc_float *scale = (posenc_float *)(void *)(now + doubles), *host = scale + 2 * pairs;
    posenc_turns on_host = pe__turns(m, 0), on_device = pe__turns(m, 0);
    int threads;
    if (!room) return pe__fail(why, POSENC_OUT_OF_MEMORY, "no memory to turn %d cached keys", c->used);
    on_host.rows = on_device.rows = c->used;
    on_host.row_b = on_device.row_b = 0;
    on_host.cosine = host;
    on_host.sine = host + table;
    threads = pe__enter(m);
    for (int layer = 0; layer < m->c.layers; layer++) {
        posenc_rotation to, from;
        if (!pe__turning(m, layer)) continue;
        to = pe__cache_rotation(c, layer, length, now, scale);
        from = pe__cache_rotation(c, layer, c->length, before, scale + pairs);
        for (int b = 0; b < c->rows; b++) {
            posenc_heads k = pe__cached(c, layer, 0);
            size_t row = (size_t)b * c->slots;
            posenc_turns_between(on_host, position + row, &to, c->position + row, &from);
            posenc_model_set(m, on_device.cosine, on_host.cosine, table);
            posenc_model_set(m, on_device.sine, on_host.sine, table);
            k.data += b * k.sb;
            k.B = 1;
            k.T = c->used;
            if (m->spec[m->turner].over == POSENC_OVER_WIDTH) { k.D *= k.H; k.H = 1; k.sh = k.D; }
            m->ops->turn(k, on_device);
        }
    }
    pe__leave(threads);
    POSENC_FREE(room);
    return POSENC_OK;
}

/* how many positions go with slots from .. from + n - 1: padding has none */
static double pe__cache_gone(const posenc_cache *c, int row, int from, int n)
{
    double gone = 0;
    for (int t = from; t < from + n; t++) gone += c->keep[(size_t)row * c->slots + t] != 0;
    return gone;
}

static posenc_status pe__cache_may_forget(const posenc_cache *c, int from, int n, posenc_error *why)
{
    const posenc_model *m = c->m;
    if (from < 0 || n < 0 || from > c->used - n)
        return pe__fail(why, POSENC_BAD_INPUT, "%d slots from slot %d on are to be forgotten, of %d", n, from,
                        c->used);
    for (int e = 0; e < m->specs; e++)
        if (m->card[e]->row || m->card[e]->network || m->card[e]->lookup || (m->own[e] && m->own[e]->row))
            return pe__fail(why, POSENC_BAD_CONFIG, "%s entered the embedding and cannot be taken out of a "
                            "cache again: start anew with fewer tokens", pe__model_encoding(m, e));
    if (m->axes > 1 || m->placer >= 0 || m->temper >= 0)
        return pe__fail(why, POSENC_BAD_CONFIG, "only positions on a line can be moved up in a cache");
    if (pe__cache_fixed(m) && from + n < c->used)
        return pe__fail(why, POSENC_BAD_CONFIG, "qk_norm=after: keys that were normed behind their turn cannot "
                        "be turned to another place");
    return POSENC_OK;
}

/* turns the keys behind the gap to where they will stand */
static posenc_status pe__cache_move(posenc_cache *c, int from, int n, posenc_error *why)
{
    posenc_status status;
    double *moved = (double *)POSENC_MALLOC((size_t)c->rows * c->slots * sizeof *moved);
    if (!moved) return pe__fail(why, POSENC_OUT_OF_MEMORY, "no memory for positions");
    for (int b = 0; b < c->rows; b++) {
        double gone = pe__cache_gone(c, b, from, n);
        for (int t = 0; t < c->used; t++) {
            size_t slot = (size_t)b * c->slots + t;
            moved[slot] = c->position[slot] - (t < from + n ? 0 : gone);
        }
    }
    status = pe__cache_turn(c, moved, c->length, why);
    POSENC_FREE(moved);
    return status;
}

/* what stands behind the gap moves up, tables of the host and keys and values alike */
static void pe__cache_close(posenc_cache *c, int row, int from, int n)
{
    const posenc_backend *ops = c->m->ops;
    size_t bytes = pe__cache_width(&c->m->c) * sizeof(posenc_float), first = (size_t)row * c->slots;
    double gone = pe__cache_gone(c, row, from, n);
    for (int t = from; t < c->used - n; t++) {
        size_t slot = first + t;
        c->position[slot] = c->position[slot + n] - gone;
        c->at[slot] = c->at[slot + n] - (int)gone;
        c->keep[slot] = c->keep[slot + n];
        for (int layer = 0; layer < c->m->c.layers; layer++)    /* one by one: copies may not overlap */
            for (int values = 0; values < 2; values++)
                ops->copy(ops->user, pe__cache_at(c, layer, row, t, values),
                          pe__cache_at(c, layer, row, t + n, values), bytes);
    }
    c->next[row] = 0;
    for (int t = 0; t < c->used - n; t++) if (c->keep[first + t]) c->next[row] = c->position[first + t] + 1;
}

POSENC_DEF posenc_status posenc_cache_forget(posenc_cache *c, int from, int n, posenc_error *why)
{
    posenc_status status = pe__cache_may_forget(c, from, n, why);
    if (status != POSENC_OK || n == 0) return status;
    if (c->m->turner >= 0 && from + n < c->used) status = pe__cache_move(c, from, n, why);
    if (status != POSENC_OK) return status;
    for (int row = 0; row < c->rows; row++) pe__cache_close(c, row, from, n);
    c->used -= n;
    return POSENC_OK;
}

/* ---- [7.10.3] a forward that goes on --------------------------------------------------------- */

/* positions of the coming tokens, and the batch with them */
static void pe__cache_positions(posenc_cache *c, posenc_batch *b)
{
    for (int row = 0; row < c->rows; row++) {
        double next = c->next[row];
        for (int t = 0; t < b->T; t++) {
            size_t own = (size_t)row * b->T + t, slot = (size_t)row * c->slots + c->used + t;
            c->keep[slot] = !b->keep || b->keep[own];
            if (c->m->c.mask_padding && b->tokens[own] == c->m->c.padding_token) c->keep[slot] = 0;
            c->position[slot] = b->positions ? b->positions[own * pe__max(1, b->axes)] : next;
            next += c->keep[slot];
            c->padded |= !c->keep[slot];
        }
    }
}
/* the same as the model wants them, (rows, T) without gaps; its host_positions are its own */
static void pe__cache_batch(const posenc_cache *c, posenc_batch *b, double *positions)
{
    for (int row = 0; row < c->rows && !b->positions; row++)
        for (int t = 0; t < b->T; t++)
            positions[(size_t)row * b->T + t] = c->position[(size_t)row * c->slots + c->used + t];
    if (!b->positions) { b->positions = positions; b->axes = 1; }
}

/* where all keys stand and whether they count, without the gaps between rows */
static void pe__cache_send(posenc_cache *c, int T)
{
    const posenc_backend *ops = c->m->ops;
    size_t n = (size_t)(c->used + T);
    for (int row = 0; row < c->rows; row++) {
        size_t from = (size_t)row * c->slots;
        for (int t = 0; t < T; t++) c->at[from + c->used + t] = c->m->host_at[row * T + t];
        ops->upload(ops->user, c->all_at + row * n, c->at + from, n * sizeof(int));
        ops->upload(ops->user, c->all_keep + row * n, c->keep + from, n);
    }
}

/* pe__check_reach for all that is kept, with T coming slots: a fixed bias ends with the context */
static posenc_status pe__cache_reach(const posenc_cache *c, int T, posenc_error *why)
{
    const posenc_model *m = c->m;
    int e = 0;
    while (e < m->specs && !m->card[e]->bias && !m->card[e]->curve && !(m->own[e] && m->own[e]->bias)) e++;
    for (int b = 0; b < c->rows && e < m->specs; b++) {
        double low = HUGE_VAL, high = -HUGE_VAL;
        for (size_t at = (size_t)b * c->slots, end = at + c->used + T; at < end; at++)
            if (c->keep[at]) { low = fmin(low, c->position[at]); high = fmax(high, c->position[at]); }
        if (high - low > m->span)
            return pe__fail(why, POSENC_BAD_INPUT, "positions %.0f and %.0f of row %d are more than %d apart; "
                            "raise context for %s", low, high, b, m->span, pe__model_encoding(m, e));
    }
    return POSENC_OK;
}

static posenc_status pe__cache_check(const posenc_model *m, const posenc_cache *c, const posenc_batch *b,
                                     posenc_error *why)
{
    if (c->m != m) return pe__fail(why, POSENC_BAD_INPUT, "this cache belongs to another model");
    if (b->B != c->rows)
        return pe__fail(why, POSENC_BAD_INPUT, "a batch of %d rows for a cache of %d", b->B, c->rows);
    if (b->segments) return pe__fail(why, POSENC_BAD_INPUT, "a cache holds one text in a row, no segments");
    if (b->T > c->slots - c->used)
        return pe__fail(why, POSENC_FULL, "%d tokens do not fit: %d of the cache's %d slots are used", b->T,
                        c->used, c->slots);
    return pe__check_batch(m, b, 0, why);
}

POSENC_DEF posenc_status posenc_model_extend(posenc_model *m, posenc_cache *c, const posenc_batch *batch,
                                             posenc_error *why)
{
    posenc_batch b = *batch;
    pe__pass p = { 0, 0, 0 };
    int before;
    posenc_status status = pe__cache_check(m, c, batch, why);
    if (status != POSENC_OK) return status;
    pe__cache_positions(c, &b);
    if ((status = pe__cache_reach(c, b.T, why)) != POSENC_OK) return status;
    pe__cache_batch(c, &b, m->host_axes);             /* read before the model writes to its own copy */
    if ((status = pe__take_batch(m, &b, 0, why)) != POSENC_OK) return status;
    if (c->used && m->turned_length != c->length && m->turner >= 0)
        if ((status = pe__cache_turn(c, c->position, m->turned_length, why)) != POSENC_OK) return status;
    c->length = m->turned_length;
    pe__cache_send(c, b.T);
    before = pe__enter(m);
    c->coming = b.T;
    m->cache = c;
    pe__run_forward(m, &p);
    m->cache = NULL;
    c->coming = 0;
    pe__leave(before);
    if ((status = pe__sync(m, why)) != POSENC_OK) return status;
    for (int row = 0; row < c->rows; row++)
        for (int t = 0; t < b.T; t++) {
            size_t slot = (size_t)row * c->slots + c->used + t;
            if (c->keep[slot]) c->next[row] = c->position[slot] + 1;
        }
    c->used += b.T;
    m->ready = m->extended = 1;
    return POSENC_OK;
}

/* ---- [7.10.4] drawing a token -------------------------------------------------------------------
   Both cuts ask for the least logit that stays. It is found by halving: floats of one sign are ordered
   as their bits are, so 32 looks at all logits find it, without sorting and without memory.      */

static uint32_t pe__ordered(float x)                           /* larger float, larger number */
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u >> 31 ? ~u : u | 0x80000000u;
}

/* how many logits, or with sum what share of exp(logit - top), lie at `least` or above */
static double pe__at_least(const posenc_float *z, int V, uint32_t least, posenc_float top, int share)
{
    double n = 0;
    for (int v = 0; v < V; v++)
        if (pe__ordered((float)z[v]) >= least) n += share ? exp((double)(z[v] - top)) : 1;
    return n;
}
/* hides all logits below the largest `least` that leaves `enough` */
static void pe__keep_most(posenc_float *z, int V, double enough, posenc_float top, int share)
{
    uint32_t low = 0, high = pe__ordered((float)top);
    while (low < high) {
        uint32_t middle = low + (high - low + 1) / 2;
        if (pe__at_least(z, V, middle, top, share) >= enough) low = middle;
        else high = middle - 1;
    }
    for (int v = 0; v < V; v++) if (pe__ordered((float)z[v]) < low) z[v] = -HUGE_VALF;
}

static int pe__likeliest(const posenc_float *z, int V)             /* the first of equal ones */
{
    int best = -1;
    for (int v = 0; v < V; v++) if (z[v] == z[v] && (best < 0 || z[v] > z[best])) best = v;
    return best;
}

static int pe__among(const int *list, int n, int token)
{
    for (int i = 0; i < n; i++) if (list[i] == token) return 1;
    return 0;
}
/* once for each token; distinct: nobody stands in the list twice */
static void pe__penalise(posenc_float *z, int V, const int *seen, int n, int distinct, double by)
{
    posenc_float r = PE__F(by);
    for (int i = 0; i < n; i++) {
        int v = seen[i], again = !distinct && pe__among(seen, i, v);
        if (v >= 0 && v < V && !again) z[v] = z[v] > 0 ? z[v] / r : z[v] * r;
    }
}

static int pe__draw(posenc_float *z, int V, const int *seen, int n, int distinct,
                    const posenc_sampling *how, uint64_t index)
{
    int best;
    double sum = 0, at;
    for (int v = 0; v < V; v++) if (z[v] != z[v]) z[v] = -HUGE_VALF;
    if (how->repetition > 0 && how->repetition != 1) pe__penalise(z, V, seen, n, distinct, how->repetition);
    best = pe__likeliest(z, V);
    if (best < 0 || z[best] == -HUGE_VALF) return -1;
    if (how->temperature <= 0 || z[best] == HUGE_VALF) return best;
    for (int v = 0; v < V; v++) z[v] = PE__F(z[v] / how->temperature);
    if (how->top_k > 0 && how->top_k < V) pe__keep_most(z, V, how->top_k, z[best], 0);
    if (how->top_p > 0 && how->top_p < 1)
        pe__keep_most(z, V, how->top_p * pe__at_least(z, V, 0, z[best], 1), z[best], 1);
    for (int v = 0; v < V; v++) sum += exp((double)(z[v] - z[best]));
    at = sum * pe__uniform(how->seed, PE__SITE_TOKEN, index);
    for (int v = 0; v < V; v++)
        if ((at -= exp((double)(z[v] - z[best]))) < 0) return v;
    return best;
}
POSENC_DEF int posenc_sample(posenc_float *z, int V, const int *seen, int n, const posenc_sampling *how,
                             uint64_t index)
{
    return pe__draw(z, V, seen, n, 0, how, index);
}

/* ---- [7.10.5] the loop ----------------------------------------------------------------------- */

/* what a call of posenc_generate works in, in one block */
typedef struct pe__writing {
    int rows, T, most, V;                         /* T: of the longest prompt                      */
    int *seen, *known;                  /* (rows, T + most) tokens of a row, once each; how many there are */
    int *done;                                    /* (rows) has it ended?                          */
    int *step;                                    /* (rows, T) the tokens of a forward             */
    unsigned char *keep;                          /* (rows, T) the same                            */
    posenc_float *logits;                         /* (rows, V)                                     */
} pe__writing;

static size_t pe__writing_place(pe__writing *w, char *memory)
{
    size_t used = 0, rows = (size_t)w->rows, T = (size_t)w->T;
#define PE__PLACE(field, type, count)                                                              \
    if (memory) w->field = (type *)(void *)(memory + used);                                        \
    used += ((count) * sizeof(type) + 63) / 64 * 64
    PE__PLACE(seen, int, rows * (T + w->most));
    PE__PLACE(known, int, rows);
    PE__PLACE(done, int, rows);
    PE__PLACE(step, int, rows * T);
    PE__PLACE(keep, unsigned char, rows * T);
    PE__PLACE(logits, posenc_float, rows * w->V);
#undef PE__PLACE
    return used;
}

static int *pe__writing_seen(const pe__writing *w, int b) { return w->seen + (size_t)b * (w->T + w->most); }
static void pe__writing_note(pe__writing *w, int b, int token)
{
    int *seen = pe__writing_seen(w, b);
    if (!pe__among(seen, w->known[b], token)) seen[w->known[b]++] = token;
}

/* prompts end at the same slot */
static void pe__writing_begin(pe__writing *w, const int *prompt, const int *length, int stride)
{
    for (int b = 0; b < w->rows; b++) {
        int first = w->T - length[b];
        w->known[b] = w->done[b] = 0;
        for (int t = 0; t < w->T; t++) {
            int token = t < first ? 0 : prompt[(size_t)b * stride + t - first];
            w->step[b * w->T + t] = token;
            w->keep[b * w->T + t] = t >= first;
            if (t >= first) pe__writing_note(w, b, token);
        }
    }
}

/* a forward of T tokens in each row, and the logits of the last */
static posenc_status pe__writing_forward(pe__writing *w, posenc_model *m, posenc_cache *c, int T,
                                         posenc_error *why)
{
    posenc_batch b;
    posenc_status status;
    memset(&b, 0, sizeof b);
    b.B = w->rows;
    b.T = T;
    b.tokens = w->step;
    b.keep = w->keep;
    status = posenc_model_extend(m, c, &b, why);
    if (status == POSENC_OK && T == 1) return posenc_model_logits(m, w->logits, 0, w->rows, why);
    for (int row = 0; row < w->rows && status == POSENC_OK; row++)
        status = posenc_model_logits(m, w->logits + (size_t)row * w->V, row * T + T - 1, 1, why);
    return status;
}

static int pe__is_stop(const posenc_generation *how, int token)
{
    for (int i = 0; i < how->stops; i++) if (how->stop[i] == token) return 1;
    return 0;
}

/* new token n of row b; a row that has ended goes on as padding. 0: no logit is a number */
static int pe__writing_draw(pe__writing *w, int b, int n, int *out, int *count,
                            const posenc_generation *how)
{
    int was_done = w->done[b], token = -1;
    if (!was_done)
        token = pe__draw(w->logits + (size_t)b * w->V, w->V, pe__writing_seen(w, b), w->known[b], 1,
                         &how->sampling, (uint64_t)b << 32 | (uint32_t)n);
    w->keep[b] = token >= 0;
    w->step[b] = pe__max(0, token);
    if (token < 0) { w->done[b] = 1; return was_done; }
    pe__writing_note(w, b, token);
    out[(size_t)b * w->most + n] = token;
    count[b] = n + 1;
    w->done[b] = how->token && !how->token(how->user, b, token);
    if (pe__is_stop(how, token)) w->done[b] = 1;
    return 1;
}

static posenc_status pe__write(pe__writing *w, posenc_model *m, posenc_cache *c, int *out, int *count,
                               const posenc_generation *how, posenc_error *why)
{
    posenc_status status = pe__writing_forward(w, m, c, w->T, why);
    for (int n = 0; n < w->most && status == POSENC_OK; n++) {
        int going = 0;
        for (int b = 0; b < w->rows; b++) {
            if (!pe__writing_draw(w, b, n, out, count, how))
                return pe__fail(why, POSENC_NOT_FINITE, "row %d: no logit of new token %d is a number", b, n);
            going += !w->done[b];
        }
        if (!going || n == w->most - 1) break;
        if (c->used == c->slots && how->forget > 0)
            status = posenc_cache_forget(c, how->anchor, how->forget, why);
        if (status == POSENC_OK) status = pe__writing_forward(w, m, c, 1, why);
    }
    return status;
}

POSENC_DEF posenc_status posenc_generate(int *out, int *count, posenc_model *m, posenc_cache *c,
                                         const int *prompt, const int *length, int T,
                                         const posenc_generation *how, posenc_error *why)
{
    pe__writing w;
    posenc_status status;
    char *memory;
    memset(&w, 0, sizeof w);
    w.rows = c->rows;
    w.most = how->most;
    w.V = m->c.vocab;
    for (int b = 0; b < c->rows; b++) {
        count[b] = 0;
        if (length[b] < 1 || length[b] > T)
            return pe__fail(why, POSENC_BAD_INPUT, "the prompt of row %d has %d tokens; 1 to %d can be", b,
                            length[b], T);
        w.T = pe__max(w.T, length[b]);
    }
    if (how->most < 1 || how->most > INT_MAX - w.T)
        return pe__fail(why, POSENC_BAD_INPUT, "%d new tokens were asked for", how->most);
    if (how->forget < 0 || how->anchor < 0 || how->anchor > c->slots - how->forget)
        return pe__fail(why, POSENC_BAD_INPUT, "a cache of %d slots cannot forget %d behind the first %d",
                        c->slots, how->forget, how->anchor);
    if (w.T > c->slots)
        return pe__fail(why, POSENC_FULL, "a prompt of %d tokens does not fit the cache's %d slots", w.T,
                        c->slots);
    memory = (char *)POSENC_MALLOC(pe__writing_place(&w, NULL));
    if (!memory) return pe__fail(why, POSENC_OUT_OF_MEMORY, "no memory to generate %d tokens", how->most);
    pe__writing_place(&w, memory);
    pe__writing_begin(&w, prompt, length, T);
    posenc_cache_clear(c);
    status = pe__write(&w, m, c, out, count, how, why);
    POSENC_FREE(memory);
    return status;
}

/* ---- [7.11] names of published models -----------------------------------------------------------
   The same tensors under other names. Two habits are more than a name: GPT-2 keeps its products (in,out),
   and where queries, keys and values are one tensor, they lie one behind the other (GPT-2) or head by
   head (GPT-NeoX, BLOOM):

       GPT-2    Q0 Q1 .. | K0 K1 .. | V0 V1 ..          NeoX, BLOOM    Q0 K0 V0 | Q1 K1 V1 | ..      */

enum { PE__WHOLE, PE__TURNED = 1, PE__Q = 2, PE__K = 4, PE__V = 8, PE__BY_HEAD = 16 };

typedef struct pe__alias { const char *ours, *theirs; int form; } pe__alias;
typedef struct pe__family { const char *block; const pe__alias *alias; } pe__family;

static const pe__alias pe__bert_names[] = {
    { "token_embedding", "embeddings.word_embeddings", 0 },
    { "type_embedding",  "embeddings.token_type_embeddings", 0 },
    { "pe.learned",      "embeddings.position_embeddings", 0 },
    { "embedding_norm",  "embeddings.LayerNorm", 0 },
    { "attn.q_proj",     "attention.self.query", 0 },     { "attn.k_proj", "attention.self.key", 0 },
    { "attn.v_proj",     "attention.self.value", 0 },
    { "attn.out_proj",   "attention.output.dense", 0 },   { "norm1", "attention.output.LayerNorm", 0 },
    { "mlp.up_proj",     "intermediate.dense", 0 },       { "mlp.down_proj", "output.dense", 0 },
    { "norm2",           "output.LayerNorm", 0 },         { NULL, NULL, 0 }
};
static const pe__alias pe__gpt2_names[] = {
    { "token_embedding", "transformer.wte", 0 },          { "pe.learned", "transformer.wpe", 0 },
    { "norm",            "transformer.ln_f", 0 },         { "norm1", "ln_1", 0 },
    { "attn.q_proj",     "attn.c_attn", PE__TURNED | PE__Q },
    { "attn.k_proj",     "attn.c_attn", PE__TURNED | PE__K },
    { "attn.v_proj",     "attn.c_attn", PE__TURNED | PE__V },
    { "attn.out_proj",   "attn.c_proj", PE__TURNED },     { "norm2", "ln_2", 0 },
    { "mlp.up_proj",     "mlp.c_fc", PE__TURNED },        { "mlp.down_proj", "mlp.c_proj", PE__TURNED },
    { NULL, NULL, 0 }
};
static const pe__alias pe__llama_names[] = {
    { "token_embedding", "model.embed_tokens", 0 },       { "norm", "model.norm", 0 },
    { "lm_head",         "lm_head", 0 },                  { "norm1", "input_layernorm", 0 },
    { "attn.q_proj",     "self_attn.q_proj", 0 },         { "attn.k_proj", "self_attn.k_proj", 0 },
    { "attn.v_proj",     "self_attn.v_proj", 0 },         { "attn.out_proj", "self_attn.o_proj", 0 },
    { "attn.q_norm",     "self_attn.q_norm", 0 },         { "attn.k_norm", "self_attn.k_norm", 0 },
    { "norm2",           "post_attention_layernorm", 0 }, { "mlp.gate_proj", "mlp.gate_proj", 0 },
    { "mlp.up_proj",     "mlp.up_proj", 0 },              { "mlp.down_proj", "mlp.down_proj", 0 },
    { NULL, NULL, 0 }
};
static const pe__alias pe__neox_names[] = {
    { "token_embedding", "gpt_neox.embed_in", 0 },        { "norm", "gpt_neox.final_layer_norm", 0 },
    { "lm_head",         "embed_out", 0 },                { "norm1", "input_layernorm", 0 },
    { "attn.q_proj",     "attention.query_key_value", PE__BY_HEAD | PE__Q },
    { "attn.k_proj",     "attention.query_key_value", PE__BY_HEAD | PE__K },
    { "attn.v_proj",     "attention.query_key_value", PE__BY_HEAD | PE__V },
    { "attn.out_proj",   "attention.dense", 0 },          { "norm2", "post_attention_layernorm", 0 },
    { "mlp.up_proj",     "mlp.dense_h_to_4h", 0 },        { "mlp.down_proj", "mlp.dense_4h_to_h", 0 },
    { NULL, NULL, 0 }
};
static const pe__alias pe__bloom_names[] = {
    { "token_embedding", "transformer.word_embeddings", 0 },
    { "embedding_norm",  "transformer.word_embeddings_layernorm", 0 },
    { "norm",            "transformer.ln_f", 0 },         { "norm1", "input_layernorm", 0 },
    { "attn.q_proj",     "self_attention.query_key_value", PE__BY_HEAD | PE__Q },
    { "attn.k_proj",     "self_attention.query_key_value", PE__BY_HEAD | PE__K },
    { "attn.v_proj",     "self_attention.query_key_value", PE__BY_HEAD | PE__V },
    { "attn.out_proj",   "self_attention.dense", 0 },     { "norm2", "post_attention_layernorm", 0 },
    { "mlp.up_proj",     "mlp.dense_h_to_4h", 0 },        { "mlp.down_proj", "mlp.dense_4h_to_h", 0 },
    { NULL, NULL, 0 }
};
static const pe__alias pe__t5_names[] = {
    { "token_embedding", "shared", 0 },                   { "norm", "encoder.final_layer_norm", 0 },
    { "pe.t5",           "encoder.block.0.layer.0.SelfAttention.relative_attention_bias", 0 },
    { "norm1",           "layer.0.layer_norm", 0 },       { "attn.q_proj", "layer.0.SelfAttention.q", 0 },
    { "attn.k_proj",     "layer.0.SelfAttention.k", 0 },  { "attn.v_proj", "layer.0.SelfAttention.v", 0 },
    { "attn.out_proj",   "layer.0.SelfAttention.o", 0 },  { "norm2", "layer.1.layer_norm", 0 },
    { "mlp.gate_proj",   "layer.1.DenseReluDense.wi_0", 0 },
    { "mlp.up_proj",     "layer.1.DenseReluDense.wi", 0 },
    { "mlp.down_proj",   "layer.1.DenseReluDense.wo", 0 }, { NULL, NULL, 0 }
};
static const pe__family pe__families[] = {
    { "encoder.layer.",   pe__bert_names },  { "transformer.h.", pe__gpt2_names },
    { "model.layers.",    pe__llama_names }, { "gpt_neox.layers.", pe__neox_names },
    { "transformer.h.",   pe__bloom_names }, { "encoder.block.", pe__t5_names }
};

/* which rows of a shared tensor are ours, and its shape */
static void pe__published_part(posenc_published *p, const posenc_model *m, const posenc_tensor *t, int form)
{
    int which = form & PE__K ? 1 : form & PE__V ? 2 : 0, D = m->c.head_channels;
    int shared = (form & (PE__Q | PE__K | PE__V)) != 0, rows = t->shape[0];
    p->dims = t->dims;
    p->shape[0] = shared ? 3 * rows : rows;
    p->shape[1] = t->dims == 2 ? t->shape[1] : 1;
    p->first = form & PE__BY_HEAD ? which * D : which * rows;
    p->run = form & PE__BY_HEAD ? D : rows;
    p->apart = form & PE__BY_HEAD ? 3 * D : rows;
    p->transposed = (form & PE__TURNED) && t->dims == 2;
    if (p->transposed) { int turned = p->shape[0]; p->shape[0] = p->shape[1]; p->shape[1] = turned; }
}

POSENC_DEF int posenc_model_published(posenc_published *p, const posenc_model *m, int i, int family)
{
    const posenc_tensor *t = i >= 0 && i < m->params_n ? &m->slot[i].t : NULL;
    const char *name = t ? t->name : "", *end = strrchr(name, '.'), *stem = name;
    int block = strncmp(name, "blocks.", 7) == 0, gated = pe__is_gated(m->c.activation);
    memset(p, 0, sizeof *p);
    if (!t || !end || family < 0 || family > POSENC_AS_T5) return 0;
    if (block) stem = strchr(name + 7, '.') + 1;
    for (const pe__alias *a = pe__families[family].alias; a->ours; a++) {
        if (strlen(a->ours) != (size_t)(end - stem) || strncmp(stem, a->ours, strlen(a->ours))) continue;
        if (block) snprintf(p->name, sizeof p->name, "%s%.*s%s%s%s", pe__families[family].block,
                            (int)(stem - name - 7), name + 7, a->theirs,
                            family == POSENC_AS_T5 && gated && !strcmp(a->ours, "mlp.up_proj") ? "_1" : "", end);
        else snprintf(p->name, sizeof p->name, "%s%s", a->theirs, end);
        pe__published_part(p, m, t, a->form);
        return 1;
    }
    return 0;
}

/* ---- [8] training ---------------------------------------------------------------------------- */

/* ---- [8.1] optimizers ---------------------------------------------------------------------------
   SGD     g += decay w     m = momentum m + g     w -= rate m     (Nesterov: rate (g + momentum m))
   Adam    g += decay w     m = b1 m + (1 - b1) g     v = b2 v + (1 - b2) g^2
           w -= rate (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)       (Kingma and Ba 2014)
   AdamW   w -= rate decay w  instead of touching g                        (Loshchilov, Hutter 2017)

   m and v start at zero and lean towards it; 1 - b^t is what the mean of t steps lacks. The m of
   SGD starts with the first gradient, as in PyTorch.                                             */

static double pe__or(double x, double otherwise) { return x == 0 ? otherwise : x < 0 ? 0 : x; }

static void pe__sgd(posenc_float *w, posenc_float *m, const posenc_float *g, ptrdiff_t n,
                    const posenc_optimizer *o, double rate, double gradient_scale, double decay,
                    uint64_t t)
{
    posenc_float mu = PE__F(o->momentum), lr = PE__F(rate), shrink = PE__F(decay),
                 gs = PE__F(gradient_scale);
    PE__PARALLEL
    for (ptrdiff_t i = 0; i < n; i++) {
        posenc_float d = gs * g[i] + shrink * w[i];
        if (o->momentum != 0) {
            m[i] = t == 1 ? d : mu * m[i] + d;
            d = o->nesterov ? d + mu * m[i] : m[i];
        }
        w[i] -= lr * d;
    }
}

typedef struct pe__adam_numbers {              /* what the formula needs of them, once per update */
    posenc_float f1, n1, f2, n2;               /* b1, 1 - b1, b2, 1 - b2                          */
    posenc_float step, root, eps;              /* rate / (1 - b1^t), 1 / sqrt(1 - b2^t)           */
    posenc_float gs, keep, couple;             /* scale of g; decay as in AdamW, as in Adam       */
} pe__adam_numbers;

/* A loop with sqrtf in it is not widened, because sqrtf may set errno; so roots are taken in between,
   a stretch at a time [11.3].                                                                    */
static void pe__roots(posenc_float *y, const posenc_float *x, int n);
PE__STAMPED(adam_moments, (posenc_float *m, posenc_float *v, const posenc_float *w, const posenc_float *g,
                           const pe__adam_numbers *a, int n), (m, v, w, g, a, n))
{
    PE__EACH for (int i = 0; i < n; i++) {
        posenc_float d = a->gs * g[i] + a->couple * w[i];
        m[i] = a->f1 * m[i] + a->n1 * d;
        v[i] = a->f2 * v[i] + a->n2 * d * d;
    }
}
PE__STAMPED(adam_step, (posenc_float *w, const posenc_float *m, const posenc_float *root,
                        const pe__adam_numbers *a, int n), (w, m, root, a, n))
{
    PE__EACH for (int i = 0; i < n; i++)
        w[i] = a->keep * w[i] - a->step * m[i] / (root[i] * a->root + a->eps);
}
static void pe__adam(posenc_float *w, posenc_float *m, posenc_float *v, const posenc_float *g,
                     const pe__adam_numbers *a, int n)
{
    enum { SOME = 256 };
    posenc_float root[SOME];
    for (int i = 0; i < n; i += SOME) {
        int some = pe__min(SOME, n - i);
        pe__adam_moments(m + i, v + i, w + i, g + i, a, some);
        pe__roots(root, v + i, some);
        pe__adam_step(w + i, m + i, root, a, some);
    }
}

POSENC_DEF void posenc_optimizer_apply(posenc_float *w, posenc_float *m, posenc_float *v,
                                       const posenc_float *g, size_t n, const posenc_optimizer *o,
                                       double rate, double gradient_scale, double decay, uint64_t t)
{
    double b1 = pe__or(o->beta1, 0.9), b2 = pe__or(o->beta2, 0.999);
    ptrdiff_t runs = pe__runs(n);
    pe__adam_numbers a;
    if (o->kind == POSENC_SGD) {
        pe__sgd(w, m, g, (ptrdiff_t)n, o, rate, gradient_scale, decay, t);
        return;
    }
    a.eps = PE__F(pe__or(o->eps, 1e-8));
    a.gs = PE__F(gradient_scale);
    a.f1 = PE__F(b1);
    a.n1 = PE__F(1 - b1);
    a.f2 = PE__F(b2);
    a.n2 = PE__F(1 - b2);
    a.step = PE__F(rate / (1 - pow(b1, (double)t)));
    a.root = PE__F(1 / sqrt(1 - pow(b2, (double)t)));
    a.keep = PE__F(o->kind == POSENC_ADAMW ? 1 - rate * decay : 1);
    a.couple = PE__F(o->kind == POSENC_ADAMW ? 0 : decay);
    PE__PARALLEL_IF(runs > 2)
    for (ptrdiff_t r = 0; r < runs; r++) {
        ptrdiff_t at = r * PE__RUN;
        pe__adam(w + at, m + at, v + at, g + at, &a, pe__run_length(r, n));
    }
}

/* sum of x_i^2 in double, in sixteen lanes */
PE__STAMPED(square_sum, (double *sum, const posenc_float *x, int n), (sum, x, n))
{
    double lane[16] = {0};
    int i = 0;
    for (; i <= n - 16; i += 16)
        PE__EACH for (int l = 0; l < 16; l++) lane[l] += (double)x[i + l] * x[i + l];
    for (int l = 0; i < n; i++, l++) lane[l & 15] += (double)x[i] * x[i];
    *sum = 0;
    for (int l = 0; l < 16; l++) *sum += lane[l];
}

/* Sums of fixed stretches, then the sums in order. */
POSENC_DEF double posenc_sum_squares(const posenc_float *x, size_t n)
{
    enum { STRETCH = 4096, GROUP = 256 };
    double total = 0, sum[GROUP];
    for (size_t from = 0; from < n; from += (size_t)STRETCH * GROUP) {
        size_t left = n - from;
        int stretches =
            left >= (size_t)STRETCH * GROUP ? GROUP : (int)((left + STRETCH - 1) / STRETCH);
        PE__PARALLEL_IF(stretches > 2)
        for (int s = 0; s < stretches; s++) {
            const posenc_float *at = x + from + (size_t)s * STRETCH;
            size_t len = pe__least(left - (size_t)s * STRETCH, STRETCH);
            pe__square_sum(&sum[s], at, (int)len);
        }
        for (int s = 0; s < stretches; s++) total += sum[s];
    }
    return total;
}

/* Clipping: if the norm of all gradients together is above the limit, all are scaled down to it.
   The direction stays; a rare huge step does not throw the weights away.                         */
POSENC_DEF posenc_status posenc_model_update(posenc_model *m, const posenc_optimizer *o,
                                             double rate, double *norm, posenc_error *why)
{
    double squares = 0, length, shrink;
    int before;
    if (norm) *norm = 0;
    if (!m->grads)
        return pe__fail(why, POSENC_BAD_CONFIG,
                        "this model was made for inference and cannot train");
    before = pe__enter(m);
    for (int i = 0; i < m->params_n; i++) {
        const posenc_tensor *t = &m->slot[i].t;
        double own = t->frozen ? 0 : m->ops->sum_squares(t->grad, t->count);
        if (!(own - own == 0)) {
            pe__leave(before);
            pe__clear_gradients(m);
            if (norm) *norm = sqrt(own);
            return pe__fail(why, POSENC_NOT_FINITE, "step %lu: the gradient of %s is not finite",
                            (unsigned long)m->steps, t->name);
        }
        squares += own;
    }
    length = sqrt(squares);
    if (norm) *norm = length;
    shrink = o->clip > 0 && length > o->clip ? o->clip / length : 1;
    for (int i = 0; i < m->params_n; i++) {
        posenc_tensor *t = &m->slot[i].t;
        if (!t->frozen)
            m->ops->optimizer_apply(t->data, t->moment1, t->moment2, t->grad, t->count, o, rate,
                                    shrink, o->decay * t->decay, m->steps + 1);
    }
    m->steps++;
    m->ready = 0;                         /* the old forward and the new weights do not mix */
    pe__leave(before);
    pe__clear_gradients(m);
    return pe__sync(m, why);
}

/* ---- [8.2] schedules ----------------------------------------------------------------------------
   All rise linearly over the warm-up, then: constant stays; linear falls straight to the floor;
   cosine falls along half a wave; WSD (warm-up, stable, decay) stays and falls straight over its
   last steps.                                                                                    */

POSENC_DEF double posenc_rate(const posenc_schedule *s, int64_t step)
{
    double floor_rate = s->peak * s->floor, along;
    int64_t start = s->warmup;                          /* the fall begins here and ends at total */
    if (step < s->warmup) return s->peak * (double)(step + 1) / (double)s->warmup;
    if (s->kind == POSENC_CONSTANT) return s->peak;
    if (s->kind == POSENC_WSD) {
        int64_t fall = s->decay > 0 ? s->decay : s->total / 10;
        start = s->total - fall > s->warmup ? s->total - fall : s->warmup;
    }
    if (step < start) return s->peak;
    if (step >= s->total) return floor_rate;
    along = (double)(step - start) / (double)(s->total - start);
    if (s->kind == POSENC_COSINE) along = 0.5 - 0.5 * cos(pe__pi * along);
    return s->peak + (floor_rate - s->peak) * along;
}

/* ---- [8.3] the CPU's table of layer functions ------------------------------------------------ */

static void *pe__cpu_alloc(void *user, size_t bytes)
{
    (void)user;
    return POSENC_MALLOC(bytes ? bytes : 1);
}
static void pe__cpu_release(void *user, void *memory) { (void)user; POSENC_FREE(memory); }
static void pe__cpu_copy(void *user, void *to, const void *from, size_t bytes)
{
    (void)user;
    if (bytes) memcpy(to, from, bytes);
}
static void pe__cpu_zero(void *user, void *memory, size_t bytes)
{
    (void)user;
    if (bytes) memset(memory, 0, bytes);
}

POSENC_DEF const posenc_backend *posenc_cpu_backend(void)
{
    static const posenc_backend cpu = { "cpu",
                                        NULL,
                                        pe__cpu_alloc,
                                        pe__cpu_release,
                                        pe__cpu_copy,
                                        pe__cpu_copy,
                                        pe__cpu_zero,
                                        pe__cpu_copy,
                                        NULL,
                                        posenc_linear_forward,
                                        posenc_linear_backward,
                                        posenc_layernorm_forward,
                                        posenc_layernorm_backward,
                                        posenc_rmsnorm_forward,
                                        posenc_rmsnorm_backward,
                                        posenc_activation_forward,
                                        posenc_activation_backward,
                                        posenc_gated_forward,
                                        posenc_gated_backward,
                                        posenc_dropout_apply,
                                        posenc_residual,
                                        posenc_embedding_forward,
                                        posenc_embedding_backward,
                                        posenc_pool_forward,
                                        posenc_pool_backward,
                                        posenc_head_loss,
                                        posenc_attention_forward,
                                        posenc_attention_backward,
                                        posenc_rows_forward,
                                        posenc_rows_backward,
                                        posenc_waves_forward,
                                        posenc_waves_backward,
                                        posenc_turns_fill,
                                        posenc_turns_backward,
                                        posenc_turn,
                                        posenc_turn_back,
                                        posenc_gather_forward,
                                        posenc_gather_backward,
                                        posenc_curve_forward,
                                        posenc_curve_backward,
                                        posenc_optimizer_apply,
                                        posenc_sum_squares,
                                        posenc_linear_forward_bf16,
                                        posenc_linear_backward_bf16,
                                        posenc_head_loss_bf16,
                                        posenc_bf16_round,
                                        posenc_linear_few_bf16 };
    return &cpu;
}

/* ---- [9] checkpoint -----------------------------------------------------------------------------
   A checkpoint is a safetensors file, readable by everybody's tools:

       8 bytes    N, little-endian
       N bytes    JSON: { "__metadata__": { string: string, ... },
                          name: { "dtype": "F32", "shape": [rows, columns],
                                  "data_offsets": [begin, end] }, ... }
       the rest   data, row-major; offsets count from here and leave no gaps

   Metadata: format "pt", posenc (the config as posenc_config_print writes it), step, note.
   Weights are under their own names, moments under adam.m.NAME and adam.v.NAME. Random numbers
   need no state beyond seed and step: they are a hash. Files are read as if an enemy had written
   them; numbers are little-endian, as is every machine this runs on.                             */

#ifndef POSENC_NO_STDIO
#include <errno.h>
#if defined(__unix__) || defined(__APPLE__)
#ifdef __cplusplus
#include <unistd.h>
#else
int fsync(int);                                       /* POSIX; -std=c99 hides both declarations */
int fileno(FILE *);
#endif
#define PE__FSYNC(f) fsync(fileno(f))
#else
#define PE__FSYNC(f) 0
#endif

#ifdef POSENC_DOUBLE
#define PE__DTYPE "F64"
#else
#define PE__DTYPE "F32"
#endif

enum { PE__PIECE = 2048 };                       /* numbers that pass through the stack at a time */

/* ---- [9.1] saving ---------------------------------------------------------------------------- */

static void pe__json_string(pe__text *t, const char *s)
{
    pe__say(t, "\"");
    for (; *s; s++) {
        if (*s == '"' || *s == '\\') pe__say(t, "\\%c", *s);
        else if ((unsigned char)*s < 32) pe__say(t, "\\u%04x", (unsigned char)*s);
        else pe__say(t, "%c", *s);
    }
    pe__say(t, "\"");
}

static const char *const pe__parts[] = { "", "adam.m.", "adam.v." };   /* weights and the moments */

static posenc_float *pe__part(const posenc_tensor *t, int part)
{
    return part == 0 ? t->data : part == 1 ? t->moment1 : t->moment2;
}

/* the JSON header; called once to measure and once to write */
static size_t pe__header(char *text, size_t room, posenc_model *m, int parts, const char *note)
{
    pe__text t = { NULL, 0, 0 };
    posenc_config c = m->c;
    char config[2048];
    size_t at = 0;
    t.at = text;
    t.room = room;
    c.threads = 0;                                      /* of this machine, not of the model */
    posenc_config_print(config, sizeof config, &c);
    pe__say(&t, "{\"__metadata__\":{\"format\":\"pt\",\"posenc\":");
    pe__json_string(&t, config);
    pe__say(&t, ",\"step\":\"%llu\",\"note\":", (unsigned long long)m->steps);
    pe__json_string(&t, note ? note : "");
    pe__say(&t, "}");
    for (int part = 0; part < parts; part++) {
        for (int i = 0; i < m->params_n; i++) {
            const posenc_tensor *s = &m->slot[i].t;
            size_t bytes = s->count * sizeof(posenc_float);
            pe__say(&t, ",\"%s%s\":{\"dtype\":\"" PE__DTYPE "\",\"shape\":[%d", pe__parts[part],
                    s->name, s->shape[0]);
            if (s->dims == 2) pe__say(&t, ",%d", s->shape[1]);
            pe__say(&t, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)at,
                    (unsigned long long)(at + bytes));
            at += bytes;
        }
    }
    pe__say(&t, "}");
    while ((t.used + 8) % 64) pe__say(&t, " ");               /* data begin on a cache line */
    return t.used;
}

static int pe__write_data(FILE *f, posenc_model *m, const posenc_float *data, size_t count)
{
    posenc_float piece[PE__PIECE];
    for (size_t at = 0; at < count; at += PE__PIECE) {
        size_t n = pe__least(count - at, PE__PIECE);
        m->ops->download(m->ops->user, piece, data + at, n * sizeof *piece);
        if (fwrite(piece, sizeof *piece, n, f) != n) return 0;
    }
    return 1;
}

static int pe__write_file(FILE *f, posenc_model *m, int parts, const char *header, size_t length)
{
    unsigned char size[8];
    for (int i = 0; i < 8; i++) size[i] = (unsigned char)((uint64_t)length >> (8 * i));
    if (fwrite(size, 1, 8, f) != 8 || fwrite(header, 1, length, f) != length) return 0;
    for (int part = 0; part < parts; part++)
        for (int i = 0; i < m->params_n; i++)
            if (!pe__write_data(f, m, pe__part(&m->slot[i].t, part), m->slot[i].t.count)) return 0;
    return fflush(f) == 0 && PE__FSYNC(f) == 0;
}

POSENC_DEF posenc_status posenc_model_save(posenc_model *m, const char *path, int what,
                                           const char *note, posenc_error *why)
{
    int parts = what == POSENC_WEIGHTS_AND_STATE ? 3 : 1, fine;
    size_t length = pe__header(NULL, 0, m, parts, note), path_length = strlen(path);
    char *header, *temporary;
    FILE *f;
    if (parts == 3 && !m->grads)
        return pe__fail(why, POSENC_BAD_CONFIG, "an inference model has no training state to save");
    header = (char *)POSENC_MALLOC(length + 1 + path_length + 5);
    if (!header)
        return pe__fail(why, POSENC_OUT_OF_MEMORY, "no memory for the header of %.200s", path);
    temporary = header + length + 1;
    snprintf(temporary, path_length + 5, "%s.tmp", path);
    pe__header(header, length + 1, m, parts, note);
    f = fopen(temporary, "wb");
    if (!f) {
        pe__fail(why, POSENC_FILE, "cannot write %.200s: %s", temporary, strerror(errno));
        POSENC_FREE(header);
        return POSENC_FILE;
    }
    fine = pe__write_file(f, m, parts, header, length);
    fine = fclose(f) == 0 && fine;                            /* closed either way */
    if (!fine || rename(temporary, path) != 0) {
        pe__fail(why, POSENC_FILE, "cannot write %.200s: %s; nothing was changed", path,
                 strerror(errno));
        remove(temporary);
        fine = 0;
    }
    POSENC_FREE(header);
    return fine ? POSENC_OK : POSENC_FILE;
}

/* ---- [9.2] reading JSON that nobody promised ----------------------------------------------------
   Just the grammar of such a header. Every function returns 0 when the text is something else.
   Strings are decoded where they stand, which never makes them longer, and end in 0.             */

typedef struct pe__json { char *at, *end; } pe__json;

static void pe__json_blank(pe__json *j)
{
    while (j->at < j->end && (*j->at == ' ' || *j->at == '\n' || *j->at == '\r' || *j->at == '\t'))
        j->at++;
}
static int pe__json_is(pe__json *j, char c)                  /* takes c if it is next */
{
    pe__json_blank(j);
    if (j->at >= j->end || *j->at != c) return 0;
    j->at++;
    return 1;
}

static int pe__json_hex(pe__json *j, unsigned *code)
{
    *code = 0;
    for (int i = 0; i < 4; i++, j->at++) {
        const char *digits = "0123456789abcdef", *d;
        char c;
        if (j->at >= j->end) return 0;
        c = *j->at >= 'A' && *j->at <= 'F' ? (char)(*j->at + 32) : *j->at;
        d = c ? strchr(digits, c) : NULL;
        if (!d) return 0;
        *code = *code * 16 + (unsigned)(d - digits);
    }
    return *code != 0;                                       /* a 0 would end the string early */
}

/* \uXXXX behind its u; two of them for what does not fit in 16 bits */
static int pe__json_code(pe__json *j, unsigned *code)
{
    unsigned low;
    if (!pe__json_hex(j, code)) return 0;
    if (*code < 0xD800 || *code > 0xDFFF) return 1;
    if (*code > 0xDBFF || j->end - j->at < 6 || j->at[0] != '\\' || j->at[1] != 'u') return 0;
    j->at += 2;
    if (!pe__json_hex(j, &low) || low < 0xDC00 || low > 0xDFFF) return 0;
    *code = 0x10000 + ((*code & 0x3FF) << 10) + (low & 0x3FF);
    return 1;
}

/* one escape behind its backslash; writes 1 to 4 bytes of UTF-8 */
static int pe__json_escape(pe__json *j, char **to)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    unsigned code;
    const char *found;
    int more;
    if (j->at >= j->end || !*j->at) return 0;
    found = strchr(names, *j->at);
    if (found) { *(*to)++ = values[found - names]; j->at++; return 1; }
    if (*j->at++ != 'u' || !pe__json_code(j, &code)) return 0;
    more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    *(*to)++ = (char)(more ? (0xFF00 >> (more + 1) & 0xFF) | code >> 6 * more : code);
    while (more--) *(*to)++ = (char)(0x80 | (code >> 6 * more & 63));
    return 1;
}

static int pe__json_text(pe__json *j, char **text)
{
    char *to;
    if (!pe__json_is(j, '"')) return 0;
    *text = to = j->at;
    while (j->at < j->end && *j->at != '"') {
        if ((unsigned char)*j->at < 32) return 0;
        if (*j->at != '\\') *to++ = *j->at++;
        else { j->at++; if (!pe__json_escape(j, &to)) return 0; }
    }
    if (j->at >= j->end) return 0;
    j->at++;
    *to = 0;
    return 1;
}

static int pe__json_count(pe__json *j, uint64_t *x)    /* a whole number that a double also holds */
{
    int digits = 0;
    pe__json_blank(j);
    for (*x = 0; j->at < j->end && *j->at >= '0' && *j->at <= '9'; j->at++, digits++) {
        if (*x > 9007199254740992ull / 10) return 0;
        *x = *x * 10 + (uint64_t)(*j->at - '0');
    }
    return digits > 0;
}

static int pe__json_counts(pe__json *j, uint64_t *x, int room, int *n)
{
    *n = 0;
    if (!pe__json_is(j, '[')) return 0;
    if (pe__json_is(j, ']')) return 1;
    do {
        if (*n >= room || !pe__json_count(j, &x[*n])) return 0;
        ++*n;
    } while (pe__json_is(j, ','));
    return pe__json_is(j, ']');
}

/* ---- [9.3] a file, opened and found sound ---------------------------------------------------- */

typedef struct pe__entry {
    char *name;
    int type, dims;                                          /* type: index into pe__types        */
    uint64_t shape[4], begin, end;
} pe__entry;

static const struct {
    const char *name;
    int bytes;
} pe__types[] = { { "F32", 4 }, { "F64", 8 }, { "F16", 2 }, { "BF16", 2 } };

typedef struct pe__file {
    FILE *f;
    const char *path;
    char *header;                                            /* text, then the entries            */
    pe__entry *entry;
    int entries;
    uint64_t data, size;                                     /* where data begin; how many bytes  */
    char *config, *step, *note;                              /* from the metadata, or NULL        */
} pe__file;

static int pe__read_entry(pe__json *j, pe__entry *e)
{
    uint64_t range[2];
    char *key, *type;
    int seen = 0, n;
    if (!pe__json_is(j, '{')) return 0;
    do {
        if (!pe__json_text(j, &key) || !pe__json_is(j, ':')) return 0;
        if (!strcmp(key, "dtype")) {
            if (!pe__json_text(j, &type)) return 0;
            e->type = -1;
            for (int i = 0; i < 4; i++) if (!strcmp(type, pe__types[i].name)) e->type = i;
            seen |= 1;
        } else if (!strcmp(key, "shape")) {
            if (!pe__json_counts(j, e->shape, 4, &e->dims)) return 0;
            seen |= 2;
        } else if (!strcmp(key, "data_offsets")) {
            if (!pe__json_counts(j, range, 2, &n) || n != 2) return 0;
            e->begin = range[0];
            e->end = range[1];
            seen |= 4;
        } else {
            return 0;
        }
    } while (pe__json_is(j, ','));
    return seen == 7 && pe__json_is(j, '}');
}

static int pe__read_metadata(pe__json *j, pe__file *file)
{
    char *key, *value;
    if (!pe__json_is(j, '{')) return 0;
    if (pe__json_is(j, '}')) return 1;
    do {
        if (!pe__json_text(j, &key) || !pe__json_is(j, ':') || !pe__json_text(j, &value)) return 0;
        if (!strcmp(key, "posenc")) file->config = value;
        if (!strcmp(key, "step")) file->step = value;
        if (!strcmp(key, "note")) file->note = value;
    } while (pe__json_is(j, ','));
    return pe__json_is(j, '}');
}

static int pe__read_header(pe__file *file, size_t length, int room)
{
    pe__json j;
    char *name;
    j.at = file->header;
    j.end = file->header + length;
    if (!pe__json_is(&j, '{')) return 0;
    if (!pe__json_is(&j, '}')) {
        do {
            if (!pe__json_text(&j, &name) || !pe__json_is(&j, ':')) return 0;
            if (!strcmp(name, "__metadata__")) {
                if (!pe__read_metadata(&j, file)) return 0;
                continue;
            }
            if (file->entries >= room) return 0;
            memset(&file->entry[file->entries], 0, sizeof *file->entry);
            file->entry[file->entries].name = name;
            if (!pe__read_entry(&j, &file->entry[file->entries++])) return 0;
        } while (pe__json_is(&j, ','));
        if (!pe__json_is(&j, '}')) return 0;
    }
    pe__json_blank(&j);
    return j.at == j.end;
}

static int pe__entry_order(const void *a, const void *b)
{
    const pe__entry *x = (const pe__entry *)a, *y = (const pe__entry *)b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

/* sizes agree with shapes, and the tensors lie one behind the other from the first byte to the
   last                                                                                           */
static posenc_status pe__check_entries(pe__file *file, posenc_error *why)
{
    uint64_t at = 0;
    if (file->entries)
        qsort(file->entry, (size_t)file->entries, sizeof *file->entry, pe__entry_order);
    for (int i = 0; i < file->entries; i++) {
        const pe__entry *e = &file->entry[i];
        uint64_t bytes = e->type < 0 ? 0 : (uint64_t)pe__types[e->type].bytes;
        if (e->type < 0)
            return pe__fail(why, POSENC_BAD_FILE,
                            "%.200s: %.60s has a type other than F32, F64, F16 or BF16", file->path,
                            e->name);
        for (int d = 0; d < e->dims; d++) {
            if (e->shape[d] && bytes > file->size / e->shape[d])
                return pe__fail(why, POSENC_BAD_FILE, "%.200s: %.60s is larger than the file",
                                file->path, e->name);
            bytes *= e->shape[d];
        }
        if (e->begin != at || e->end < e->begin || e->end - e->begin != bytes ||
            e->end > file->size)
            return pe__fail(why, POSENC_BAD_FILE,
                            "%.200s: %.60s lies at %llu to %llu, expected %llu to %llu of %llu",
                            file->path, e->name, (unsigned long long)e->begin,
                            (unsigned long long)e->end, (unsigned long long)at,
                            (unsigned long long)(at + bytes), (unsigned long long)file->size);
        at = e->end;
    }
    if (at != file->size)
        return pe__fail(why, POSENC_BAD_FILE, "%.200s: tensors take %llu bytes, the file has %llu",
                        file->path, (unsigned long long)at, (unsigned long long)file->size);
    return POSENC_OK;
}

static void pe__close(pe__file *file)
{
    if (file->f) fclose(file->f);
    if (file->header) POSENC_FREE(file->header);
    file->f = NULL;
    file->header = NULL;
}

/* length of the header, or 0 if the file's first bytes and its size do not allow one */
static size_t pe__header_length(pe__file *file)
{
    unsigned char size[8];
    uint64_t length = 0;
    long total;
    if (fread(size, 1, 8, file->f) != 8) return 0;
    for (int i = 0; i < 8; i++) length |= (uint64_t)size[i] << (8 * i);
    if (fseek(file->f, 0, SEEK_END) != 0 || (total = ftell(file->f)) < 10 ||
        fseek(file->f, 8, SEEK_SET) != 0)
        return 0;
    if (length < 2 || length > 100u * 1000 * 1000 || length > (uint64_t)total - 8) return 0;
    file->data = 8 + length;
    file->size = (uint64_t)total - file->data;
    return (size_t)length;
}

static posenc_status pe__open(pe__file *file, const char *path, posenc_error *why)
{
    size_t length, room, offset;
    posenc_status status;
    memset(file, 0, sizeof *file);
    file->path = path;
    file->f = fopen(path, "rb");
    if (!file->f)
        return pe__fail(why, POSENC_FILE, "cannot open %.200s: %s", path, strerror(errno));
    length = pe__header_length(file);
    if (!length) {
        pe__close(file);
        return pe__fail(why, POSENC_BAD_FILE,
                        "%.200s is not a safetensors file: its first bytes hold no header length",
                        path);
    }
    room = length / 48 + 1;                              /* no entry is written in fewer bytes */
    offset = (length + 1 + 15) / 16 * 16;
    file->header = (char *)POSENC_MALLOC(offset + room * sizeof(pe__entry));
    if (!file->header) {
        pe__close(file);
        return pe__fail(why, POSENC_OUT_OF_MEMORY, "no memory for the header of %.200s (%lu bytes)",
                        path, (unsigned long)length);
    }
    file->entry = (pe__entry *)(void *)(file->header + offset);
    if (fread(file->header, 1, length, file->f) != length
        || !pe__read_header(file, length, (int)room))
        status = pe__fail(why, POSENC_BAD_FILE,
                          "%.200s: the header of %lu bytes is not a safetensors header", path,
                          (unsigned long)length);
    else
        status = pe__check_entries(file, why);
    if (status != POSENC_OK) pe__close(file);
    return status;
}

POSENC_DEF posenc_status posenc_checkpoint_config(posenc_config *c, char spec[POSENC_SPEC_TEXT],
                                                  const char *path, posenc_error *why)
{
    pe__file file;
    posenc_status status = pe__open(&file, path, why);
    memset(c, 0, sizeof *c);
    if (status != POSENC_OK) return status;
    if (!file.config)
        status = pe__fail(why, POSENC_BAD_FILE, "%.200s was not saved by posenc: it has no config",
                          path);
    else              status = posenc_config_parse(c, spec, file.config, why);
    if (status == POSENC_BAD_CONFIG) status = POSENC_BAD_FILE;
    pe__close(&file);
    return status;
}

/* ---- [9.4] loading --------------------------------------------------------------------------- */

static float pe__from_half(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 1023u,
             bits;
    float x;
    if (exponent == 0) {                                     /* zero and the numbers below 2^-14 */
        x = (float)fraction / 16777216.0f;
        return sign ? -x : x;
    }
    bits = sign | (exponent == 31 ? 0x7F800000u : (exponent + 112) << 23) | fraction << 13;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static posenc_float pe__decode(int type, const unsigned char *p)
{
    float f;
    double d;
    uint16_t h;
    uint32_t bits;
    switch (type) {
    case 0:  memcpy(&f, p, 4); return f;
    case 1:  memcpy(&d, p, 8); return PE__F(d);
    case 2:  memcpy(&h, p, 2); return pe__from_half(h);
    default: memcpy(&h, p, 2); bits = (uint32_t)h << 16; memcpy(&f, &bits, 4); return f;
    }
}

/* reads one tensor; with to NULL only sees whether it can be read */
static int pe__read_tensor(pe__file *file, const pe__entry *e, posenc_model *m, posenc_float *to)
{
    unsigned char raw[PE__PIECE * 8];
    posenc_float piece[PE__PIECE];
    size_t width = (size_t)pe__types[e->type].bytes, count = (size_t)((e->end - e->begin) / width);
    if (fseek(file->f, (long)(file->data + e->begin), SEEK_SET) != 0) return 0;
    for (size_t at = 0; at < count; at += PE__PIECE) {
        size_t n = pe__least(count - at, PE__PIECE);
        if (fread(raw, width, n, file->f) != n) return 0;
        for (size_t i = 0; i < n; i++) piece[i] = pe__decode(e->type, raw + i * width);
        if (to) m->ops->upload(m->ops->user, to + at, piece, n * sizeof *piece);
    }
    return 1;
}

static const pe__entry *pe__find_entry(const pe__file *file, const char *prefix, const char *name)
{
    size_t n = strlen(prefix);
    for (int i = 0; i < file->entries; i++)
        if (!strncmp(file->entry[i].name, prefix, n) && !strcmp(file->entry[i].name + n, name))
            return &file->entry[i];
    return NULL;
}

static posenc_status pe__match_one(pe__file *file, posenc_model *m, const char *prefix,
                                   const posenc_tensor *t, posenc_error *why)
{
    const pe__entry *e = pe__find_entry(file, prefix, t->name);
    if (!e)
        return pe__fail(why, POSENC_BAD_FILE, "%.200s has no %s%s", file->path, prefix, t->name);
    if (e->dims != t->dims || e->shape[0] != (uint64_t)t->shape[0]
        || (t->dims == 2 && e->shape[1] != (uint64_t)t->shape[1]))
        return pe__fail(why, POSENC_BAD_FILE,
                        "%.200s: %s%s is %llu x %llu, the model wants %d x %d", file->path, prefix,
                        t->name, (unsigned long long)e->shape[0],
                        (unsigned long long)(e->dims > 1 ? e->shape[1] : 1), t->shape[0],
                        t->dims == 2 ? t->shape[1] : 1);
    if (!pe__read_tensor(file, e, m, NULL))
        return pe__fail(why, POSENC_BAD_FILE, "%.200s: %s%s cannot be read", file->path, prefix,
                        t->name);
    return POSENC_OK;
}

/* one of the names this model would save? */
static int pe__known_name(posenc_model *m, const char *name)
{
    for (int part = 0; part < 3; part++) {
        size_t n = strlen(pe__parts[part]);
        for (int i = 0; i < m->params_n; i++)
            if (!strncmp(name, pe__parts[part], n) && !strcmp(name + n, m->slot[i].t.name))
                return 1;
    }
    return 0;
}

/* every tensor of the model is there, once, in its shape, and the file has none that is unknown */
static posenc_status pe__match(pe__file *file, posenc_model *m, int parts, posenc_error *why)
{
    posenc_status status = POSENC_OK;
    if (file->entries > 3 * m->params_n)                      /* also keeps the loops below short */
        return pe__fail(why, POSENC_BAD_FILE, "%.200s has %d tensors, the model at most %d",
                        file->path, file->entries, 3 * m->params_n);
    for (int i = 0; i < file->entries; i++) {
        if (!pe__known_name(m, file->entry[i].name))
            return pe__fail(why, POSENC_BAD_FILE, "%.200s has a tensor the model lacks: %.60s",
                            file->path, file->entry[i].name);
        if (pe__find_entry(file, "", file->entry[i].name) != &file->entry[i])
            return pe__fail(why, POSENC_BAD_FILE, "%.200s has %.60s twice", file->path,
                            file->entry[i].name);
    }
    for (int part = 0; part < parts; part++)
        for (int i = 0; i < m->params_n && status == POSENC_OK; i++)
            status = pe__match_one(file, m, pe__parts[part], &m->slot[i].t, why);
    return status;
}

/* step and seed, all the state that random numbers have */
static posenc_status pe__read_state(const pe__file *file, uint64_t *steps, uint64_t *seed,
                                    posenc_error *why)
{
    posenc_config c;
    char spec[POSENC_SPEC_TEXT];
    pe__json j;
    memset(&c, 0, sizeof c);
    if (!file->step || !file->config)
        return pe__fail(why, POSENC_BAD_FILE, "%.200s has no training state", file->path);
    j.at = file->step;
    j.end = file->step + strlen(file->step);
    if (!pe__json_count(&j, steps) || j.at != j.end)
        return pe__fail(why, POSENC_BAD_FILE, "%.200s: step '%.30s' is not a count", file->path,
                        file->step);
    if (posenc_config_parse(&c, spec, file->config, why) != POSENC_OK) return POSENC_BAD_FILE;
    *seed = c.seed;
    return POSENC_OK;
}

POSENC_DEF posenc_status posenc_model_load(posenc_model *m, const char *path, int what, char *note,
                                           size_t room, posenc_error *why)
{
    int parts = what == POSENC_WEIGHTS_AND_STATE ? 3 : 1;
    uint64_t steps = 0, seed = m->c.seed;
    pe__file file;
    posenc_status status;
    if (parts == 3 && !m->grads)
        return pe__fail(why, POSENC_BAD_CONFIG, "an inference model takes weights only");
    if ((status = pe__open(&file, path, why)) != POSENC_OK) return status;
    m->half_ready = 0;
    status = pe__match(&file, m, parts, why);           /* reads all of it once, changing nothing */
    if (status == POSENC_OK && parts == 3) status = pe__read_state(&file, &steps, &seed, why);
    for (int part = 0; part < parts && status == POSENC_OK; part++)
        for (int i = 0; i < m->params_n && status == POSENC_OK; i++) {
            const posenc_tensor *t = &m->slot[i].t;
            if (!pe__read_tensor(&file, pe__find_entry(&file, pe__parts[part], t->name), m,
                                 pe__part(t, part)))
                status = pe__fail(why, POSENC_BAD_FILE, "%.200s changed while it was read", path);
        }
    if (status == POSENC_OK && parts == 3) { m->steps = steps; m->c.seed = seed; }
    if (status == POSENC_OK && note && room) snprintf(note, room, "%s", file.note ? file.note : "");
    if (status == POSENC_OK && m->grads) pe__clear_gradients(m);
    m->ready = 0;
    pe__close(&file);
    return status;
}
#endif /* POSENC_NO_STDIO */

/* ================ from here on, only speed =======================================================
   Everything below computes what [4] to [6] say, faster. POSENC_NO_SIMD leaves the plain C stamp
   alone, and every test passes with it.                                                          */

/* ---- [10] which CPU is this ------------------------------------------------------------------ */

#ifdef PE__X86
#include <immintrin.h>
#endif
#ifdef PE__ARM
#include <arm_neon.h>
#endif

#if defined(__clang__)
#define PE__UNROLL _Pragma("clang loop unroll(full)")
#elif defined(__GNUC__)
#define PE__UNROLL _Pragma("GCC unroll 16")
#else
#define PE__UNROLL
#endif

/* c (rows of c_row) = base + sum over p < k of a[i*a_row + p*a_col] * b[p*b_row + j], for one full
   tile. base is NULL (zero) or a row (base_row 0) or a matrix: c itself to add to it. With keep,
   the rows of b that go by are left there side by side.                                          */
typedef void pe__tile(int k, const posenc_float *a, ptrdiff_t a_row, ptrdiff_t a_col,
                      const posenc_float *b, ptrdiff_t b_row, posenc_float *keep, posenc_float *c,
                      ptrdiff_t c_row, const posenc_float *base, ptrdiff_t base_row);

/* the words of sixteen counters from block on, in the order of their indices */
enum { PE__AT_ONCE = 64 };
typedef void pe__random(uint32_t words[PE__AT_ONCE], uint64_t seed, uint32_t step, uint32_t site,
                        uint64_t block);
typedef void pe__root(posenc_float y[PE__AT_ONCE], const posenc_float x[PE__AT_ONCE]);

typedef struct pe__kernels {
    const char *name;
    pe__tile *tile[2][2];                   /* many rows or few, `columns` wide or half of that   */
    int rows[2], columns;
    pe__random *random;
    pe__root *root;
} pe__kernels;

/* ---- [11] kernels ---------------------------------------------------------------------------- */

/* ---- [11.1] the tile: written once, stamped per machine -----------------------------------------
   A block of ROWS x (VECTORS*W) sums stays in registers while k runs: each step loads VECTORS
   vectors of b and broadcasts ROWS numbers of a. The sum over k runs in order for every element
   whatever the vector width, and the fused multiply-add is called by name (gcc fuses a*b+c in
   gnu modes only), so that all SIMD stamps give the same bits. Rows of a are reached from every
   third pointer, because x86 has addresses for p, p + ld and p + 2 ld and not enough registers
   for twelve pointers. Four sizes each: what the large one leaves over at the edges is mostly
   covered by the others, and little is left for [11.4]'s copy.                                   */

#define PE__TILE(NAME, ATTRIBUTE, V, LOAD, STORE, SPLAT, FMA, ADD, ROWS, VECTORS, W)               \
ATTRIBUTE static void NAME(int k, const posenc_float *a, ptrdiff_t a_row, ptrdiff_t a_col,         \
                           const posenc_float *b, ptrdiff_t b_row, posenc_float *keep,             \
                           posenc_float *c, ptrdiff_t c_row, const posenc_float *base,             \
                           ptrdiff_t base_row)                                                     \
{                                                                                                  \
    V sum[ROWS][VECTORS];                                                                          \
    const posenc_float *third[(ROWS + 2) / 3];                                                     \
    PE__UNROLL for (int i = 0; i < (ROWS + 2) / 3; i++) third[i] = a + 3 * i * a_row;              \
    PE__UNROLL for (int i = 0; i < ROWS; i++)                                                      \
        PE__UNROLL for (int v = 0; v < VECTORS; v++) sum[i][v] = SPLAT(0);                         \
    for (int p = 0; p < k; p++, b += b_row) {                                                      \
        V bv[VECTORS];                                                                             \
        PE__UNROLL for (int v = 0; v < VECTORS; v++) bv[v] = LOAD(b + v * W);                      \
        if (keep) {                                                                                \
            PE__UNROLL for (int v = 0; v < VECTORS; v++) STORE(keep + v * W, bv[v]);               \
            keep += VECTORS * W;                                                                   \
        }                                                                                          \
        PE__UNROLL for (int i = 0; i < ROWS; i++) {                                                \
            V ai = SPLAT(third[i / 3][i % 3 * a_row]);                                             \
            PE__UNROLL for (int v = 0; v < VECTORS; v++) sum[i][v] = FMA(ai, bv[v], sum[i][v]);    \
        }                                                                                          \
        PE__UNROLL for (int i = 0; i < (ROWS + 2) / 3; i++) third[i] += a_col;                     \
    }                                                                                              \
    PE__UNROLL for (int i = 0; i < ROWS; i++)                                                      \
        PE__UNROLL for (int v = 0; v < VECTORS; v++) {                                             \
            if (base) sum[i][v] = ADD(LOAD(base + i * base_row + v * W), sum[i][v]);               \
            STORE(c + i * c_row + v * W, sum[i][v]);                                               \
        }                                                                                          \
}

#define PE__ADD(x, y) ((x) + (y))
#if defined(POSENC_DETERMINISTIC) && !defined(POSENC_DOUBLE)
#define PE__MULTIPLY_ADD(x, y, z) fmaf(x, y, z)
#else
#define PE__MULTIPLY_ADD(x, y, z) ((x) * (y) + (z))
#endif

#if defined(__GNUC__) && !defined(POSENC_DETERMINISTIC) && !defined(POSENC_DOUBLE)
typedef float pe__v4 __attribute__((vector_size(16), aligned(4), may_alias));
#define PE__LOAD4(p)     (*(const pe__v4 *)(p))
#define PE__STORE4(p, x) (*(pe__v4 *)(p) = (x))
#define PE__SPLAT4(x)    (pe__splat4(x))
static PE__UNUSED pe__v4 pe__splat4(float x) { pe__v4 v = { x, x, x, x }; return v; }
#if defined(__clang__) || __GNUC__ >= 12
#define PE__SQUARES 1
#define PE__MIX4(x, y, i, j, k, l) __builtin_shufflevector(x, y, i, j, k, l)
#endif
enum { PE__C_COLUMNS = 8 };
#define PE__TILE_C(NAME, ROWS, VECTORS)                                                            \
    PE__TILE(NAME, PE__UNUSED, pe__v4, PE__LOAD4, PE__STORE4, PE__SPLAT4, PE__MULTIPLY_ADD,        \
             PE__ADD, ROWS, VECTORS, 4)
#else
#define PE__LOAD1(p)     (*(p))
#define PE__STORE1(p, x) (*(p) = (x))
#define PE__SPLAT1(x)    ((posenc_float)(x))
enum { PE__C_COLUMNS = 4 };
#define PE__TILE_C(NAME, ROWS, VECTORS)                                                            \
    PE__TILE(NAME, PE__UNUSED, posenc_float, PE__LOAD1, PE__STORE1, PE__SPLAT1, PE__MULTIPLY_ADD,  \
             PE__ADD, ROWS, 2 * VECTORS, 1)
#endif
PE__TILE_C(pe__tile_c_42, 4, 2)
PE__TILE_C(pe__tile_c_41, 4, 1)
PE__TILE_C(pe__tile_c_12, 1, 2)
PE__TILE_C(pe__tile_c_11, 1, 1)

#ifdef PE__X86
#define PE__TILE_AVX2(NAME, ROWS, VECTORS)                                                         \
    PE__TILE(NAME, PE__AVX2, __m256, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_set1_ps,            \
             _mm256_fmadd_ps, _mm256_add_ps, ROWS, VECTORS, 8)
#define PE__TILE_AVX512(NAME, ROWS, VECTORS)                                                       \
    PE__TILE(NAME, PE__AVX512, __m512, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_set1_ps,          \
             _mm512_fmadd_ps, _mm512_add_ps, ROWS, VECTORS, 16)
PE__TILE_AVX2(pe__tile_avx2_62, 6, 2)
PE__TILE_AVX2(pe__tile_avx2_61, 6, 1)
PE__TILE_AVX2(pe__tile_avx2_22, 2, 2)
PE__TILE_AVX2(pe__tile_avx2_21, 2, 1)
PE__TILE_AVX512(pe__tile_avx512_c2, 12, 2)
PE__TILE_AVX512(pe__tile_avx512_c1, 12, 1)
PE__TILE_AVX512(pe__tile_avx512_42, 4, 2)
PE__TILE_AVX512(pe__tile_avx512_41, 4, 1)
#endif

#ifdef PE__ARM                      /* 24 sums, 4 vectors of b, 4 numbers of a: all 32 registers */
#if defined(__clang__)
#define PE__NEON PE__UNUSED
#else                      /* gcc would load all numbers of a first and push sums out to the stack */
#define PE__NEON __attribute__((optimize("no-schedule-insns")))
#endif
#define PE__FMA_NEON(x, y, z) vfmaq_f32(z, x, y)
#define PE__TILE_NEON(NAME, ROWS, VECTORS)                                                         \
    PE__TILE(NAME, PE__NEON, float32x4_t, vld1q_f32, vst1q_f32, vdupq_n_f32, PE__FMA_NEON,         \
             vaddq_f32, ROWS, VECTORS, 4)
PE__TILE_NEON(pe__tile_neon_64, 6, 4)
PE__TILE_NEON(pe__tile_neon_62, 6, 2)
PE__TILE_NEON(pe__tile_neon_24, 2, 4)
PE__TILE_NEON(pe__tile_neon_22, 2, 2)
#endif

/* ---- [11.2] random words, sixteen counters at a time --------------------------------------------
   Philox as in [3.2], a counter to each 64-bit lane. A multiplication reads only the lower half of
   a lane, so that the upper halves may fill up with rubbish until the words are put together. A round
   waits for the one before it, so that several registers of counters go through the rounds together. */

static PE__UNUSED void pe__random_c(uint32_t words[PE__AT_ONCE], uint64_t seed, uint32_t step,
                                    uint32_t site, uint64_t block)
{
    for (int i = 0; i < PE__AT_ONCE; i += 4)
        pe__random_block(words + i, seed, step, site, block + (uint64_t)(i / 4));
}

#ifdef PE__X86
PE__AVX2 static void pe__random_avx2(uint32_t words[PE__AT_ONCE], uint64_t seed, uint32_t step,
                                     uint32_t site, uint64_t block)
{
    const __m256i m0 = _mm256_set1_epi64x(0xD2511F53), m1 = _mm256_set1_epi64x(0xCD9E8D57);
    __m256i c0[4], c1[4], c2[4], c3[4];
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    PE__UNROLL for (int r = 0; r < 4; r++) {
        long long at = (long long)block + 4 * r;
        c0[r] = _mm256_set_epi64x(at + 3, at + 2, at + 1, at);
        c1[r] = _mm256_srli_epi64(c0[r], 32);
        c2[r] = _mm256_set1_epi64x(step);
        c3[r] = _mm256_set1_epi64x(site);
    }
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
        PE__UNROLL for (int r = 0; r < 4; r++) {
            __m256i p = _mm256_mul_epu32(m0, c0[r]), q = _mm256_mul_epu32(m1, c2[r]);
            c0[r] = _mm256_xor_si256(_mm256_srli_epi64(q, 32), c1[r]);
            c2[r] = _mm256_xor_si256(_mm256_srli_epi64(p, 32), c3[r]);
            c0[r] = _mm256_xor_si256(c0[r], _mm256_set1_epi64x(k0));
            c2[r] = _mm256_xor_si256(c2[r], _mm256_set1_epi64x(k1));
            c1[r] = q;
            c3[r] = p;
        }
    PE__UNROLL for (int r = 0; r < 4; r++) {
        __m256i a = _mm256_blend_epi32(c0[r], _mm256_slli_epi64(c1[r], 32), 0xAA);  /* words 0, 1 */
        __m256i b = _mm256_blend_epi32(c2[r], _mm256_slli_epi64(c3[r], 32), 0xAA);  /* words 2, 3 */
        __m256i even = _mm256_unpacklo_epi64(a, b), odd = _mm256_unpackhi_epi64(a, b);  /* counters */
        a = _mm256_permute2x128_si256(even, odd, 0x20);
        b = _mm256_permute2x128_si256(even, odd, 0x31);
        memcpy(words + 16 * r, &a, 32);
        memcpy(words + 16 * r + 8, &b, 32);
    }
}

/* The same with eight counters in a register. (The maskz forms are plain ones to the machine; g++ 12
   warns of the others, whose unused operand is "undefined".)                                     */
PE__AVX512 static void pe__random_avx512(uint32_t words[PE__AT_ONCE], uint64_t seed, uint32_t step,
                                         uint32_t site, uint64_t block)
{
    const __m512i m0 = _mm512_set1_epi64(0xD2511F53), m1 = _mm512_set1_epi64(0xCD9E8D57);
    const __m512i lower = _mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0),
                  upper = _mm512_set_epi64(15, 14, 7, 6, 13, 12, 5, 4);
    const __mmask8 all = 0xFF;
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    __m512i c0[2], c1[2], c2[2], c3[2];
    PE__UNROLL for (int r = 0; r < 2; r++) {
        c0[r] = _mm512_add_epi64(_mm512_set1_epi64((long long)block + 8 * r),
                                 _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0));
        c1[r] = _mm512_maskz_srli_epi64(all, c0[r], 32);
        c2[r] = _mm512_set1_epi64(step);
        c3[r] = _mm512_set1_epi64(site);
    }
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
        PE__UNROLL for (int r = 0; r < 2; r++) {
            __m512i p = _mm512_maskz_mul_epu32(all, m0, c0[r]);
            __m512i q = _mm512_maskz_mul_epu32(all, m1, c2[r]);
            c0[r] = _mm512_ternarylogic_epi64(_mm512_maskz_srli_epi64(all, q, 32), c1[r],
                                              _mm512_set1_epi64(k0), 0x96);         /* a ^ b ^ c */
            c2[r] = _mm512_ternarylogic_epi64(_mm512_maskz_srli_epi64(all, p, 32), c3[r],
                                              _mm512_set1_epi64(k1), 0x96);
            c1[r] = q;
            c3[r] = p;
        }
    PE__UNROLL for (int r = 0; r < 2; r++) {
        __m512i a = _mm512_mask_blend_epi32(0xAAAA, c0[r], _mm512_maskz_slli_epi64(all, c1[r], 32));
        __m512i b = _mm512_mask_blend_epi32(0xAAAA, c2[r], _mm512_maskz_slli_epi64(all, c3[r], 32));
        __m512i even = _mm512_maskz_unpacklo_epi64(all, a, b);          /* counters 0, 2, 4, 6 */
        __m512i odd = _mm512_maskz_unpackhi_epi64(all, a, b);           /* counters 1, 3, 5, 7 */
        _mm512_storeu_si512(words + 32 * r,      _mm512_permutex2var_epi64(even, lower, odd));
        _mm512_storeu_si512(words + 32 * r + 16, _mm512_permutex2var_epi64(even, upper, odd));
    }
}
#endif

static PE__UNUSED void pe__root_c(posenc_float y[PE__AT_ONCE], const posenc_float x[PE__AT_ONCE])
{
    for (int i = 0; i < PE__AT_ONCE; i++) y[i] = PE__SQRT(x[i]);
}
#ifdef PE__X86
PE__AVX2 static void pe__root_avx2(float y[PE__AT_ONCE], const float x[PE__AT_ONCE])
{
    for (int i = 0; i < PE__AT_ONCE; i += 8) _mm256_storeu_ps(y + i, _mm256_sqrt_ps(_mm256_loadu_ps(x + i)));
}
PE__AVX512 static void pe__root_avx512(float y[PE__AT_ONCE], const float x[PE__AT_ONCE])
{
    for (int i = 0; i < PE__AT_ONCE; i += 16)
        _mm512_storeu_ps(y + i, _mm512_maskz_sqrt_ps(0xFFFF, _mm512_loadu_ps(x + i)));
}
#endif
#ifdef PE__ARM
static void pe__root_neon(float y[PE__AT_ONCE], const float x[PE__AT_ONCE])
{
    for (int i = 0; i < PE__AT_ONCE; i += 4) vst1q_f32(y + i, vsqrtq_f32(vld1q_f32(x + i)));
}
#endif

/* ---- [11.3] the tiers ------------------------------------------------------------------------ */

static const pe__kernels pe__tiers[] = {                       /* from the slowest to the fastest */
    { "c", { { pe__tile_c_42, pe__tile_c_41 }, { pe__tile_c_12, pe__tile_c_11 } },
      { 4, 1 }, PE__C_COLUMNS, pe__random_c, pe__root_c },
#ifdef PE__X86
    { "avx2", { { pe__tile_avx2_62, pe__tile_avx2_61 }, { pe__tile_avx2_22, pe__tile_avx2_21 } },
      { 6, 2 }, 16, pe__random_avx2, pe__root_avx2 },
    { "avx512", { { pe__tile_avx512_c2, pe__tile_avx512_c1 },
                  { pe__tile_avx512_42, pe__tile_avx512_41 } },
      { 12, 4 }, 32, pe__random_avx512, pe__root_avx512 },
#endif
#ifdef PE__ARM
    { "neon", { { pe__tile_neon_64, pe__tile_neon_62 }, { pe__tile_neon_24, pe__tile_neon_22 } },
      { 6, 2 }, 16, pe__random_c, pe__root_neon },
#endif
};
enum {
    PE__TIERS = sizeof pe__tiers / sizeof *pe__tiers,
    PE__TILE_COLUMNS = 32,                                    /* most columns of any tile, and   */
    PE__FEW_ROWS = 4                                         /* most rows of the smaller ones   */
};

static int pe__tier_runs(int i)
{
#ifdef PE__X86
    if (i == 1) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (i == 2) return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx2");
#endif
#ifdef PE__ARM
    if (i == 1) return 1;                                            /* every 64-bit ARM has NEON */
#endif
    return i == 0;
}

/* 0: not asked yet, else tier + 1. The only state that outlives a call; relaxed, since every
   thread would find the same answer.                                                             */
static int pe__tier_chosen;
#if defined(__GNUC__)
#define PE__READ(x)     __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define PE__WRITE(x, y) __atomic_store_n(&(x), (y), __ATOMIC_RELAXED)
#else
#define PE__READ(x)     (x)
#define PE__WRITE(x, y) ((x) = (y))
#endif

static int pe__tier(void)
{
    int chosen = PE__READ(pe__tier_chosen);
    if (!chosen) {
        chosen = 1;
        for (int i = 0; i < PE__TIERS; i++) if (pe__tier_runs(i)) chosen = i + 1;
        PE__WRITE(pe__tier_chosen, chosen);
    }
    return chosen - 1;
}
static const pe__kernels *pe__kernels_now(void) { return &pe__tiers[pe__tier()]; }

/* n words, rounded up to whole batches */
static void pe__random_words(uint32_t *words, size_t n, const posenc_dropout *how, uint64_t block)
{
    pe__random *random = pe__kernels_now()->random;
    for (size_t at = 0; at < n; at += PE__AT_ONCE)
        random(words + at, how->seed, how->step, how->site, block + at / 4);
}

static void pe__roots(posenc_float *y, const posenc_float *x, int n)
{
    pe__root *root = pe__kernels_now()->root;
    int i = 0;
    for (; i <= n - PE__AT_ONCE; i += PE__AT_ONCE) root(y + i, x + i);
    for (; i < n; i++) y[i] = PE__SQRT(x[i]);
}

POSENC_DEF const char *posenc_cpu_tier(void) { return pe__kernels_now()->name; }

POSENC_DEF int posenc_use_tier(const char *name)
{
    if (!name) { PE__WRITE(pe__tier_chosen, 0); return 1; }
    for (int i = 0; i < PE__TIERS; i++) {
        if (strcmp(name, pe__tiers[i].name) || !pe__tier_runs(i)) continue;
        PE__WRITE(pe__tier_chosen, i + 1);
        return 1;
    }
    return 0;
}

/* ---- [11.4] packing and loops -------------------------------------------------------------------
   b is cut into slivers as wide as a tile and PE__DEPTH deep, copied so that the tile reads it
   front to back; a is read where it lies. A transposed b turns straight on the way; of a straight one
   the first tile keeps what it reads. One sliver takes 24 KB of stack and stays in the first cache
   while all rows of a pass by it.

        b  +----+----+----+     packed sliver: k = 0 | columns 0..31 | k = 1 | columns 0..31 | ...
           | s0 | s1 | s2 | DEPTH              past the edge: zeros
           +----+----+----+
           |    |    |    |     The depth is the same in every tier: it decides in which order
           +----+----+----+     partial sums meet c.                                              */

enum { PE__DEPTH = 192, PE__BF16_DEPTH = 512 };                                           /* [11.5] */

/* four columns j of a transposed b, whose numbers lie side by side along p: squares of four by four */
static void pe__pack_four(posenc_float *to, const posenc_float *b, ptrdiff_t b_col, int depth,
                          int width)
{
    int p = 0;
#ifdef PE__SQUARES
    for (; p <= depth - 4; p += 4, to += 4 * width) {
        pe__v4 r0 = PE__LOAD4(b + p), r1 = PE__LOAD4(b + b_col + p);
        pe__v4 r2 = PE__LOAD4(b + 2 * b_col + p), r3 = PE__LOAD4(b + 3 * b_col + p);
        pe__v4 a = PE__MIX4(r0, r1, 0, 4, 1, 5), c = PE__MIX4(r0, r1, 2, 6, 3, 7);
        pe__v4 e = PE__MIX4(r2, r3, 0, 4, 1, 5), g = PE__MIX4(r2, r3, 2, 6, 3, 7);
        PE__STORE4(to,             PE__MIX4(a, e, 0, 1, 4, 5));
        PE__STORE4(to + width,     PE__MIX4(a, e, 2, 3, 6, 7));
        PE__STORE4(to + 2 * width, PE__MIX4(c, g, 0, 1, 4, 5));
        PE__STORE4(to + 3 * width, PE__MIX4(c, g, 2, 3, 6, 7));
    }
#endif
    for (; p < depth; p++, to += width)
        for (int j = 0; j < 4; j++) to[j] = b[j * b_col + p];
}

static void pe__pack(posenc_float *to, const posenc_float *b, ptrdiff_t b_row, ptrdiff_t b_col,
                     int depth, int columns, int width)
{
    int j = 0;
    for (; b_row == 1 && j <= columns - 4; j += 4)
        pe__pack_four(to + j, b + j * b_col, b_col, depth, width);
    for (int p = 0; p < depth; p++, to += width) {
        const posenc_float *from = b + p * b_row;
        if (b_col == 1 && columns == PE__TILE_COLUMNS)                      /* no call for these */
            memcpy(to, from, PE__TILE_COLUMNS * sizeof *to);
        else if (b_col == 1) memcpy(to + j, from + j, (size_t)(columns - j) * sizeof *to);
        else for (int i = j; i < columns; i++) to[i] = from[i * b_col];
        for (int i = columns; i < width; i++) to[i] = 0;
    }
}

/* one product of a tile's size, as its caller sees it */
typedef struct pe__piece {
    int k;
    const posenc_float *a, *b, *base;
    ptrdiff_t a_row, a_col, b_row, c_row, base_row;
    posenc_float *keep, *c;
} pe__piece;

/* base: c itself when it is added to, else the bias, if there is one */
static pe__piece pe__piece_of(int k, const posenc_float *a, ptrdiff_t a_row, ptrdiff_t a_col,
                              const posenc_float *b, ptrdiff_t b_row, posenc_float *c, ptrdiff_t c_row,
                              const posenc_float *bias, int add)
{
    pe__piece x;
    x.k = k;
    x.a = a;
    x.a_row = a_row;
    x.a_col = a_col;
    x.b = b;
    x.b_row = b_row;
    x.keep = NULL;
    x.c = c;
    x.c_row = c_row;
    x.base = add ? c : bias;
    x.base_row = add ? c_row : 0;
    return x;
}

static void pe__tile_run(pe__tile *tile, const pe__piece *x)
{
    tile(x->k, x->a, x->a_row, x->a_col, x->b, x->b_row, x->keep, x->c, x->c_row, x->base, x->base_row);
}

/* A tile that hangs over the edge: whole in a corner of the stack, then the part that exists. Rows
   of a past the end may not be read, so the rows there are get copied.                           */
static void pe__tile_edge(pe__tile *tile, const pe__piece *x, int rows, int columns, int width)
{
    posenc_float whole[PE__FEW_ROWS * PE__TILE_COLUMNS], some[PE__FEW_ROWS * PE__BF16_DEPTH];
    pe__piece all = *x;
    some[0] = 0;                                        /* so that there is something where k is 0 */
    for (int p = 0; p < x->k; p++)
        for (int i = 0; i < PE__FEW_ROWS; i++)
            some[p * PE__FEW_ROWS + i] = i < rows ? x->a[i * x->a_row + p * x->a_col] : 0;
    all.a = some;
    all.a_row = 1;
    all.a_col = PE__FEW_ROWS;
    all.c = whole;
    all.c_row = width;
    all.base = NULL;
    pe__tile_run(tile, &all);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++)
            x->c[i * x->c_row + j] =
                (x->base ? x->base[i * x->base_row + j] : 0) + whole[i * width + j];
}

/* all rows of a against one sliver of b: the large tile as long as it fits, then the small one. What
   the first one keeps of b, the others read.                                                     */
static void pe__sliver_run(const pe__kernels *now, pe__piece x, int m, int columns, int width)
{
    int narrow = width < now->columns;
    for (int i = 0, rows; i < m; i += rows) {
        int few = columns < width || m - i < now->rows[0];
        rows = pe__min(now->rows[few], m - i);
        if (rows == now->rows[few] && columns == width) pe__tile_run(now->tile[few][narrow], &x);
        else pe__tile_edge(now->tile[1][narrow], &x, rows, columns, width);
        x.a += rows * x.a_row;
        x.c += rows * x.c_row;
        if (x.base) x.base += rows * x.base_row;
        if (x.keep) { x.b = x.keep; x.b_row = width; x.keep = NULL; }
    }
}

/* All of b as slivers, whole in k: one behind the other, each of `columns` numbers a step.       */
static size_t pe__packed_floats(int k, int n)
{
    return (size_t)((n + PE__TILE_COLUMNS - 1) / PE__TILE_COLUMNS * PE__TILE_COLUMNS) * k;
}
static int pe__sliver_width(const pe__kernels *now, int columns)
{
    return 2 * columns <= now->columns ? now->columns / 2 : now->columns;
}
static void pe__pack_all(posenc_float *to, const posenc_float *b, ptrdiff_t b_row, ptrdiff_t b_col,
                         int k, int n)
{
    const pe__kernels *now = pe__kernels_now();
    for (int j = 0; j < n; j += now->columns) {
        int columns = pe__min(now->columns, n - j);
        pe__pack(to + (size_t)j * k, b + j * b_col, b_row, b_col, k, columns,
                 pe__sliver_width(now, columns));
    }
}
static void pe__product_packed(posenc_float *c, ptrdiff_t c_row, int m, int n, int k,
                               const posenc_float *a, ptrdiff_t a_row, ptrdiff_t a_col,
                               const posenc_float *packed, int add)
{
    const pe__kernels *now = pe__kernels_now();
    for (int j = 0; j < n; j += now->columns) {
        int columns = pe__min(now->columns, n - j), width = pe__sliver_width(now, columns);
        for (int p = 0; p < k; p += PE__DEPTH)
            pe__sliver_run(now, pe__piece_of(pe__min(PE__DEPTH, k - p), a + p * a_col, a_row, a_col,
                                             packed + (size_t)j * k + (size_t)p * width, width, c + j,
                                             c_row, NULL, add || p), m, columns, width);
    }
}

static void pe__product_block(posenc_float *c, ptrdiff_t c_row, int m, int n, int k,
                              const posenc_float *a, ptrdiff_t a_row, ptrdiff_t a_col,
                              const posenc_float *b, ptrdiff_t b_row, ptrdiff_t b_col,
                              const posenc_float *bias, int add)
{
    enum { STAYS = 1 << 17 };                     /* so many numbers of a stay in the second cache */
    const pe__kernels *now = pe__kernels_now();
    posenc_float sliver[PE__DEPTH * PE__TILE_COLUMNS];
    int slivers = (n + now->columns - 1) / now->columns;
    int depths = pe__max(1, (k + PE__DEPTH - 1) / PE__DEPTH);         /* k = 0 once: c = bias or 0 */
    int deep_first = (double)m * k <= STAYS;                              /* c is then visited once */
    for (int u = 0; u < slivers * depths; u++) {
        int p = (deep_first ? u % depths : u / slivers) * PE__DEPTH, depth = pe__min(PE__DEPTH, k - p);
        int j = (deep_first ? u / depths : u % slivers) * now->columns;
        int columns = pe__min(now->columns, n - j), width = pe__sliver_width(now, columns);
        int here = b_col == 1 && columns == width;                  /* b may be read where it lies */
        const posenc_float *from = b + p * b_row + j * b_col;
        pe__piece x = pe__piece_of(depth, a + p * a_col, a_row, a_col, here ? from : sliver,
                                   here ? b_row : width, c + j, c_row, bias ? bias + j : NULL, add || p);
        if (!here) pe__pack(sliver, from, b_row, b_col, depth, columns, width);
        else if (m > now->rows[0]) x.keep = sliver;
        pe__sliver_run(now, x, m, columns, width);
    }
}

#ifdef POSENC_CBLAS
#include <cblas.h>
#ifdef POSENC_DOUBLE
#define PE__GEMM cblas_dgemm
#else
#define PE__GEMM cblas_sgemm
#endif

/* The same by BLAS, where it is worth the call and BLAS can say it: one of the strides of each side
   is 1 and the other at least a row long. Returns 0 if it is not and nothing was done. A bias goes
   into c first, to be added to.                                                                  */
static int pe__blas(posenc_float *c, int m, int n, int k, const posenc_float *a, ptrdiff_t a_row,
                    ptrdiff_t a_col, const posenc_float *b, ptrdiff_t b_row, ptrdiff_t b_col,
                    const posenc_float *bias, int add)
{
    int a_straight = a_col == 1 && a_row >= k, b_straight = b_col == 1 && b_row >= n;
    ptrdiff_t a_step = a_straight ? a_row : a_col, b_step = b_straight ? b_row : b_col;
    if ((double)m * n * k < 1e6 || a_step > INT_MAX || b_step > INT_MAX) return 0;
    if (!a_straight && (a_row != 1 || a_col < m)) return 0;
    if (!b_straight && (b_row != 1 || b_col < k)) return 0;
    for (int i = 0; i < m && bias && !add; i++)
        memcpy(c + (size_t)i * n, bias, (size_t)n * sizeof *c);
    PE__GEMM(CblasRowMajor, a_straight ? CblasNoTrans : CblasTrans,
             b_straight ? CblasNoTrans : CblasTrans, m, n, k, 1, a, (int)a_step, b, (int)b_step,
             PE__F(bias || add), c, n);
    return 1;
}
#endif

/* Cuts c into blocks, each with one owner. The cut does not touch the order of any sum, so it may be as
   it likes: rows as long as every thread gets some, since a thread that works on the same rows in every
   layer finds them in its own cache; columns where there are many more of those, or just more where a is
   transposed and rows mean nothing: what all threads read is then the smaller side. The rows of a block,
   PE__DEPTH deep at most, stay in the second cache while all slivers of b pass by, also where they lie a
   power of two apart and may use a small part of it only.                                        */
typedef struct pe__shares { int blocks, rows, groups, columns; } pe__shares;

static int pe__share(int n, int threads, int unit)              /* of one thread, in whole units */
{
    return ((n + threads - 1) / threads + unit - 1) / unit * unit;
}
static pe__shares pe__shares_of(int m, int n, int k, int transposed, int width, int threads, int unit)
{
    enum { ROWS = 480, SOME = 48 };                       /* unit: the rows of a tile that is small */
    int by_rows = m >= SOME * threads && n <= (transposed ? m : 4 * m);
    int rows = ROWS * PE__DEPTH / pe__clamp(k, 32, PE__DEPTH);
    int share = rows * (by_rows ? threads : 1);
    pe__shares x;
    x.blocks = (m + share - 1) / share * (by_rows ? threads : 1);
    x.rows = pe__max(unit, pe__share(m, x.blocks, unit));
    x.blocks = (m + x.rows - 1) / x.rows;
    x.columns = by_rows ? n : pe__share(n, threads, width);
    x.groups = (n + x.columns - 1) / x.columns;
    return x;
}

/* A few rows against a large transposed b, as when a text is written token by token: every number of b
   is used m times only, and packing it would take longer than that. So b is read where it lies, column
   behind column, which is how it lies in memory. The sums are those of pe__dot, in another order than
   above: a row alone may differ from the same row among many in the last bits.                   */
enum { PE__FEW_COLUMNS = 64, PE__FEW_BYTES = 1 << 18 };

PE__STAMPED(few_rows, (posenc_float *c, ptrdiff_t c_row, const posenc_float *a, ptrdiff_t a_row,
                       const posenc_float *b, ptrdiff_t b_col, const posenc_float *bias, int add, int m,
                       int n, int k), (c, c_row, a, a_row, b, b_col, bias, add, m, n, k))
{
    for (int j = 0; j < n; j++)
        for (int i = 0; i < m; i++) {
            posenc_float *to = c + i * c_row + j, sum = pe__dot(a + i * a_row, b + j * b_col, k);
            *to = sum + (add ? *to : bias ? bias[j] : 0);
        }
}
static void pe__product_few(posenc_float *c, int m, int n, int k, const posenc_float *a, ptrdiff_t a_row,
                            const posenc_float *b, ptrdiff_t b_col, const posenc_float *bias, int add)
{
    int stretches = (n + PE__FEW_COLUMNS - 1) / PE__FEW_COLUMNS;
    PE__PARALLEL
    for (int s = 0; s < stretches; s++) {
        int j = s * PE__FEW_COLUMNS;
        pe__few_rows(c + j, n, a, a_row, b + j * b_col, b_col, bias ? bias + j : NULL, add, m,
                     pe__min(PE__FEW_COLUMNS, n - j), k);
    }
}

/* the upper half of a float, rounded to nearest, ties to even; a NaN keeps a bit of its mantissa */
PE__INLINE uint32_t pe__rounded(float x)
{
    uint32_t u, r;
    memcpy(&u, &x, sizeof u);
    r = (u + 0x7FFFu + (u >> 16 & 1)) >> 16;
    return x != x ? u >> 16 | 64 : r;
}

/* The same with b in bfloat16, a stretch of it made floats again on the stack. */
PE__INLINE void pe__widen(posenc_float *to, const uint16_t *from, int n)
{
    PE__EACH for (int i = 0; i < n; i++) {
        uint32_t u = (uint32_t)from[i] << 16;
        float x;
        memcpy(&x, &u, sizeof x);
        to[i] = x;
    }
}
PE__STAMPED(few_rows_bf16, (posenc_float *y, const posenc_float *x, const uint16_t *w,
                            const posenc_float *b, int R, int in, int out, int from, int to),
            (y, x, w, b, R, in, out, from, to))
{
    enum { STRETCH = 1024 };
    posenc_float wide[STRETCH];
    for (int j = from; j < to; j++)
        for (int p = 0; p < in; p += STRETCH) {
            int n = pe__min(STRETCH, in - p);
            pe__widen(wide, w + (size_t)j * in + p, n);
            for (int r = 0; r < R; r++) {
                posenc_float *sum = y + (size_t)r * out + j, more = pe__dot(x + (size_t)r * in + p, wide, n);
                *sum = more + (p ? *sum : b ? b[j] : 0);
            }
        }
}
POSENC_DEF void posenc_linear_few_bf16(posenc_float *y, const posenc_float *x, const uint16_t *w,
                                       const posenc_float *b, int R, int in, int out)
{
    int stretches = (out + PE__FEW_COLUMNS - 1) / PE__FEW_COLUMNS;
    PE__PARALLEL_IF((double)in * out > 1e4)
    for (int s = 0; s < stretches; s++)
        pe__few_rows_bf16(y, x, w, b, R, in, out, s * PE__FEW_COLUMNS,
                          pe__min((s + 1) * PE__FEW_COLUMNS, out));
}
POSENC_DEF void posenc_bf16_round(uint16_t *to, const posenc_float *from, size_t n)
{
    PE__PARALLEL_IF(n > 10000)
    for (ptrdiff_t i = 0; i < (ptrdiff_t)n; i++) to[i] = (uint16_t)pe__rounded((float)from[i]);
}

static void pe__product(posenc_float *c, int m, int n, int k, const posenc_float *a,
                        ptrdiff_t a_row, ptrdiff_t a_col, const posenc_float *b, ptrdiff_t b_row,
                        ptrdiff_t b_col, const posenc_float *bias, int add)
{
    int threads = (double)m * n * k < 1e5 ? 1 : posenc_threads();   /* too small for a second thread */
    pe__shares x;
    if (m < 1 || n < 1) return;
#ifdef POSENC_CBLAS
    if (pe__blas(c, m, n, k, a, a_row, a_col, b, b_row, b_col, bias, add)) return;
#endif
    if (m <= POSENC_FEW_ROWS && a_col == 1 && b_row == 1 && (size_t)n * k * sizeof *b >= PE__FEW_BYTES) {
        pe__product_few(c, m, n, k, a, a_row, b, b_col, bias, add);
        return;
    }
    x = pe__shares_of(m, n, k, a_col != 1, pe__kernels_now()->columns, threads, PE__FEW_ROWS);
    PE__PARALLEL_ON(threads)
    for (int u = 0; u < x.blocks * x.groups; u++) {
        int i = u % x.blocks * x.rows, j = u / x.blocks * x.columns;
        pe__product_block(c + (size_t)i * n + j, n, pe__min(x.rows, m - i), pe__min(x.columns, n - j),
                          k, a + i * a_row, a_row, a_col, b + j * b_col, b_row, b_col,
                          bias ? bias + j : NULL, add);
    }
}

/* ---- [11.5] products in bfloat16 ------------------------------------------------------------------
   Both sides are rounded and packed whole before they are multiplied, two numbers that follow each
   other along k in a word of 32 bits:

       a   rows of words, APART words longer than they need be, so that rows a power of two long do not
           meet in the cache
       b   slivers as in [11.4], a word where a number stood; past the edges zeros on both sides

   A word travels as a float, whose bits no move changes; so the tile, the packing of squares and the
   walk along a sliver of [11.1] and [11.4] serve once more, with an instruction that adds the products
   of two pairs in place of the fused multiply-add.                                               */

#if defined(PE__X86) && (defined(__clang__) || __GNUC__ >= 10)
#define PE__BF16 1
#endif

enum { PE__BF16_APART = 16 };
static int pe__bf16_pairs(int k) { return (k + 31) / 32 * 16; }

static size_t pe__ready_floats(int n, int k) { return pe__packed_floats(pe__bf16_pairs(k), n); }
static size_t pe__bf16_words(int m, int n, int k)
{
    return (size_t)m * (size_t)(pe__bf16_pairs(k) + PE__BF16_APART) + pe__ready_floats(n, k);
}
POSENC_DEF size_t posenc_bf16_scratch(int R, int in, int out)
{
    size_t forward = pe__bf16_words(R, out, in), dx = pe__bf16_words(R, in, out);
    size_t dw = pe__bf16_words(out, in, R), most = forward > dx ? forward : dx;
    return most > dw ? most : dw;
}

#ifdef PE__BF16
#define PE__AVX512BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
#define PE__DOT2(x, y, sum) \
    _mm512_dpbf16_ps(sum, (__m512bh)_mm512_castps_si512(x), (__m512bh)_mm512_castps_si512(y))
#define PE__TILE_BF16(NAME, ROWS, VECTORS)                                                         \
    PE__TILE(NAME, PE__AVX512BF16, __m512, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_set1_ps,      \
             PE__DOT2, _mm512_add_ps, ROWS, VECTORS, 16)
PE__TILE_BF16(pe__tile_bf16_c2, 12, 2)
PE__TILE_BF16(pe__tile_bf16_c1, 12, 1)
PE__TILE_BF16(pe__tile_bf16_42, 4, 2)
PE__TILE_BF16(pe__tile_bf16_41, 4, 1)

/* AMX has eight registers of 16 rows of 64 bytes. Four hold 32 x 32 sums, two hold 32 rows of a, 16 words
   each, two hold 16 words of 32 columns of b; one instruction adds 16 x 16 sums of 32 products. The
   words lie as above, so that the same packing serves. A test may bring functions that do the same, for
   machines that cannot.                                                                          */
#ifndef PE__AMX_ZERO
#define PE__AMX_TARGET          __attribute__((target("amx-tile,amx-bf16")))
#define PE__AMX_BEGIN(c)        _tile_loadconfig(c)
#define PE__AMX_END()           _tile_release()
#define PE__AMX_ZERO(t)         _tile_zero(t)
#define PE__AMX_LOAD(t, p, row) _tile_loadd(t, p, (size_t)(row) * 4)
#define PE__AMX_DOT(t, a, b)    _tile_dpbf16ps(t, a, b)
#define PE__AMX_STORE(t, p, row) _tile_stored(t, p, (size_t)(row) * 4)
#endif
#define PE__AMX_START(t, i, j) do {                                                                \
    if (base) PE__AMX_LOAD(t, base + (i) * base_row + (j), base_row);                              \
    else      PE__AMX_ZERO(t); } while (0)
PE__AMX_TARGET static void pe__tile_amx(int k, const posenc_float *a, ptrdiff_t a_row, ptrdiff_t a_col,
                                        const posenc_float *b, ptrdiff_t b_row, posenc_float *keep,
                                        posenc_float *c, ptrdiff_t c_row, const posenc_float *base,
                                        ptrdiff_t base_row)
{
    (void)a_col, (void)keep;                             /* rows of words, and b is always packed */
    PE__AMX_START(0, 0, 0);
    PE__AMX_START(1, 0, 16);
    PE__AMX_START(2, 16, 0);
    PE__AMX_START(3, 16, 16);
    for (int p = 0; p < k; p += 16) {                       /* k is a multiple of 16: zeros behind */
        PE__AMX_LOAD(4, a + p, a_row);
        PE__AMX_LOAD(5, a + p + 16 * a_row, a_row);
        PE__AMX_LOAD(6, b + p * b_row, b_row);
        PE__AMX_LOAD(7, b + p * b_row + 16, b_row);
        PE__AMX_DOT(0, 4, 6);
        PE__AMX_DOT(1, 4, 7);
        PE__AMX_DOT(2, 5, 6);
        PE__AMX_DOT(3, 5, 7);
    }
    PE__AMX_STORE(0, c, c_row);
    PE__AMX_STORE(1, c + 16, c_row);
    PE__AMX_STORE(2, c + 16 * c_row, c_row);
    PE__AMX_STORE(3, c + 16 * c_row + 16, c_row);
}

static const pe__kernels pe__bf16_units[] = {
    { "avx512_bf16", { { pe__tile_bf16_c2, pe__tile_bf16_c1 }, { pe__tile_bf16_42, pe__tile_bf16_41 } },
      { 12, 4 }, 32, pe__random_c, pe__root_c },
    { "amx", { { pe__tile_amx, pe__tile_bf16_c1 }, { pe__tile_bf16_42, pe__tile_bf16_41 } },
      { 32, 4 }, 32, pe__random_c, pe__root_c }
};

/* Each thread says how large its registers are to be: palette 1, all eight 16 rows of 64 bytes. A constant:
   gcc 12 believes that the instruction reads 8 bytes, and would leave out what fills the others.  */
PE__AMX_TARGET static void pe__amx_begin(void)
{
    static const unsigned char config[64] = {
        1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,                              /* the palette */
        64, 0, 64, 0, 64, 0, 64, 0, 64, 0, 64, 0, 64, 0, 64, 0,              /* bytes a row, 16 bits */
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0                               /* rows */
    };
    PE__AMX_BEGIN(config);
}
PE__AMX_TARGET static void pe__amx_end(void) { PE__AMX_END(); }

/* Is it there, does the system keep its registers, and may this process use them? Linux wants to be asked;
   the answer holds for the process. Leaves 1D and 1E, which virtual machines may hide, are not needed. */
#if defined(__linux__) && !defined(PE__AMX_HERE)
#include <cpuid.h>
#ifdef __cplusplus
#include <unistd.h>
#else
long syscall(long, ...);                                       /* -std=c99 hides the declaration */
#endif
static int pe__amx_asked(void)
{
    enum { TILE = 1 << 24, BF16 = 1 << 22, OSXSAVE = 1 << 27, ARCH_PRCTL = 158, ASK = 0x1023, DATA = 18 };
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & OSXSAVE)) return 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & TILE) || !(d & BF16)) return 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if ((low & (3u << 17)) != 3u << 17) return 0;
    return syscall(ARCH_PRCTL, ASK, DATA) == 0;
}
static int pe__amx_here(void)
{
    static int answer;                                         /* 0: not asked yet, 1: no, 2: yes */
    int known = PE__READ(answer);
    if (!known) { known = pe__amx_asked() ? 2 : 1; PE__WRITE(answer, known); }
    return known == 2;
}
#define PE__AMX_HERE() pe__amx_here()
#elif !defined(PE__AMX_HERE)
#define PE__AMX_HERE() 0
#endif

/* n words from pairs of neighbours; of 2n numbers `there` exist, the others count as zeros */
PE__STAMPED(words_along, (uint32_t *to, const float *x, int n, int there), (to, x, n, there))
{
    int whole = there / 2;
    PE__EACH for (int i = 0; i < whole; i++)
        to[i] = pe__rounded(x[2 * i]) | pe__rounded(x[2 * i + 1]) << 16;
    for (int i = whole; i < n; i++) to[i] = 2 * i < there ? pe__rounded(x[2 * i]) : 0;
}
/* n words from two rows, the second of which may not exist */
PE__STAMPED(words_across, (uint32_t *to, const float *x, const float *y, int n), (to, x, y, n))
{
    if (y) PE__EACH for (int i = 0; i < n; i++) to[i] = pe__rounded(x[i]) | pe__rounded(y[i]) << 16;
    else   PE__EACH for (int i = 0; i < n; i++) to[i] = pe__rounded(x[i]);
}

/* pair p of n vectors whose numbers are `next` apart, those of one number side by side */
static void pe__words_of_pair(uint32_t *to, const float *x, ptrdiff_t next, int p, int n, int k)
{
    const float *row = x + 2 * p * next;
    if (2 * p < k) pe__words_across(to, row, 2 * p + 1 < k ? row + next : NULL, n);
    else           memset(to, 0, (size_t)n * sizeof *to);
}

/* Rows of a become rows of words; where a's rows are not neighbours in themselves, the pairs of a cache
   line and many rows pass through squares. Each row lies in a page of its own, so a few of them get their
   whole line before the next few.                                                                */
enum { PE__BF16_RUN = 64, PE__BF16_LINE = 16 };
static void pe__words_rows(float *to, ptrdiff_t step, const float *a, ptrdiff_t a_row, ptrdiff_t a_col,
                           int rows, int k)
{
    uint32_t room[PE__BF16_LINE * PE__BF16_RUN];
    const float *words = (const float *)(void *)room;
    int pairs = pe__bf16_pairs(k);
    for (int i = 0; i < rows && a_col == 1; i++)
        pe__words_along((uint32_t *)(void *)(to + i * step), a + i * a_row, pairs, k);
    for (int p = 0; p < pairs && a_col != 1; p += PE__BF16_LINE)
        for (int i = 0; i < rows; i += PE__BF16_RUN) {
            int n = pe__min(PE__BF16_RUN, rows - i);
            for (int v = 0; v < PE__BF16_LINE; v++)
                pe__words_of_pair(room + v * PE__BF16_RUN, a + i * a_row, a_col, p + v, n, k);
            for (int r = 0; r < n; r += PE__BF16_LINE)
                for (int v = 0; v < PE__BF16_LINE; v += 4)
                    pe__pack_four(to + (i + r) * step + p + v, words + v * PE__BF16_RUN + r, PE__BF16_RUN,
                                  pe__min(PE__BF16_LINE, n - r), (int)step);
        }
}

/* Columns of b become slivers, always 32 wide, those past the edge zero: row by row of a straight b, so
   that it is read front to back; of a transposed one, four columns at a time through squares.    */
static void pe__words_straight(float *to, const float *b, ptrdiff_t b_row, int columns, int k)
{
    int pairs = pe__bf16_pairs(k);
    for (int p = 0; p < pairs; p++)
        for (int j = 0; j < columns; j += 32) {
            uint32_t *words = (uint32_t *)(void *)(to + (size_t)j * pairs + p * 32);
            int n = pe__min(32, columns - j);
            pe__words_of_pair(words, b + j, b_row, p, n, k);
            if (n < 32) memset(words + n, 0, (size_t)(32 - n) * sizeof *words);
        }
}
static void pe__words_turned(float *to, const float *b, ptrdiff_t b_col, int columns, int k)
{
    uint32_t room[4 * PE__BF16_RUN];
    int pairs = pe__bf16_pairs(k);
    if (columns < 32) memset(to, 0, (size_t)pairs * 32 * sizeof *to);
    for (int j = 0; j < columns; j += 4)
        for (int p = 0; p < pairs; p += PE__BF16_RUN) {
            int n = pe__min(PE__BF16_RUN, pairs - p);
            memset(room, 0, sizeof room);
            for (int v = 0; v < pe__min(4, columns - j); v++)
                pe__words_along(room + v * PE__BF16_RUN, b + (j + v) * b_col + 2 * p, n,
                                pe__clamp(k - 2 * p, 0, 2 * n));
            pe__pack_four(to + j + p * 32, (const float *)(void *)room, PE__BF16_RUN, n, 32);
        }
}
static void pe__words_slivers(float *to, const float *b, ptrdiff_t b_row, ptrdiff_t b_col, int columns,
                              int k)
{
    size_t sliver = (size_t)pe__bf16_pairs(k) * 32;
    if (b_row != 1) pe__words_straight(to, b, b_row, columns, k);
    for (int j = 0; j < columns && b_row == 1; j += 32)
        pe__words_turned(to + j / 32 * sliver, b + j * b_col, b_col, pe__min(32, columns - j), k);
}

static void pe__bf16_block(const pe__kernels *now, posenc_float *c, ptrdiff_t c_row, int m, int n, int k,
                           const float *a, const float *b, const posenc_float *bias, int add)
{
    int pairs = pe__bf16_pairs(k), amx = now == &pe__bf16_units[1];
    if (amx) pe__amx_begin();
    for (int p = 0; p < pairs; p += PE__BF16_DEPTH)
        for (int j = 0; j < n; j += now->columns) {
            const float *sliver = b + (size_t)j * pairs + (size_t)p * now->columns;
            pe__sliver_run(now, pe__piece_of(pe__min(PE__BF16_DEPTH, pairs - p), a + p,
                                             pairs + PE__BF16_APART, 1, sliver, now->columns, c + j,
                                             c_row, bias ? bias + j : NULL, add || p),
                           m, pe__min(now->columns, n - j), now->columns);
        }
    if (amx) pe__amx_end();
}
static const pe__kernels *pe__bf16_now(void)                                  /* NULL: there is none */
{
    if (pe__tier() != 2 || !__builtin_cpu_supports("avx512bf16") || !__builtin_cpu_supports("avx512bw")
        || !__builtin_cpu_supports("avx512vl")) return NULL;
    return &pe__bf16_units[PE__AMX_HERE() ? 1 : 0];
}
#endif

POSENC_DEF const char *posenc_bf16_unit(void)
{
#ifdef PE__BF16
    if (pe__bf16_now()) return pe__bf16_now()->name;
#endif
    return "none";
}

/* The right side of a product, rounded and packed; where there is no unit, nobody will read it.  */
static void pe__ready_bf16(posenc_float *ready, const posenc_float *b, ptrdiff_t b_row,
                           ptrdiff_t b_col, int n, int k)
{
#ifdef PE__BF16
    int threads = (double)n * k > 1e4 ? posenc_threads() : 1, share = pe__share(n, threads, 32);
    if (!pe__bf16_now()) return;
    PE__PARALLEL_ON(threads)
    for (int j = 0; j < n; j += share)
        pe__words_slivers(ready + (size_t)j * pe__bf16_pairs(k), b + j * b_col, b_row, b_col,
                          pe__min(share, n - j), k);
#else
    (void)ready, (void)b, (void)b_row, (void)b_col, (void)n, (void)k;
#endif
}

static void pe__product_bf16(posenc_float *c, int m, int n, int k, const posenc_float *a,
                             ptrdiff_t a_row, ptrdiff_t a_col, const posenc_float *b, ptrdiff_t b_row,
                             ptrdiff_t b_col, const posenc_float *bias, int add, posenc_float *scratch,
                             const posenc_float *ready)
{
#ifdef PE__BF16
    int pairs = pe__bf16_pairs(k), width = pairs + PE__BF16_APART;
    int threads = (double)m * n * k < 1e5 ? 1 : posenc_threads();
    int rows = pe__share(m, threads, PE__BF16_LINE), columns = pe__share(n, threads, 32);
    posenc_float *own = scratch + (size_t)m * width;
    const pe__kernels *now = pe__bf16_now();
    if (now && m > 0 && n > 0 && k > 0) {
        pe__shares x = pe__shares_of(m, n, k, a_col != 1, 32, threads, now->rows[now->rows[0] == 12]);
        const posenc_float *packed = ready ? ready : own;
        PE__PARALLEL_ON(threads)
        for (int t = 0; t < threads; t++) {                /* a thread packs its share of both sides */
            int i = t * rows, j = t * columns;
            if (i < m) pe__words_rows(scratch + (size_t)i * width, width, a + i * a_row, a_row, a_col,
                                      pe__min(rows, m - i), k);
            if (j < n && !ready) pe__words_slivers(own + (size_t)j * pairs, b + j * b_col, b_row, b_col,
                                                   pe__min(columns, n - j), k);
        }
        PE__PARALLEL_ON(threads)
        for (int u = 0; u < x.blocks * x.groups; u++) {
            int i = u % x.blocks * x.rows, j = u / x.blocks * x.columns;
            pe__bf16_block(now, c + (size_t)i * n + j, n, pe__min(x.rows, m - i),
                           pe__min(x.columns, n - j), k, scratch + (size_t)i * width,
                           packed + (size_t)j * pairs, bias ? bias + j : NULL, add);
        }
        return;
    }
#endif
    (void)scratch, (void)ready;
    pe__product(c, m, n, k, a, a_row, a_col, b, b_row, b_col, bias, add);
}

#if defined(__clang__)
#pragma clang diagnostic pop
#pragma clang fp contract(on)                                        /* as clang has it by itself */
#endif
#endif /* POSENC_IMPLEMENTED */
#endif /* POSENC_IMPLEMENTATION: end of implementation */

/* ---- [12] licence -------------------------------------------------------------------------------
   MIT License

   Copyright (c) 2026 the posenc authors

   Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
   associated documentation files (the "Software"), to deal in the Software without restriction,
   including without limitation the rights to use, copy, modify, merge, publish, distribute,
   sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is
   furnished to do so, subject to the following conditions:

   The above copyright notice and this permission notice shall be included in all copies or
   substantial portions of the Software.

   THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING
   BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND
   NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM,
   DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
   OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.        */
