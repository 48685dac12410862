/* The configuration: defaults, then the file, then the environment, then the flags. Read by one thread, when the
 * process starts and at every reload. */
#ifndef ATTND_CONFIG_CONFIG_H
#define ATTND_CONFIG_CONFIG_H

#include "base/error.h"
#include "config/faults.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The last two are models of many layers. */
enum weights_source { WEIGHTS_NUMPY, WEIGHTS_IDENTITY, WEIGHTS_SAFETENSORS, WEIGHTS_BLOCKS, WEIGHTS_HUGGINGFACE };
enum weights_layout { LAYOUT_IN_OUT, LAYOUT_OUT_IN };
enum weights_precision { WEIGHTS_F32, WEIGHTS_BF16 };

/* clang-format off */
/* X(enum, name): the members of a weight set's `tensors`. */
#define WEIGHT_TENSORS(X)                                                                                              \
    X(TENSOR_W_Q, "W_Q")                                                                                               \
    X(TENSOR_W_K, "W_K")                                                                                               \
    X(TENSOR_W_V, "W_V")                                                                                               \
    X(TENSOR_W_QKV, "W_QKV")                                                                                           \
    X(TENSOR_W_O, "W_O")                                                                                               \
    X(TENSOR_B_Q, "b_Q")                                                                                               \
    X(TENSOR_B_K, "b_K")                                                                                               \
    X(TENSOR_B_V, "b_V")                                                                                               \
    X(TENSOR_B_QKV, "b_QKV")                                                                                           \
    X(TENSOR_B_O, "b_O")
/* clang-format on */
#define WEIGHT_TENSOR_ENUM(code, name) code,
enum weight_tensor { WEIGHT_TENSORS(WEIGHT_TENSOR_ENUM) WEIGHT_TENSOR_COUNT };
#undef WEIGHT_TENSOR_ENUM

/* A value of an entry that is read where the weights are loaded: its JSON text. */
struct weights_text {
    char *text; /* NULL: not given */
    size_t length;
    size_t line; /* where it begins in the file */
};

/* One entry of `weights`. 0 stands for a number that was not given where 0 is no value. */
struct weights_config {
    char *name;
    enum weights_source source;
    bool required; /* false: failing to load does not stop the start */
    size_t d_model, num_heads, num_kv_heads, d_k, d_v;
    bool has_scale;
    double scale;  /* numpy: the factor of the draws (0.1); else of the scores, 1/sqrt(d_k) unless given */
    uint32_t seed; /* numpy */
    char *path;    /* of the file, or of huggingface's folder; already relative to the configuration file's folder */
    enum weights_layout layout;
    enum weights_precision precision;   /* blocks, huggingface: how the numbers are held */
    char *tensors[WEIGHT_TENSOR_COUNT]; /* the file's names, NULL where not given; may hold {head} */
    bool causal;                        /* what requests that do not say are computed under, as are these */
    struct weights_text position, pattern, low_rank, keep_heads, dropout;
    struct weights_text head_importance; /* numbers for keep_heads */
    /* blocks */
    size_t num_layers;
    struct weights_text layer, layers, embeddings, final_norm;
    size_t line;          /* of the entry in the file, for faults of loading; 0: no file */
    const char *given_by; /* "--model", "ATTND_MODELS": it is no entry of a file; NULL */
};

/* More keys than there are outside `weights`. */
#define CONFIG_MAX_KEYS 64
/* In struct config's `given`: a variable of the environment. */
#define CONFIG_GIVEN_BY_VARIABLE SIZE_MAX

struct config {
    char *file;    /* NULL: none was given */
    char **listen; /* [listen_count] "ADDRESS:PORT", "[::1]:80" */
    size_t listen_count;
    char *default_weights; /* NULL: requests must name a set */
    struct weights_config *weights;
    size_t weights_count;
    struct {
        int64_t io_threads, workers, max_connections, max_connections_per_address;
        bool pin;
        double idle_timeout_s, upload_timeout_s, request_timeout_s, send_timeout_s, drain_delay_s;
    } server;
    struct {
        double max_request_gflop;
        int64_t max_body_bytes, max_response_bytes, memory_budget_bytes, queue_depth, max_batch_tokens,
            max_batch_delay_us;
    } limits;
    struct {
        int64_t min_bytes, max_bytes, level;
    } compression;
    struct {
        double sample_rate, window_s;
        char *access;
        int64_t max_heads;
    } live;
    struct {
        char *heads;
    } metrics;
    struct {
        char *level, *format;
    } log;
    struct {
        char *listen, *token_file;
    } admin;
    struct {
        char *cert_file, *key_file, *client_ca_file;
    } tls;
    struct {
        char **allowed_origins;
        size_t allowed_origins_count;
    } cors;
    struct {
        char *endpoint;
        double sample_rate;
    } tracing;
    /* Where each key's value was given, in the order of config_keys: the file's line, CONFIG_GIVEN_BY_VARIABLE, or 0.
     */
    size_t given[CONFIG_MAX_KEYS];
};

/* Flags that override the file and the environment. */
struct config_flags {
    const char *file;          /* --config */
    const char *const *listen; /* --listen, each */
    size_t listen_count;
    const char *const *models; /* --model, each: NAME=PATH */
    size_t model_count;
};

/* Fills *config. `environment` is the process's (environ). Faults (every one that is found, not only the first) are
 * added to *faults; true when there are none. Unknown ATTND_* variables are added to *warnings, one text each. *config
 * is valid for config_free either way. */
bool config_load(const struct config_flags *flags, const char *const *environment, struct config *config,
                 struct faults *faults, struct faults *warnings);

/* Adds a fault (or a warning) of the key at `pointer`, "/tls/key_file", with the place where its value was given: the
 * variable, or the file's line. NULL: a fault of the whole. */
void config_fault(const struct config *config, const char *pointer, const char *message, struct faults *faults);

/* A path of the configuration, in fresh memory: a relative one is relative to the folder of the configuration file.
 * NULL when memory ran out. */
char *config_path(const struct config *config, const char *path);

void config_free(struct config *config);

#endif
