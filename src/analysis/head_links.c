/* Links of heads: each head keeps a heap of its strongest links, the weakest at the root, while the rows go by in
 * order; some rows of all heads at a time. Entered by the thread that runs the job. */
#include "analysis/head_links.h"

#include "base/size.h"
#include "engine/split.h"

/* Weights of a head that are looked at between two looks at cancellation. */
#define ROUND_WEIGHTS ((size_t)1 << 20)

/* Rows of a tile. */
#define TILE_ROWS ((size_t)16)

#define FLOP_PER_WEIGHT 32.0

struct run {
    const struct head_maps *maps;
    struct head_links *links;
    char *scratch; /* [lanes, scratch_stride] */
    size_t scratch_stride;
    size_t sequence, first_row, end_row; /* of this round */
};

double head_links_flop(const struct forward_input *rule, size_t num_heads)
{
    return (double)rule->batch * (double)num_heads * (double)rule->query_length * (double)rule->key_length *
           FLOP_PER_WEIGHT;
}

bool head_links_scratch_bytes(const struct head_maps *maps, unsigned lanes, size_t *bytes)
{
    size_t tile, prepared, all, total = 0;
    if (!head_maps_tile_bytes_most(maps, TILE_ROWS, &tile) || !size_multiply(tile, lanes, &all) ||
        !arena_need(&total, all) || !head_maps_bytes(maps, &prepared) || !size_add(total, prepared, bytes))
        return false;
    return true;
}

/* By weight; equals by position, the later one weaker. */
static bool is_weaker(const struct head_link *a, const struct head_link *b)
{
    if (a->weight != b->weight)
        return a->weight < b->weight;
    if (a->sequence != b->sequence)
        return a->sequence > b->sequence;
    if (a->query != b->query)
        return a->query > b->query;
    return a->key > b->key;
}

/* Moves what stands at `at` down until no child is weaker. */
static void sift_down(struct head_link *heap, size_t count, size_t at)
{
    const struct head_link link = heap[at];
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && is_weaker(&heap[child + 1], &heap[child]))
            child++;
        if (!is_weaker(&heap[child], &link))
            break;
        heap[at] = heap[child];
    }
    heap[at] = link;
}

static void sift_up(struct head_link *heap, size_t at)
{
    const struct head_link link = heap[at];
    for (; at > 0 && is_weaker(&link, &heap[(at - 1) / 2]); at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = link;
}

/* Links come in the order of their positions: one as strong as the weakest does not replace it. */
static void keep_link(struct head_link *heap, size_t *count, size_t top_k, struct head_link link)
{
    if (*count < top_k) {
        heap[*count] = link;
        sift_up(heap, (*count)++);
    } else {
        heap[0] = link;
        sift_down(heap, top_k, 0);
    }
}

static void scan_head(const void *argument, size_t head, unsigned lane)
{
    const struct run *run = argument;
    const size_t top_k = run->links->top_k;
    const float least = run->links->min_weight;
    struct head_link *heap = run->links->links + head * top_k;
    size_t *count = &run->links->counts[head];
    for (size_t first = run->first_row; first < run->end_row; first += TILE_ROWS) {
        struct head_tile tile;
        head_maps_tile(run->maps, run->sequence, head, first, size_min(TILE_ROWS, run->end_row - first),
                       run->scratch + lane * run->scratch_stride, &tile);
        for (size_t i = 0; i < tile.n_rows; i++) {
            const float *row = tile.weights + i * tile.stride; /* [n_keys] */
            for (size_t key = 0; key < tile.n_keys; key++)
                if (row[key] > 0 && row[key] >= least && (*count < top_k || row[key] > heap[0].weight))
                    keep_link(
                        heap, count, top_k,
                        (struct head_link){row[key], (uint32_t)run->sequence, (uint32_t)(first + i), (uint32_t)key});
        }
    }
}

/* The heap becomes a list, the strongest first, of the request's positions. */
static void list_links(const struct head_maps *maps, struct head_link *links, size_t count)
{
    for (size_t left = count; left > 1;) {
        const struct head_link weakest = links[0];
        links[0] = links[--left];
        links[left] = weakest;
        sift_down(links, left, 0);
    }
    for (size_t i = 0; i < count; i++) {
        const struct head_sequence *sequence = &maps->sequences[links[i].sequence];
        if (sequence->word_ends)
            continue;
        links[i].query = sequence->positions ? sequence->positions[links[i].query]
                                             : (uint32_t)sequence->first_position + links[i].query;
        links[i].key =
            sequence->positions ? sequence->positions[links[i].key] : (uint32_t)sequence->first_position + links[i].key;
    }
}

bool head_links_run(struct head_maps *maps, const struct parallel *parallel, struct arena *arena,
                    struct head_links *links, struct error *error)
{
    struct run run = {.maps = maps, .links = links};
    struct work work = {.parallel = parallel};
    size_t bytes;
    if (!head_maps_prepare(maps, arena, error))
        return false;
    if (!head_maps_tile_bytes_most(maps, TILE_ROWS, &run.scratch_stride) ||
        !size_multiply(run.scratch_stride, parallel->lanes, &bytes) || !(run.scratch = arena_take(arena, bytes)))
        return error_out_of_memory(error);
    for (size_t head = 0; head < maps->num_heads; head++)
        links->counts[head] = 0;
    const size_t rows = size_max(ROUND_WEIGHTS / maps->rule->key_length / TILE_ROWS, 1) * TILE_ROWS;
    for (run.sequence = 0; run.sequence < maps->rule->batch; run.sequence++) {
        const size_t n_rows = maps->sequences[run.sequence].n_rows;
        for (run.first_row = 0; run.first_row < n_rows; run.first_row = run.end_row) {
            run.end_row = size_min(run.first_row + rows, n_rows);
            const double flop = (double)maps->num_heads * (double)(run.end_row - run.first_row) *
                                (double)maps->rule->key_length * FLOP_PER_WEIGHT;
            if (!work_split(&work, maps->num_heads, flop, scan_head, &run))
                return error_cancelled(error);
        }
    }
    for (size_t head = 0; head < maps->num_heads; head++)
        list_links(maps, links->links + head * links->top_k, links->counts[head]);
    return true;
}
