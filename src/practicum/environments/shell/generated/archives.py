"""Templates about archives: tar, gzip, zip."""

import posixpath
from collections.abc import Mapping
from shlex import quote

from practicum.environments.shell.generated.assertions import (
    Absent,
    Archive,
    Content,
    Listing,
    Unchanged,
    digest,
)
from practicum.environments.shell.generated.material import prose, text_of
from practicum.environments.shell.generated.step import Step, Template, template
from practicum.environments.shell.generated.story import Story

__all__ = ["TEMPLATES"]


def _texts(story: Story, *names: str) -> dict[str, str]:
    return {name: text_of(prose(story.chance, 2)) for name in names}


def _is_kept(folder: str, files: Mapping[str, str]) -> tuple[Unchanged, ...]:
    return tuple(Unchanged(f"{folder}/{name}", digest(text)) for name, text in files.items())


@template("tar", split="train")
def folder_packed(story: Story) -> Step:
    """A folder in a compressed archive, under its own name."""
    files = _texts(
        story, story.names.file(), f"{story.names.place()}/{story.names.file()}", ".settings"
    )
    folder = story.give_folder(files)
    parent, name = posixpath.split(folder)
    target = story.new_path("tar.gz")
    one, out = quote(parent), quote(target)
    return Step(
        told=story.say(
            f"Pack the directory {story.show(folder)} into the gzip-compressed tar archive "
            f"{story.show(target)}, so that the members' names begin with {name}/ and have nothing "
            "before it.",
            f"Make a tar.gz archive {story.show(target)} of {story.show(folder)}. Inside, all "
            f"paths must start with {name}/ (no leading directories); hidden files belong in it "
            "too.",
            f"Archive everything in {story.show(folder)} as {story.show(target)} (tar with gzip); "
            f"the paths in the archive begin with {name}/, and the directory itself stays.",
        ),
        reference=f"tar -C {one} -czf {out} {quote(name)}",
        near_misses=(
            f"tar -C {one} -cf {out} {quote(name)}",
            f"tar -C {quote(folder)} -czf {out} .",
            f"tar -C {one} --exclude='.settings' -czf {out} {quote(name)}",
            f"tar -C {one} -czf {out} --remove-files {quote(name)}",
        ),
        assertions=(
            Archive(target, "tar.gz", {f"{name}/{file}": text for file, text in files.items()}),
            *_is_kept(folder, files),
        ),
    )


@template("tar", split="heldout")
def one_member_unpacked(story: Story) -> Step:
    """One file of an archive, and no other, unpacked into a folder."""
    names = [story.names.file() for _ in range(3)]
    files = _texts(story, *names)
    source, target = story.give_folder(files), story.give_folder({})
    archive = f"{story.root}/{story.names.place()}.tar"
    inside = " ".join(quote(name) for name in names)
    story.setup.append(f"tar -C {quote(source)} -cf {quote(archive)} {inside}")
    story.setup.append(f"rm -r {quote(source)}")
    one, out = quote(archive), quote(target)
    chosen = story.chance.choice(names)
    return Step(
        told=story.say(
            f"Extract only the member {story.show(chosen)} of {story.show(archive)} into "
            f"{story.show(target)}.",
            f"The archive {story.show(archive)} holds several files. Unpack "
            f"{story.show(chosen)}, and nothing else, into the directory {story.show(target)}; "
            "keep the archive.",
        ),
        reference=f"tar -C {out} -xf {one} {quote(chosen)}",
        near_misses=(
            f"tar -C {out} -xf {one}",
            f"tar -C {quote(story.root)} -xf {one} {quote(chosen)}",
            f"tar -C {out} -xf {one} {quote(chosen)}; rm {one}",
        ),
        assertions=(
            Listing(target, (chosen,)),
            Unchanged(f"{target}/{chosen}", digest(files[chosen])),
            Archive(archive, "tar", files),
        ),
    )


@template("gzip", split="train")
def file_compressed(story: Story) -> Step:
    """A file is replaced by its compressed form."""
    thing = story.file("place", "content")
    story.forget(thing)
    path, packed = story.show(thing.path), f"{thing.path}.gz"
    place = quote(thing.path)
    return Step(
        told=story.say(
            f"Compress {path} with gzip, so that only {story.show(packed)} remains.",
            f"The file {path} takes too much room: replace it by its gzip-compressed form "
            f"{story.show(packed)}.",
            f"Gzip {path}; afterwards {story.show(packed)} exists and {path} does not.",
        ),
        reference=f"gzip {place}",
        near_misses=(
            f"gzip -k {place}",
            f"mv {place} {quote(packed)}",
            f": > {place}; gzip {place}",
        ),
        assertions=(Archive(packed, "gz", {"": thing.text}), Absent(thing.path)),
    )


@template("gzip", split="heldout")
def file_uncompressed(story: Story) -> Step:
    """A compressed file is unpacked beside itself and kept."""
    text = text_of(prose(story.chance, 5))
    path = f"{story.root}/{story.names.file('txt')}"
    story.write(path, text)
    story.setup.append(f"gzip {quote(path)}")
    packed, place = f"{path}.gz", quote(path)
    return Step(
        told=story.say(
            f"Decompress {story.show(packed)} to {story.show(path)} and keep the compressed file.",
            f"Both {story.show(packed)} and its uncompressed content as {story.show(path)} must be "
            "there.",
            f"Unpack {story.show(packed)} (gzip) into {story.show(path)} without losing the .gz "
            "file.",
        ),
        reference=f"gunzip -k {quote(packed)}",
        near_misses=(
            f"gunzip {quote(packed)}",
            f"cp {quote(packed)} {place}",
            f"zcat {quote(packed)} | head -n 4 > {place}",
        ),
        assertions=(Content(path, text), Archive(packed, "gz", {"": text})),
    )


@template("zip", split="train")
def files_zipped(story: Story) -> Step:
    """Some files of a folder in a zip archive, without folders in their names."""
    names = [story.names.file("txt") for _ in range(story.chance.randint(2, 3))]
    files, rest = _texts(story, *names), _texts(story, story.names.file("png"))
    folder, target = story.give_folder({**files, **rest}), story.new_path("zip")
    one, out = quote(folder), quote(target)
    return Step(
        told=story.say(
            f"Put the .txt files of {story.show(folder)} into the zip archive "
            f"{story.show(target)}, stored under their bare names, and nothing else.",
            f"Create {story.show(target)}, a zip file with exactly the *.txt files from "
            f"{story.show(folder)}; no directory names inside the archive.",
            f"Zip all files in {story.show(folder)} that end in .txt as {story.show(target)}. The "
            "members' names have no directories, and the originals stay.",
        ),
        reference=f"zip -q -j {out} {one}/*.txt",
        near_misses=(
            f"zip -q -j {out} {one}/*",
            f"zip -q {out} {one}/*.txt",
            f"zip -q -j {out} {quote(f'{folder}/{names[0]}')}",
            f"tar -C {one} -cf {out} {' '.join(quote(name) for name in names)}",
        ),
        assertions=(Archive(target, "zip", files), *_is_kept(folder, {**files, **rest})),
    )


@template("zip", split="heldout")
def zip_unpacked(story: Story) -> Step:
    """A zip archive unpacked into a new folder."""
    sub = story.names.place()
    files = _texts(story, story.names.file(), f"{sub}/{story.names.file()}")
    source = story.give_folder(files)
    archive, target = f"{story.root}/{story.names.place()}.zip", story.new_folder()
    story.setup.append(f"( cd {quote(source)} && zip -q -r {quote(archive)} . )")
    story.setup.append(f"rm -r {quote(source)}")
    one, out = quote(archive), quote(target)
    return Step(
        told=story.say(
            f"Unpack {story.show(archive)} into the new directory {story.show(target)}.",
            f"The contents of the zip archive {story.show(archive)} are needed in "
            f"{story.show(target)}, which does not exist yet; keep the archive and its directory "
            "structure.",
            f"Extract everything from {story.show(archive)} so that it lies, sub-directories "
            f"included, in {story.show(target)}.",
        ),
        reference=f"unzip -q {one} -d {out}",
        near_misses=(
            f"unzip -q -j {one} -d {out}",
            f"unzip -q {one} -d {quote(story.root)}",
            f"mkdir {out}; cp {one} {out}/",
        ),
        assertions=(
            Listing(target, (sub, *files), recursive=True),
            *_is_kept(target, files),
            Archive(archive, "zip", files),
        ),
    )


TEMPLATES: tuple[Template, ...] = (
    folder_packed,
    one_member_unpacked,
    file_compressed,
    file_uncompressed,
    files_zipped,
    zip_unpacked,
)
