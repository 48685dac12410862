/* Threads that load weights together. */
#ifndef ATTND_WEIGHTS_LOAD_THREADS_H
#define ATTND_WEIGHTS_LOAD_THREADS_H

/* More do not read or pack faster: memory is what they wait for. */
#define LOAD_THREADS_MOST 8

/* How many are worth it on the processors that the process may use: at least 1. */
unsigned load_threads(void);

/* Runs work(argument) on up to `threads` threads, the caller among them, and waits for all. Work takes its parts from
 * what they share: a thread that cannot be had leaves its work to the others. */
void load_threads_run(unsigned threads, void *(*work)(void *), void *argument);

#endif
