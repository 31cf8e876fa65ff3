"""Horizontal bars as SVG, for the examples' pictures; no packages."""
import html
import math

COLOURS = ["#1f6fb2", "#c0562f", "#8a8a8a", "#2c8a57"]
LEFT, RIGHT, ROW, BAR = 330, 1060, 24, 16


def ticks(least, most):
    """At most eight round numbers between the two."""
    power = 10 ** math.floor(math.log10((most - least) / 7))
    step = next(step for step in (power, 2 * power, 2.5 * power, 5 * power, 10 * power) if step * 7 >= most - least)
    return [step * k for k in range(math.ceil(least / step), math.floor(most / step) + 1)]


def bars(title, legend, rows, most, unit, mark=None, least=0):
    """rows: (label, [value of each legend entry], text behind it), or a heading, a string. mark: (value, name), a dashed line."""
    top, y, body = 66, 66, []
    def x(value):
        return LEFT + (RIGHT - LEFT) * min(max(value - least, 0) / (most - least), 1)

    for row in rows:
        if isinstance(row, str):
            y += 8
            body.append(f'<text x="16" y="{y + 13}" font-weight="bold">{html.escape(row)}</text>')
            y += ROW
            continue
        label, values, text = row
        body.append(f'<text x="{LEFT - 10}" y="{y + 13}" text-anchor="end">{html.escape(label)}</text>')
        at = 0
        for colour, value in zip(COLOURS, values):
            start, end = sorted((x(at), x(at + value)))
            body.append(f'<rect x="{start:.1f}" y="{y}" width="{end - start:.1f}" height="{BAR}" fill="{colour}"/>')
            at += value
        body.append(f'<text x="{x(max(at, 0)) + 8:.1f}" y="{y + 13}" fill="#555555" stroke="#ffffff" stroke-width="4" paint-order="stroke">{html.escape(text)}</text>')
        y += ROW
    grid = []
    for value in ticks(least, most):
        grid.append(f'<line x1="{x(value):.1f}" y1="{top - 6}" x2="{x(value):.1f}" y2="{y}" stroke="#e4e4e4"/>')
        grid.append(f'<text x="{x(value):.1f}" y="{y + 18}" text-anchor="middle" fill="#555555">{value:g} {unit}</text>')
    if mark:
        grid.append(f'<line x1="{x(mark[0]):.1f}" y1="{top - 6}" x2="{x(mark[0]):.1f}" y2="{y}" stroke="#b00020" stroke-dasharray="6 4"/>')
        grid.append(f'<text x="{x(mark[0]):.1f}" y="{top - 10}" text-anchor="middle" fill="#b00020">{html.escape(mark[1])}</text>')
    names, at = [], 16
    for colour, name in zip(COLOURS, legend):
        names.append(f'<rect x="{at}" y="34" width="12" height="12" fill="{colour}"/><text x="{at + 18}" y="45">{html.escape(name)}</text>')
        at += 40 + 7 * len(name)
    height = y + 32
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1200 {height}" width="1200" height="{height}" '
                      'font-family="sans-serif" font-size="13">', '<rect width="100%" height="100%" fill="#ffffff"/>',
                      f'<text x="16" y="22" font-size="16" fill="#1a1a1a">{html.escape(title)}</text>', *names, *grid, *body, "</svg>", ""])
