/* The model that a path of the Open Inference Protocol names: a weight set, of which there is one version. */
#ifndef ATTND_SERVER_OIP_MODEL_H
#define ATTND_SERVER_OIP_MODEL_H

#include "server/request.h"
#include "weights/weight_set.h"

/* The one version that every model has. */
#define OIP_MODEL_VERSION "1"

/* The weight set of request->parameters, name and version (where the route has one). NULL with ERROR_UNKNOWN_WEIGHTS,
 * or with ERROR_NOT_READY for a set that could not be loaded. */
const struct weight_set *oip_model_find(const struct request *request, struct error *error);

#endif
