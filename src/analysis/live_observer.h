/* Sums what traffic adds to the live statistics while its attention is computed: tiles are read where they are made,
 * and nothing as large as a map is kept.
 *
 * Created and finished by the thread that runs the job; rows come on its lanes, each of which adds to sums of its own.
 */
#ifndef ATTND_ANALYSIS_LIVE_OBSERVER_H
#define ATTND_ANALYSIS_LIVE_OBSERVER_H

#include "analysis/live_sums.h"
#include "base/arena.h"
#include "base/error.h"
#include "engine/model_run.h"
#include "engine/observer.h"

struct live_observer;

/* Live sums have one set of counts for all layers: those of a model can be observed whose layers all let a row see the
 * same keys, under the rules that its set has by default. */
bool live_observer_can(const struct model_shape *model, const struct attention_rules *rules);

/* The arena that live_observer_create takes from, for those of the inputs that are `observed`. model: whose layers are
 * observed; NULL: one bare layer. False on overflow. */
bool live_observer_bytes(const struct model_shape *model, size_t num_heads, const struct forward_input *const *inputs,
                         size_t count, unsigned lanes, size_t *bytes);

/* sums: of each input that is observed where its sums go, of as many layers, empty (live_sums_lay is enough); they are
 * the observer's until live_observer_finish. ERROR_OUT_OF_MEMORY when the arena is too small. Inputs, sums and arena
 * outlive it. */
struct live_observer *live_observer_create(const struct model_shape *model, size_t num_heads,
                                           const struct forward_input *const *inputs, size_t count, unsigned lanes,
                                           struct live_sums *const *sums /* [count] */, struct arena *arena,
                                           struct error *error);

/* For forward_run_observed, or model_run, of the same inputs. */
struct forward_observer live_observer_interface(struct live_observer *observer);

/* After the forward: the sums of input `index` are what it has added. False, and they are unspecified, when some of it
 * is not finite. */
bool live_observer_finish(struct live_observer *observer, size_t index);

#endif
