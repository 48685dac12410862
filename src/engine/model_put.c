/* Puts the numbers of tensors to their places in a model, and gets them from there. Any thread; see model.h. */

#include "engine/model_parts.h"

#include <string.h>

/* Where a tensor lies: in one of the three. */
struct destination {
    const struct packed_matrix *matrix;
    float *table;   /* [rows, columns]; a bias of a matrix is one row */
    uint16_t *bf16; /* the same */
};

static struct destination in_table(const struct table *table)
{
    return (struct destination){.table = table->numbers, .bf16 = table->bf16};
}

/* Rounded to the nearest, ties to even; finite. */
static void narrow(uint16_t *to, const float *from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, from + i, sizeof bits);
        to[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
}

static struct destination place_in_layer(const struct model_layer *layer, enum layer_slot slot)
{
    const struct attention_layer *a = &layer->attention;
    const struct ffn *f = &layer->ffn;
    switch (slot) {
    case SLOT_W_Q:
        return (struct destination){.matrix = &a->query};
    case SLOT_W_K:
        return (struct destination){.matrix = &a->key};
    case SLOT_W_V:
        return (struct destination){.matrix = &a->value};
    case SLOT_W_O:
        return (struct destination){.matrix = &a->output};
    case SLOT_B_Q:
        return (struct destination){.table = a->query.bias};
    case SLOT_B_K:
        return (struct destination){.table = a->key.bias};
    case SLOT_B_V:
        return (struct destination){.table = a->value.bias};
    case SLOT_B_O:
        return (struct destination){.table = a->output.bias};
    case SLOT_W_1:
        return (struct destination){.matrix = &f->w_1};
    case SLOT_B_1:
        return (struct destination){.table = f->w_1.bias};
    case SLOT_W_GATE:
        return (struct destination){.matrix = &f->w_gate};
    case SLOT_B_GATE:
        return (struct destination){.table = f->w_gate.bias};
    case SLOT_W_2:
        return (struct destination){.matrix = &f->w_2};
    case SLOT_B_2:
        return (struct destination){.table = f->w_2.bias};
    case SLOT_NORM1_GAIN:
        return (struct destination){.table = layer->norm1.gain};
    case SLOT_NORM1_BIAS:
        return (struct destination){.table = layer->norm1.bias};
    case SLOT_NORM2_GAIN:
        return (struct destination){.table = layer->norm2.gain};
    case SLOT_NORM2_BIAS:
        return (struct destination){.table = layer->norm2.bias};
    case LAYER_SLOT_COUNT:
        break;
    }
    return (struct destination){0};
}

static struct destination place_in_model(const struct model *model, enum model_slot slot)
{
    const struct embeddings *e = &model->embeddings;
    switch (slot) {
    case SLOT_TOKEN:
        return in_table(&e->token);
    case SLOT_POSITION:
        return in_table(&e->position);
    case SLOT_TYPE:
        return in_table(&e->type);
    case SLOT_EMBEDDING_GAIN:
        return (struct destination){.table = e->norm.gain};
    case SLOT_EMBEDDING_BIAS:
        return (struct destination){.table = e->norm.bias};
    case SLOT_PROJECTION_W:
        return (struct destination){.matrix = &e->projection};
    case SLOT_PROJECTION_B:
        return (struct destination){.table = e->projection.bias};
    case SLOT_PATCH_W:
        return (struct destination){.matrix = &e->patch};
    case SLOT_PATCH_B:
        return (struct destination){.table = e->patch.bias};
    case SLOT_CLASS:
        return (struct destination){.table = e->class_token};
    case SLOT_FINAL_GAIN:
        return (struct destination){.table = model->final_norm.gain};
    case SLOT_FINAL_BIAS:
        return (struct destination){.table = model->final_norm.bias};
    case MODEL_SLOT_COUNT:
        break;
    }
    return (struct destination){0};
}

static struct destination place_of(const struct model *model, struct tensor_slot slot)
{
    if (slot.layer == MODEL_ITSELF)
        return place_in_model(model, (enum model_slot)slot.slot);
    return place_in_layer(&model->layers[slot.layer], (enum layer_slot)slot.slot);
}

void model_put_rows(struct model *model, struct tensor_slot slot, size_t first_row, size_t n_rows, const float *rows,
                    size_t stride)
{
    const struct destination to = place_of(model, slot);
    const size_t columns = model_slot_extent(&model->shape, slot).columns;
    if (to.matrix) {
        packed_matrix_put_rows(to.matrix, model->kernels, first_row, n_rows, rows, stride);
        return;
    }
    for (size_t i = 0; i < n_rows; i++)
        if (to.bf16)
            narrow(to.bf16 + (first_row + i) * columns, rows + i * stride, columns);
        else
            memcpy(to.table + (first_row + i) * columns, rows + i * stride, columns * sizeof *rows);
}

void model_put_columns(struct model *model, struct tensor_slot slot, size_t first_column, size_t n_columns,
                       const float *columns, size_t stride)
{
    packed_matrix_put_columns(place_of(model, slot).matrix, model->kernels, first_column, n_columns, columns, stride);
}

void model_get(const struct model *model, struct tensor_slot slot, float *rows)
{
    const struct destination from = place_of(model, slot);
    const struct slot_extent extent = model_slot_extent(&model->shape, slot);
    const size_t count = extent.rows * extent.columns;
    if (from.matrix)
        packed_matrix_get(from.matrix, model->kernels, rows);
    else if (from.bf16)
        model->kernels->widen(rows, from.bf16, count, 1, false);
    else if (count > 0)
        memcpy(rows, from.table, count * sizeof *rows);
}
