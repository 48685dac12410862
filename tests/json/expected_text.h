/* The texts that numbers must have, computed without the code under test. */
#ifndef ATTND_TESTS_JSON_EXPECTED_TEXT_H
#define ATTND_TESTS_JSON_EXPECTED_TEXT_H

#define EXPECTED_TEXT_BYTES 64

/* The shortest text of a finite float32: the digits of std::to_chars where a C++ compiler was there, or found by printf
 * and strtof; in attnd's form. */
void expected_shortest(float value, char to[EXPECTED_TEXT_BYTES]);

/* "std::to_chars", or what stands in for it. */
const char *expected_shortest_source(void);

/* The text of printf, which is exact in glibc and rounds ties to even; without a sign where it is all zeros. */
void expected_fixed(float value, unsigned decimals, char to[EXPECTED_TEXT_BYTES]);

#endif
