/* What the numbers of a model's matrices and tables are in memory. */
#ifndef ATTND_ENGINE_PRECISION_H
#define ATTND_ENGINE_PRECISION_H

/* X(code, name). bf16: float32 without its lower 16 bits, rounded to the nearest, ties to even; widened as it is used,
 * so that all arithmetic is float32. */
#define PRECISIONS(X)       \
    X(PRECISION_F32, "f32") \
    X(PRECISION_BF16, "bf16")

#define PRECISION_ENUM(code, name) code,
enum precision { PRECISIONS(PRECISION_ENUM) PRECISION_COUNT };
#undef PRECISION_ENUM

#endif
