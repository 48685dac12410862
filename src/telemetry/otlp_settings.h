/* Where spans go and what they say of the process: the configuration's word, and where it is silent OpenTelemetry's
 * environment variables. Read once, before threads start. */
#ifndef ATTND_TELEMETRY_OTLP_SETTINGS_H
#define ATTND_TELEMETRY_OTLP_SETTINGS_H

#include "base/error.h"
#include "telemetry/otlp_json.h"

#define OTLP_MAX_WARNINGS 8

struct otlp_settings {
    char *url;      /* whole, with the path of traces; NULL: spans are made for nobody */
    char **headers; /* [header_count]; "name: value" */
    size_t header_count;
    struct otlp_resource resource; /* service.name, service.version and service.instance.id among them */
    long timeout_ms;               /* of one request */
    /* Variables that cannot be understood, which are left out. */
    char *warnings[OTLP_MAX_WARNINGS]; /* [warning_count] */
    size_t warning_count;
};

/* `endpoint`: tracing.endpoint, the base address, or NULL. `environment`: NULL-terminated "NAME=value". False when
 * memory ran out; *settings is good for otlp_settings_free either way. */
bool otlp_settings_read(struct otlp_settings *settings, const char *endpoint, const char *version,
                        const char *const *environment);
void otlp_settings_free(struct otlp_settings *settings);

#endif
