/* figure_files.S - the files of figures, linked in: the TrueType font, whose path is FIGURE_FONT, and the
 * colours that figures and the viewer share. */
    .section .note.GNU-stack, "", %progbits
    .section .rodata
    .balign 64
    .global hs__font
    .global hs__font_bytes
    .global hs__palettes
hs__font:
    .incbin FIGURE_FONT
0:
    .balign 8
hs__font_bytes:
    .quad 0b - hs__font
hs__palettes:
    .incbin "api/figures/palettes.json"
    .byte 0
