/* Accept-Encoding: what RFC 9110 says of weights, of names, and of none. */
#include "server/accept_encoding.h"
#include "suite.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *line, *further; /* NULL: none */
    enum accepted_coding chosen;
} CASES[] = {
    {NULL, NULL, ACCEPTED_IDENTITY},
    {"", NULL, ACCEPTED_IDENTITY},
    {" , ,", NULL, ACCEPTED_IDENTITY},
    {"gzip", NULL, ACCEPTED_GZIP},
    {"GZip", NULL, ACCEPTED_GZIP},
    {"x-gzip", NULL, ACCEPTED_GZIP},
    {"gzip, deflate, br, zstd", NULL, ACCEPTED_GZIP},
    {"br;q=1.0, gzip;q=0.5", NULL, ACCEPTED_GZIP},
    {"deflate", NULL, ACCEPTED_IDENTITY},
    {"gzipped, xgzip, gzi", NULL, ACCEPTED_IDENTITY},
    {"identity", NULL, ACCEPTED_IDENTITY},

    /* Weights. */
    {"gzip;q=0", NULL, ACCEPTED_IDENTITY},
    {"gzip;q=0.000", NULL, ACCEPTED_IDENTITY},
    {"gzip;q=0.001", NULL, ACCEPTED_GZIP},
    {"gzip;q=1.000", NULL, ACCEPTED_GZIP},
    {"gzip;q=0.", NULL, ACCEPTED_IDENTITY},
    {"gzip;q=1.", NULL, ACCEPTED_GZIP},
    {"gzip;Q=0", NULL, ACCEPTED_IDENTITY},
    {"gzip\t; q=0.8", NULL, ACCEPTED_GZIP},
    {"gzip;q=0.5, identity;q=0.5", NULL, ACCEPTED_GZIP},
    {"gzip;q=0.5, identity;q=0.501", NULL, ACCEPTED_IDENTITY},
    {"gzip;q=0.51, identity;q=0.5", NULL, ACCEPTED_GZIP},
    {"identity;q=0.5, gzip;q=1.0", NULL, ACCEPTED_GZIP},

    /* Any. */
    {"*", NULL, ACCEPTED_GZIP},
    {"*;q=0.1", NULL, ACCEPTED_GZIP},
    {"*;q=0", NULL, ACCEPTED_IDENTITY},
    {"*, gzip;q=0", NULL, ACCEPTED_IDENTITY},
    {"*;q=0.5, identity;q=0.7", NULL, ACCEPTED_IDENTITY},
    {"br, *;q=0.1", NULL, ACCEPTED_GZIP},

    /* Not as it is. */
    {"gzip, identity;q=0", NULL, ACCEPTED_ONLY_GZIP},
    {"identity;q=0, gzip;q=0.1", NULL, ACCEPTED_ONLY_GZIP},
    {"gzip, *;q=0", NULL, ACCEPTED_ONLY_GZIP},
    {"*, identity;q=0.0", NULL, ACCEPTED_ONLY_GZIP},
    {"identity;q=0", NULL, ACCEPTED_IDENTITY},
    {"br, identity;q=0", NULL, ACCEPTED_IDENTITY},
    {"identity;q=0, gzip;q=0", NULL, ACCEPTED_IDENTITY},
    {"identity, *;q=0", NULL, ACCEPTED_IDENTITY},

    /* What is no element is passed over, the rest counts. */
    {"gzip;q=2", NULL, ACCEPTED_IDENTITY},
    {"gzip;q=1.001", NULL, ACCEPTED_IDENTITY},
    {"gzip;q=0.1234", NULL, ACCEPTED_IDENTITY},
    {"gzip;q=-1", NULL, ACCEPTED_IDENTITY},
    {"gzip;q=.5", NULL, ACCEPTED_IDENTITY},
    {"gzip;q=1x", NULL, ACCEPTED_IDENTITY},
    {"gzip;q=0,5", NULL, ACCEPTED_IDENTITY},
    {"gzip;q = 1", NULL, ACCEPTED_IDENTITY},
    {"gzip;q=", NULL, ACCEPTED_IDENTITY},
    {"gzip;q", NULL, ACCEPTED_IDENTITY},
    {"gzip;", NULL, ACCEPTED_IDENTITY},
    {"gzip;level=9", NULL, ACCEPTED_IDENTITY},
    {"gzip;q=1;q=0", NULL, ACCEPTED_IDENTITY},
    {"gzip deflate", NULL, ACCEPTED_IDENTITY},
    {"\"gzip\"", NULL, ACCEPTED_IDENTITY},
    {"identity;q=zero, gzip", NULL, ACCEPTED_GZIP},
    {"gzip, identity;q=0.0000", NULL, ACCEPTED_GZIP},
    {";;;, gzip , ===", NULL, ACCEPTED_GZIP},
    {",,gzip,,", NULL, ACCEPTED_GZIP},

    /* Several lines are one list; the last of a name counts. */
    {"deflate", "gzip", ACCEPTED_GZIP},
    {"gzip", "gzip;q=0", ACCEPTED_IDENTITY},
    {"gzip;q=0", "x-gzip", ACCEPTED_GZIP},
    {"gzip", "identity;q=0", ACCEPTED_ONLY_GZIP},
};

static void read_line(struct accept_encoding *accepted, const char *line)
{
    if (!line)
        return;
    const size_t length = strlen(line);
    char *exact = malloc(length + !length);
    memcpy(exact, line, length); /* without a NUL: a sanitizer sees what is read behind */
    accept_encoding_read(accepted, exact, length);
    free(exact);
}

START_TEST(what_is_chosen)
{
    struct accept_encoding accepted = ACCEPT_ENCODING_NONE;
    read_line(&accepted, CASES[_i].line);
    read_line(&accepted, CASES[_i].further);
    const enum accepted_coding chosen = accept_encoding_choose(&accepted);
    ck_assert_msg(chosen == CASES[_i].chosen, "\"%s\" and \"%s\": %d, expected %d",
                  CASES[_i].line ? CASES[_i].line : "-", CASES[_i].further ? CASES[_i].further : "-", chosen,
                  CASES[_i].chosen);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("accept_encoding");
    TCase *c = tcase_create("accept_encoding");
    tcase_add_loop_test(c, what_is_chosen, 0, sizeof CASES / sizeof *CASES);
    suite_add_tcase(s, c);
    return s;
}
