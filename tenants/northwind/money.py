"""Where money is rounded: exact decimals in, cents out, half a cent going up."""

from decimal import ROUND_HALF_UP, Context, Decimal, localcontext

_CENT = Decimal("0.01")

# Room for every digit of any columns' product: the cents are the only rounding in any caller's context.
_EXACT = Context(prec=60, rounding=ROUND_HALF_UP)


def line_net(unit_price: Decimal, quantity: int, discount: Decimal) -> Decimal:
    """Price a line to the cent: unit price times quantity, less the discount, a fraction from 0 to 1."""
    with localcontext(_EXACT):
        return (unit_price * quantity * (1 - discount)).quantize(_CENT)


def iva(net: Decimal, rate: Decimal) -> Decimal:
    """Compute the IVA on a net amount to the cent; the rate is a percentage, such as 10.50."""
    with localcontext(_EXACT):
        return (net * rate / 100).quantize(_CENT)
