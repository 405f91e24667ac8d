/* openapi.S - the interface's description, linked in: api/openapi.json as it lies in the tree. */
    .section .note.GNU-stack, "", %progbits
    .section .rodata
    .balign 8
    .global hs__openapi_json_bytes
hs__openapi_json_bytes:
    .quad end - hs__openapi_json
    .global hs__openapi_json
hs__openapi_json:
    .incbin "api/openapi.json"
end:
