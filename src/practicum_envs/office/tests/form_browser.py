"""A browser for tests that has no window: it follows links, fills forms and keeps cookies."""

import http.cookiejar
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from html.parser import HTMLParser

Attributes = list[tuple[str, str | None]]


@dataclass
class Form:
    """A form with what it would send, and the words of its button."""

    action: str
    fields: list[tuple[str, str]] = field(default_factory=list)
    boxes: list[tuple[str, str, str]] = field(default_factory=list)
    options: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    button: str = ""


class Page(HTMLParser):
    """The text, the links and the forms of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text, self.links, self.forms = "", dict[str, str](), list[Form]()
        self._href = self._inside = self._select = ""
        self._box: tuple[str, str] | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Attributes) -> None:
        given = {name: value or "" for name, value in attrs}
        self._inside = tag
        if tag == "a":
            self._href = given["href"]
            self.links[self._href] = ""
        elif tag == "form":
            self.forms.append(Form(given.get("action", "")))
        elif tag == "input" and given.get("type") == "checkbox":
            if "checked" in given:
                self.forms[-1].fields.append((given["name"], given["value"]))
            self._box = (given["name"], given["value"])
        elif tag == "input":
            self.forms[-1].fields.append((given["name"], given.get("value", "")))
        elif tag == "textarea":
            self.forms[-1].fields.append((given["name"], ""))
        elif tag == "select":
            self._select = given["name"]
            self.forms[-1].options[self._select] = []
        elif tag == "option":
            options = self.forms[-1].options[self._select]
            options.append((given["value"], ""))
            if "selected" in given or len(options) == 1:
                self._set(self._select, given["value"])

    def _set(self, name: str, value: str) -> None:
        kept = [one for one in self.forms[-1].fields if one[0] != name]
        self.forms[-1].fields = [*kept, (name, value)]

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._inside == "a":
            self.links[self._href] += data
        elif self._inside == "button":
            self.forms[-1].button += data
        elif self._inside == "textarea":
            name, value = self.forms[-1].fields[-1]
            self.forms[-1].fields[-1] = (name, value + data.removeprefix("\n"))
        elif self._inside == "option":
            value, _ = self.forms[-1].options[self._select][-1]
            self.forms[-1].options[self._select][-1] = (value, data)
        elif self._box is not None and data.strip():
            self.forms[-1].boxes.append((*self._box, data.strip()))
            self._box = None


class FormBrowser:
    """Looks at one page at a time."""

    def __init__(self, site: str) -> None:
        jar = http.cookiejar.CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
        self.site, self.url, self.status, self.page = site, site, 0, Page("")

    def go(self, address: str, data: bytes | None = None) -> Page:
        """Open an address, relative to the page."""
        where = urllib.parse.urljoin(self.url, address)
        try:
            with self._opener.open(where, data) as answer:
                self.status, self.url, body = answer.status, answer.url, answer.read()
        except urllib.error.HTTPError as refused:
            with refused:
                self.status, body = refused.code, refused.read()
        self.page = Page(body.decode())
        return self.page

    def follow(self, words: str) -> Page:
        """Click a link."""
        return self.go(next(to for to, text in self.page.links.items() if text == words))

    def press(self, button: str, check: tuple[str, ...] = (), **fill: str) -> Page:
        """Fill a form, found by its button, tick boxes by their words, and send it."""
        form = next(one for one in self.page.forms if one.button == button)
        for name in fill:
            assert name in dict(form.fields), f"{button} has no field {name}"
        sent = [(name, fill.get(name, value)) for name, value in form.fields]
        for name, options in form.options.items():
            if name in fill:
                chosen = next(value for value, words in options if words == fill[name])
                sent = [(n, chosen if n == name else v) for n, v in sent]
        for words in check:
            sent += [next((n, v) for n, v, text in form.boxes if text.startswith(words))]
        return self.go(form.action, urllib.parse.urlencode(sent).encode())
