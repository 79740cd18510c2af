"""A pairwise-covering design: few rows in which any two values of two factors meet."""

from itertools import combinations, product


def pairwise(factors, is_defined=lambda row: True, turn=0):
    """Give rows (dicts) that together hold every pair of values that is defined, found greedily.

    `factors` maps names to lists of values; `is_defined` judges rows, also those that lack some
    factors; `turn` rotates the values that are tried first, so that other triples meet as well.
    """
    lacking = dict.fromkeys(
        ((f, a), (g, b))
        for f, g in combinations(sorted(factors), 2)
        for a, b in product(factors[f], factors[g])
        if is_defined({f: a, g: b})
    )
    rows = []
    while lacking:
        row = dict(next(iter(lacking)))
        for name in (name for name in factors if name not in row):
            first = (turn + len(rows)) % len(factors[name])
            values = factors[name][first:] + factors[name][:first]
            grown = [row | {name: value} for value in values]
            row = max(
                (g for g in grown if is_defined(g)),
                key=lambda g: sum(pair in lacking for pair in pairs(g)),
            )
        for pair in pairs(row):
            lacking.pop(pair, None)
        rows.append(row)
    return rows


def pairs(row):
    """Give the pairs of (factor, value) that meet in a row, by the factors' names."""
    return combinations([(name, row[name]) for name in sorted(row)], 2)
