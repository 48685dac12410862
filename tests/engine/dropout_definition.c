#include "dropout_definition.h"

#include "engine/philox.h"

#include <math.h>
#include <string.h>

void drop_row(const struct problem *p, size_t b, size_t i, size_t sample, const float *maps, const float *values,
              const uint8_t *used, double *joined)
{
    const struct attention_shape *s = &p->shape;
    const struct forward_input *in = &p->input;
    const struct dropout_rule *rule = &in->rules->dropout;
    for (size_t h = 0; h < s->num_heads; h++) {
        const size_t plane = (b * in->rules->num_layers + in->rules->layer) * s->num_heads + h;
        double *z = joined + h * s->d_v;
        memset(z, 0, s->d_v * sizeof *z);
        for (size_t j = 0; j < in->key_length; j++) {
            uint32_t numbers[4];
            philox((const uint32_t[4]){(uint32_t)sample, (uint32_t)plane, (uint32_t)i, (uint32_t)j / 4}, rule->seed,
                   numbers);
            if ((double)(numbers[j % 4] >> 8) < ceil(rule->rate * 16777216))
                continue;
            const double weight = (double)maps[(h * in->query_length + i) * in->key_length + j] / (1 - rule->rate);
            for (size_t d = 0; d < s->d_v; d++)
                z[d] += weight * (double)values[(h * in->key_length + j) * s->d_v + d];
        }
        for (size_t d = 0; d < s->d_v; d++)
            z[d] *= used[h] * (in->head_mask ? (double)in->head_mask[h] : 1);
    }
}

void project_heads(const struct problem *p, const double *joined, double *outputs)
{
    const struct attention_shape *s = &p->shape;
    for (size_t c = 0; c < s->d_model; c++) {
        outputs[c] = s->projected ? p->matrices.b_o ? (double)p->matrices.b_o[c] : 0 : joined[c];
        for (size_t d = 0; s->projected && d < s->num_heads * s->d_v; d++)
            outputs[c] += joined[d] * (double)p->matrices.w_o[d * s->d_model + c];
    }
}
