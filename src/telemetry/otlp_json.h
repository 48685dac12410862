/* OTLP/HTTP in its JSON encoding (https://opentelemetry.io/docs/specs/otlp/): the request that carries spans, and what
 * the collector says to it. Used by the exporter's thread. */
#ifndef ATTND_TELEMETRY_OTLP_JSON_H
#define ATTND_TELEMETRY_OTLP_JSON_H

#include "base/text.h"
#include "telemetry/trace_record.h"

/* One attribute of the resource: of the process as a whole. */
struct otlp_attribute {
    char *key, *value;
};

struct otlp_resource {
    struct otlp_attribute *items; /* [count] */
    size_t count;
    const char *version; /* of attnd, as the scope of its spans has it */
};

/* Appends the document for `count` records. The spans of stages get ids of their own. */
void otlp_json_write(struct text *text, const struct otlp_resource *resource, const struct trace_record *records,
                     size_t count);

/* How many spans a collector that said 200 has refused, by the body of its answer; its reason goes to `reason`
 * [size], cut where it is longer. 0 where it refused none, or the body is none that is understood. */
uint64_t otlp_json_rejected(const char *body, size_t length, char *reason, size_t size);

#endif
