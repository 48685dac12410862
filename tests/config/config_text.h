/* Loads a configuration from text, and looks at the faults that came of it. */
#ifndef ATTND_TESTS_CONFIG_TEXT_H
#define ATTND_TESTS_CONFIG_TEXT_H

#include "config/config.h"

#include <stdbool.h>
#include <stddef.h>

struct loaded {
    struct config config;
    struct faults faults, warnings;
    bool right;
    char file[64]; /* as the faults name it; it is gone by now */
};

/* `environment` may be NULL: an empty one. */
void load_text(struct loaded *loaded, const char *text, const char *const *environment);
void load_flags(struct loaded *loaded, const struct config_flags *flags, const char *const *environment);
void loaded_free(struct loaded *loaded);

/* The faults are those, in that order, each on its line of the file. */
struct expected_fault {
    size_t line;
    const char *pointer;  /* NULL: none */
    const char *parts[4]; /* each is in the message */
};
void expect_faults(const struct loaded *loaded, const struct expected_fault *expected, size_t count);
#define EXPECT_FAULTS(loaded, ...)                                        \
    expect_faults((loaded), (const struct expected_fault[]){__VA_ARGS__}, \
                  sizeof((const struct expected_fault[]){__VA_ARGS__}) / sizeof(struct expected_fault))

/* Fails, with their texts, when there are any. */
void expect_right(const struct loaded *loaded);

#endif
