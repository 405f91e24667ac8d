/* float_operands.h - what product_body.h asks for, for products of floats. */
typedef float operand;
typedef vec operands;

static INLINE operands load_operands(const operand *p)
{
    return load(p);
}

static INLINE operands splat_operand(operand x)
{
    return splat(x);
}

static INLINE vec add_product(vec sum, operands a, operands b)
{
    return add_fused(sum, a, b);
}
