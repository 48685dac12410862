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

/* The shape of the sums of a model under the rules and the causal order of `own`, those that its set has by default;
 * model NULL: of one bare layer. */
struct live_shape live_observer_shape(const struct model_shape *model, size_t num_heads,
                                      const struct forward_input *own);

/* The arena that live_observer_create takes from, for those of the inputs that are `observed`. model: whose layers are
 * observed; NULL: one bare layer. shape: of its sums. False on overflow. */
bool live_observer_bytes(const struct model_shape *model, struct live_shape shape,
                         const struct forward_input *const *inputs, size_t count, unsigned lanes, size_t *bytes);

/* sums: of each input that is observed where its sums go, of that shape, empty (live_sums_lay is enough); they are the
 * observer's until live_observer_finish. ERROR_OUT_OF_MEMORY when the arena is too small. Inputs, sums and arena
 * outlive it. */
struct live_observer *live_observer_create(const struct model_shape *model, struct live_shape shape,
                                           const struct forward_input *const *inputs, size_t count, unsigned lanes,
                                           struct live_sums *const *sums /* [count] */, struct arena *arena,
                                           struct error *error);

/* For forward_run_observed, or model_run, of the same inputs. */
struct forward_observer live_observer_interface(struct live_observer *observer);

/* After the forward: the sums of input `index` are what it has added. False, and they are unspecified, when some of it
 * is not finite. */
bool live_observer_finish(struct live_observer *observer, size_t index);

#endif
