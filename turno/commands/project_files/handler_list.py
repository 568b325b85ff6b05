"""Add a class to the list of handlers in a module's source, where the list is written out."""

from __future__ import annotations

import ast


def with_handler(source: str, list_name: str, import_line: str, handler: str) -> str | None:
    """Return the source with the import and the class in its list, or None if there is no such list in it."""
    body = ast.parse(source).body
    listed = next(filter(None, (_list(node, list_name) for node in body)), None)
    if listed is None:
        return None
    lines = source.splitlines()
    classes = [*map(ast.unparse, listed.elts), handler]
    lines[listed.lineno - 1 : listed.end_lineno] = [f"{list_name} = [{', '.join(classes)}]"]
    imports = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom) and node.lineno < listed.lineno]
    after = imports[-1].end_lineno if imports else listed.lineno - 1
    lines.insert(after or 0, import_line)
    return "\n".join(lines) + "\n"


def _list(node: ast.stmt, name: str) -> ast.List | None:
    match node:
        case ast.Assign(targets=[ast.Name(id=found)], value=ast.List() as listed) if found == name:
            return listed
    return None
