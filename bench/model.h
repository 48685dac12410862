/* The section `model` of bench_engine: forwards through whole models with random weights. */
#ifndef ATTND_BENCH_MODEL_H
#define ATTND_BENCH_MODEL_H

void bench_model(void);

#endif
