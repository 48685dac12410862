/* Checks of errors, as the contract's own checks make them: the code, the pointer, and the words that the message must
 * name. */
#ifndef ATTND_TESTS_CODEC_EXPECT_H
#define ATTND_TESTS_CODEC_EXPECT_H

#include "base/error.h"
#include "suite.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

/* Whether `word` stands in the text by itself, not as a part of another word or number. */
static inline bool names(const char *text, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = text; (at = strstr(at, word)); at++)
        if ((at == text || !isalnum((unsigned char)at[-1])) && !isalnum((unsigned char)at[length]))
            return true;
    return false;
}

/* `words`: separated by spaces; NULL or "": none. `pointer` NULL: any. `what` is named when the check fails. */
static inline void expect_error(const struct error *error, enum error_code code, const char *pointer, const char *words,
                                const char *what)
{
    char list[512] = "", *rest = list;
    ck_assert_msg(error->code == code, "%.200s: expected %s, got %s (%s)", what, error_slug(code),
                  error_slug(error->code), error->message);
    ck_assert_msg(!pointer || (error->has_pointer && strcmp(error->pointer, pointer) == 0),
                  "%.200s: expected the pointer %s, got %s (%s)", what, pointer, error->pointer, error->message);
    if (words)
        strcpy(list, words);
    for (char *word; (word = strtok_r(rest, " ", &rest));)
        ck_assert_msg(names(error->message, word), "%.200s: expected the word %s in: %s", what, word, error->message);
}

#endif
