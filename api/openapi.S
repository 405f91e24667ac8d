/* The interface's description, linked in: api/openapi.json as it lies in the tree. */
    .section .note.GNU-stack, "", %progbits
    .section .rodata
    .global hs__openapi_json
    .global hs__openapi_json_end
hs__openapi_json:
    .incbin "api/openapi.json"
hs__openapi_json_end:
    .byte 0
