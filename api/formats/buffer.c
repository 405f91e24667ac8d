/* buffer.c - grows by half and asks for huge pages, which save page faults. */
#include "api/formats/buffer.h"

#include "model/base/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

char *hs_buffer_reserve(hs_buffer *buffer, size_t n)
{
    if (buffer->failed)
        return NULL;
    if (n > buffer->capacity - buffer->size) {
        size_t capacity = buffer->capacity + buffer->capacity / 2;
        if (capacity < buffer->size + n)
            capacity = buffer->size + n;
        char *data = n < SIZE_MAX / 4 && buffer->size < SIZE_MAX / 4 ? realloc(buffer->data, capacity) : NULL;
        if (!data) {
            buffer->failed = true;
            return NULL;
        }
        hs_memory_huge(data, capacity);
        buffer->data = data;
        buffer->capacity = capacity;
    }
    return buffer->data + buffer->size;
}

void hs_buffer_add(hs_buffer *buffer, const void *data, size_t n)
{
    char *to = hs_buffer_reserve(buffer, n);
    if (to && n) {
        memcpy(to, data, n);
        buffer->size += n;
    }
}

void hs_buffer_text(hs_buffer *buffer, const char *text)
{
    hs_buffer_add(buffer, text, strlen(text));
}

void hs_buffer_fit(hs_buffer *buffer)
{
    char *data = buffer->size ? realloc(buffer->data, buffer->size) : NULL;
    if (data) {
        buffer->data = data;
        buffer->capacity = buffer->size;
    }
}

void hs_buffer_finish(hs_buffer *buffer)
{
    free(buffer->data);
    *buffer = (hs_buffer){0};
}
