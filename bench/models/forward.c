/* A whole model's forward pass for a program that times it beside others (turns.h).
 * usage: bench_model FOLDER INPUT LANES MAPS      ATTND_ISA chooses the instruction set, as for the server
 *
 * FOLDER: a Hugging Face folder. INPUT: two uint64 (B, T), then token ids, uint32 [B, T], in this processor's byte
 * order. MAPS: none, last (the last layer's) or all. Results: output [B, T, d_model], then maps [B, L, H, T, T]. */

#include "base/size.h"
#include "config/config.h"
#include "engine/model_run.h"
#include "turns.h"
#include "weights/weight_set.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct task {
    struct weight_set *set;
    struct forward_input input;
    struct embedding_input embedding;
    struct forward_result result;
    uint32_t last_layer;
    size_t n_output, n_maps;
    struct arena tensors;
};

static bool scratch_bytes(const void *context, unsigned lanes, size_t *bytes)
{
    const struct task *task = context;
    const struct forward_input *inputs[] = {&task->input};
    return model_scratch_bytes(weight_set_model(task->set), inputs, 1, lanes, bytes);
}

static bool run(void *context, const struct parallel *parallel, struct arena *scratch, struct error *error)
{
    struct task *task = context;
    const struct forward_input *inputs[] = {&task->input};
    struct forward_result *results[] = {&task->result};
    return model_run(task->set->model, inputs, results, 1, NULL, parallel, scratch, error);
}

static bool save(const void *context, FILE *file)
{
    const struct task *task = context;
    return fwrite(task->result.output, sizeof(float), task->n_output, file) == task->n_output &&
           fwrite(task->result.attention, sizeof(float), task->n_maps, file) == task->n_maps;
}

/* Layers whose maps are wanted; more than there are: the word is none of the three. */
static size_t map_layers(const char *maps, size_t num_layers)
{
    return strcmp(maps, "none") == 0   ? 0
           : strcmp(maps, "last") == 0 ? 1
           : strcmp(maps, "all") == 0  ? num_layers
                                       : num_layers + 1;
}

static bool prepare(struct task *task, FILE *file, const char *maps, struct error *error)
{
    const struct attention_shape *shape = &task->set->shape;
    const size_t num_layers = task->set->num_layers, n_layers = map_layers(maps, num_layers);
    uint64_t sizes[2]; /* B, T */
    size_t rows, bytes;
    if (n_layers > num_layers)
        return error_set(error, ERROR_INVALID, "\"%s\" is not one of none, last, all", maps);
    if (fread(sizes, sizeof *sizes, 2, file) != 2)
        return error_set(error, ERROR_INVALID, "the input ends within the two sizes");
    const size_t batch = sizes[0], length = sizes[1];
    if (!size_multiply(batch, length, &rows) || !size_multiply(rows, shape->d_model, &task->n_output) ||
        !size_multiply(rows, n_layers * shape->num_heads, &task->n_maps) ||
        !size_multiply(task->n_maps, length, &task->n_maps) ||
        !tensor_bytes((size_t[]){rows + task->n_output + task->n_maps}, 1, sizeof(float), &bytes) ||
        !arena_reserve(&task->tensors, bytes + 3 * ARENA_ALIGNMENT))
        return error_out_of_memory(error);
    uint32_t *ids = arena_take(&task->tensors, rows * sizeof *ids);
    task->result.output = arena_take(&task->tensors, task->n_output * sizeof(float));
    task->result.attention = n_layers ? arena_take(&task->tensors, task->n_maps * sizeof(float)) : NULL;
    if (fread(ids, sizeof *ids, rows, file) != rows)
        return error_set(error, ERROR_INVALID, "the input ends within the ids");
    for (size_t i = 0; i < rows; i++)
        if (ids[i] >= weight_set_model(task->set)->embeddings.vocabulary)
            return error_set(error, ERROR_INVALID, "id %u is outside the vocabulary", ids[i]);
    task->last_layer = (uint32_t)num_layers - 1;
    task->result.n_maps = shape->num_heads;
    task->result.n_layers = n_layers;
    task->result.include_layers = n_layers == 1 ? &task->last_layer : NULL;
    task->embedding.ids = ids;
    task->input = (struct forward_input){.batch = batch,
                                         .query_length = length,
                                         .key_length = length,
                                         .num_layers = num_layers,
                                         .self_attention = true,
                                         .causal = task->set->rules.defaults.causal,
                                         .embedding = &task->embedding,
                                         .rules = task->set->rules.defaults.rules};
    return true;
}

int main(int argc, char **argv)
{
    const unsigned lanes = argc == 5 ? turns_lanes(argv[3]) : 0;
    if (!lanes) {
        fprintf(stderr, "usage: %s FOLDER INPUT LANES none|last|all\n", argv[0]);
        return EXIT_FAILURE;
    }
    const struct weights_config config = {.name = "model", .source = WEIGHTS_HUGGINGFACE, .path = argv[1]};
    struct error error;
    struct task task = {0};
    bool done = false;
    FILE *file = fopen(argv[2], "rb");
    if (!file) {
        error_set(&error, ERROR_IO, "%s cannot be opened", argv[2]);
        goto fail;
    }
    if (!engine_init(getenv("ATTND_ISA"), &error) || !(task.set = weight_set_load(&config, &error)) ||
        !prepare(&task, file, argv[4], &error))
        goto fail;
    const struct turns_pass pass = {&task, model_flop(weight_set_model(task.set), &task.input), scratch_bytes, run,
                                    save};
    done = turns_serve(&pass, lanes, &error);
fail:
    if (!done)
        fprintf(stderr, "%s: %s\n", argv[0], error.message);
    if (file)
        fclose(file);
    weight_set_free(task.set);
    arena_free(&task.tensors);
    return done ? EXIT_SUCCESS : EXIT_FAILURE;
}
