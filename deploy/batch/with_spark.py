#!/usr/bin/env python3
"""Maps a data set through replicas of attnd with Spark, and asks all of them about their heads.

    spark-submit --py-files heads_batch.py with_spark.py --replicas http://attnd-0:8080,http://attnd-1:8080 --data sequences.npy \\
        --output outputs.npy

sequences.npy is [N, T, D]. Each partition goes to one replica, over one connection. A task that Spark repeats, or runs twice
(spark.speculation), is counted twice: spark.task.maxFailures is 1 here."""
import argparse
import json

import numpy
from pyspark.sql import SparkSession

import heads_batch


def through(urls, weights):
    def outputs(partition, blocks):
        replica = heads_batch.Replica(urls[partition % len(urls)])
        for number, sequence in blocks:
            yield number, replica.output(sequence, weights)
    return outputs


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--replicas", required=True, help="base addresses, with commas")
    options.add_argument("--data", required=True, help="a file of NumPy, [N, T, D]")
    options.add_argument("--output", help="where the outputs go, [N, T, D]")
    options.add_argument("--merged", help="where what is known of the heads goes, as JSON")
    options.add_argument("--weights", help="a weight set's name")
    chosen = options.parse_args()
    urls, sequences = chosen.replicas.split(","), numpy.load(chosen.data)
    spark = SparkSession.builder.appName("attnd").config("spark.task.maxFailures", 1).getOrCreate()
    data = spark.sparkContext.parallelize(list(enumerate(sequences)), 2 * len(urls))
    # One action, over what nothing else reads: sorting, or a second action, would send all of it again.
    found = dict(data.mapPartitionsWithIndex(through(urls, chosen.weights)).collect())
    answer = heads_batch.merged(urls, chosen.weights)
    spark.stop()
    if chosen.output:
        numpy.save(chosen.output, numpy.stack([found[number] for number in range(len(sequences))]))
    if chosen.merged:
        with open(chosen.merged, "w", encoding="utf-8") as file:
            json.dump(answer, file)
    print(heads_batch.report(answer))


if __name__ == "__main__":
    main()
