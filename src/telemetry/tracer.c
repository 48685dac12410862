#include "telemetry/tracer.h"

#include "base/clock.h"
#include "telemetry/otlp_exporter.h"

#include <stdlib.h>

#define STOP_PATIENCE (2 * CLOCK_SECOND)

struct tracer {
    _Atomic uint64_t share;
    struct otlp_settings settings;
    struct trace_counters counters;
    struct trace_buffer buffer;
    struct otlp_exporter *exporter;
};

struct tracer *tracer_start(struct otlp_settings *settings, double sample_rate, struct error *error)
{
    struct tracer *tracer = calloc(1, sizeof *tracer);
    if (!tracer || !trace_buffer_init(&tracer->buffer)) {
        free(tracer);
        error_out_of_memory(error);
        return NULL;
    }
    tracer_set_sample_rate(tracer, sample_rate);
    tracer->settings = *settings;
    tracer->exporter = otlp_exporter_start(&tracer->settings, &tracer->buffer, &tracer->counters, error);
    if (!tracer->exporter) {
        trace_buffer_destroy(&tracer->buffer);
        free(tracer);
        return NULL;
    }
    *settings = (struct otlp_settings){0};
    return tracer;
}

void tracer_stop(struct tracer *tracer)
{
    if (!tracer)
        return;
    otlp_exporter_stop(tracer->exporter, STOP_PATIENCE);
    trace_buffer_destroy(&tracer->buffer);
    otlp_settings_free(&tracer->settings);
    free(tracer);
}

void tracer_set_sample_rate(struct tracer *tracer, double sample_rate)
{
    atomic_store_explicit(&tracer->share, trace_share(sample_rate), memory_order_relaxed);
}

uint64_t tracer_share(const struct tracer *tracer)
{
    return tracer ? atomic_load_explicit(&tracer->share, memory_order_relaxed) : 0;
}

void tracer_record(struct tracer *tracer, const struct trace_record *record)
{
    if (!trace_buffer_put(&tracer->buffer, record))
        atomic_fetch_add_explicit(&tracer->counters.full, trace_record_spans(record), memory_order_relaxed);
}

const struct trace_counters *tracer_counters(const struct tracer *tracer)
{
    return &tracer->counters;
}
