/* What tests demand of answers, and the requests they have in common. */
#ifndef ATTND_TESTS_E2E_EXPECT_H
#define ATTND_TESTS_E2E_EXPECT_H

#include "http_client.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#define FORWARD "/v1/forward"

/* {"input": [1,4,64] of 0.5}: a small right request. */
char *small_request(void);

/* Some work for few bytes: tokens x tokens attention of 4 heads on plain64, output only, in base64. */
char *heavy_request(size_t tokens);

/* So many tokens are work for longer than the 50 ms that tests allow, and not for minutes on a slow machine. */
#ifdef __SANITIZE_THREAD__
#define LONG_TOKENS 3000
#else
#define LONG_TOKENS 8000
#endif

/* Demands a right answer to small_request (200 with an output). */
void expect_served(const struct server_process *server);
/* The same of a server whose deadlines are so short that the machine may miss one: 408, 503 and 504 are tried again. */
void expect_served_in_time(const struct server_process *server);

/* Demands a problem document with this status, at this pointer (NULL: none is asked for), whose detail holds `word`
 * (NULL: any). */
void expect_problem(const struct reply *reply, long status, const char *pointer, const char *word, const char *name);

/* Demands that every number of `got` is within 1e-5 + 1e-5 |wanted|, and the shapes the same. Numbers wanted as 0 must
 * be exactly 0 where `exact_zeros` is set. */
void expect_close(const json_t *got, const json_t *wanted, bool exact_zeros, const char *name);

/* Demands an array of these numbers. */
void expect_shape(const json_t *got, const size_t *shape, size_t rank, const char *name);

/* The numbers of a nested array, in order; the caller frees them. */
double *flat_numbers(const json_t *nested, size_t *count);

char *base64_text(const void *data, size_t length);
/* The bytes of base64 text; the caller frees them. */
unsigned char *base64_bytes(const char *text, size_t *length);

/* A golden case of tests/golden/forward. */
json_t *golden_case(const char *name);
/* The request of a golden case as text, with the name of its weight set in it. */
char *golden_request(const json_t *golden);

/* "[1,2,...]" of float32 numbers with all their digits. */
char *numbers_text(const float *numbers, size_t count);

#endif
