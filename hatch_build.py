"""The repository's address in the package: `urls`, and a README whose links work on a package index."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

from hatchling.metadata.plugin.interface import MetadataHookInterface


def _origin(root: Path) -> str:
    """Return the remote of this checkout; an unpacked sdist may lie inside another one."""
    command = ("git", "-C", root, "config", "--get", "remote.origin.url")
    readable = (root / ".git").exists() and shutil.which("git")
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout.strip() if readable else ""


def _address(remote: str) -> str:
    """Return the https address of a remote, without its credentials; of a local path, an empty text."""
    parts = urlsplit(re.sub(r"^[^@/:]+@([^/:]+):/?", r"ssh://\1/", remote))
    host = f"{parts.hostname}:{parts.port}" if parts.scheme == "https" and parts.port else parts.hostname
    path = parts.path.rstrip("/").removesuffix(".git")
    return f"https://{host}{path}" if parts.scheme in {"https", "ssh"} and host else ""


class RepositoryHook(MetadataHookInterface):
    """Set `urls` and `readme`; a wheel that is built from an sdist has those of its PKG-INFO."""

    def update(self, metadata: dict[str, object]) -> None:
        """Make the README's relative links absolute; without an address, remove them and the images."""
        address = _address(os.environ.get("TURNO_REPOSITORY") or _origin(Path(self.root)))
        page, image = (f"{address}/{view}/v{metadata['version']}/" for view in ("blob", "raw"))
        urls = {"Homepage": address, "Documentation": f"{page}docs/index.md", "Changelog": f"{page}CHANGELOG.md"}
        metadata["urls"] = urls | {"Issues": f"{address}/issues"} if address else {}
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        text = re.sub(r"!\[([^]]*)\]\((?!https?:)([^)]*)\)", rf"![\1]({image}\2)" if address else "", text)
        text = re.sub(r"\[([^]]*)\]\((?!https?:|#)([^)]*)\)", rf"[\1]({page}\2)" if address else r"\1", text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
