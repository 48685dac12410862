/* Fuzzes the configuration file's reader: any text is a configuration or a list of faults, each with its place, and all
 * memory is given back. */
#include "config/config_file.h"
#include "config/keys.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config config = {0};
    struct config_file found;
    struct faults faults = {0};
    if (config_set_defaults(&config))
        config_file_read_text("folder/attnd.json", (const char *)data, size, &config, &found, &faults);
    for (size_t i = 0; i < faults.count; i++) {
        char *text = fault_text(&faults.items[i]);
        check(!text || strncmp(text, "folder/attnd.json:", 18) == 0);
        free(text);
    }
    if (faults.count == 0 && !faults.out_of_memory) {
        /* What was taken is whole: every set has what its source needs. */
        for (size_t i = 0; i < config.weights_count; i++) {
            const struct weights_config *set = &config.weights[i];
            const bool in_file = set->source == WEIGHTS_SAFETENSORS || set->source == WEIGHTS_BLOCKS;
            check(set->name && *set->name);
            /* A folder says all of itself. */
            check(set->source == WEIGHTS_HUGGINGFACE ? set->path && !set->num_heads : set->num_heads > 0);
            check(!in_file || set->path);
            check(set->source != WEIGHTS_SAFETENSORS || set->tensors[TENSOR_W_O]);
            check((set->source != WEIGHTS_NUMPY && set->source != WEIGHTS_IDENTITY) ||
                  set->d_model % set->num_heads == 0);
        }
        check(config.listen_count > 0 && config.server.io_threads > 0);
    }
    config_free(&config);
    faults_free(&faults);
    return 0;
}
