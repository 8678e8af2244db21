/* gallery/shown.h - with which numbers each encoding is drawn, and what to see in its picture

   The first entry of an encoding is its page, further ones are extra pages. An encoding that is not
   here is drawn with its defaults. Sizes are chosen for the eye: grids of 15 x 15 have a middle,
   tables of digits have as many channels as digits, and scalings of rope are shown at a length that
   fits on a page, 64 stretched to 256. */
#ifndef GALLERY_SHOWN_H
#define GALLERY_SHOWN_H

#include "gallery/pages.h"

#define STRETCH "factor=4,original=64"

static const display shown[] = {
    { NULL, "none", 0, 0, 0, 1,
      "Nothing tells one place from another. What a causal mask leaves is a count: place i shares "
      "its attention among i + 1 tokens, and a model can learn to read that. Without a mask not "
      "even this is there." },

    /* ---- added to the embedding ---- */
    { NULL, "sinusoidal", 0, 0, 0, 0,
      "Each pair of channels is the hand of a clock, fast on the left and slow on the right. The "
      "cosine of two positions depends on their distance alone: every diagonal has one colour." },
    { NULL, "sinonly", 0, 0, 0, 0,
      "Sines alone. Without the cosines the likeness of two positions depends on where they "
      "stand as well as on their distance, and position 0 is all zeros: grey." },
    { NULL, "binary:digits=6", 0, 6, 0, 0,
      "An odometer of ones and zeros. Neighbours may differ in one bit or in all of them (31 and "
      "32). Position 0 has no bit set and no direction: grey." },
    { NULL, "binary_norm:digits=6", 0, 6, 0, 0,
      "The same with -1 for 0: all vectors are of one length. 31 and 32 are neighbours and point "
      "exactly opposite ways." },
    { NULL, "decimal:digits=3", 128, 3, 0, 0,
      "Hundreds, tens and units. Digits are large numbers where an embedding holds small ones. "
      "Position 0 is all zeros and has no direction: grey." },
    { NULL, "decimal_norm:digits=3", 128, 3, 0, 0,
      "The same digits from -1 to 1. Below 100 the hundreds are always -1." },
    { NULL, "integer", 0, 8, 0, 0,
      "One number for each position, the same in all channels. All vectors point the same way, so "
      "that only their length tells where they stand." },
    { NULL, "learned", 0, 0, 0, 0,
      "As it starts: small random numbers of standard deviation 0.02. No position is nearer to "
      "one than to another; order has to be learnt." },
    { NULL, "sininit", 0, 0, 0, 0,
      "As it starts, which is sinusoidal. Every number may move from there." },
    { NULL, "continuous:init=0.2", 0, 0, 0, 0,
      "As it starts, with init=0.2 instead of 0.02 to have something to see. The network has no "
      "bends yet, so that all vectors point the same way; training puts them in." },
    { NULL, "sincos2d:base=100,width=15", 225, 0, 0, 0,
      "Half of the channels wave with the row and half with the column. Likeness reaches along "
      "the row and the column of a place before it reaches across." },
    { NULL, "sincos3d:base=100,width=15,height=15", 900, 66, 0, 0,
      "A third of the channels for time, row and column each: four frames of 15 x 15. The middle "
      "is in the third frame; on the right the frames are two by two." },
    { NULL, "fourier", 0, 0, 0, 0,
      "Sines on the left, cosines on the right, of 1 to 32 whole periods over the input, whatever "
      "its length. Positions are all but at right angles to each other. Only the first and the "
      "last are one vector: there every wave has come round." },
    { NULL, "random_fourier:axes=2,width=15,height=15", 225, 0, 0, 0,
      "Waves that run across the grid in directions drawn once (SAM, for points in a picture). "
      "Nearness is the same in every direction." },
    { NULL, "learned_fourier:init=10", 0, 0, 0, 0,
      "As it starts, with init=10 instead of 1 to have more waves: random frequencies, mixed by "
      "a network of random weights. Neighbours are alike from the first step." },

    /* ---- turns queries and keys ---- */
    { NULL, "rope", 0, 0, 0, 0,
      "Each pair of channels turns at its own speed, fast on the left and slow on the right. "
      "Scores see only the distance, and nearness fades with it." },
    { NULL, "lrope", 0, 0, 0, 0,
      "As it starts, which is rope: every factor is 1. Training gives each column its own speed, "
      "layer by layer." },
    { NULL, "rope2d:base=100,width=15", 225, 0, 0, 0,
      "The upper half of the pairs turns with the row, the lower half with the column. A score "
      "tells how far down and how far across." },
    { NULL, "rope_pixel:width=15,height=15,resolution=16", 225, 0, 0, 0,
      "The picture reaches from -1 to 1 whatever its size. With resolution=16 instead of 256, "
      "for a grid of 15, the waves have 1 to 8 periods in it, evenly spaced in octaves." },
    { NULL, "rope_dino:width=15,height=15", 225, 0, 0, 0,
      "The picture reaches from -1 to 1 whatever its size. No wave has more than two periods in "
      "it: nearness fades smoothly over the whole picture." },
    { NULL, "mrope:base=100", 0, 0, 0, 0,
      "Eight words, a picture of 7 x 7 patches, seven words. In the picture the first pairs stand "
      "still, since its time does not pass, the others turn with row and column; in text all turn "
      "together, as in rope." },
    { NULL, "xpos:scale_base=64", 0, 0, 0, 1,
      "With scale_base=64 instead of 512, so that the fading shows within a page: scores fall "
      "off with the distance, fast pairs most. A key in the future would gain, hence causal "
      "models only." },
    { NULL, "qtemp", 0, 0, 0, 0,
      "Each time the text grows by 8192 tokens, scores are spread a little further apart. Without "
      "it a key that stands out by 10 is drowned by 65,000 others." },

    /* ---- added to the scores ---- */
    { NULL, "relative:distance=16", 0, 0, 0, 0,
      "As it starts: small random numbers, one for each head and distance up to 16. Everything "
      "further away on one side shares the last one." },
    { NULL, "alibi", 0, 0, 0, 0,
      "The same straight roof for all heads, steep for the first and almost flat for the last: "
      "from a few neighbours to the whole text." },
    { NULL, "lalibi", 0, 0, 0, 0,
      "As it starts, with alibi's slopes. Each head then finds its own." },
    { NULL, "t5:distance=64", 0, 0, 0, 0,
      "As it starts: small random numbers. Near distances have one each, further ones share "
      "buckets that grow longer and longer." },
    { NULL, "swin:width=8,height=8", 0, 0, 4, 0,
      "As it starts: small random numbers, one for each head and offset in a window of 8 x 8. The "
      "map repeats itself in blocks, one for each pair of rows." },
    { NULL, "kerple", 0, 0, 0, 0,
      "As it starts, drawn at random for each head: a logarithm of the distance, steep near by "
      "and flat far away." },
    { NULL, "sandwich", 0, 0, 0, 0,
      "The product of two sinusoidal vectors by their distance, less that at distance 0. Heads "
      "differ in strength alone." },

    /* ---- variants ---- */
    { "sinusoidal_concat", "sinusoidal:layout=concat", 0, 0, 0, 0,
      "All sines, then all cosines: the same numbers in another order, and the same likeness." },
    { "fourier_grid", "fourier:axes=2,width=15,height=15", 225, 0, 0, 0,
      "Sines of row and column, then cosines of row and column (Perceiver, for pictures)." },
    { "rope_linear", "rope:scaling=linear," STRETCH, 256, 0, 0, 0,
      "Position interpolation: all pairs turn four times as slowly, so that 256 positions have "
      "the angles of 64. Neighbours look four times as near." },
    { "rope_ntk", "rope:scaling=ntk," STRETCH, 256, 0, 0, 0,
      "A larger base: fast pairs keep their speed, the slowest has a quarter of it." },
    { "rope_dynamic", "rope:scaling=dynamic," STRETCH, 256, 0, 0, 0,
      "The base grows with the text as it becomes longer than the training length of 64; drawn is "
      "the base for 256. The rule goes further than it must: the slowest pair has a thirteenth of "
      "its speed." },
    { "rope_yarn", "rope:scaling=yarn," STRETCH, 256, 0, 0, 0,
      "Pairs with many turns in 64 positions keep their speed, those with less than one turn four "
      "times as slowly, with a ramp between. Scores are sharpened as well." },
    { "rope_llama3", "rope:scaling=llama3," STRETCH, 256, 0, 0, 0,
      "Waves shorter than 16 positions stay, waves longer than 64 turn four times as slowly, with "
      "a ramp between." },
    { "rope_longrope", "rope:dim=16,scaling=longrope," STRETCH
      ",short=1/1/1/1/1/1/1/1,long=1/1.1/1.3/1.7/2.3/3/3.6/4", 256, 0, 0, 0,
      "A factor of its own for each pair, searched for by its authors, once the text is longer "
      "than 64; the factors here are made up." },
    { "rope_proportional", "rope:scaling=proportional,proportion=0.25", 256, 0, 0, 0,
      "Only the first quarter of the pairs turns; the others read content wherever it stands." },
    { "rope2d_alternate", "rope2d:base=100,width=15,split=alternate", 225, 0, 0, 0,
      "Row and column share one list of frequencies in turns (Pixtral), instead of having the "
      "whole list each." },
    { "mrope_interleaved", "mrope:base=100,order=interleaved,sections=12/10/10", 0, 0, 0, 0,
      "Time, row and column take turns along the pairs (Qwen3-VL), so that each has fast and slow "
      "ones." },
    { "qtemp_logn", "qtemp:form=logn,original=1024", 0, 0, 0, 0,
      "The logarithm of the length, beyond 1024: the entropy of attention stays about the same." },
    { "t5_causal", "t5:distance=64,bidirectional=-1", 0, 0, 0, 1,
      "For causal models: all buckets for the past." },
    { "kerple_power", "kerple:form=power", 0, 0, 0, 0,
      "As it starts: a power of the distance between 0 and 1, drawn at random for each head." }
};
enum { SHOWN = sizeof shown / sizeof *shown };

/* the scalings of rope that stretch 64 positions to 256, on one page: entries of shown, in a row */
static const char scalings_first[] = "rope_linear", scalings_last[] = "rope_llama3";
static const char scalings_note[] =
    "A rope that was trained on 64 positions meets angles beyond them that it has never seen. With "
    "all pairs slowed down by 4 (linear) 256 positions are within what it knows, but neighbours "
    "are harder to tell apart. The other rules spare the fast pairs, on the left. yarn also "
    "lengthens queries and keys.";

static inline int shown_index(const char *name)
{
    int i = 0;
    while (i < SHOWN && (!shown[i].name || strcmp(shown[i].name, name))) i++;
    return i;
}

#endif
