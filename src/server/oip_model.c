/* Entered by polling threads and workers. */
#include "server/oip_model.h"

#include <string.h>

const struct weight_set *oip_model_find(const struct request *request, struct error *error)
{
    const char *name = request->parameters[0], *version = request->parameters[1];
    const struct weight_set *set = registry_find(&request->generation->registry, name, error);
    error->has_pointer = false; /* the name stands in the path, not in a document */
    if (set && version && strcmp(version, OIP_MODEL_VERSION) != 0) {
        error_set(error, ERROR_UNKNOWN_WEIGHTS, "model \"%.200s\" has no version \"%.64s\", only " OIP_MODEL_VERSION,
                  name, version);
        return NULL;
    }
    return set;
}
