/* font_file.S - the TrueType file of figures, linked in. FIGURE_FONT is its path. */
    .section .note.GNU-stack, "", %progbits
    .section .rodata
    .balign 64
    .global hs__font
    .global hs__font_bytes
hs__font:
    .incbin FIGURE_FONT
0:
    .balign 8
hs__font_bytes:
    .quad 0b - hs__font
