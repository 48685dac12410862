/* A weight set as answers describe it. */
#ifndef ATTND_SERVER_WEIGHTS_H
#define ATTND_SERVER_WEIGHTS_H

#include "weights/weight_set.h"

#include <jansson.h>

/* {"name", "source", "state", ...}; NULL when memory ran out. */
json_t *weights_describe(const struct weight_set *set);

#endif
