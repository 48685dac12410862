/* The texts of numbers as an order of bytes: sixteen bytes hold all that the text of a number and its comma may
 * consist of, and a table tells which of them come in which place. For vectors, where that is one instruction
 * (number_block.inc). Constant data: any thread. */
#ifndef ATTND_JSON_NUMBER_LAYOUT_H
#define ATTND_JSON_NUMBER_LAYOUT_H

#include <stdint.h>

/* Shortest: nine digits, "-.e", the exponent's tens and ones, "0,". A row's index is
 *     ((form - NUMBER_FORM_FIRST) * 2 + (negative ? 1 : 0)) * 10 + count
 * with form the power of ten of the first digit, within FIRST and LAST (where all that is beyond looks the same), and
 * count the digits up to the last that is not 0, where none is as one. */
#define NUMBER_FORM_FIRST (-10)
#define NUMBER_FORM_LAST  10
extern const uint8_t number_shortest_layout[420][16];
extern const uint8_t number_shortest_length[420];

/* As many of the last numbers of a row with fixed places are written elsewhere first: for each number up to sixteen
 * bytes are stored, and a number and its comma are at least two. */
#define NUMBER_FIXED_LAST 8

/* Fixed: nine places, four digits before the point with zeros in front, "-.,". A row's index is
 *     (decimals * 2 + (negative ? 1 : 0)) * 4 + digits before the point - 1. */
extern const uint8_t number_fixed_layout[80][16];
extern const uint8_t number_fixed_length[80];

#endif
