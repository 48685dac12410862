// simdjson's on-demand interface, its fastest.
#include "read.h"

#include <simdjson.h>

static_assert(READ_PADDING >= simdjson::SIMDJSON_PADDING, "simdjson reads behind the end");

extern "C" bool read_simdjson(const char *body, size_t length, void *context)
{
    static simdjson::ondemand::parser parser;
    float *to = static_cast<float *>(context);
    simdjson::ondemand::document document;
    if (parser.iterate(simdjson::padded_string_view(body, length, length + READ_PADDING)).get(document))
        return false;
    simdjson::ondemand::array input;
    if (document["input"].get_array().get(input))
        return false;
    for (auto sequence : input)
        for (auto row : sequence.get_array())
            for (auto number : row.get_array()) {
                double value;
                if (number.get_double().get(value))
                    return false;
                *to++ = static_cast<float>(value);
            }
    return true;
}
