/* Every metric that GET /metrics knows: the one place for names, units, labels and help, read by the exposition, the tests
 * and the table in docs/OPERATIONS.md. */
#ifndef ATTND_TELEMETRY_METRIC_LIST_H
#define ATTND_TELEMETRY_METRIC_LIST_H

enum metric_kind { KIND_COUNTER, KIND_GAUGE, KIND_HISTOGRAM, KIND_INFO };

/* X(code, kind, family, unit, labels, help), in the order of the exposition. The family's name stands without the suffix
 * of its kind: "_total" of counters, "_info" of infos. A unit ends the name. Labels are in the order of the exposition,
 * with commas, `le` left out. A sentence that ends with its point, without quotes, backslashes or bars. */
/* clang-format off */
#define METRICS(X)                                                                                                     \
    X(BUILD, INFO, "attnd_build", "", "version,isa", "What runs: its version and the instruction set of its kernels; always 1.") \
    X(READY, GAUGE, "attnd_ready", "", "", "1 while the server wants traffic, as /readyz says; 0 once it was asked to stop.") \
    X(REQUESTS, COUNTER, "attnd_requests", "", "route,method,code", "Requests that are over; code 499 is a client that left before any answer.") \
    X(REQUEST_DURATION, HISTOGRAM, "attnd_request_duration_seconds", "seconds", "route", "From the request line to the end of the answer, upload included.") \
    X(REQUEST_STAGE, HISTOGRAM, "attnd_request_stage_seconds", "seconds", "stage", "Time in each stage of the requests that reached it: parse, queue, compute, encode, send.") \
    X(COMPUTE, HISTOGRAM, "attnd_compute_seconds", "seconds", "", "Time in computation of the requests that were computed; requests of one batch share it.") \
    X(REQUEST_BODY, COUNTER, "attnd_request_body_bytes", "bytes", "", "Bytes of bodies that came, as they were sent.") \
    X(RESPONSE_BODY, COUNTER, "attnd_response_body_bytes", "bytes", "", "Bytes of the bodies of whole answers, as they were sent.") \
    X(REJECTED, COUNTER, "attnd_rejected", "", "reason", "Requests that were answered with an error, by its kind; and connections that were refused, for max-connections or max-connections-per-address.") \
    X(CLIENT_GONE, COUNTER, "attnd_client_gone", "", "", "Requests whose client left before it had the whole answer.") \
    X(IN_FLIGHT, GAUGE, "attnd_in_flight", "", "", "Requests between their first line and the end of their answer, without this scrape.") \
    X(CONNECTIONS, GAUGE, "attnd_connections", "", "", "Open connections.") \
    X(CONNECTIONS_LIMIT, GAUGE, "attnd_connections_limit", "", "", "server.max_connections.") \
    X(TOKENS, COUNTER, "attnd_tokens", "", "", "Query positions that were computed, of requests that succeeded.") \
    X(SEQUENCES, COUNTER, "attnd_sequences", "", "", "Sequences that were computed, of requests that succeeded.") \
    X(BATCH_REQUESTS, HISTOGRAM, "attnd_batch_requests", "", "", "Requests that were computed together in one forward.") \
    X(QUEUE_DEPTH, GAUGE, "attnd_queue_depth", "", "", "Jobs that wait for a worker.") \
    X(QUEUE_CAPACITY, GAUGE, "attnd_queue_capacity", "", "", "limits.queue_depth: jobs that may wait.") \
    X(WORKERS, GAUGE, "attnd_workers", "", "", "Worker threads.") \
    X(WORKERS_BUSY, GAUGE, "attnd_workers_busy", "", "", "Threads that compute now: workers, and polling threads with short work; without this scrape.") \
    X(WORKER_BUSY, COUNTER, "attnd_worker_busy_seconds", "seconds", "", "Time that workers were busy, and polling threads with the short work that they did in their place.") \
    X(MEMORY_BUDGET, GAUGE, "attnd_memory_budget_bytes", "bytes", "", "limits.memory_budget_bytes: what requests may hold together.") \
    X(MEMORY_BUDGET_USED, GAUGE, "attnd_memory_budget_used_bytes", "bytes", "", "What requests and live statistics hold of the memory budget.") \
    X(LOG_DROPPED, COUNTER, "attnd_log_dropped", "", "", "Log lines that were lost because nobody read them.") \
    X(SPANS_SENT, COUNTER, "attnd_trace_spans_sent", "", "", "Spans that the collector has taken; these four only where traces are exported.") \
    X(SPANS_DROPPED, COUNTER, "attnd_trace_spans_dropped", "", "reason", "Spans that were lost: the buffer was full, the collector could not be reached or failed, or it rejected them.") \
    X(EXPORTS, COUNTER, "attnd_trace_exports", "", "", "Requests to the collector.") \
    X(EXPORT_FAILURES, COUNTER, "attnd_trace_export_failures", "", "", "Requests to the collector that failed.") \
    X(RELOADS, COUNTER, "attnd_reloads", "", "", "Times that the configuration, or a weight set, was read again.") \
    X(RELOAD_FAILURES, COUNTER, "attnd_reload_failures", "", "", "Times that it had a fault, and all stayed as it was.") \
    X(RELOAD_SUCCEEDED, GAUGE, "attnd_reload_success_timestamp_seconds", "seconds", "", "When that last succeeded, or the server started, since the epoch.") \
    X(CERTIFICATE_EXPIRY, GAUGE, "attnd_certificate_expiry_timestamp_seconds", "seconds", "", "When the server's own certificate ends, since the epoch; only with TLS.") \
    X(WEIGHTS, INFO, "attnd_weights", "", "weights,state,source,digest,d_model,num_heads", "The weight sets of the configuration; always 1.") \
    X(WEIGHTS_BYTES, GAUGE, "attnd_weights_bytes", "bytes", "weights", "Bytes of the parameters of the weight set, as they are held in memory.") \
    X(WEIGHTS_LOADED, GAUGE, "attnd_weights_loaded_timestamp_seconds", "seconds", "weights", "When the weight set was loaded, since the epoch.") \
    X(WEIGHTS_RELOADS, COUNTER, "attnd_weights_reloads", "", "weights", "Times that the weight set was loaded again.") \
    X(WEIGHTS_RELOAD_FAILURES, COUNTER, "attnd_weights_reload_failures", "", "weights", "Times that the weight set was to be loaded again and could not be: the old one stayed.") \
    X(LIVE_SEQUENCES, COUNTER, "attnd_live_sequences", "", "weights", "Sequences of traffic in the live statistics.") \
    X(LIVE_SKIPPED_SEQUENCES, COUNTER, "attnd_live_skipped_sequences", "", "weights", "Sequences of traffic left out of them: under another rule than the set's own, or for lack of memory.") \
    X(LIVE_EXCLUDED_ROWS, COUNTER, "attnd_live_excluded_rows", "", "weights", "Rows left out of them: padding, or no key allowed.") \
    X(LIVE_ROWS, COUNTER, "attnd_live_rows", "", "weights,layer", "Rows of traffic that were scored; the sums of entropy, effective keys, distance and confidence are over these.") \
    X(LIVE_CHOOSING_ROWS, COUNTER, "attnd_live_choosing_rows", "", "weights,layer", "Rows with two keys or more; those of normalized entropy and hoyer.") \
    X(LIVE_PREVIOUS_ROWS, COUNTER, "attnd_live_previous_rows", "", "weights,layer", "Rows that may attend to the position before them; those of previous mass.") \
    X(LIVE_NEXT_ROWS, COUNTER, "attnd_live_next_rows", "", "weights,layer", "Rows that may attend to the position behind them; those of next mass.") \
    X(LIVE_SELF_ROWS, COUNTER, "attnd_live_self_rows", "", "weights,layer", "Rows that may attend to their own position; those of self mass.") \
    X(LIVE_FIRST_ROWS, COUNTER, "attnd_live_first_rows", "", "weights,layer", "Rows that may attend to the first position; those of first mass.") \
    X(LIVE_UNIFORM_DISTANCE, COUNTER, "attnd_live_uniform_distance_tokens", "tokens", "weights,layer", "Sum over rows of the distance that even attention would have.") \
    X(LIVE_UNIFORM_PREVIOUS_MASS, COUNTER, "attnd_live_uniform_previous_mass", "", "weights,layer", "Sum over previous rows of the mass that even attention would have.") \
    X(LIVE_UNIFORM_NEXT_MASS, COUNTER, "attnd_live_uniform_next_mass", "", "weights,layer", "Sum over next rows of the mass that even attention would have.") \
    X(LIVE_UNIFORM_SELF_MASS, COUNTER, "attnd_live_uniform_self_mass", "", "weights,layer", "Sum over self rows of the mass that even attention would have.") \
    X(LIVE_UNIFORM_FIRST_MASS, COUNTER, "attnd_live_uniform_first_mass", "", "weights,layer", "Sum over first rows of the mass that even attention would have.") \
    X(HEAD_ENTROPY, COUNTER, "attnd_head_entropy_nats", "nats", "weights,layer,head", "Sum over rows of the entropy of the head's attention.") \
    X(HEAD_NORMALIZED_ENTROPY, COUNTER, "attnd_head_normalized_entropy", "", "weights,layer,head", "Sum over choosing rows of the entropy over the greatest possible.") \
    X(HEAD_EFFECTIVE_KEYS, COUNTER, "attnd_head_effective_keys", "", "weights,layer,head", "Sum over rows of the exponential of the entropy.") \
    X(HEAD_DISTANCE, COUNTER, "attnd_head_distance_tokens", "tokens", "weights,layer,head", "Sum over rows of the mean distance to the keys.") \
    X(HEAD_CONFIDENCE, COUNTER, "attnd_head_confidence", "", "weights,layer,head", "Sum over rows of the largest weight.") \
    X(HEAD_HOYER, COUNTER, "attnd_head_hoyer", "", "weights,layer,head", "Sum over choosing rows of the sparsity of Hoyer.") \
    X(HEAD_PREVIOUS_MASS, COUNTER, "attnd_head_previous_mass", "", "weights,layer,head", "Sum over previous rows of the weight on the position before.") \
    X(HEAD_NEXT_MASS, COUNTER, "attnd_head_next_mass", "", "weights,layer,head", "Sum over next rows of the weight on the position behind.") \
    X(HEAD_SELF_MASS, COUNTER, "attnd_head_self_mass", "", "weights,layer,head", "Sum over self rows of the weight on the row's own position.") \
    X(HEAD_FIRST_MASS, COUNTER, "attnd_head_first_mass", "", "weights,layer,head", "Sum over first rows of the weight on the first position.") \
    X(HEAD_REDUNDANCY, GAUGE, "attnd_head_redundancy", "", "weights,layer,head", "Largest centered similarity to another head of its layer, over traffic since the start, a reset or other weights.") \
    X(PROCESS_CPU, COUNTER, "process_cpu_seconds", "seconds", "", "CPU time of the process, user and system.") \
    X(PROCESS_RESIDENT_MEMORY, GAUGE, "process_resident_memory_bytes", "bytes", "", "Resident memory.") \
    X(PROCESS_VIRTUAL_MEMORY, GAUGE, "process_virtual_memory_bytes", "bytes", "", "Virtual memory.") \
    X(PROCESS_OPEN_FDS, GAUGE, "process_open_fds", "", "", "Open file descriptors.") \
    X(PROCESS_MAX_FDS, GAUGE, "process_max_fds", "", "", "Limit of open file descriptors.") \
    X(PROCESS_START_TIME, GAUGE, "process_start_time_seconds", "seconds", "", "When the process started, since the epoch; all counters count from there.")
/* clang-format on */

#define METRIC_ENUM(code, kind, family, unit, labels, help) METRIC_##code,
enum metric { METRICS(METRIC_ENUM) METRIC_COUNT };
#undef METRIC_ENUM

#endif
