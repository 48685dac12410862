/* Fuzzes the header of safetensors files: what is accepted lies whole in the file, side by side. */
#include "base/dtype.h"
#include "codec/safetensors.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct safetensors header = {0};
    struct error error = {0};
    if (!safetensors_open(data, size, &header, &error)) {
        check(error.code == ERROR_BAD_ENCODING && error.message[0]);
        check(!header.entries && !header.metadata && !header.owned);
        return 0;
    }
    uint64_t length = 0;
    memcpy(&length, data, sizeof length);
    const unsigned char *at = data + 8 + length;
    volatile unsigned sum = 0;
    for (size_t i = 0; i < header.count; i++) {
        const struct safetensors_entry *entry = &header.entries[i];
        size_t count = 1;
        check(entry->data == at);
        at += entry->bytes;
        check(at <= data + size);
        for (unsigned axis = 0; axis < entry->rank; axis++)
            count *= entry->shape[axis];
        check(count == entry->count);
        check(entry->dtype == DTYPE_COUNT || entry->bytes == count * dtype_bytes(entry->dtype));
        check(safetensors_find(&header, entry->name) == entry);
        for (size_t j = 0; j < entry->bytes; j++)
            sum += entry->data[j];
    }
    check(at == data + size);
    for (size_t i = 0; i < header.metadata_count; i++)
        sum += (unsigned)(strlen(header.metadata[i].key) + strlen(header.metadata[i].value));
    (void)sum;
    safetensors_close(&header);
    return 0;
}
