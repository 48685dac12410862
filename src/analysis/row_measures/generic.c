/* Rows are measured in vectors of 16 bytes. */

#define VARIANT      row_kernels_generic
#define VECTOR_BYTES 16

#include "analysis/row_measures/body.inc"
