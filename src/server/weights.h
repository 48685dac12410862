/* A weight set as answers describe it. */
#ifndef ATTND_SERVER_WEIGHTS_H
#define ATTND_SERVER_WEIGHTS_H

#include "weights/weight_set.h"

#include <jansson.h>

/* {"name", "source", "state", ...}; NULL when memory ran out. */
json_t *weights_describe(const struct weight_set *set);

/* Says in the log which tensors of its files a set has no use for, where there are such. */
void weights_log_unused(const struct weight_set *set);

#endif
