/* Flags by hand: getopt keeps its state in globals, prints by itself and does not know what was meant. One thread. */
#include "config/command_line.h"

#include "base/nearest.h"
#include "config/excerpt.h"

#include <stdlib.h>
#include <string.h>

enum flag { FLAG_CONFIG, FLAG_LISTEN, FLAG_MODEL, FLAG_CHECK_CONFIG, FLAG_HEALTH, FLAG_VERSION, FLAG_HELP, FLAG_COUNT };

static const char *const names[FLAG_COUNT] = {"--config", "--listen",  "--model", "--check-config",
                                              "--health", "--version", "--help"};
/* What the value is called; NULL: the flag has none. */
static const char *const values[FLAG_COUNT] = {"FILE", "ADDR:PORT", "NAME=PATH"};

static const char help[] =
    "attnd: multi-head attention over HTTP, with the map and the importance of every head.\n"
    "\n"
    "usage: attnd [--config FILE] [--model NAME=PATH]... [--listen ADDR:PORT]...\n"
    "             [--check-config | --health]\n"
    "       attnd --version | --help\n"
    "\n"
    "  --config FILE       read the configuration from FILE (JSON); without it, on 127.0.0.1:8080,\n"
    "                      the sets of --model or, where none, the built-in set \"demo\"\n"
    "  --listen ADDR:PORT  listen here instead of where the configuration says; may be given\n"
    "                      several times; port 0 takes a free one and logs it\n"
    "  --model NAME=PATH   serve the Hugging Face folder PATH as the weight set NAME, beside\n"
    "                      those of the configuration; may be given several times\n"
    "  --check-config      load the configuration and its weights, print what would be served\n"
    "                      or every fault as FILE:LINE: pointer: message, and end\n"
    "  --health            ask the running server of this configuration whether it is alive\n"
    "  --version           print the version\n"
    "  --help              print this\n"
    "\n"
    "Environment: every single value of the configuration has a variable, ATTND_SECTION_KEY:\n"
    "  server.workers is ATTND_SERVER_WORKERS, default_weights is ATTND_DEFAULT_WEIGHTS, and\n"
    "  ATTND_LISTEN takes a list with commas. ATTND_MODELS is a list of NAME=PATH, as of\n"
    "  --model. Defaults give way to the file, the file to the environment, the environment\n"
    "  to flags. ATTND_ISA names the instruction set to use.\n"
    "\n"
    "Exit codes: 0 stopped as asked, or the check passed; 1 --health found no healthy server;\n"
    "  2 flags, configuration, weights or port are wrong: stderr says what to do.\n"
    "\n"
    "Examples:\n"
    "  attnd --model minilm=models/all-MiniLM-L6-v2\n"
    "  attnd --config /etc/attnd/attnd.json --check-config\n"
    "  ATTND_LOG_LEVEL=debug attnd --config /etc/attnd/attnd.json --listen 0.0.0.0:8080\n";

const char *command_line_help(void)
{
    return help;
}

/* The flag that `argument` begins with; *value is behind its '=', or NULL. FLAG_COUNT with an error when it is none. */
static enum flag find_flag(const char *argument, const char **value, struct error *error)
{
    char shown[EXCERPT_BYTES];
    size_t length = strcspn(argument, "=");
    *value = argument[length] ? argument + length + 1 : NULL;
    for (size_t i = 0; i < FLAG_COUNT; i++)
        if (strlen(names[i]) == length && memcmp(names[i], argument, length) == 0)
            return (enum flag)i;
    excerpt_write(shown, argument, length);
    if (argument[0] != '-') {
        error_set(error, ERROR_CONFIGURATION, "\"%s\" is no flag; a configuration file is given by --config FILE",
                  shown);
        return FLAG_COUNT;
    }
    const char *near = nearest_name(shown, names, FLAG_COUNT);
    error_set(error, ERROR_CONFIGURATION, "unknown flag %s; %s%s%s", shown,
              near ? "did you mean " : "attnd --help lists the known ones", near ? near : "", near ? "?" : "");
    return FLAG_COUNT;
}

static bool set_command(struct command_line *line, enum command command, struct error *error)
{
    if (line->command != COMMAND_SERVE && line->command != command)
        return error_set(error, ERROR_CONFIGURATION, "--check-config and --health cannot be asked for at once");
    line->command = command;
    return true;
}

static bool has_argument(int argc, char *const *argv, const char *name)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return true;
    return false;
}

static bool parse(int argc, char *const *argv, struct command_line *line, struct error *error)
{
    for (int i = 1; i < argc; i++) {
        const char *value;
        enum flag flag = find_flag(argv[i], &value, error);
        if (flag == FLAG_COUNT)
            return false;
        if (value && !values[flag])
            return error_set(error, ERROR_CONFIGURATION, "%s takes no value", names[flag]);
        if (!value && values[flag]) {
            if (i + 1 == argc || strncmp(argv[i + 1], "--", 2) == 0)
                return error_set(error, ERROR_CONFIGURATION, "%s needs a value: %s %s", names[flag], names[flag],
                                 values[flag]);
            value = argv[++i];
        }
        switch (flag) {
        case FLAG_CONFIG:
            if (line->flags.file)
                return error_set(error, ERROR_CONFIGURATION,
                                 "--config is given twice; there is one configuration file");
            if (!*value)
                return error_set(error, ERROR_CONFIGURATION, "--config needs the name of a file, got an empty one");
            line->flags.file = value;
            break;
        case FLAG_LISTEN:
            line->listen[line->flags.listen_count++] = value;
            break;
        case FLAG_MODEL:
            line->models[line->flags.model_count++] = value;
            break;
        case FLAG_CHECK_CONFIG:
        case FLAG_HEALTH:
            if (!set_command(line, flag == FLAG_HEALTH ? COMMAND_HEALTH : COMMAND_CHECK_CONFIG, error))
                return false;
            break;
        default: /* --help and --version were looked for before */
            break;
        }
    }
    return true;
}

bool command_line_parse(int argc, char *const *argv, struct command_line *line, struct error *error)
{
    *line = (struct command_line){0};
    if (has_argument(argc, argv, "--help")) {
        line->command = COMMAND_HELP;
        return true;
    }
    if (has_argument(argc, argv, "--version")) {
        line->command = COMMAND_VERSION;
        return true;
    }
    const size_t most = (size_t)(argc > 0 ? argc : 1);
    line->listen = calloc(most, sizeof *line->listen);
    line->models = calloc(most, sizeof *line->models);
    if (!line->listen || !line->models)
        return error_out_of_memory(error);
    line->flags.listen = line->listen;
    line->flags.models = line->models;
    return parse(argc, argv, line, error);
}

void command_line_free(struct command_line *line)
{
    free(line->listen);
    free(line->models);
    *line = (struct command_line){0};
}
