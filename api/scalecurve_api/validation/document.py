"""YAML with the line of every field: files -> plain values and a map from field path to line; and values -> YAML.

PyYAML's node tree is walked instead of its loader, so that duplicate keys are refused, aliases cannot explode
(a node met again is counted again), and every error can name its line.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml
from pydantic import ValidationError

from scalecurve_api.problem import Description, Path, Problem, Violation, expected, expected_once, malformed
from scalecurve_api.text import plain

MAX_BYTES = 1 << 20
MAX_NODES = 200_000
MAX_DEPTH = 64


@dataclass
class Document:
    """One YAML document: its value, and the 1-based line of every path in it.

    ``files`` names the file of a line that is not in ``file``: of what an overlay has written.
    """

    file: str
    value: Any
    lines: dict[Path, int] = field(default_factory=dict)
    files: dict[Path, str] = field(default_factory=dict)

    def place(self, path: Path) -> tuple[str, int | None]:
        """The file and the line of ``path``, or of the nearest field around it."""
        for end in range(len(path), -1, -1):
            if (line := self.lines.get(path[:end])) is not None:
                return self.files.get(path[:end], self.file), line
        return self.file, None


_PLAIN = {f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "str", "map", "seq")}
_MAX_BITS = 4096


class _ViolationError(Exception):
    def __init__(self, line: int, path: Path, value: object, violation: Violation) -> None:
        super().__init__(violation.text)
        self.line, self.path, self.value, self.violation = line, path, value, violation


class _Loader(yaml.SafeLoader):
    """Safe, and keeps dates, ``<<`` and ``=`` as the text they are."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            # PyYAML would follow it until Python's stack overflows.
            nested = expected(f"values nested at most {MAX_DEPTH} deep")
            raise _ViolationError(self.get_mark().line + 1, (), Description("deeper nesting"), nested)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


_TEXT = {f"tag:yaml.org,2002:{name}" for name in ("timestamp", "merge", "value")}
_Loader.yaml_implicit_resolvers = {
    letter: [(tag, pattern) for tag, pattern in resolvers if tag not in _TEXT]
    for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_documents(text: str, file: str) -> tuple[list[Document], list[Problem]]:
    """Every document of a YAML text, or what is wrong with it; never raises on bad input."""
    if len(text) > MAX_BYTES:
        return [], [Problem((), Description(f"{len(text)} characters"), expected(f"at most {MAX_BYTES}"), file=file)]
    documents: list[Document] = []
    try:
        loader = _Loader(text)
        while loader.check_node():
            root: Any = loader.get_node()
            document = Document(file, None)
            document.value = _value(loader, root, (), document.lines, [0])
            documents.append(document)
    except _ViolationError as error:
        return documents, [Problem(error.path, error.value, error.violation, file=file, line=error.line)]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = " ".join(part for part in (error.context, error.problem) if part)
        line = mark.line + 1 if mark else None
        return documents, [Problem((), reason, malformed(f"malformed YAML: {reason}"), file=file, line=line)]
    except yaml.reader.ReaderError as error:
        character = Description(f"the character U+{ord(text[error.position]):04X}")
        printed = expected("printable text, or an escape in double quotes")
        return documents, [Problem((), character, printed, file=file, line=text.count("\n", 0, error.position) + 1)]
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        return documents, [Problem((), reason, malformed(f"malformed YAML: {reason}"), file=file)]
    # An empty document beside others is what a stray '---' leaves.
    return [document for document in documents if document.value is not None or len(documents) == 1], []


def _value(loader: _Loader, node: yaml.Node, path: Path, lines: dict[Path, int], counted: list[int]) -> Any:
    line = node.start_mark.line + 1
    lines.setdefault(path, line)
    counted[0] += 1
    if counted[0] > MAX_NODES or len(path) > MAX_DEPTH:
        smaller = expected(f"at most {MAX_NODES} values, nested at most {MAX_DEPTH} deep")
        raise _ViolationError(line, path, Description("a larger document"), smaller)
    if node.tag not in _PLAIN:
        raise _ViolationError(
            line, path, Description(f"the tag {_short_tag(node.tag)}"), expected("plain values without tags")
        )
    if isinstance(node, yaml.MappingNode):
        mapping: dict[str, Any] = {}
        for key, child in _pairs(loader, node, path):
            lines[(*path, key)] = child[0]
            mapping[key] = _value(loader, child[1], (*path, key), lines, counted)
        return mapping
    if isinstance(node, yaml.SequenceNode):
        return [_value(loader, child, (*path, i), lines, counted) for i, child in enumerate(node.value)]
    return _scalar(loader, node, path)


def _scalar(loader: _Loader, node: yaml.Node, path: Path) -> Any:
    try:
        value = loader.construct_object(node)
    except (ValueError, LookupError, AttributeError, yaml.YAMLError):
        # PyYAML's constructors trust the tag: !!bool on another word is a KeyError, and so on.
        value = None
    got, line = str(node.value), node.start_mark.line + 1
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise _ViolationError(line, path, got, expected(f"a number of at most {_MAX_BITS} bits"))
    if value is None and node.tag != "tag:yaml.org,2002:null":
        raise _ViolationError(line, path, got, expected(f"a value that can be read as {_short_tag(node.tag)}"))
    if isinstance(value, str) and not _encodable(value):
        raise _ViolationError(line, path, value, expected("valid Unicode text"))
    return value


def _short_tag(tag: str) -> str:
    return tag.replace("tag:yaml.org,2002:", "!!")


def _encodable(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _pairs(loader: _Loader, node: yaml.MappingNode, path: Path) -> Iterator[tuple[str, tuple[int, yaml.Node]]]:
    seen: set[str] = set()
    for key_node, child in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            raise _ViolationError(
                line, path, Description("a key that is a list or a mapping"), expected("a plain name")
            )
        key = str(key_node.value)
        if not _encodable(key):
            raise _ViolationError(line, path, key, expected("a key of valid Unicode text"))
        if key in seen:
            raise _ViolationError(line, (*path, key), Description("a duplicate key"), expected_once("key"))
        seen.add(key)
        yield key, (line, child)


def replace_scalars(text: str, values: Mapping[Path, str]) -> str:
    """The same YAML, comments and all, with other texts at these paths; a path that is not there changes nothing."""
    loader = _Loader(text)
    spans: dict[tuple[int, int], str] = {}
    while loader.check_node():
        root: Any = loader.get_node()
        for path, value in values.items():
            node = _node_at(root, path)
            if isinstance(node, yaml.ScalarNode):
                line_end = "\n" if node.style in ("|", ">") else ""
                spans[node.start_mark.index, node.end_mark.index] = json.dumps(value, ensure_ascii=False) + line_end
    for (start, end), value in sorted(spans.items(), reverse=True):
        text = text[:start] + value + text[end:]
    return text


def _node_at(node: yaml.Node | None, path: Path) -> yaml.Node | None:
    for part in path:
        if isinstance(node, yaml.MappingNode):
            node = next((child for key, child in node.value if key.value == part), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
        else:
            return None
    return node


_MISREAD = re.compile(r"[-+]?[0-9._]+(e[-+]?[0-9]+)?$|[-+]?0[box][0-9a-f_]+$|[yn]$", re.IGNORECASE)
"""Plain text that another reader of YAML takes for a number or a truth value, and PyYAML does not."""


class _Dumper(yaml.SafeDumper):
    """Without anchors: what stands twice is written twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_text(self, text: str) -> yaml.ScalarNode:
        # PyYAML folds line ends of Unicode's into spaces where they are not escaped.
        quoted = _MISREAD.match(text) or not text.isprintable()
        return self.represent_scalar("tag:yaml.org,2002:str", text, style='"' if quoted else None)


_Dumper.add_representer(str, _Dumper.represent_text)


def first_error(error: ValueError) -> str:
    """The first of pydantic's errors as ``apiVersion: expected 'v1'``; another error's own text."""
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: expected {plain(first['msg'])}"


def write_documents(values: Iterable[Any], flow: bool | None = None) -> str:
    """A YAML text from which ``read_documents``, and kubectl too, read the same plain values."""
    return yaml.dump_all(
        values, Dumper=_Dumper, sort_keys=False, default_flow_style=flow, width=120, allow_unicode=True
    )
