/* The functions between the two products of a feed-forward layer. docs/MODEL.md has the formulas. */
#ifndef ATTND_ENGINE_ACTIVATION_H
#define ATTND_ENGINE_ACTIVATION_H

enum activation { ACTIVATION_NONE, ACTIVATION_GELU, ACTIVATION_GELU_TANH, ACTIVATION_RELU, ACTIVATION_SILU };

#endif
