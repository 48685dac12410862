/* What a folder that is no model's is instead, for messages. Any thread. */
#ifndef ATTND_WEIGHTS_MODEL_FOLDER_H
#define ATTND_WEIGHTS_MODEL_FOLDER_H

#include "base/error.h"

#include <stdbool.h>

/* The folder has no config.json: says so, and where one is or what else there is. ERROR_IO at /path. Always false. */
bool model_folder_without_config(const char *folder, struct error *error);

/* It has neither model.safetensors nor the index of shards: the same of these. */
bool model_folder_without_weights(const char *folder, struct error *error);

#endif
