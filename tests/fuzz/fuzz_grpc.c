/* Answers of a server that a gRPC probe asks: whole, and byte by byte, with the same verdict. */
#include "base/cleanup.h"
#include "engine/local/grpc.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum grpc_state read_in_steps(const uint8_t *data, size_t size, size_t step)
{
    struct grpc grpc = {0};
    CLEANUP(buf_done) struct buf out = {0};
    enum grpc_state state = GRPC_MORE;

    for (size_t len = step < size ? step : size; state == GRPC_MORE;
         len = len + step < size ? len + step : size) {
        state = grpc_read(&grpc, (struct str){(const char *)data, len}, &out);
        if (len == size)
            break;
    }
    grpc_done(&grpc);
    return state;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > 4096)
        return 0;
    if (read_in_steps(data, size, size) != read_in_steps(data, size, 1))
        abort();
    return 0;
}
