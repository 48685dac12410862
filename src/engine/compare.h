/* How far attention under rules is from attention without what approximates. */
#ifndef ATTND_ENGINE_COMPARE_H
#define ATTND_ENGINE_COMPARE_H

/* The errors are NaN where they are undefined. */
struct approximation {
    double output_error, attention_error;
    double pairs, pairs_full;
};

#endif
