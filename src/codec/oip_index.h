/* What POST /v2/repository/index is asked. */
#ifndef ATTND_CODEC_OIP_INDEX_H
#define ATTND_CODEC_OIP_INDEX_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* *ready_only: the member `ready` of the body, an object; false where it or the whole body is not there. Other members
 * are passed over, as the protocol has it. */
bool oip_index_decode(const char *body, size_t length, bool *ready_only, struct error *error);

#endif
