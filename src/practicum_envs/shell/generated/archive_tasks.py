"""Templates about archives: tar, gzip, zip."""

import posixpath
from collections.abc import Mapping
from shlex import quote

from practicum_envs.shell.generated.assertions import (
    Absent,
    Archive,
    Content,
    Listing,
    Unchanged,
    digest,
)
from practicum_envs.shell.generated.material import prose, text_of
from practicum_envs.shell.generated.step import Step, template, templates_among
from practicum_envs.shell.generated.task_draft import TaskDraft


def _texts(draft: TaskDraft, *names: str) -> dict[str, str]:
    return {name: text_of(prose(draft.rng, 2)) for name in names}


def _is_kept(folder: str, files: Mapping[str, str]) -> tuple[Unchanged, ...]:
    return tuple(Unchanged(f"{folder}/{name}", digest(text)) for name, text in files.items())


@template("tar", split="train")
def folder_packed(draft: TaskDraft) -> Step:
    """A folder in a compressed archive, under its own name."""
    files = _texts(
        draft, draft.names.file(), f"{draft.names.folder()}/{draft.names.file()}", ".settings"
    )
    folder = draft.setup_folder(files)
    parent, name = posixpath.split(folder)
    target = draft.new_path("tar.gz")
    src, dst = quote(parent), quote(target)
    return Step(
        instruction=draft.one_of(
            f"Pack the directory {draft.show(folder)} into the gzip-compressed tar archive "
            f"{draft.show(target)}, so that the members' names begin with {name}/ and have nothing "
            "before it.",
            f"Make a tar.gz archive {draft.show(target)} of {draft.show(folder)}. Inside, all "
            f"paths must start with {name}/ (no leading directories); hidden files belong in it "
            "too.",
            f"Archive everything in {draft.show(folder)} as {draft.show(target)} (tar with gzip); "
            f"the paths in the archive begin with {name}/, and the directory itself stays.",
        ),
        reference=f"tar -C {src} -czf {dst} {quote(name)}",
        near_misses=(
            f"tar -C {src} -cf {dst} {quote(name)}",
            f"tar -C {quote(folder)} -czf {dst} .",
            f"tar -C {src} --exclude='.settings' -czf {dst} {quote(name)}",
            f"tar -C {src} -czf {dst} --remove-files {quote(name)}",
        ),
        assertions=(
            Archive(target, "tar.gz", {f"{name}/{file}": text for file, text in files.items()}),
            *_is_kept(folder, files),
        ),
    )


@template("tar", split="heldout")
def one_member_unpacked(draft: TaskDraft) -> Step:
    """One file of an archive, and no other, unpacked into a folder."""
    names = [draft.names.file() for _ in range(3)]
    files = _texts(draft, *names)
    source, target = draft.setup_folder(files), draft.setup_folder({})
    archive = f"{draft.root}/{draft.names.folder()}.tar"
    inside = " ".join(quote(name) for name in names)
    draft.setup.append(f"tar -C {quote(source)} -cf {quote(archive)} {inside}")
    draft.setup.append(f"rm -r {quote(source)}")
    src, dst = quote(archive), quote(target)
    chosen = draft.rng.choice(names)
    return Step(
        instruction=draft.one_of(
            f"Extract only the member {draft.show(chosen)} of {draft.show(archive)} into "
            f"{draft.show(target)}.",
            f"The archive {draft.show(archive)} holds several files. Unpack "
            f"{draft.show(chosen)}, and nothing else, into the directory {draft.show(target)}; "
            "keep the archive.",
        ),
        reference=f"tar -C {dst} -xf {src} {quote(chosen)}",
        near_misses=(
            f"tar -C {dst} -xf {src}",
            f"tar -C {quote(draft.root)} -xf {src} {quote(chosen)}",
            f"tar -C {dst} -xf {src} {quote(chosen)}; rm {src}",
        ),
        assertions=(
            Listing(target, (chosen,)),
            Unchanged(f"{target}/{chosen}", digest(files[chosen])),
            Archive(archive, "tar", files),
        ),
    )


@template("gzip", split="train")
def file_compressed(draft: TaskDraft) -> Step:
    """A file is replaced by its compressed form."""
    file = draft.file("path", "content")
    draft.forget(file)
    path, packed = draft.show(file.path), f"{file.path}.gz"
    quoted = quote(file.path)
    return Step(
        instruction=draft.one_of(
            f"Compress {path} with gzip, so that only {draft.show(packed)} remains.",
            f"The file {path} takes too much room: replace it by its gzip-compressed form "
            f"{draft.show(packed)}.",
            f"Gzip {path}; afterwards {draft.show(packed)} exists and {path} does not.",
        ),
        reference=f"gzip {quoted}",
        near_misses=(
            f"gzip -k {quoted}",
            f"mv {quoted} {quote(packed)}",
            f": > {quoted}; gzip {quoted}",
        ),
        assertions=(Archive(packed, "gz", {"": file.text}), Absent(file.path)),
    )


@template("gzip", split="heldout")
def file_uncompressed(draft: TaskDraft) -> Step:
    """A compressed file is unpacked beside itself and kept."""
    text = text_of(prose(draft.rng, 5))
    path = f"{draft.root}/{draft.names.file('txt')}"
    draft.write(path, text)
    draft.setup.append(f"gzip {quote(path)}")
    packed, quoted = f"{path}.gz", quote(path)
    return Step(
        instruction=draft.one_of(
            f"Decompress {draft.show(packed)} to {draft.show(path)} and keep the compressed file.",
            f"Both {draft.show(packed)} and its uncompressed content as {draft.show(path)} must be "
            "there.",
            f"Unpack {draft.show(packed)} (gzip) into {draft.show(path)} without losing the .gz "
            "file.",
        ),
        reference=f"gunzip -k {quote(packed)}",
        near_misses=(
            f"gunzip {quote(packed)}",
            f"cp {quote(packed)} {quoted}",
            f"zcat {quote(packed)} | head -n 4 > {quoted}",
        ),
        assertions=(Content(path, text), Archive(packed, "gz", {"": text})),
    )


@template("zip", split="train")
def files_zipped(draft: TaskDraft) -> Step:
    """Some files of a folder in a zip archive, without folders in their names."""
    names = [draft.names.file("txt") for _ in range(draft.rng.randint(2, 3))]
    files, rest = _texts(draft, *names), _texts(draft, draft.names.file("png"))
    folder, target = draft.setup_folder({**files, **rest}), draft.new_path("zip")
    src, dst = quote(folder), quote(target)
    return Step(
        instruction=draft.one_of(
            f"Put the .txt files of {draft.show(folder)} into the zip archive "
            f"{draft.show(target)}, stored under their bare names, and nothing else.",
            f"Create {draft.show(target)}, a zip file with exactly the *.txt files from "
            f"{draft.show(folder)}; no directory names inside the archive.",
            f"Zip all files in {draft.show(folder)} that end in .txt as {draft.show(target)}. The "
            "members' names have no directories, and the originals stay.",
        ),
        reference=f"zip -q -j {dst} {src}/*.txt",
        near_misses=(
            f"zip -q -j {dst} {src}/*",
            f"zip -q {dst} {src}/*.txt",
            f"zip -q -j {dst} {quote(f'{folder}/{names[0]}')}",
            f"tar -C {src} -cf {dst} {' '.join(quote(name) for name in names)}",
        ),
        assertions=(Archive(target, "zip", files), *_is_kept(folder, {**files, **rest})),
    )


@template("zip", split="heldout")
def zip_unpacked(draft: TaskDraft) -> Step:
    """A zip archive unpacked into a new folder."""
    sub = draft.names.folder()
    files = _texts(draft, draft.names.file(), f"{sub}/{draft.names.file()}")
    source = draft.setup_folder(files)
    archive, target = f"{draft.root}/{draft.names.folder()}.zip", draft.new_folder()
    draft.setup.append(f"( cd {quote(source)} && zip -q -r {quote(archive)} . )")
    draft.setup.append(f"rm -r {quote(source)}")
    src, dst = quote(archive), quote(target)
    return Step(
        instruction=draft.one_of(
            f"Unpack {draft.show(archive)} into the new directory {draft.show(target)}.",
            f"The contents of the zip archive {draft.show(archive)} are needed in "
            f"{draft.show(target)}, which does not exist yet; keep the archive and its directory "
            "structure.",
            f"Extract everything from {draft.show(archive)} so that it lies, sub-directories "
            f"included, in {draft.show(target)}.",
        ),
        reference=f"unzip -q {src} -d {dst}",
        near_misses=(
            f"unzip -q -j {src} -d {dst}",
            f"unzip -q {src} -d {quote(draft.root)}",
            f"mkdir {dst}; cp {src} {dst}/",
        ),
        assertions=(
            Listing(target, (sub, *files), recursive=True),
            *_is_kept(target, files),
            Archive(archive, "zip", files),
        ),
    )


TEMPLATES = templates_among(globals())
