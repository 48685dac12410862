/* Starts and ends the threads that help while weights are loaded. Entered by the thread that loads. */
#include "weights/load_threads.h"

#include <pthread.h>
#include <sched.h>

unsigned load_threads(void)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return 1;
    const int count = CPU_COUNT(&allowed);
    return count < 1 ? 1 : count > LOAD_THREADS_MOST ? LOAD_THREADS_MOST : (unsigned)count;
}

void load_threads_run(unsigned threads, void *(*work)(void *), void *argument)
{
    pthread_t helpers[LOAD_THREADS_MOST - 1];
    unsigned started = 0;
    while (started + 1 < threads && started < LOAD_THREADS_MOST - 1 &&
           pthread_create(&helpers[started], NULL, work, argument) == 0)
        started++;
    work(argument);
    while (started > 0)
        pthread_join(helpers[--started], NULL);
}
