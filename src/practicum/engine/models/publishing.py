"""A folder goes to the Hugging Face hub, or stays where it is and says how to send it later."""

from dataclasses import dataclass
from pathlib import Path

from practicum.core.errors import MissingExtra, UserError
from practicum.engine.models.adapter_files import WEIGHTS_FILE, read_adapter_files
from practicum.engine.models.download import is_hub_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A folder and where it goes."""

    folder: Path
    hub_id: str

    def files(self) -> dict[str, int]:
        """What is sent, with sizes in bytes; an adapter among it is checked first."""
        if (self.folder / WEIGHTS_FILE).is_file():
            read_adapter_files(self.folder)
        found = sorted(path for path in self.folder.rglob("*") if path.is_file())
        return {str(path.relative_to(self.folder)): path.stat().st_size for path in found}

    def send(self, *, private: bool) -> str:
        """Create the repository if it is not there, send every file, and give its address.

        Raises:
            UserError: there is no token, or the hub refuses or does not answer.
        """
        try:
            from huggingface_hub import HfApi, get_token
            from huggingface_hub.errors import HfHubHTTPError
        except ImportError:
            raise MissingExtra.for_extra("train", "sending a model to the hub") from None
        if get_token() is None:
            raise UserError(
                "there is no token for the model hub; type: hf auth login, or set HF_TOKEN"
                f"{self._later()}"
            )
        hub = HfApi()
        try:
            hub.create_repo(self.hub_id, private=private, exist_ok=True)
            done = hub.upload_folder(
                repo_id=self.hub_id,
                folder_path=self.folder,
                commit_message="Practicum export",
            )
        except HfHubHTTPError as error:
            raise UserError(f"the model hub refused ({_line(error)}){self._later()}") from error
        except Exception as error:
            raise UserError(
                f"sending to the model hub failed ({_line(error)}){self._later()}"
            ) from error
        return str(done.repo_url)

    def _later(self) -> str:
        return (
            f"; {self.folder} has everything, so send it later: "
            f"practicum push {self.folder} --to {self.hub_id}"
        )


def require_hub_id(name: str) -> str:
    """A name for the hub; raises `UserError` where it is none."""
    if not is_hub_id(name):
        raise UserError(f"{name!r} is no name for the hub; give owner/name, such as me/algebra")
    return name


def _line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
