#!/usr/bin/env python3
"""Maps a data set through replicas of attnd with Ray, and asks all of them about their heads.

    pip install numpy ray
    with_ray.py --replicas http://attnd-0:8080,http://attnd-1:8080 --data sequences.npy --output outputs.npy

sequences.npy is [N, T, D]. An actor for each replica keeps its connection; Ray gives it sequences as it becomes free. Where an actor dies,
nothing is repeated by itself: a sequence that was counted once would be counted twice."""
import argparse
import json
import os

import numpy
import ray
from ray.util import ActorPool

import heads_batch

# Sequences that an actor is given at once.
BLOCK = 16


@ray.remote(max_restarts=0)
class Worker:
    def __init__(self, url, weights):
        self.replica, self.weights = heads_batch.Replica(url), weights

    def outputs(self, block):
        return numpy.stack([self.replica.output(sequence, self.weights) for sequence in block])


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--replicas", required=True, help="base addresses, with commas")
    options.add_argument("--data", required=True, help="a file of NumPy, [N, T, D]")
    options.add_argument("--output", help="where the outputs go, [N, T, D]")
    options.add_argument("--merged", help="where what is known of the heads goes, as JSON")
    options.add_argument("--weights", help="a weight set's name")
    chosen = options.parse_args()
    urls, sequences = chosen.replicas.split(","), numpy.load(chosen.data, mmap_mode="r")
    here = os.path.dirname(os.path.abspath(__file__))
    ray.init(runtime_env={"env_vars": {"PYTHONPATH": here}}, include_dashboard=False, log_to_driver=False)
    pool = ActorPool([Worker.remote(url, chosen.weights) for url in urls])
    blocks = (numpy.array(sequences[first:first + BLOCK]) for first in range(0, len(sequences), BLOCK))
    outputs = numpy.concatenate(list(pool.map(lambda actor, block: actor.outputs.remote(block), blocks)))
    answer = heads_batch.merged(urls, chosen.weights)
    if chosen.output:
        numpy.save(chosen.output, outputs)
    if chosen.merged:
        with open(chosen.merged, "w", encoding="utf-8") as file:
            json.dump(answer, file)
    print(heads_batch.report(answer))


if __name__ == "__main__":
    main()
