"""Parts of plain HTML forms; whatever is shown in them is escaped."""

from collections.abc import Iterable, Mapping

from practicum_envs.office.services.pages import escaped

Options = Iterable[tuple[str, str]]
"""Values, and the words that stand for them."""


def form(action: str, inner: str, button: str, hidden: Mapping[str, str] | None = None) -> str:
    """A form that is sent by its button."""
    kept = "".join(
        f'<input type="hidden" name="{escaped(name)}" value="{escaped(value)}">'
        for name, value in (hidden or {}).items()
    )
    send = f'<button type="submit">{escaped(button)}</button>'
    return f'<form method="post" action="{escaped(action)}">{kept}{inner} {send}</form>'


def field(label: str, name: str, value: object = "", kind: str = "text") -> str:
    """A line to fill."""
    return (
        f'<p><label>{escaped(label)} <input type="{kind}" name="{name}" value="{escaped(value)}">'
        "</label></p>"
    )


def area(label: str, name: str, value: object = "") -> str:
    """Several lines to fill."""
    return (
        f'<p><label>{escaped(label)} <textarea name="{name}" rows="4" cols="60">\n{escaped(value)}'
        "</textarea></label></p>"
    )


def choice(label: str, name: str, options: Options, chosen: str = "") -> str:
    """One of several."""
    shown = "".join(
        f'<option value="{escaped(value)}"{" selected" * (value == chosen)}>{escaped(text)}'
        "</option>"
        for value, text in options
    )
    return f'<p><label>{escaped(label)} <select name="{name}">{shown}</select></label></p>'


def boxes(legend: str, name: str, options: Options, chosen: Iterable[str] = ()) -> str:
    """Any of several; the fields are called `name[]`."""
    marked = set(chosen)
    shown = "".join(
        f'<label><input type="checkbox" name="{name}[]" value="{escaped(value)}"'
        f"{' checked' * (value in marked)}> {escaped(text)}</label> "
        for value, text in options
    )
    return f"<fieldset><legend>{escaped(legend)}</legend>{shown or 'none'}</fieldset>"
