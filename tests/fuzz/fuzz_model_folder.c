/* Fuzzes the opening of a Hugging Face folder: config.json, the index, the headers of the files, and what of them the
 * model is made of. An input is the folder's files, each behind a line "@NAME" or, for a safetensors file, "@NAME
 * BYTES": then the text is its header, to which its length is added in front and so many zeros behind. */
#include "weights/huggingface_source.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MOST_FILES 8
#define MOST_ZEROS ((size_t)1 << 26) /* a hole in the file: they take no memory */
#define MOST_READ  ((size_t)1 << 14) /* numbers of a tensor that are read, to see that they are there */
#define NAME_BYTES 64

static void check(bool holds)
{
    if (!holds)
        abort();
}

struct piece {
    char name[NAME_BYTES];
    size_t zeros;
    bool with_length;
    const char *text;
    size_t length;
};

/* A name within the folder, which ends at the line or a space. */
static bool take_name(struct piece *piece, const char *line, const char *end)
{
    size_t n = 0;
    while (line + n < end && line[n] != ' ')
        n++;
    if (n == 0 || n >= NAME_BYTES || line[0] == '.' || memchr(line, '/', n) || memchr(line, '\0', n))
        return false;
    memcpy(piece->name, line, n);
    piece->name[n] = '\0';
    piece->zeros = 0;
    piece->with_length = line + n < end;
    for (const char *c = line + n + 1; c < end && *c >= '0' && *c <= '9' && piece->zeros <= MOST_ZEROS; c++)
        piece->zeros = piece->zeros * 10 + (size_t)(*c - '0');
    return piece->zeros <= MOST_ZEROS;
}

/* The next file of the text, which begins at *at, behind an "@". */
static bool take_piece(const char *text, size_t size, size_t *at, struct piece *piece)
{
    const char *line = text + *at, *end = text + size;
    const char *newline = line < end ? memchr(line, '\n', (size_t)(end - line)) : NULL;
    if (!newline || !take_name(piece, line, newline))
        return false;
    const char *next = newline + 1 < end ? memmem(newline, (size_t)(end - newline), "\n@", 2) : NULL;
    piece->text = newline == next ? next : newline + 1;
    piece->length = (size_t)((next ? next : end) - piece->text);
    *at = next ? (size_t)(next + 2 - text) : size;
    return true;
}

static void write_file(int folder, const struct piece *piece)
{
    const int file = openat(folder, piece->name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const uint64_t length = piece->length; /* of a little-endian machine */
    size_t whole = piece->length;
    check(file >= 0);
    if (piece->with_length) {
        check(write(file, &length, sizeof length) == (ssize_t)sizeof length);
        whole += sizeof length + piece->zeros;
    }
    check(write(file, piece->text, piece->length) == (ssize_t)piece->length);
    check(ftruncate(file, (off_t)whole) == 0);
    check(futimens(file, (struct timespec[]){{.tv_sec = 1}, {.tv_sec = 1}}) == 0); /* a new file is waited for */
    close(file);
}

/* All of it lies in its tensor, and reading it writes no more than it has. */
static void check_place(const struct tensor_place *place)
{
    struct error error = {0};
    if (!place->file)
        return;
    check(place->entry && !place->heads && place->rows >= 1 && place->columns >= 1);
    const size_t last =
        place->first + (place->rows - 1) * place->row_stride + (place->columns - 1) * place->column_stride;
    check(last < place->entry->count);
    if (place->rows > MOST_READ || place->columns > MOST_READ || place->rows * place->columns > MOST_READ)
        return;
    float *numbers = malloc(place->rows * place->columns * sizeof *numbers);
    check(numbers && tensor_place_read(place, numbers, place->columns, &error));
    free(numbers);
}

static void check_source(const struct model_source *source)
{
    check(source->shape.num_layers >= 1 && source->shape.num_layers <= MODEL_MOST_LAYERS);
    for (size_t slot = 0; slot < MODEL_SLOT_COUNT; slot++)
        check_place(&source->model[slot]);
    for (size_t n = 0; n < source->shape.num_layers; n++)
        for (size_t slot = 0; slot < LAYER_SLOT_COUNT; slot++)
            check_place(&source->layers[n][slot]);
    check(source->layers[0][SLOT_W_Q].rows == source->shape.attention.d_model);
}

static void open_folder(const char *folder)
{
    struct model_source source = {0};
    struct error error = {0};
    if (huggingface_source_open(folder, &source, &error)) {
        check_source(&source);
        model_source_free(&source);
        return;
    }
    check(error.code == ERROR_IO || error.code == ERROR_BAD_ENCODING || error.code == ERROR_INVALID ||
          error.code == ERROR_NOT_FINITE);
    check(error.has_pointer && strcmp(error.pointer, "/path") == 0 && error.message[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[] = "/tmp/attnd-fuzz-XXXXXX";
    struct piece pieces[MOST_FILES];
    size_t count = 0, at = 1;
    if (size == 0 || data[0] != '@')
        return 0;
    check(mkdtemp(path));
    const int folder = open(path, O_RDONLY | O_DIRECTORY);
    check(folder >= 0);
    while (count < MOST_FILES && take_piece((const char *)data, size, &at, &pieces[count]))
        write_file(folder, &pieces[count++]);
    open_folder(path);
    for (size_t i = 0; i < count; i++)
        unlinkat(folder, pieces[i].name, 0);
    close(folder);
    rmdir(path);
    return 0;
}
