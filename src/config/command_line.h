/* The flags of the program. */
#ifndef ATTND_CONFIG_COMMAND_LINE_H
#define ATTND_CONFIG_COMMAND_LINE_H

#include "base/error.h"
#include "config/config.h"

#include <stdbool.h>

enum command { COMMAND_SERVE, COMMAND_CHECK_CONFIG, COMMAND_HEALTH, COMMAND_VERSION, COMMAND_HELP };

struct command_line {
    enum command command;
    struct config_flags flags; /* strings are argv's; flags.listen is `listen`, flags.models `models` */
    const char **listen, **models;
};

/* Reads argv (argc of them, the first is the program). `--flag VALUE` and `--flag=VALUE` are the same. --help, then
 * --version, win over all that stands beside them. ERROR_CONFIGURATION names the flag that is unknown (and the one that
 * is near), lacks its value, has one it does not take, or is there twice; ERROR_OUT_OF_MEMORY. *line is valid for
 * command_line_free either way. */
bool command_line_parse(int argc, char *const *argv, struct command_line *line, struct error *error);

void command_line_free(struct command_line *line);

/* The text of --help, for stdout. */
const char *command_line_help(void);

#endif
