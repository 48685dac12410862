/* The best approximation of a product of two tall matrices by one of lower rank (Eckart and Young, The approximation of
 * one matrix by another of lower rank, 1936), in float64. */
#ifndef ATTND_WEIGHTS_BEST_RANK_H
#define ATTND_WEIGHTS_BEST_RANK_H

#include <stdbool.h>
#include <stddef.h>

/* A matrix whose columns lie one behind the other. */
struct tall_matrix {
    double *columns; /* [width][rows] */
    size_t rows;
};

/* Doubles of scratch that best_rank wants for matrices of `width` columns. False on overflow. */
bool best_rank_scratch(size_t width, size_t *doubles);

/* Fills left_factor and right_factor, of the rows of left and right and `rank` columns, so that left_factor
 * right_factor^T is the best approximation of left right^T by a matrix of that rank; half of each singular value (its
 * root) is on either side, the largest first. left and right [rows, width] are overwritten. Their product is never
 * formed: both are turned to triangles first. Columns that no singular value is left for are 0. */
void best_rank(struct tall_matrix left, struct tall_matrix right, size_t width, size_t rank,
               double *left_factor /* [rank][left.rows] */, double *right_factor /* [rank][right.rows] */,
               double *scratch);

#endif
